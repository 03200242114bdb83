package scenarios

import (
	"strings"
	"testing"
)

// A consumer that looks at fixed ports has one instance, and each port one purpose.
func TestFixedPorts(t *testing.T) {
	t.Parallel()
	const start = "name: it\nkind: process\ncommand: [it]\n"
	for file, most := range map[string]int{
		start: maxInstances, start + "listen: {registry: 8081}": maxInstances, start + "listen: {kafka: 9092}": 1,
		start + "listen: {downstream: 8080}": 1, "name: it\nkind: external\nexternal: {instances: 2}": 2,
		start + "instances: 3": 3, start + "instances: 1\nlisten: {kafka: 9092}": 1,
		"name: it\nkind: deployment\ninstances: 2\nenv: {K: \"{{.BootstrapServers}}\"}\ndeployment: {running: deployment/it}": 2,
	} {
		subject, err := ParseSubject("subject.yaml", []byte(file))
		if err != nil || subject.MostInstances() != most {
			t.Errorf("%s: %v, want %d instances", file, err, most)
		}
	}
	for file, want := range map[string]string{
		start + "listen: {kafka: 9092, downstream: 9093}":    "the brokers have the ports from 9092 to 9101",
		start + "listen: {downstream: 8080, registry: 8080}": "downstream has this port",
		"name: it\nkind: external\nlisten: {kafka: 9092}":    "ports of this one are under external",
		start + "listen: {kafka: 70000}":                     "65535",
		start + "instances: 0":                               "at least 1",
		"name: it\nkind: external\ninstances: 1":             "external: {instances: 2}",
	} {
		if _, err := ParseSubject("subject.yaml", []byte(file)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", file, err, want)
		}
	}
}
