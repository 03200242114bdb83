package consumer

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/dlqbench/dlqbench/internal/security"
)

// FromEnvironment returns the configuration that the harness passes to an instance in its environment. lookup is
// os.LookupEnv. The handler is HTTPHandler, or GRPCHandler for a node. The error names every missing variable.
//
//	DLQBENCH_BOOTSTRAP_SERVERS  brokers, comma-separated
//	DLQBENCH_INPUT_TOPIC        the topic to consume
//	DLQBENCH_DLQ_TOPIC          the dead-letter topic; default: the input topic and ".dlq"
//	DLQBENCH_RETRY_TOPICS       the retry topics, comma-separated; default: the input topic and ".retry-1", ".retry-2"
//	                            and so on
//	DLQBENCH_REPLAY_TOPIC       the topic of replayed dead letters, if it is not the input topic; optional
//	DLQBENCH_GROUP_ID           the consumer group
//	DLQBENCH_ORACLE_URL         the downstream
//	DLQBENCH_NODE               the node of a graph whose engine the consumer is, as JSON (Node); optional
//	DLQBENCH_RUN_ID, DLQBENCH_INSTANCE  form the client id; optional, but the instance is required for a static member
//	                                    or with transactions
//	DLQBENCH_SECURITY_PROTOCOL, DLQBENCH_SASL_MECHANISM, DLQBENCH_SASL_USERNAME, DLQBENCH_SASL_PASSWORD
//	                            see internal/security; optional
//	DLQBENCH_SETTINGS           settings that differ from the defaults, as JSON: {"max_retries": 5}; optional
func FromEnvironment(lookup func(string) (string, bool)) (Config, error) {
	var errs []error
	required := func(name, what string) string {
		value, _ := lookup(name)
		if value == "" {
			errs = append(errs, fmt.Errorf("%s is not set: %s", name, what))
		}
		return value
	}
	config := Config{Settings: DefaultSettings()}
	if servers := required("DLQBENCH_BOOTSTRAP_SERVERS", "it gives the brokers, such as 127.0.0.1:9092"); servers != "" {
		config.Bootstrap = strings.Split(servers, ",")
	}
	config.Topic = required("DLQBENCH_INPUT_TOPIC", "it names the topic to consume")
	config.Group = required("DLQBENCH_GROUP_ID", "it names the consumer group")
	config.DLQTopic, _ = lookup("DLQBENCH_DLQ_TOPIC")
	if config.DLQTopic == "" && config.Topic != "" {
		config.DLQTopic = config.Topic + ".dlq"
	}
	config.ClientID, config.Instance = clientID(lookup), "0"
	downstream := required("DLQBENCH_ORACLE_URL",
		"it gives the downstream that processes records, such as http://127.0.0.1:8080")
	if text, _ := lookup("DLQBENCH_NODE"); text != "" {
		var err error
		if config.Node, err = decodeNode(text); err != nil {
			errs = append(errs, err)
		}
	}
	switch {
	case downstream == "":
	case config.Node != nil:
		config.Handler, _ = GRPCHandler(downstream, config.Node.Name) // idle connections are closed by the process's end
	default:
		handler, err := HTTPHandler(downstream)
		if err != nil {
			errs = append(errs, fmt.Errorf("reading DLQBENCH_ORACLE_URL: %w", err))
		}
		config.Handler = handler
	}
	if text, _ := lookup("DLQBENCH_SETTINGS"); text != "" {
		if err := DecodeSettings(text, &config.Settings); err != nil {
			errs = append(errs, fmt.Errorf("reading DLQBENCH_SETTINGS: %w", err))
		}
	}
	config.ReplayTopic, _ = lookup("DLQBENCH_REPLAY_TOPIC")
	if topics, _ := lookup("DLQBENCH_RETRY_TOPICS"); topics != "" {
		config.RetryTopics = strings.Split(topics, ",")
	}
	options, err := security.FromEnvironment(lookup)
	if err != nil {
		errs = append(errs, err)
	}
	config.Options = options
	if instance, _ := lookup("DLQBENCH_INSTANCE"); instance != "" {
		config.Instance, config.InstanceID = instance, config.Group+"-"+instance
	}
	return config, errors.Join(errs...)
}

// DecodeSettings decodes settings in JSON into settings. Keys missing in the text keep their values. Unknown keys are
// an error.
func DecodeSettings(text string, settings *Settings) error {
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(settings); err != nil {
		return fmt.Errorf("%w; write JSON such as {\"max_retries\": 5, \"attempt_timeout\": \"2s\"}", err)
	}
	return nil
}

func clientID(lookup func(string) (string, bool)) string {
	id := "dlqbench"
	for _, name := range []string{"DLQBENCH_RUN_ID", "DLQBENCH_INSTANCE"} {
		if value, _ := lookup(name); value != "" {
			id += "-" + value
		}
	}
	return id
}
