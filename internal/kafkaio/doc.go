// Package kafkaio defines the rules for all Kafka clients of this program that access topics of others.
//
// Written records are readable for any consumer: they are not compressed, because not every client has every codec
// (kafkajs and aiokafka include only gzip), and a consumer that lacks a codec crashes. If a topic's compression.type
// names a codec, the broker compresses the records.
//
// Reading is limited: by the decompressed size of a batch, and by the total size in memory. A few kilobytes can
// decompress to gigabytes.
package kafkaio
