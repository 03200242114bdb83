// A microservice on NestJS with its Kafka transport: a controller with @EventPattern, and an exception filter that
// writes the dead letters. What the filter throws makes kafkajs deliver the message again. All settings are the
// framework's defaults, but for keepBinary: the parser would turn a value into an object.
import 'reflect-metadata'
import { Catch, Controller, Inject, Injectable, Logger, Module } from '@nestjs/common'
import type { ArgumentsHost, RpcExceptionFilter } from '@nestjs/common'
import { APP_FILTER, NestFactory } from '@nestjs/core'
import {
  ClientKafka, ClientsModule, Ctx, EventPattern, KafkaContext, KafkaRetriableException, Payload, Transport,
} from '@nestjs/microservices'
import type { MicroserviceOptions } from '@nestjs/microservices'
import { defer, from, lastValueFrom, retry, timer } from 'rxjs'
import type { Observable } from 'rxjs'

const env = process.env as Record<string, string>
const { DOWNSTREAM_URL, KAFKA_BROKERS, KAFKA_DLQ_TOPIC, KAFKA_GROUP, KAFKA_TOPIC } = env
// A mistake that tests plant, to see it named; none otherwise.
const { PLANTED_BUG } = env
// With "operator", RxJS retries within the handler; otherwise the client delivers the message again.
const inHandler = env.RETRIES === 'operator'
const MAX_ATTEMPTS = 3
const brokers = KAFKA_BROKERS.split(',')

class PaymentRefused extends Error {
  constructor(readonly status: number) {
    super(`HTTP ${status}`)
  }

  get permanent() {
    return this.status === 400 || this.status === 422
  }
}

@Injectable()
class Payments {
  async charge(context: KafkaContext): Promise<void> {
    const { value, offset } = context.getMessage()
    const response = await fetch(`${DOWNSTREAM_URL}/v1/attempt`, {
      method: 'POST',
      body: value ? new Uint8Array(value) : '',
      headers: {
        'X-Kafka-Topic': context.getTopic(),
        'X-Kafka-Partition': String(context.getPartition()),
        'X-Kafka-Offset': offset,
      },
      signal: AbortSignal.timeout(1000),
    })
    await response.arrayBuffer()
    if (!response.ok) throw new PaymentRefused(response.status)
  }
}

// How often each message was tried by this process, where the client delivers it again for each attempt.
@Injectable()
class Attempts {
  private readonly failed = new Map<string, number>()

  private id(context: KafkaContext) {
    return `${context.getTopic()}/${context.getPartition()}/${context.getMessage().offset}`
  }

  add(context: KafkaContext) {
    const attempts = (this.failed.get(this.id(context)) ?? 0) + 1
    this.failed.set(this.id(context), attempts)
    return attempts
  }

  forget(context: KafkaContext) {
    this.failed.delete(this.id(context))
  }
}

@Controller()
class Orders {
  constructor(
    @Inject(Payments) private readonly payments: Payments,
    @Inject(Attempts) private readonly attempts: Attempts,
  ) {}

  @EventPattern<string>(KAFKA_TOPIC)
  handle(@Payload() _: unknown, @Ctx() context: KafkaContext): Observable<void> | Promise<void> | void {
    if (PLANTED_BUG === 'not-returned') {
      this.payments.charge(context).catch((error) => new Logger('Orders').error(error))
      return
    }
    if (!inHandler) return this.payments.charge(context).then(() => this.attempts.forget(context))
    return defer(() => this.payments.charge(context)).pipe(
      retry({
        count: MAX_ATTEMPTS - 1,
        delay: (error, failures) => {
          if (error instanceof PaymentRefused && error.permanent) throw error
          return timer(100 * 2 ** (failures - 1))
        },
      }),
    )
  }
}

@Catch()
class DeadLetters implements RpcExceptionFilter<Error> {
  private readonly logger = new Logger('DeadLetters')

  constructor(
    @Inject('KAFKA') private readonly kafka: ClientKafka,
    @Inject(Attempts) private readonly attempts: Attempts,
  ) {}

  catch(error: Error, host: ArgumentsHost): Observable<void> {
    return from(this.handle(error, host.switchToRpc().getContext<KafkaContext>()))
  }

  private async handle(error: Error, context: KafkaContext): Promise<void> {
    const permanent = error instanceof PaymentRefused && error.permanent
    if (!inHandler && !permanent && this.triesLeft(context)) throw new KafkaRetriableException(error.message)
    const { key, value, headers, offset } = context.getMessage()
    // kafkajs cannot write a header without a value
    const filled = Object.fromEntries(Object.entries(headers ?? {}).map(([name, text]) => [name, text ?? '']))
    const letter = {
      key,
      value,
      headers: {
        ...filled,
        'original-topic': context.getTopic(),
        'original-partition': String(context.getPartition()),
        'original-offset': offset,
        'error-message': error.message,
      },
    }
    const sent = this.kafka.emit(KAFKA_DLQ_TOPIC, letter)
    if (PLANTED_BUG === 'emit-not-awaited') {
      sent.subscribe({ error: (failed) => this.logger.error(failed) })
      return
    }
    try {
      await lastValueFrom(sent)
    } catch (failed) {
      // kafkajs ends its consumer at an error of its own that it does not retry
      if (PLANTED_BUG === 'client-error-thrown') throw failed
      throw new KafkaRetriableException(`dead letter failed: ${failed}`)
    }
    this.attempts.forget(context)
  }

  // With the planted bug, the filter counts as KafkaMaxRetryExceptionFilter in NestJS' documentation does: by a header
  // that the client does not write.
  private triesLeft(context: KafkaContext) {
    if (PLANTED_BUG === 'count-in-a-header') return Number(context.getMessage().headers?.retryCount ?? 0) < MAX_ATTEMPTS
    return this.attempts.add(context) < MAX_ATTEMPTS
  }
}

@Module({
  imports: [
    ClientsModule.register([
      { name: 'KAFKA', transport: Transport.KAFKA, options: { client: { brokers }, producerOnlyMode: true } },
    ]),
  ],
  controllers: [Orders],
  providers: [Payments, Attempts, { provide: APP_FILTER, useClass: DeadLetters }],
})
class AppModule {}

const app = await NestFactory.createMicroservice<MicroserviceOptions>(AppModule, {
  transport: Transport.KAFKA,
  options: {
    client: { brokers },
    consumer: { groupId: KAFKA_GROUP },
    subscribe: { fromBeginning: true },
    parser: { keepBinary: true },
  },
})
app.enableShutdownHooks()
await app.listen()
