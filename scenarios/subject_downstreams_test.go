package scenarios

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
)

func TestProblemsOfSeveralDownstreams(t *testing.T) {
	const several = "downstreams: [{name: pay, http: {}}, {name: shop, postgres: {}}, {name: out, kafka: {topic: t}}"
	for _, one := range [][2]string{
		{several + "]", ""},
		{"downstreams: [{http: {}}, {name: other, http: {}}, {postgres: {}}]", ""},
		{"downstreams: [{http: {}}, {postgres: {}, decides: true}]", ""},
		{"downstreams: [{http: {}}, {postgres: {batch: true}, decides: true}]", ""},
		{"downstreams: [{http: {}}, {postgres: {}, optional: true}]", ""},
		{several + "]\nenv: {A: \"{{.DownstreamURLs.pay}} {{.DownstreamURLs.shop}}\"}", ""},
		{several + "]\ncontract: {effects: {}}", ""},
		{several + ", {name: pay, http: {}}]", "downstreams[0] is called " + "pay already"},
		{several + ", {name: other, postgres: {}}]", "there can be one database"},
		{several + ", {name: two, kafka: {topic: t}}]", "t is the output topic already"},
		{several + ", {name: two, kafka: {topic: u}}]\ncontract: {effects: {}}", "topic is missing in effects"},
		{several + "]\nenv: {A: \"{{.DownstreamURLs.shoop}}\"}", "there is no shoop in " + "downstreams"},
		{several + "]\nenv: {A: \"{{.DownstreamURLs.out}}\"}", "there is no out in " + "downstreams that has an address"},
		{"downstreams: [{http: {}}, {name: Two, http: {}}]", "name"},
		{"downstreams: [{http: {}, optional: true}]", "its calls can't be optional"},
		{"downstreams: [{http: {}, decides: true}, {postgres: {}, decides: true}]", "downstreams[0] decides already"},
		{"downstreams: [{http: {}}, {}]", "a downstream is of one kind"},
		{"downstreams: [{http: {}}, {postgres: {statements: \"(\"}}]", "this is not a regular expression"},
		{"downstreams: [" + strings.Repeat("{name: a, http: {}}, ", 8) + "{http: {}}]", "there can be 8 downstreams at most"},
		{"contract: {classes: {retryable: [503]}}\ndownstreams: [{http: {}}, {postgres: {}}]", ""},
	} {
		text, want := one[0], one[1]
		_, err := ParseSubject("subject.yaml", []byte(service+text+"\n"))
		var problems *Problems
		if want == "" && err != nil || want != "" && (!errors.As(err, &problems) || !strings.Contains(err.Error(), want)) {
			t.Errorf("%.200s\n%.600v\nwant a problem with %q", text, err, want)
		}
	}
}

func TestTheOneThatDecidesComesFirst(t *testing.T) {
	subject, err := ParseSubject("subject.yaml", []byte(service+
		"downstreams: [{http: {}}, {postgres: {}, decides: true}, {name: out, kafka: {topic: t}}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, one := range subject.Called() {
		names = append(names, one.Called())
	}
	if got := strings.Join(names, " "); got != "postgres http out" || subject.Postgres() == nil || subject.HTTP() != nil ||
		subject.Kafka() != nil || len(subject.Outputs()) != 1 || strings.Join(subject.OutputTopics(), " ") != "t" {
		t.Errorf("calls %s", got)
	}
}

// What begins and ends an attempt is in the contract, whatever the calls are made over.
func TestAttemptsHaveSeveralCalls(t *testing.T) {
	for text, want := range map[string]string{
		"{http: {attempt: {first: GET /a/*, last: /b}}}": "GET /a/* /b", "{http: {}}": " ",
		"{grpc: {attempt: {first: /a.B/C, last: /a.B/D}}}": "/a.B/C /a.B/D", "{grpc: {}}": " ",
		"{grpc: {}}, {http: {}}": " ", "{kafka: {topic: t}}": " ",
	} {
		subject, err := ParseSubject("subject.yaml", []byte(service+"downstreams: ["+text+"]\n"))
		if err != nil {
			t.Fatal(err)
		}
		contract, err := subject.HistoryContract()
		if got := contract.FirstCall + " " + contract.LastCall; err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", text, got, err, want)
		}
		about, err := subject.Describe()
		if all := strings.Join(about.Lines(500), "\n"); err != nil ||
			strings.Contains(all, "belong to attempts to process") != (want != " ") {
			t.Errorf("%s: %v\n%s", text, err, all)
		}
	}
}

