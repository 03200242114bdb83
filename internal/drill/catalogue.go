package drill

// This file lists the faults for manual control: the catalogue of faults, adapted to this drill, with parameters read
// from the types that faults are written in.

import (
	"cmp"
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dlqbench/dlqbench/faults"
	"github.com/dlqbench/dlqbench/faults/catalogue"
	"github.com/dlqbench/dlqbench/faults/kafka"
	"github.com/dlqbench/dlqbench/faults/network"
	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/units"
	"github.com/dlqbench/dlqbench/scenarios"
)

// maxSuggestions is the maximum number of suggested values for a text.
const maxSuggestions = 200

func (s *Session) listCatalogue() []Breakable {
	all := []Breakable{}
	for _, entry := range catalogue.Faults() {
		spec, err := scenarios.DecodeFault([]byte(entry.Example))
		if err != nil {
			continue // its own test covers it
		}
		spec.At, spec.When, spec.After, spec.For = 0, "", 0, 0
		one := Breakable{Name: entry.Name, Kind: entry.Kind(), Summary: entry.Summary, Does: entry.Does, Shows: entry.Shows}
		one.Refused = s.fit(&spec)
		if one.Spec, err = scenarios.Written(spec); err != nil {
			continue
		}
		delete(one.Spec, "at")
		one.Parameters = s.parameters(entry, one.Spec, spec.Traits().Instant)
		all = append(all, one)
	}
	return all
}

// fit adapts an example of the catalogue so that it can be injected in this drill. It returns the reason if it cannot,
// otherwise "".
func (s *Session) fit(spec *catalogue.Spec) string {
	scenario := s.options.Scenario
	if spec.Network != nil {
		link := spec.Network.Link
		if number, is := strings.CutPrefix(link, "broker "); is && number != "1" ||
			link == "dlq" && scenario.Topics.DLQ.Broker == 0 {
			spec.Network.Link = "broker 1"
		}
	}
	if spec.Broker != nil && spec.Broker.Broker > scenario.Cluster.Brokers {
		spec.Broker.Broker = 1
	}
	if spec.Broker != nil && s.options.CanBreak != nil {
		if err := s.options.CanBreak(spec.Broker.Action()); err != nil {
			return err.Error()
		}
	}
	if spec.Subject != nil {
		if spec.Subject.Instance != nil {
			first := 0
			spec.Subject.Instance = &first
			if graph := scenario.Graph; graph != nil {
				spec.Subject.Node = graph.Nodes[0].Name
			}
		}
		spec.Subject.ScaleUp = min(spec.Subject.ScaleUp, 1)
	}
	tried := *spec
	steady := 10 * time.Minute
	if tried.Traits().EndsItself == "" {
		tried.For = units.Duration(time.Minute)
	}
	err := scenarios.CheckRecording(s.options.Source, scenarios.Recording{Steady: steady, Faults: []catalogue.Spec{tried},
		Subject: s.options.SubjectFile})
	if err != nil {
		return err.Error()
	}
	return ""
}

// parameters lists the parameters of an entry.
func (s *Session) parameters(entry faults.Entry, spec map[string]any, instant bool) []Parameter {
	var all []Parameter
	for _, path := range entry.Keys {
		field, found := fieldOf(reflect.TypeFor[catalogue.Spec](), strings.Split(path, "."))
		if !found {
			continue
		}
		all = append(all, s.describe(path, field, spec, strings.HasSuffix(path, "."+entry.Key()))...)
	}
	// Parameters that define the fault come first, then required ones, then those with a default.
	rank := func(p Parameter) int {
		switch {
		case p.Required:
			return 0
		case p.Default != nil:
			return 1
		}
		return 2
	}
	slices.SortStableFunc(all, func(a, b Parameter) int { return rank(a) - rank(b) })
	if !instant {
		all = append(all, Parameter{Path: "for", Type: TypeDuration})
	}
	return all
}

// fieldOf follows json keys to a field.
func fieldOf(in reflect.Type, keys []string) (reflect.StructField, bool) {
	for in.Kind() == reflect.Pointer {
		in = in.Elem()
	}
	for field := range in.Fields() {
		if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name == keys[0] {
			if len(keys) == 1 {
				return field, true
			}
			return fieldOf(field.Type, keys[1:])
		}
	}
	return reflect.StructField{}, false
}

