import os

SECRET_KEY = "not used"
INSTALLED_APPS = ["django_kafka", "orders"]
USE_TZ = True

DJANGO_KAFKA = {
    "GLOBAL_CONFIG": {"bootstrap.servers": os.environ["KAFKA_BROKERS"]},
    "CONSUMER_CONFIG": {
        "group.id": os.environ["KAFKA_GROUP"],
        "auto.offset.reset": "earliest",
        "enable.auto.offset.store": False,
    },
    "PRODUCER_CONFIG": {"message.max.bytes": 1048588},  # as the broker; a dead letter has more headers
}

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "%(asctime)s %(levelname)s %(name)s %(message)s"}},
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["console"], "level": "INFO"},
}
