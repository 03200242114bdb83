package scenarios

// An output topic as the downstream: a write of a record with an id is an attempt to process that record.

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/dlqbench/dlqbench/faults/kafka"
	"github.com/dlqbench/dlqbench/history"
)

// KafkaDownstream is an output topic. A Produce of a record with a record's id, in its value, a header or its key, is
// an attempt to process that record. A planned failure is an error in the broker's place, and the batch is not written.
type KafkaDownstream struct {
	// Topic is created, as all topics are that the subject names.
	Topic string `json:"topic" jsonschema:"required,minLength=1"`
	// Errors are the answers to attempts that fail, by Kafka's names.
	Errors KafkaErrors `json:"errors,omitempty"`
}

// KafkaErrors are Kafka's errors by outcome. Each must be one that no client retries by itself, so that the application
// learns of it.
type KafkaErrors struct {
	// Transient: default UNKNOWN_SERVER_ERROR.
	Transient string `json:"transient,omitempty"`
	// Permanent: default INVALID_RECORD.
	Permanent string `json:"permanent,omitempty"`
	// Logical: default POLICY_VIOLATION.
	Logical string `json:"logical,omitempty"`
}

// The names of the errors by default.
const (
	errorTransient = "UNKNOWN_SERVER_ERROR"
	errorPermanent = "INVALID_RECORD"
	errorLogical   = "POLICY_VIOLATION"
)

// surfacingErrors are Kafka's errors of a Produce that neither Java's client, librdkafka, franz-go, sarama, aiokafka
// nor kafkajs retries, and after which their producers go on: others, such as CLUSTER_AUTHORIZATION_FAILED or
// INVALID_PRODUCER_EPOCH, end an idempotent producer. MESSAGE_TOO_LARGE makes Java's client split the batch.
func surfacingErrors() []string {
	return []string{errorTransient, errorPermanent, errorLogical, "INVALID_REQUEST", "INVALID_TOPIC_EXCEPTION",
		"RECORD_LIST_TOO_LARGE", "TOPIC_AUTHORIZATION_FAILED", "UNSUPPORTED_FOR_MESSAGE_FORMAT"}
}

// Kafka returns the output topic whose writes are attempts, nil if there is none.
func (s *SubjectFile) Kafka() *KafkaDownstream { return s.decides().Kafka }

// Outputs returns the output topics among what the subject calls, the one that decides first.
func (s *SubjectFile) Outputs() []*KafkaDownstream {
	var all []*KafkaDownstream
	for _, one := range s.Called() {
		if one.Kafka != nil {
			all = append(all, one.Kafka)
		}
	}
	return all
}

// answers are the errors of attempts at the output topic, with their classes.
func (k *KafkaDownstream) answers() []classed {
	return []classed{
		{outcome: history.OutcomeTransient, class: "retryable", answer: cmp.Or(k.Errors.Transient, errorTransient)},
		{outcome: history.OutcomePermanent, class: "permanent", answer: cmp.Or(k.Errors.Permanent, errorPermanent)},
		{outcome: history.OutcomeLogical, class: "logical", answer: cmp.Or(k.Errors.Logical, errorLogical)},
	}
}

// Codes returns the error codes of the answers to attempts that fail.
func (k *KafkaDownstream) Codes() map[history.Outcome]int16 {
	codes := map[history.Outcome]int16{}
	for _, one := range k.answers() {
		codes[one.outcome], _ = kafka.ErrorCode(one.answer) // it was checked with the subject file
	}
	return codes
}

// EffectsTopic is the topic with the effects of records, "" for none: that of the promise, or the output topic among
// the downstreams if there is one.
func (s *SubjectFile) EffectsTopic() string {
	effects, outputs := s.Contract.Effects, s.Outputs()
	switch {
	case effects == nil || effects.SQL != "":
		return ""
	case effects.Topic == "" && len(outputs) == 1:
		return outputs[0].Topic
	}
	return effects.Topic
}

