"""A query of Spark Structured Streaming: `foreachBatch` has a UDF charge the orders of a micro-batch over HTTP, and
writes those that could not be charged to the dead-letter topic with Spark's Kafka sink. Offsets are in the
checkpoint."""

import os
import time

import requests
from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StringType

MAX_ATTEMPTS = 3
BACKOFF = 0.1
# A mistake that tests plant, to see it named; none otherwise.
PLANTED_BUG = os.environ.get("PLANTED_BUG")

session = None


def call(order):
    """Returns the status of the downstream's answer, or none without one."""
    global session
    session = session or requests.Session()
    try:
        return session.post(os.environ["DOWNSTREAM_URL"] + "/v1/attempt", data=order, timeout=1).status_code
    except requests.RequestException:
        return None


@f.udf(StringType())
def charge(order):
    """Charges an order, and returns why it could not be charged, or none."""
    if order is None:  # deleted
        return None
    for attempt in range(MAX_ATTEMPTS):
        status = call(bytes(order))
        if status == 200:
            return None
        if status in (400, 404, 422):
            break
        if attempt < MAX_ATTEMPTS - 1:
            time.sleep(BACKOFF * 2**attempt)
    return f"status {status}"


def header(name, column):
    return f.struct(f.lit(name).alias("key"), column.cast("string").cast("binary").alias("value"))


def process(batch, batch_id):
    charged = batch.withColumn("failure", charge("value"))
    if PLANTED_BUG != "not-persisted":
        charged.persist()
    failed = charged.where("failure is not null")
    origin = [header("x-" + name, f.col(name)) for name in ("topic", "partition", "offset", "failure")]
    letters = failed.select(
        "key", "value", f.concat(f.coalesce("headers", f.expr("array()")), f.array(*origin)).alias("headers")
    )
    (
        letters.write.format("kafka")
        .option("kafka.bootstrap.servers", os.environ["KAFKA_BROKERS"])
        .option("kafka.max.request.size", 1100000)  # a dead letter is a little larger than its record
        .option("topic", os.environ["KAFKA_DLQ_TOPIC"])
        .save()
    )
    print(f"batch {batch_id}: {charged.count()} orders, {failed.count()} of them failed", flush=True)
    charged.unpersist()


def main():
    spark = SparkSession.builder.appName("orders").config("spark.sql.shuffle.partitions", 2).getOrCreate()
    orders = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", os.environ["KAFKA_BROKERS"])
        .option("subscribe", os.environ["KAFKA_TOPIC"])
        .option("startingOffsets", "earliest")
        .option("includeHeaders", "true")
        .option("maxOffsetsPerTrigger", 200)
        .load()
    )
    query = (
        orders.writeStream.foreachBatch(process).option("checkpointLocation", os.environ["CHECKPOINT"]).start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main()
