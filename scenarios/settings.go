package scenarios

// This file holds settings of a scenario as other files write them: dlqbench.yaml and benches.

import (
	"cmp"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Settings are values by the path that --set takes.
type Settings map[string]Value

// Value is a value of a setting as it was written.
type Value struct{ json.RawMessage }

// SchemaText allows anything: what a value may be depends on its path, and is checked with the scenario.
func (Value) SchemaText() string {
	return `{"description": "A value as it would stand in the scenario at this path."}`
}

// String is the value as --set takes it: text that YAML reads as that very text stands without quotes.
func (v Value) String() string {
	var text string
	if json.Unmarshal(v.RawMessage, &text) == nil && plainText.MatchString(text) && !speaking.MatchString(text) {
		return text
	}
	return string(v.RawMessage)
}

// plainText matches text that YAML reads unchanged without quotes, except words and numbers with a meaning in YAML.
var plainText = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._/%+-]*$`)
var speaking = regexp.MustCompile(
	"(?i)^(true|false|null|yes|no|on|off|y|n|[0-9][0-9._]*(e[+-]?[0-9]+)?|0[xob][0-9a-f_]+)$")

// Setting is an override, and its path in the file that has it.
type Setting struct{ Path, Value, Place string }

// Settings lists the settings at a place of the file in the order in which it has them.
func (s *Strict) Settings(place string, settings Settings) (list []Setting) {
	for _, path := range Ordered(s, place, settings) {
		list = append(list, Setting{path, settings[path].String(), Below(place, path)})
	}
	return list
}

// Ordered returns the keys of the mapping at a place of a file in the order in which the file has them.
func Ordered[T any](s *Strict, place string, mapping map[string]T) []string {
	return slices.SortedFunc(maps.Keys(mapping), func(a, b string) int {
		first, second := s.Where(Below(place, a)), s.Where(Below(place, b))
		return cmp.Or(cmp.Compare(first.Line, second.Line), cmp.Compare(first.Column, second.Column), strings.Compare(a, b))
	})
}

// Below is the path of a key of the mapping at a place of a file.
func Below(place, key string) string { return place + "/" + escape(key) }

// Provider is the Kafka to run against, as the flags of dlqbench run say it.
type Provider struct {
	// Provider: embedded (default), process, docker or external.
	Provider string `json:"provider,omitempty" jsonschema:"enum=embedded,enum=process,enum=docker,enum=external"`
	// KafkaVersion goes with process.
	KafkaVersion string `json:"kafka_version,omitempty"`
	// Image goes with docker.
	Image string `json:"image,omitempty"`
	// Bootstrap goes with external: host:port,host:port.
	Bootstrap string `json:"bootstrap,omitempty"`
	// KafkaConfig goes with external: a properties file with TLS and SASL settings.
	KafkaConfig string `json:"kafka_config,omitempty"`
	// Toxiproxy is the API of a toxiproxy server on this machine, or start: the links are proxies there.
	Toxiproxy string `json:"toxiproxy,omitempty"`
}
