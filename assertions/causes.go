package assertions

import (
	"maps"
	"strings"
)

// catalogueCauses are the typical bugs behind single anomalies, by "invariant: anomaly", where those of the invariant
// say less. The most frequent one comes first.
func catalogueCauses() map[string]string {
	all := map[string]string{}
	for _, some := range []map[string]string{commitCauses(), attemptCauses(), letterCauses(), processCauses()} {
		maps.Copy(all, some)
	}
	return all
}

// What a checker can see of a record is both in the summary of a violation and a condition of its causes.
const (
	neverAttempted = "it was never attempted"
	valueNull      = "its value is null"
	valueOdd       = "its value can't be decoded"
	allFinished    = "every record of it was finished"
)

// clue is advice for the violations whose summary says one of the words.
type clue struct {
	words  []string
	advice string
}

// clues are the clues to single anomalies, by "invariant: anomaly".
func clues() map[string][]clue {
	return map[string][]clue{
		"commit-after-outcome: commit-past-unfinished": {{[]string{neverAttempted},
			"look for a filter or a null check that skips it, for an error of what decodes its value or headers, and at " +
				"auto.offset.reset"}},
		"no-loss: stalled": {{[]string{valueNull, valueOdd},
			"look for a failure at it that is retried without end, as where such a record never raises the count of attempts"}},
		"liveness: stalled": {{[]string{allFinished},
			"look for auto-commit that is off, and for commits by count, by time or with the next record, without one when " +
				"nothing more comes"}},
	}
}

// LikelyCause returns the typical bugs behind a violation of the anomaly, those first that fit what its summary says.
// Without a summary it is Cause.
func (e Explanation) LikelyCause(summary string) string {
	if summary == "" {
		return e.Cause
	}
	out := e.general
	for _, clue := range clues()[e.Of+": "+e.Name] {
		for _, words := range clue.words {
			if strings.Contains(summary, words) {
				out = strings.ToUpper(words[:1]) + words[1:] + ": " + clue.advice + ". Or: " + out
			}
		}
	}
	return out
}

func commitCauses() map[string]string {
	return map[string]string{
		"commit-after-dlq: commit-before-dlq": "The dead letter is written asynchronously, and its future or callback is " +
			"not awaited before the commit. A batch or a buffer of dead letters is not flushed first.",
		"commit-after-dlq: commit-without-dlq": "The error of the dead-letter write is logged or ignored, and the record " +
			"counts as finished. Look for a send without a check of its result, for a catch around it that goes on, and for " +
			"a producer with acks=0, which is never told (the default of kafka-go's Writer). At a stop or a rebalance, look " +
			"for what follows the loop that writes it again.",
		"commit-after-outcome: commit-past-unfinished": "The highest finished offset is committed instead of the end of " +
			"the finished prefix, or all that was polled is: by auto-commit, as with kafka-go's ReadMessage and librdkafka's " +
			"enable.auto.offset.store, or by a commit without offsets. A record counts as finished when a stop or a rebalance " +
			"interrupts it. After a failure the position is not rewound, and the next success commits past the failed " +
			"record. A copy to a retry topic is not awaited, or its refusal is ignored, or never told with acks=0. If it was " +
			"fetched again after a failure and not attempted again, look for a mark of idempotence that was set before the " +
			"attempt and outlives its failure. If it failed in a call for several records, look for an answer whose items " +
			"are not read. If results are in a transaction, look for a commit beside it. If it is written to the end of the " +
			"input to be tried again, the contract has to say so: retry_topics: \"{{.InputTopic}}\".",
		"commit-after-outcome: commit-past-end": "Offsets are computed instead of taken from the records: look for an " +
			"offset plus a count, for the position of the client, which is that of the next fetch, and for the offset of " +
			"another partition.",
		"commit-after-outcome: commit-wrong-partition": "Offsets of all partitions are kept in one place and committed by " +
			"everyone. Look for state that outlives a rebalance.",
		"commit-after-outcome: commit-regressed": "Offsets are committed in the order in which work ends. Look for several " +
			"threads that commit by themselves, and for offsets that outlive a rebalance.",
		"halt-on-dlq-failure: failure-not-surfaced": "The client retries the write for ever, or its error ends in a " +
			"callback without code. Look for a producer without a delivery timeout and an error handler without a log " +
			"line.",
		"halt-on-dlq-failure: commit-advanced-while-dlq-down": "The dead letter is given up after some tries, and its " +
			"record is committed. Look for what follows the last failed write.",
		"halt-on-dlq-failure: stopped-trying": "The error of the write ends the loop or the thread of the partition, and " +
			"nothing starts it again.",
		"halt-on-dlq-failure: did-not-crash": "The error of the write is caught on its way to the end of the process. Look " +
			"for a catch around the loop, and for an exit without a code.",
	}
}

