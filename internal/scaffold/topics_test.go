package scaffold

import (
	"slices"
	"testing"
)

func TestTopicNames(t *testing.T) {
	t.Parallel()
	for name, one := range map[string]struct {
		files []string
		want  []string
	}{
		"settings of any name": {[]string{"internal/mail/config/config.yaml", `
kafka:
  bootstrap-servers: kafka:29092
  consumer:
    email-topic: email-worker # the input
    group-id: mails
    dead-letter-topic: email-worker-dlq
    topics: 3
`}, []string{"email-worker", "email-worker-dlq"}},
		"code": {[]string{"main.go", "const topic, group = `orders`, \"shop\"\nvar dlq = \"orders.dead\" + suffix\n",
			"main_test.go", `topic = "of-a-test"`, "vendor/x.go", `topic = "of-another"`}, []string{"orders", "orders.dead",
			"shop"}},
		"defaults":           {[]string{"application.properties", "app.topic.dlt=${DLT:orders-dlt}\n"}, []string{"orders-dlt"}},
		"no runs":            {[]string{"runs/x/subject.yaml", "topic: old\n", "src/runs/x.yaml", "topic: it\n"}, []string{"it"}},
		"no text of a topic": {[]string{"main.go", "log(`the topic is gone`)\nname := \"orders\""}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := TopicNames(folderOf(one.files)); !slices.Equal(got, one.want) {
				t.Errorf("it has %q, want %q", got, one.want)
			}
		})
	}
}
