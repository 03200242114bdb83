# frozen_string_literal: true

# A service on Karafka with its dead-letter queue: a message that fails makes Karafka pause the partition and deliver it
# again, and writes it to the queue after two retries. All settings are Karafka's defaults, but for what the work needs.
# PLANTED_BUG is a mistake that tests plant, to see it named; none otherwise.
require 'bundler/setup'
require 'karafka'
require 'net/http'

$stdout.sync = true
PLANTED_BUG = ENV['PLANTED_BUG']
URL = URI("#{ENV.fetch('DOWNSTREAM_URL')}/v1/attempt")

# Charges orders.
class OrdersConsumer < Karafka::BaseConsumer
  def consume
    messages.each do |message|
      charge(message)
      mark_as_consumed(message)
    end
  end

  private

  def charge(message)
    response = Net::HTTP.start(URL.host, URL.port, open_timeout: 1, read_timeout: 1, write_timeout: 1) do |http|
      http.post(URL.path, message.raw_payload.to_s, position(message))
    end
    raise "#{response.code} #{response.body}" unless response.is_a?(Net::HTTPSuccess)
  end

  def position(message)
    {
      'Content-Type' => 'application/json', 'X-Kafka-Topic' => message.topic,
      'X-Kafka-Partition' => message.partition.to_s, 'X-Kafka-Offset' => message.offset.to_s
    }
  end
end

# The application.
class KarafkaApp < Karafka::App
  setup do |config|
    config.kafka = { 'bootstrap.servers': ENV.fetch('KAFKA_BROKERS') }
    config.client_id = 'orders'
    config.group_id = ENV.fetch('KAFKA_GROUP')
    # Karafka counts the attempts of a batch, and a message gets one more if an earlier one of its batch was retried.
    config.max_messages = 1 unless %w[batches-by-default retries-of-the-batch].include?(PLANTED_BUG)
  end

  Karafka.monitor.subscribe(Karafka::Instrumentation::LoggerListener.new)
  Karafka.producer.monitor.subscribe(WaterDrop::Instrumentation::LoggerListener.new(Karafka.logger))

  routes.draw do
    topic ENV.fetch('KAFKA_TOPIC') do
      consumer OrdersConsumer
      dead_letter_queue(
        topic: ENV.fetch('KAFKA_DLQ_TOPIC'), max_retries: 2,
        independent: PLANTED_BUG != 'retries-of-the-batch',
        dispatch_method: PLANTED_BUG == 'letter-not-awaited' ? :produce_async : :produce_sync
      )
    end
  end
end