// EffectsSQL is the statement that reads the effects of records from the database, "" for none.
func (s *SubjectFile) EffectsSQL() string {
	if s.Contract.Effects == nil {
		return ""
	}
	return s.Contract.Effects.SQL
}

// checkEffects checks where the effects of records are.
func (c *checker) checkEffects(s *SubjectFile) {
	const path = "/contract/effects"
	if s.Contract.Effects == nil || !c.allSound(path) || !c.allSound("/downstreams") {
		return
	}
	if s.Contract.Effects.SQL == "" {
		c.refuseIf(s.EffectsTopic() == "", path, "topic is missing in effects: the output topic, such as topic: "+
			"\"{{.RunID}}.results\", or sql, if the effects are rows")
		return
	}
	switch first := strings.ToLower(strings.TrimSpace(s.Contract.Effects.SQL)); {
	case s.Contract.Effects.Topic != "":
		c.at(path+"/sql", "the effects are in a topic or in a database: keep topic or sql")
	case s.database() == nil:
		c.at(path+"/sql", "there is no database among the downstreams: add - postgres: {}, or write topic")
	case !strings.HasPrefix(first, "select") && !strings.HasPrefix(first, "with") && !strings.HasPrefix(first, "table") &&
		!strings.HasPrefix(first, "values"):
		c.at(path+"/sql", "this statement does not read: write one such as select order_id, count(*) from orders group by 1")
	}
}

// OutputTopics are the topics that the subject only writes to: further ones, those of its downstreams, and that with
// the effects of records.
func (s *SubjectFile) OutputTopics() []string {
	topics := slices.Clone([]string(s.Topics))
	add := func(name string) {
		if name != "" && !slices.Contains(topics, name) {
			topics = append(topics, name)
		}
	}
	for _, output := range s.Outputs() {
		add(output.Topic)
	}
	add(s.EffectsTopic())
	return topics
}

func (c *checker) checkKafka(path string, output *KafkaDownstream) {
	seen := map[string]string{}
	for _, one := range output.answers() {
		at := path + "/errors/" + one.outcome.String()
		if _, err := kafka.ErrorCode(one.answer); err != nil {
			c.hinted(at, err.Error(), hint(one.answer, kafka.ErrorNames()))
			continue
		}
		c.refuseIf(!slices.Contains(surfacingErrors(), one.answer), at, "clients retry %s by themselves, or their producers "+
			"don't go on after it, so the application would not see it as the answer to an attempt: write one of %v", one.answer,
			surfacingErrors())
		if before := seen[one.answer]; before != "" {
			c.at(at, "%s and %s are both answered %s, but have different classes: answer one of them with another error", before,
				one.outcome, one.answer)
		}
		seen[one.answer] = one.outcome.String()
	}
}

// unfitOutput says why attempts that are writes to an output topic can't have the outcomes that the scenario plans; ""
// if they can.
func (s *Scenario) unfitOutput(subject *SubjectFile) string {
	outcomes := s.Workload.Outcomes
	if subject.Kafka() == nil {
		return ""
	}
	for _, one := range []struct {
		name   string
		weight int
		why    string
	}{
		{"rate_limited", outcomes.RateLimited.Weight, "Kafka's producers wait by themselves when a broker tells them to"},
		{"timeout", outcomes.Timeout.Weight, "a broker that does not answer holds up every write over the connection, and " +
			"clients write again by themselves"},
		{"reset", outcomes.Reset.Weight, "a broken connection loses every write over it, and clients write again by " +
			"themselves"},
	} {
		if one.weight > 0 {
			return fmt.Sprintf("%s has records with the outcome %s, which writes to an output topic can't have: %s; run "+
				"another scenario, or set the weight to 0 (--set workload.outcomes.%s.weight=0)", s.Name, one.name, one.why,
				one.name)
		}
	}
	return ""
}