// A fault names a downstream of the subject; without a name it concerns the one that decides.
func TestFaultsNameDownstreams(t *testing.T) {
	dir := inFolder(t, map[string]string{
		"several.yaml": service + "downstreams: [{name: pay, http: {}}, {name: shop, postgres: {}}, " +
			"{name: out, kafka: {topic: t}}]\n",
		"one.yaml":   service + "downstreams: [{http: {}}]\n",
		"usual.yaml": service,
	})
	for _, one := range []struct{ subject, fault, want string }{
		{"several.yaml", "downstream: {outage: true}", ""},
		{"several.yaml", "downstream: {name: shop, outage: true}", ""},
		{"several.yaml", "downstream: {name: pay, hang: true}", ""},
		{"several.yaml", "downstream: {name: out, errors: {transient: 5%}}", ""},
		{"several.yaml", "downstream: {name: out, hang: true}", "which can only be refused"},
		{"several.yaml", "downstream: {name: shp, outage: true}", "there is no downstream shp: name one of downstreams in " +
			"subject.yaml (pay, shop, out)"},
		{"several.yaml", "network: {link: downstream, down: true}", ""},
		{"several.yaml", "network: {link: downstream shop, down: true}", ""},
		{"several.yaml", "network: {link: downstream out, down: true}", "so there is no link \"downstream out\""},
		{"several.yaml", "network: {link: downstream shp, down: true}", "there is no link"},
		{"one.yaml", "downstream: {name: http, outage: true}", ""},
		{"usual.yaml", "downstream: {name: http, outage: true}", "the subject has one, without a name"},
	} {
		scenario := "name: x\ndescription: x\nworkload: {rate: 10/s, duration: 2s}\nfaults: [{at: 0s, for: 1s, " + one.fault +
			"}]\n"
		_, _, err := ParseForSubject("x.yaml", []byte(scenario), nil, filepath.Join(dir, one.subject))
		if one.want == "" && err != nil || one.want != "" && (err == nil || !strings.Contains(err.Error(), one.want)) {
			t.Errorf("%s, %s: %v, want %q", one.subject, one.fault, err, one.want)
		}
	}
}

func TestProblemsOfRepeatedCalls(t *testing.T) {
	for _, one := range [][2]string{
		{"{attempts: {max: 3, calls: 3}, backoff: {initial: 1s}}", ""},
		{"{attempts: {calls: 1}}", ""},
		{"{attempts: {calls: 3}}", "without a promised wait"},
		{"{attempts: {calls: 30}, backoff: {initial: 1s}}", "calls"},
		{"{attempts: {calls: 3}, backoff: {initial: 1s}}\nobserve: wire", "makes no calls"},
		{"{attempts: {calls: 3}, backoff: {initial: 1s}}\ndownstreams: [{kafka: {topic: t}}]", "is one attempt in any case"},
		{"{attempts: {calls: 3}, backoff: {initial: 1s}, retry: topics, retry_topics: r}", "calls goes with retry: in-place"},
		{"{attempts: {calls: 3}, backoff: {initial: 1s}, retry: redelivery, group_type: share}\n",
			"calls goes with retry: in-place"},
	} {
		contract, want := one[0], one[1]
		_, err := ParseSubject("subject.yaml", []byte(service+"contract: "+contract+"\n"))
		var problems *Problems
		if want == "" && err != nil || want != "" && (!errors.As(err, &problems) || !strings.Contains(err.Error(), want)) {
			t.Errorf("%.200s\n%.600v\nwant a problem with %q", contract, err, want)
		}
	}
}