// describe turns a field into parameters: one, or one for each field of a structure.
func (s *Session) describe(path string, field reflect.StructField, spec map[string]any, makes bool) []Parameter {
	of := field.Type
	for of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	if of.Kind() == reflect.Struct {
		var all []Parameter
		for field := range of.Fields() {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			all = append(all, s.describe(path+"."+name, field, spec, false)...)
		}
		return all
	}
	one := Parameter{Path: path, Default: valueAt(spec, path), Required: makes}
	one.Type = typeOf(of)
	for rule := range strings.SplitSeq(field.Tag.Get("jsonschema"), ",") {
		word, value, _ := strings.Cut(rule, "=")
		switch word {
		case "required":
			one.Required = true
		case "enum":
			one.Type, one.Choices = TypeChoice, append(one.Choices, value)
		case "minimum":
			one.Min, _ = strconv.Atoi(value)
		}
	}
	one.Fixed = makes && one.Type == TypeFlag
	if one.Type == TypeText {
		one.Choices = s.suggestions(path)
	}
	return []Parameter{one}
}

func typeOf(of reflect.Type) string {
	return cmp.Or(map[reflect.Type]string{
		reflect.TypeFor[units.Duration](): TypeDuration, reflect.TypeFor[units.Percent](): TypePercent,
		reflect.TypeFor[units.Size](): TypeSize, reflect.TypeFor[units.Rate](): TypeRate,
	}[of], map[reflect.Kind]string{reflect.Bool: TypeFlag, reflect.Int: TypeNumber}[of.Kind()], TypeText)
}

// suggestions are likely values of a text in this drill.
func (s *Session) suggestions(path string) []string {
	scenario := s.options.Scenario
	var nodes []string
	if scenario.Graph != nil {
		for _, node := range scenario.Graph.Nodes {
			nodes = append(nodes, node.Name)
		}
	}
	switch path {
	case "network.link":
		links := []string{"brokers"}
		if s.subject().Kafka() == nil {
			links = append(links, "downstream")
		}
		for broker := range scenario.Cluster.Brokers {
			links = append(links, "broker "+strconv.Itoa(broker+1))
		}
		if scenario.Topics.DLQ.Broker > 0 {
			links = append(links, "dlq")
		}
		if scenario.Store != nil && scenario.Store.Engine != scenarios.EngineSQLite {
			links = append(links, network.LinkStore)
		}
		for _, node := range nodes {
			links = append(links, network.DownstreamOf(node))
		}
		return append(links, s.subjectLinks()...)
	case "downstream.name":
		names := []string{}
		for _, one := range s.subject().Downstreams {
			names = append(names, one.Called())
		}
		return names
	case "kafka.topic":
		return []string{"dlq", "input", "retry"}
	case "kafka.error":
		return kafka.ErrorNames()[:min(len(kafka.ErrorNames()), maxSuggestions)]
	case "subject.node", "downstream.node":
		return nodes
	case "subject.process", "store.process":
		return s.storeProcesses()
	}
	return nil
}

// loadSubject returns the subject's file, an empty one for the reference consumer.
func (s *Session) loadSubject() *scenarios.SubjectFile {
	if s.options.SubjectFile != "" {
		if file, err := scenarios.LoadSubject(s.options.SubjectFile); err == nil {
			return file
		}
	}
	return &scenarios.SubjectFile{}
}

// subjectLinks are the links that only the subject's file asks for.
func (s *Session) subjectLinks() (links []string) {
	file := s.subject()
	if len(file.Formats()) > 0 {
		links = append(links, network.LinkRegistry)
	}
	if len(file.Downstreams) == 0 {
		return links
	}
	for _, one := range file.Called()[1:] {
		if one.Kafka == nil {
			links = append(links, history.TargetOther+one.Called())
		}
	}
	return links
}

func (s *Session) storeProcesses() []string {
	store := s.options.Scenario.Store
	if store == nil {
		return nil
	}
	var all []string
	for number := range store.Workers {
		all = append(all, "worker "+strconv.Itoa(number))
	}
	for number := range store.Routers {
		all = append(all, "router "+strconv.Itoa(number))
	}
	return all
}

// valueAt is the value at a path of keys, or nil.
func valueAt(spec map[string]any, path string) any {
	var value any = spec
	for key := range strings.SplitSeq(path, ".") {
		in, is := value.(map[string]any)
		if !is {
			return nil
		}
		value = in[key]
	}
	if number, is := value.(json.Number); is {
		return number.String()
	}
	return value
}
