// Package kafkaio holds what every Kafka client of this program keeps to that touches topics of others.
//
// What it writes any consumer can read: records are written without compression, because not every client has every
// codec (kafkajs and aiokafka bring gzip alone), and a consumer that meets one it lacks crashes. Where a topic's
// compression.type names a codec, the broker compresses what arrives.
//
// What it reads is bounded: by what a batch may decompress to, and by what may be in memory at a time. A few kilobytes
// can hold gigabytes.
package kafkaio