func TestProblemsOfTLS(t *testing.T) {
	for _, one := range [][2]string{
		{"downstreams: [{http: {tls: true}}]\nenv: {A: \"{{.CAFile}}\", B: \"x={{.CATrustStore}}\"}", ""},
		{"downstreams: [{name: a, http: {}}, {name: b, grpc: {tls: true}}]\nenv: {A: \"{{.CAFile}}\"}", ""},
		{"downstreams: [{http: {http2: false}}]", ""},
		{"downstreams: [{http: {}}]\nenv: {A: \"{{.CAFile}}\"}", "nothing in downstreams has TLS: write tls: true"},
		{"env: {A: \"{{.CATrustStore}}\"}", "nothing in downstreams has TLS"},
		{"downstreams: [{http: {tls: yes}}]", "tls"},
		{"downstreams: [{http: {id: {in: body, at: order_id}}}]", "for the field order_id of a form, it is $.order_id"},
		{"downstreams: [{http: {id: {in: path, at: $.order_id}}}]", "it goes with in: body"},
		{"downstreams: [{kafka: {topic: t, tls: true}}]", "unknown key tls"},
	} {
		text, want := one[0], one[1]
		_, err := ParseSubject("subject.yaml", []byte(service+text+"\n"))
		var problems *Problems
		if want == "" && err != nil || want != "" && (!errors.As(err, &problems) || !strings.Contains(err.Error(), want)) {
			t.Errorf("%.200s\n%.600v\nwant a problem with %q", text, err, want)
		}
	}
	subject, err := ParseSubject("subject.yaml",
		[]byte(service+"downstreams: [{name: a, http: {}}, {name: b, http: {http2: false}}]\n"))
	if err != nil || !subject.Downstreams[0].HTTP.HTTP2 || subject.Downstreams[1].HTTP.HTTP2 {
		t.Errorf("HTTP/2 is %+v, %v", subject, err)
	}
}

func TestProblemsOfForward(t *testing.T) {
	for _, one := range [][2]string{
		{"downstreams: [{http: {attempt: {first: GET /a/*, last: /b}}}]", ""},
		{"downstreams: [{http: {attempt: {first: GET /a, last: /b}, routes: [{path: /a, method: PUT, status: 404}]}}]", ""},
		{"downstreams: [{http: {routes: [{path: /a, status: 202, attempt: true}]}}]", ""},
		{"downstreams: [{grpc: {attempt: {first: /a.B/C, last: /a.B/D}, routes: [{method: /a.B/E, attempt: true}]}}]", ""},
		{"downstreams: [{grpc: {attempt: {first: /a.B/C, last: /a.B/D}}}, {postgres: {}}]", ""},
		{"downstreams: [{http: {forward: \"http://127.0.0.1:8080/mocks\", routes: [{path: /a, forward: true}]}}]", ""},
		{"downstreams: [{http: {forward: \"http://localhost:8080\"}}]", ""},
		{"downstreams: [{http: {forward: \"http://{{.Needs.mock}}\"}}]\nneeds: [{name: mock, command: [mock]}]", ""},
		{"downstreams: [{http: {forward: \"http://{{.Needs.mock}}\"}}]", "there is no mock in needs"},
		{"downstreams: [{http: {forward: \"http://{{.Mock}}\"}}]", "there is no value {{.Mock}}"},
		{"downstreams: [{http: {forward: \"http://example.com:80\"}}]", "is on another machine"},
		{"downstreams: [{http: {forward: \"127.0.0.1:8080\"}}]", "does not name a stub: write it as http://"},
		{"downstreams: [{http: {routes: [{path: /a, forward: true}]}}]", "there is no stub to forward it to"},
	} {
		text, want := one[0], one[1]
		_, err := ParseSubject("subject.yaml", []byte(service+text+"\n"))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s\n%v\nwant a problem with %q", text, err, want)
		}
	}
}
