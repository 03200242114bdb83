package security

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlqbench/dlqbench/internal/testkit/must"
)

func lookup(environment map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		value, found := environment[name]
		return value, found
	}
}

func TestClientsAreWhoTheEnvironmentSays(t *testing.T) {
	cluster := must.Get(kfake.NewCluster(kfake.NumBrokers(1), kfake.EnableSASL(), kfake.Superuser(Plain, "ada", "right"),
		kfake.Superuser(ScramSHA256, "ada", "right"), kfake.Superuser(ScramSHA512, "ada", "right")))(t)
	defer cluster.Close()
	for _, mechanism := range []string{Plain, ScramSHA256, ScramSHA512} {
		for password, allowed := range map[string]bool{"right": true, "wrong": false} {
			options := must.Get(FromEnvironment(lookup(map[string]string{
				"DLQBENCH_SECURITY_PROTOCOL": "SASL_PLAINTEXT", "DLQBENCH_SASL_MECHANISM": mechanism,
				"DLQBENCH_SASL_USERNAME": "ada", "DLQBENCH_SASL_PASSWORD": password,
			})))(t)
			client, err := kgo.NewClient(append(options, kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.RequestRetries(0))...)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			if _, err := kadm.NewClient(client).ListBrokers(ctx); (err == nil) != allowed {
				t.Errorf("%s with the %s password: %v", mechanism, password, err)
			}
			cancel()
			client.Close()
		}
	}
}

func TestEnvironmentThatAsksForNothingKnown(t *testing.T) {
	for wants, environment := range map[string]map[string]string{
		`"TLS" is none`:               {"DLQBENCH_SECURITY_PROTOCOL": "TLS"},
		`no SASL mechanism "GSSAPI"`:  {"DLQBENCH_SECURITY_PROTOCOL": "SASL_SSL", "DLQBENCH_SASL_MECHANISM": "GSSAPI"},
		`there are PLAIN, SCRAM-SHA-`: {"DLQBENCH_SECURITY_PROTOCOL": "SASL_PLAINTEXT"},
	} {
		if _, err := FromEnvironment(lookup(environment)); err == nil || !strings.Contains(err.Error(), wants) {
			t.Errorf("%v: %v", environment, err)
		}
	}
	for _, protocol := range []string{"", "PLAINTEXT"} {
		if options, err := FromEnvironment(lookup(map[string]string{"DLQBENCH_SECURITY_PROTOCOL": protocol})); len(options) >
			0 || err != nil {
			t.Errorf("%q: %d options, %v", protocol, len(options), err)
		}
	}
	if options, err := FromEnvironment(lookup(map[string]string{"DLQBENCH_SECURITY_PROTOCOL": "SSL"})); len(options) !=
		1 || err != nil {
		t.Errorf("SSL: %d options, %v", len(options), err)
	}
}
