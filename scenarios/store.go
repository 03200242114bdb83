package scenarios

// The dead-letter store of a run: what is written, what it means, and what can be wrong with it.

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/dlqbench/dlqbench/faults"
	"github.com/dlqbench/dlqbench/faults/catalogue"
	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/units"
)

// The words of Store.
const (
	EngineSQLite   = "sqlite"
	EnginePostgres = "postgres"
	EngineMongoDB  = "mongodb"

	RetryByCall      = "call"
	RetryByRepublish = "republish"
)

// Store adds a dead-letter store to the run: a database, routers that take the dead letters into it, and workers that
// try them again, each a process of its own. They are no instances of the subject.
type Store struct {
	// Engine: sqlite (default; a file in the run's folder), postgres (a private instance of the server programs on this
	// machine, or the one at url) or mongodb (the one at url, or of DLQBENCH_MONGODB_URL, in which the run makes a
	// database of its own and removes it).
	Engine string `json:"engine,omitempty" jsonschema:"enum=sqlite,enum=postgres,enum=mongodb"`
	// URL of a database that is there already, postgres://USER:PASSWORD@HOST:PORT/NAME or mongodb://…/NAME; its tables
	// must not exist yet, and are left behind.
	URL string `json:"url,omitempty"`
	// Vocabulary of the status column: lifecycle (default; dlq_pending …) or management (pending, reprocessing,
	// resolved, discarded).
	Vocabulary string `json:"vocabulary,omitempty" jsonschema:"enum=lifecycle,enum=management"`
	// Workers are processes with one worker each, 1 to 16; default 2. Routers: 1 to 4; default 1.
	Workers int `json:"workers,omitempty" jsonschema:"minimum=1,maximum=16"`
	Routers int `json:"routers,omitempty" jsonschema:"minimum=1,maximum=4"`
	// Retry is how workers try an entry: call (default; the downstream answers by Outcomes) or republish (to the
	// record's topic, where the subject has it again and succeeds).
	Retry string `json:"retry,omitempty" jsonschema:"enum=call,enum=republish"`
	// TimeScale is how many times faster than real the times below and those of the strategies go; default 600: a
	// minute is 100 ms.
	TimeScale float64 `json:"time_scale,omitempty" jsonschema:"minimum=1,maximum=1000000"`
	// PollInterval is how often a worker looks for entries, default 30s; Lease how long a lock holds, default 5m. Both
	// are scaled.
	PollInterval units.Duration `json:"poll_interval,omitempty"`
	Lease        units.Duration `json:"lease,omitempty"`
	// BatchSize is how many entries a worker locks at a time, default 10; Concurrency how many of them it tries at a
	// time, default 5.
	BatchSize   int `json:"batch_size,omitempty" jsonschema:"minimum=1,maximum=1000"`
	Concurrency int `json:"concurrency,omitempty" jsonschema:"minimum=1,maximum=100"`
	// MaxRetries by workers before an entry has failed; default 5.
	MaxRetries int `json:"max_retries,omitempty" jsonschema:"minimum=1,maximum=100"`
	// OffPeakHours are when scheduled entries are tried, default 2, 3 and 4, in OffPeakZone, default UTC. The calendar
	// is scaled, and shows the real time at midnight UTC.
	OffPeakHours []int  `json:"off_peak_hours,omitempty" jsonschema:"minItems=1,maxItems=24"`
	OffPeakZone  string `json:"off_peak_zone,omitempty"`
	// Probe gives workers a health probe, which they ask before conditional retries: it says that all is well unless a
	// fault (store: {unhealthy: …}) lets it say something else. Without it such entries are tried with the waits of the
	// immediate strategy.
	Probe bool `json:"probe,omitempty"`
	// Retention starts a process that applies the retention of "Dead Letter Queue Lifecycle": resolved entries are
	// deleted after 30 days, failed ones archived after 90.
	Retention *StoreRetention `json:"retention,omitempty"`
	// Late is what is allowed beyond every time, in real time; default 500ms.
	Late units.Duration `json:"late,omitempty"`
	// Outcomes are the weights of what the downstream answers workers (retry: call); default: success 100.
	Outcomes Outcomes `json:"outcomes,omitempty"`
}

// StoreRetention says how fast its time goes.
type StoreRetention struct {
	// TimeScale is that of the retention; default 1000000: 30 days are 2.6 s.
	TimeScale float64 `json:"time_scale,omitempty" jsonschema:"minimum=1,maximum=1000000"`
	// Every is how often it is applied, scaled; default 24h.
	Every units.Duration `json:"every,omitempty"`
}

// UnmarshalJSON reads a retention over its defaults.
func (r *StoreRetention) UnmarshalJSON(data []byte) error {
	type plain StoreRetention
	*r = defaultRetention()
	return json.Unmarshal(data, (*plain)(r))
}

func defaultRetention() StoreRetention {
	return StoreRetention{TimeScale: 1e6, Every: units.Duration(24 * time.Hour)}
}

// contract is what is kept how long in this run; the times are those of the document.
func (r *StoreRetention) contract() *history.Retention {
	const day = 24 * time.Hour
	scaled := func(d time.Duration) time.Duration { return time.Duration(float64(d) / r.TimeScale) }
	return &history.Retention{Resolved: scaled(30 * day), Failed: scaled(90 * day), Archived: scaled(365 * day),
		Sweep: scaled(r.Every.D())}
}

// Keepers is how many processes apply the retention.
func (s *Store) Keepers() int {
	if s.Retention == nil {
		return 0
	}
	return 1
}

