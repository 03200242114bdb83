package com.example.orders

import cats.effect.{IO, IOApp}
import fs2.Stream
import fs2.kafka._
import java.net.URI
import java.net.http.{HttpClient, HttpRequest, HttpResponse}
import java.nio.charset.StandardCharsets.UTF_8
import java.time.{Duration => Limit}
import scala.concurrent.duration._

/** Takes the payment of each order: a stream for each partition, which a rebalance waits for. */
object OrdersService extends IOApp.Simple {
  private type Order = ConsumerRecord[Array[Byte], Array[Byte]]

  private val attempts = 3
  private val topic = sys.env("KAFKA_TOPIC")
  private val deadLetters = sys.env("KAFKA_DLQ_TOPIC")
  private val payments = URI.create(sys.env("DOWNSTREAM_URL") + "/v1/attempt")
  private val http = HttpClient.newHttpClient()

  /** A mistake that tests plant, to see it named; none otherwise. */
  private val plantedBug = sys.env.getOrElse("PLANTED_BUG", "")

  private val consumerSettings = ConsumerSettings[IO, Array[Byte], Array[Byte]]
    .withBootstrapServers(sys.env("KAFKA_BROKERS"))
    .withGroupId(sys.env("KAFKA_GROUP"))
    .withAutoOffsetReset(AutoOffsetReset.Earliest)
    .withRebalanceRevokeMode(RebalanceRevokeMode.Graceful)

  private val producerSettings = ProducerSettings[IO, Array[Byte], Array[Byte]]
    .withBootstrapServers(sys.env("KAFKA_BROKERS"))

  def run: IO[Unit] = KafkaProducer.stream(producerSettings).flatMap { producer =>
    val partitions = KafkaConsumer.stream(consumerSettings).subscribeTo(topic).partitionedRecords.map(finished(producer))
    if (plantedBug == "batches-outlive") partitions.parJoinUnbounded.through(commitBatchWithin(500, 5.seconds))
    else partitions.map(_.evalMap(_.commit)).parJoinUnbounded
  }.compile.drain

  /** Emits the offset of each order that has been paid, or whose dead letter is acknowledged. */
  private def finished(producer: KafkaProducer[IO, Array[Byte], Array[Byte]])(
      orders: Stream[IO, CommittableConsumerRecord[IO, Array[Byte], Array[Byte]]]): Stream[IO, CommittableOffset[IO]] = {
    def finish(order: CommittableConsumerRecord[IO, Array[Byte], Array[Byte]]) = charge(order.record, 1).flatMap {
      case Some(reason) => producer.produceOne(letter(order.record, reason)).flatten.as(order.offset)
      case None         => IO.pure(order.offset)
    }
    if (plantedBug == "unordered") orders.parEvalMapUnordered(25)(finish) else orders.evalMap(finish)
  }

  /** Tries to take the payment until it is taken or fails for good, and returns why it failed. */
  private def charge(order: Order, attempt: Int): IO[Option[String]] = call(order).flatMap {
    case (200, _)                                                                => IO.none
    case (status, reason) if status == 400 || status == 422 || attempt == attempts => IO.some(reason)
    case _ => IO.sleep(100.millis * (1L << (attempt - 1))) >> charge(order, attempt + 1)
  }

  /** Calls the payments once. Status 0 stands for no answer. */
  private def call(order: Order): IO[(Int, String)] = {
    val request = HttpRequest.newBuilder(payments).timeout(Limit.ofSeconds(1))
      .header("X-Kafka-Topic", order.topic)
      .header("X-Kafka-Partition", order.partition.toString)
      .header("X-Kafka-Offset", order.offset.toString)
      .POST(HttpRequest.BodyPublishers.ofByteArray(Option(order.value).getOrElse(Array.emptyByteArray))).build()
    IO.fromCompletableFuture(IO(http.sendAsync(request, HttpResponse.BodyHandlers.ofString())))
      .map(answer => (answer.statusCode, s"${answer.statusCode} ${answer.body}"))
      .handleError(failure => (0, failure.toString))
  }

  private def letter(order: Order, reason: String): ProducerRecord[Array[Byte], Array[Byte]] = {
    val headers = order.headers.toChain.toList ++ List(
      "original-topic" -> order.topic, "original-partition" -> order.partition.toString,
      "original-offset" -> order.offset.toString, "reason" -> reason
    ).map { case (name, text) => Header(name, text.getBytes(UTF_8)) }
    ProducerRecord(deadLetters, order.key, order.value).withHeaders(Headers.fromSeq(headers))
  }
}