func attemptCauses() map[string]string {
	return map[string]string{
		"bounded-retries: over-retried": "Retries and attempts are confused: the first attempt is not counted. Look for " +
			"max_retries + 1, for a comparison with <= in place of <, and for two layers that both retry.",
		"bounded-retries: under-retried": "Retries and attempts are confused: the first attempt counts as a retry. Look " +
			"for an error that is classified as permanent, for a count shared by several records, and for a wait that is " +
			"cancelled at a stop or a rebalance and counts as the last failure. Or the count is kept outside the process, " +
			"and the contract says attempts: {counter: memory}, not store.",
		"bounded-retries: endless-redelivery": "The count of attempts is kept where every redelivery clears it. Look for a " +
			"seek or a nack without an own count.",
		"classification: permanent-retried": "All errors are handled alike. Look for a status that is compared by class " +
			"instead of by code, and for a retry around everything. If they are meant to be tried again, promise that: a " +
			"contract without classes takes 400 as final and 422 as a result. If an instance reads the dead-letter topic, " +
			"too, look for a subscription by a pattern that matches it.",
		"classification: logical-dead-lettered": "A business result is raised as an exception and caught like a failure.",
		"classification: premature-dead-letter": "A failure that may pass is classified as permanent. Look for timeouts, " +
			"429 and 503, for an error while the body of a failure is parsed, which is a gateway's page as often as JSON, and " +
			"for hooks that dead-letter what is in backoff at a stop or a rebalance.",
		"classification: dual-terminal": "A success whose commit or next step failed is handled as a failure. Look for a " +
			"catch that also covers what comes after the call.",
		"backoff: backoff-early": "Seconds and milliseconds are mixed up, or the wait is measured from the attempt's " +
			"start. Look for a Retry-After that is not read, and for a delay that a restart or a rebalance forgets.",
		"backoff: backoff-late": "The wait is added to another: a poll interval, a queue, or a record ahead in the same " +
			"thread. Look for a sleep in a shared loop.",
		"backoff: backoff-not-growing": "The exponent is reset with each delivery, or the number of the attempt is not " +
			"passed on.",
		"backoff: cap-exceeded": "The cap is applied before the multiplication, to the wrong term, or not at all.",
		"backoff: no-jitter":    "The jitter is not added, or its random source is seeded with the same value each time.",
	}
}

func letterCauses() map[string]string {
	return map[string]string{
		"dlq-fidelity: payload-changed": "The value is decoded and encoded again. Look for a string conversion or a " +
			"serializer between the record as it was read and the dead letter.",
		"dlq-fidelity: key-changed": "The key is decoded as text and encoded again. Look for a string deserializer of keys.",
		"dlq-fidelity: headers-lost": "Headers are rebuilt instead of copied. Look for a map (it keeps one of two equal " +
			"names), for envelope headers with the record's own names, for text conversion, and for null values.",
		"dlq-fidelity: metadata-missing": "A header of the envelope is not set, or cannot be decoded. Look for text " +
			"outside ASCII, and for a field that is set on one path only.",
		"dlq-fidelity: metadata-wrong": "A header is taken from the wrong place: the offset of the consumer's position, " +
			"which is already one further, a count that starts at 0, or the error of another record.",
		"dlq-fidelity: marker-dead-lettered": "The client hands control records out as if they were records, as " +
			"segmentio's kafka-go does. Leave out what has a key of 4 bytes, two of them 0, and a value of 6, or use a " +
			"client that hides them.",
		"replay-round-trip: replay-altered": "Failure headers are copied along instead of removed, or the value is decoded " +
			"and encoded again. Look for what the tool takes from the dead letter, and how.",
		"store-lifecycle: resolved-without-success": "The status is set before the answer is known, or a failed answer is " +
			"taken for a success. Look for the update of the status, and for what it waits for.",
		"no-loss: stalled": "A record was set aside for a retry, and the retry never came. Look for a timer or a queue " +
			"that an exception or a rebalance drops. Or no process was given the record: see whether the anomaly names " +
			"auto.offset.reset (in sarama: Consumer.Offsets.Initial).",
		"no-loss: dropped-by-ack": "The producer waits for the leader alone (acks=1), the default of many clients, and the " +
			"leader fails: set acks=all (in sarama Producer.RequiredAcks: WaitForAll). Or something deleted the record " +
			"after it was acknowledged: a retention time, a compaction, or a clean-up of the dead-letter topic.",
	}
}

func processCauses() map[string]string {
	return map[string]string{
		"liveness: paused-partition": "A partition is paused for a backoff, and the code that resumes it is skipped by an " +
			"exception or loses track of it in a rebalance.",
		"liveness: rebalance-storm": "A handler blocks for longer than the poll interval, so that the group expels the " +
			"member again and again. Look for a consumer that is closed and made anew after an error.",
		"liveness: stalled": "A fetcher or a worker has died unnoticed, or a record is never marked as finished, so that " +
			"nothing behind it is committed. Look for an off-by-one: the offset to commit is the next one.",
		"stays-up: crashed": "An exception is not caught, or the loop returns after an error. The last line of its log and " +
			"the last record that it fetched say which.",
		"stays-up: unclean-exit": "A handler for SIGTERM is missing, or throws. Look for something that is closed twice.",
		"stays-up: gave-up": "The loop that polls has ended or hangs while the process lives on. Look for an " +
			"exception that ends its thread silently, for callbacks that block, and for work that a rebalance waits for and " +
			"does not end.",
		"graceful-stop: lost": "The shutdown hook commits everything that was read, including what is in backoff. Or the " +
			"loop that retries ends at the stop, and its record counts as finished.",
		"graceful-stop: premature-dead-letter": "The shutdown hook dead-letters what is in backoff. Leave it uncommitted: " +
			"another instance gets it.",
		"graceful-stop: stop-timeout": "Shutdown waits for a retry timer, or for a producer without a timeout. Look for a " +
			"sleep that a stop does not interrupt. If the process was still joining its group, the client may leave only " +
			"when it has joined. If a script or another process starts the consumer, it has to pass TERM on.",
	}
}