// UnmarshalJSON reads a store over its defaults.
func (s *Store) UnmarshalJSON(data []byte) error {
	type plain Store
	filled := plain(defaultStore())
	if err := json.Unmarshal(data, &filled); err != nil {
		return err
	}
	if filled.Outcomes == (Outcomes{}) {
		filled.Outcomes.Success = 100
	}
	*s = Store(filled)
	return nil
}

func defaultStore() Store {
	return Store{
		Engine: EngineSQLite, Vocabulary: "lifecycle", Workers: 2, Routers: 1, Retry: RetryByCall, TimeScale: 600,
		PollInterval: units.Duration(30 * time.Second),
		Lease:        units.Duration(5 * time.Minute), BatchSize: 10, Concurrency: 5, MaxRetries: 5,
		OffPeakHours: []int{2, 3, 4}, OffPeakZone: "UTC", Late: units.Duration(500 * time.Millisecond),
	}
}

// Real is a nominal time as it is kept.
func (s *Store) Real(nominal time.Duration) time.Duration {
	return time.Duration(float64(nominal) / max(s.TimeScale, 1))
}

// Contract is what the store and its service promise with these settings; epoch is when the run's clock began.
func (s *Store) Contract(epoch time.Time, group string) *history.StoreContract {
	contract := &history.StoreContract{
		Engine: s.Engine, Vocabulary: s.Vocabulary, Workers: s.Workers, Routers: s.Routers, Group: group,
		MaxRetries: s.MaxRetries,
		Poll:       s.Real(s.PollInterval.D()), Lease: s.Real(s.Lease.D()), Late: s.Late.D(),
		Success: history.SuccessProcessed,
		// A question to the store may take 5 s until it is given up, and the pause after a failure grows to as much.
		Recovery: 10 * time.Second, Probed: s.Probe,
		OffPeak: &history.OffPeak{Hours: s.OffPeakHours, Zone: s.OffPeakZone, Scale: s.TimeScale, Epoch: epoch.UnixNano()},
	}
	// "Dead Letter Queue Lifecycle": 1min → 5min → 15min → 30min → 1hr.
	for _, minutes := range []time.Duration{1, 5, 15, 30, 60} {
		contract.Waits = append(contract.Waits, s.Real(minutes*time.Minute))
	}
	if s.Retention != nil {
		contract.Retention = s.Retention.contract()
	}
	if s.Retry == RetryByRepublish {
		contract.Success = history.SuccessPublished
	}
	return contract
}

// checkStore checks what the schema can't say of the store.
func (c *checker) checkStore() {
	s := c.s.Store
	if s == nil || !c.allSound("/store") {
		return
	}
	c.refuseIf(c.s.Graph != nil, "/store",
		"a graph has a dead-letter topic for each node, and a store takes those of one: leave one of the two out")
	if reference := c.s.Subject.Reference; reference != nil && !reference.DLQEnabled {
		c.at("/store", "with dlq_enabled: false there are no dead letters to keep: leave store out")
	}
	if _, err := time.LoadLocation(s.OffPeakZone); err != nil {
		c.at("/store/off_peak_zone", "%q is not a time zone: write one such as Europe/Berlin", s.OffPeakZone)
	}
	for i, hour := range s.OffPeakHours {
		c.refuseIf(hour < 0 || hour > 23, fmt.Sprintf("/store/off_peak_hours/%d", i), "%d is no hour of the day: 0 to 23",
			hour)
	}
	begins := map[string]string{EnginePostgres: "postgres", EngineMongoDB: "mongodb:"}[s.Engine]
	c.refuseIf(s.URL != "" && (begins == "" || !strings.HasPrefix(s.URL, begins)), "/store/url",
		"a url goes with engine: postgres, and begins with postgres://, or with engine: mongodb, and begins with mongodb://")
	c.refuseIf(s.Real(s.PollInterval.D()) < 5*time.Millisecond, "/store/time_scale",
		"at this scale a worker would look for entries more often than every 5 ms: raise poll_interval")
	c.refuseIf(s.Real(s.Lease.D()) < 200*time.Millisecond, "/store/time_scale",
		"at this scale a lock would hold for less than 200 ms, and a busy machine would lose it: raise lease")
	if partitions := c.s.Topics.DLQ.Partitions; c.allSound("/topics") && s.Routers > partitions {
		c.at("/store/routers", "%d routers share a dead-letter topic of %d partitions, so that one would have nothing to "+
			"read: lower routers, or raise topics.dlq.partitions", s.Routers, partitions)
	}
	c.refuseIf(c.has("/store/outcomes") && s.Retry != RetryByCall, "/store/outcomes",
		"outcomes go with retry: call; with retry: republish the subject has the record again, and succeeds with it")
}

// Resolve returns the fault as it is carried out: the store's processes are numbered behind the instances of the
// subject, routers first.
func (s *Store) Resolve(spec catalogue.Spec, instances int) catalogue.Spec {
	if s == nil || spec.Subject == nil || spec.Subject.Process == "" {
		return spec
	}
	kind, number, err := faults.ReadProcess(spec.Subject.Process)
	if err != nil {
		return spec
	}
	slot := instances + number
	if kind == "worker" {
		slot += s.Routers
	}
	subject := *spec.Subject
	subject.Instance, spec.Subject = &slot, &subject
	return spec
}

// fixed says why faults can't stop the database; "" if it is a server of the run's own.
func (s *Store) fixed() string {
	switch {
	case s.Engine == EngineSQLite:
		return "with engine: sqlite the database is a file in the processes that use it, so there is no server that could " +
			"end: write engine: postgres"
	case s.Engine == EngineMongoDB:
		return "a MongoDB is never the run's own, so the run can't end it: write engine: postgres"
	case s.URL != "":
		return "the server at store.url is not the run's to end: leave url out, with engine: postgres, for a private one"
	}
	return ""
}
