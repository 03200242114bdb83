//! A consumer on rdkafka as its example at_least_once.rs is written: the offset of a message is stored when the message
//! is finished, and the client commits what is stored every five seconds and when it closes. All settings of the client
//! are its defaults, but for what the work needs.

use std::time::Duration;

use log::{error, info, warn};
use rdkafka::consumer::{Consumer, StreamConsumer};
use rdkafka::error::KafkaError;
use rdkafka::message::{BorrowedMessage, Header, OwnedHeaders};
use rdkafka::producer::{FutureProducer, FutureRecord};
use rdkafka::util::Timeout;
use rdkafka::{ClientConfig, Message};
use tokio::signal::unix::{signal, SignalKind};
use tokio_util::sync::CancellationToken;

const MAX_ATTEMPTS: u32 = 3;
const BACKOFF: Duration = Duration::from_millis(100);

fn env(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set"))
}

struct Failure {
    reason: String,
    permanent: bool,
}

impl From<reqwest::Error> for Failure {
    fn from(error: reqwest::Error) -> Self {
        let permanent = error
            .status()
            .is_some_and(|status| matches!(status.as_u16(), 400 | 422));
        Failure {
            reason: error.to_string(),
            permanent,
        }
    }
}

struct Orders {
    http: reqwest::Client,
    url: String,
    consumer: StreamConsumer,
    producer: FutureProducer,
    dead_letters: String,
    stopping: CancellationToken,
    /// A mistake that tests plant, to see it named; empty otherwise.
    planted_bug: String,
}

impl Orders {
    async fn charge(&self, message: &BorrowedMessage<'_>) -> Result<(), Failure> {
        let response = self
            .http
            .post(&self.url)
            .header("X-Kafka-Topic", message.topic())
            .header("X-Kafka-Partition", message.partition())
            .header("X-Kafka-Offset", message.offset())
            .body(message.payload().unwrap_or_default().to_vec())
            .send()
            .await?;
        response.error_for_status()?;
        Ok(())
    }

    /// Waits, and returns true if the service is to stop.
    async fn wait(&self, time: Duration) -> bool {
        tokio::time::timeout(time, self.stopping.cancelled())
            .await
            .is_ok()
    }

    async fn send(
        &self,
        message: &BorrowedMessage<'_>,
        failure: &Failure,
    ) -> Result<(), KafkaError> {
        let headers = message
            .headers()
            .map_or_else(OwnedHeaders::new, |headers| headers.detach())
            .insert(Header {
                key: "original-topic",
                value: Some(message.topic()),
            })
            .insert(Header {
                key: "original-partition",
                value: Some(&message.partition().to_string()),
            })
            .insert(Header {
                key: "original-offset",
                value: Some(&message.offset().to_string()),
            })
            .insert(Header {
                key: "reason",
                value: Some(&failure.reason),
            });
        let record = FutureRecord::<[u8], [u8]> {
            key: message.key(),
            payload: message.payload(),
            ..FutureRecord::to(&self.dead_letters).headers(headers)
        };
        if self.planted_bug == "letter-not-awaited" {
            return self
                .producer
                .send_result(record)
                .map(drop)
                .map_err(|(error, _)| error);
        }
        self.producer
            .send(record, Timeout::Never)
            .await
            .map(drop)
            .map_err(|(error, _)| error)
    }

    /// Returns true when the dead letter is acknowledged. Tries until then, or until the service is to stop.
    async fn dead_letter(&self, message: &BorrowedMessage<'_>, failure: &Failure) -> bool {
        while let Err(error) = self.send(message, failure).await {
            error!(
                "dead letter of {} [{}] @ {}: {error}",
                message.topic(),
                message.partition(),
                message.offset()
            );
            if self.wait(Duration::from_millis(500)).await {
                return false;
            }
        }
        true
    }

    /// Returns true when the message is finished.
    async fn process(&self, message: &BorrowedMessage<'_>) -> bool {
        let mut attempt = 1;
        loop {
            let Err(failure) = self.charge(message).await else {
                return true;
            };
            if failure.permanent || attempt == MAX_ATTEMPTS {
                return self.dead_letter(message, &failure).await;
            }
            if self.wait(BACKOFF * 2u32.pow(attempt - 1)).await {
                return false;
            }
            attempt += 1;
        }
    }

    async fn run(&self) {
        loop {
            let received = tokio::select! {
                _ = self.stopping.cancelled() => return,
                received = self.consumer.recv() => received,
            };
            let message = match received {
                Ok(message) => message,
                Err(error) => {
                    warn!("consuming: {error}");
                    continue;
                }
            };
            if !self.process(&message).await {
                return;
            }
            if let Err(error) = self.consumer.store_offset_from_message(&message) {
                warn!("not stored: {error}"); // the partition was taken away: its next owner has the message again
            }
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("info")).init();
    let brokers = env("KAFKA_BROKERS");
    let planted_bug = std::env::var("PLANTED_BUG").unwrap_or_default();
    let consumer: StreamConsumer = ClientConfig::new()
        .set("bootstrap.servers", &brokers)
        .set("group.id", env("KAFKA_GROUP"))
        .set("auto.offset.reset", "earliest")
        .set(
            "enable.auto.offset.store",
            if planted_bug == "stored-by-client" {
                "true"
            } else {
                "false"
            },
        )
        .create()?;
    // A dead letter is a little larger than its record: the default of 1 MB is less than brokers take.
    let producer: FutureProducer = ClientConfig::new()
        .set("bootstrap.servers", &brokers)
        .set("message.max.bytes", "1048588")
        .create()?;
    consumer.subscribe(&[&env("KAFKA_TOPIC")])?;

    let stopping = CancellationToken::new();
    let stop = stopping.clone();
    let mut terminated = signal(SignalKind::terminate())?;
    tokio::spawn(async move {
        terminated.recv().await;
        stop.cancel();
    });
    let orders = Orders {
        http: reqwest::Client::builder()
            .timeout(Duration::from_secs(1))
            .build()?,
        url: env("DOWNSTREAM_URL") + "/v1/attempt",
        consumer,
        producer,
        dead_letters: env("KAFKA_DLQ_TOPIC"),
        stopping,
        planted_bug,
    };
    orders.run().await;
    info!("closing");
    Ok(())
}
