package scenarios

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/faults/catalogue"
	"github.com/dlqbench/dlqbench/faults/subject"
	"github.com/dlqbench/dlqbench/history"
)

const withStore = `
name: with-store
description: A store.
subject: {reference: {instances: 2}}
workload: {rate: 10/s, duration: 4s, outcomes: {success: 90, exhausted: 10}}
store: `

func TestWhatAStorePromises(t *testing.T) {
	scenario, err := Parse("x", []byte(withStore+"{time_scale: 600, workers: 3, retention: {}}"))
	if err != nil {
		t.Fatal(err)
	}
	epoch := time.Date(2026, 2, 11, 12, 0, 0, 0, time.UTC)
	c := scenario.Store.Contract(epoch, "group")
	waits := []time.Duration{100 * time.Millisecond, 500 * time.Millisecond, 1500 * time.Millisecond, 3 * time.Second,
		6 * time.Second}
	if !slices.Equal(c.Waits, waits) || c.Poll != 50*time.Millisecond || c.Lease != 500*time.Millisecond ||
		c.MaxRetries != 5 || c.Workers != 3 || c.Routers != 1 ||
		c.Success != history.SuccessProcessed || c.OffPeak.Epoch != epoch.UnixNano() ||
		!slices.Equal(c.OffPeak.Hours, []int{2, 3, 4}) {
		t.Errorf("the contract is %+v", c)
	}
	if r := c.Retention; r.Resolved != 2592*time.Millisecond || r.Failed != 3*r.Resolved ||
		r.Sweep != 86400*time.Microsecond {
		t.Errorf("the retention is %+v", r)
	}
	// The store's processes are numbered behind the instances, routers first.
	resolved := scenario.Store.Resolve(catalogue.Spec{Subject: &subject.Subject{Process: "worker 1"}}, 2)
	if resolved.Subject.Instance == nil || *resolved.Subject.Instance != 2+1+1 {
		t.Errorf("worker 1 is in slot %v", resolved.Subject.Instance)
	}
}

func TestWhatIsWrongWithAStore(t *testing.T) {
	for store, want := range map[string]string{
		"{engine: stub}":                                   "engine",
		"{workers: 17}":                                    "17",
		"{off_peak_hours: [24]}":                           "24 is no hour of the day",
		"{off_peak_zone: Atlantis/Capital}":                "is not a time zone",
		"{url: postgres://x/y}":                            "a url goes with engine: postgres",
		"{time_scale: 60000}":                              "raise poll_interval",
		"{time_scale: 5000, lease: 1m, poll_interval: 5m}": "raise lease",
		"{retry: republish, outcomes: {success: 1}}":       "outcomes go with retry: call",
	} {
		if _, err := Parse("x", []byte(withStore+store)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v does not say %q", store, err, want)
		}
	}
	narrow := strings.Replace(withStore, "store: ", "topics: {dlq: {partitions: 1}}\nstore: ", 1)
	if _, err := Parse("x", []byte(narrow+"{routers: 2}")); err == nil || !strings.Contains(err.Error(), "lower routers") {
		t.Errorf("more routers than partitions: %v", err)
	}
	without := strings.Replace(withStore, "{instances: 2}", "{instances: 2, dlq_enabled: false}", 1)
	if _, err := Parse("x", []byte(without+"{workers: 1}")); err == nil ||
		!strings.Contains(err.Error(), "there are no dead letters to keep") {
		t.Errorf("without dead letters: %v", err)
	}
}

func TestAStoreOfTheSubjectsOwn(t *testing.T) {
	const subject = `
name: own
kind: process
command: [./own]
store:
  url: "sqlite:{{.WorkDir}}/letters.db"
  table: letters
  columns: {id: nr, status: state, payload: body}
  statuses: {OPEN: pending, DONE: resolved}
`
	file, err := ParseSubject("x", []byte(subject))
	if err != nil {
		t.Fatal(err)
	}
	rendered, err := file.Render(Values{WorkDir: "/here"})
	if err != nil || rendered.Store.URL != "sqlite:/here/letters.db" || rendered.Store.Poll.D() != 50*time.Millisecond {
		t.Errorf("rendered as %+v, %v", rendered.Store, err)
	}
	if c := file.Store.Contract(); c.Workers != 0 || c.Engine != "sqlite" ||
		file.Store.States()["DONE"] != history.StoreResolved {
		t.Errorf("the contract is %+v", c)
	}
	for from, to := range map[string]string{"DONE: resolved": "DONE: finished", "sqlite:{{": "mysql:{{",
		", payload: body": "", "{{.WorkDir}}": "{{.WorkDri}}"} {
		if _, err := ParseSubject("x", []byte(strings.Replace(subject, from, to, 1))); err == nil {
			t.Errorf("%q in the place of %q is taken", to, from)
		}
	}
}
