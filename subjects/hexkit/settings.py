"""What the service and its dead letter part have in common."""

from hexkit.providers.akafka.config import KafkaConfig

EVENT_TYPE = "order_placed"


def kafka_config(environment):
    """Returns hexkit's configuration; the kafka_* settings beyond the addresses come from the variables KAFKA_MAX_RETRIES and so on."""
    return KafkaConfig(
        service_name=environment["DLQBENCH_GROUP_ID"],
        service_instance_id=environment.get("DLQBENCH_INSTANCE", "dlq"),
        kafka_servers=environment["DLQBENCH_BOOTSTRAP_SERVERS"].split(","),
        kafka_dlq_topic=environment["DLQBENCH_DLQ_TOPIC"],
    )
