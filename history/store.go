package history

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// StoreState is the lifecycle state of an entry in a dead-letter store, independent of the word that the table uses.
type StoreState string

// The states, from "Dead Letter Queue Lifecycle", and two more: StoreAbsent is an entry that does not exist (not yet,
// or no longer), StoreUnknown one whose status word is not in the contract.
const (
	StorePending    StoreState = "pending"
	StoreProcessing StoreState = "processing"
	StoreResolved   StoreState = "resolved"
	StoreFailed     StoreState = "failed"
	StoreManual     StoreState = "manual"
	StoreArchived   StoreState = "archived"
	StoreAbsent     StoreState = "absent"
	StoreUnknown    StoreState = "unknown"
)

// Success is the evidence that a worker needs before it may mark an entry as resolved.
type Success string

// The kinds of success: an attempt that the downstream answered, or a republish that the broker acknowledged.
const (
	SuccessProcessed Success = "processed"
	SuccessPublished Success = "published"
)

// StoreContract is what a dead-letter store and its service (router, workers, retention) promise. Times are those of
// the run: a scaled schedule is written as it is kept. A zero promises nothing.
type StoreContract struct {
	// Engine is the database (sqlite, postgres, mongodb); Vocabulary names the status words.
	Engine     string `json:"engine"`
	Vocabulary string `json:"vocabulary"`
	// Workers and Routers are how many processes of the service the run has; 0 of both is a store of the user's own,
	// whose service the run doesn't know.
	Workers int `json:"workers"`
	Routers int `json:"routers"`
	// Group is the routers' consumer group.
	Group string `json:"group,omitempty"`
	// MaxRetries is how often workers try an entry.
	MaxRetries int `json:"max_retries,omitempty"`
	// Waits are the least waits of the strategy immediate_retry: Waits[k] from when retry k failed until the next may
	// begin, Waits[0] from when the entry was given the strategy. The last one holds for all that follow.
	Waits []time.Duration `json:"waits_ns,omitempty"`
	// OffPeak is when the strategy scheduled_retry may try.
	OffPeak *OffPeak `json:"off_peak,omitempty"`
	// Probed: workers ask a health probe of the run's before they try an entry by the strategy conditional_retry.
	Probed bool `json:"probed,omitempty"`
	// Poll is how often a worker asks for work, Lease how long a lock holds unless it is renewed, Late what is allowed
	// beyond every time.
	Poll  time.Duration `json:"poll_ns,omitempty"`
	Lease time.Duration `json:"lease_ns,omitempty"`
	Late  time.Duration `json:"late_ns,omitempty"`
	// Recovery is how long after a fault on its connections a process of the service may take until it is at work
	// again.
	Recovery time.Duration `json:"recovery_ns,omitempty"`
	// Success is what "resolved" means.
	Success Success `json:"success"`
	// ByHand: people act on entries during the run, with what the documents let them do.
	ByHand    bool       `json:"by_hand,omitempty"`
	Retention *Retention `json:"retention,omitempty"`
}

// OffPeak are hours of the day in Zone, by a calendar that goes Scale times as fast as the clock and agrees with it at
// each midnight, UTC.
type OffPeak struct {
	Hours []int   `json:"hours"`
	Zone  string  `json:"zone"`
	Scale float64 `json:"scale"`
	// Epoch is the wall-clock time (Unix, in ns) at which the run's clock began.
	Epoch int64 `json:"epoch_unix_ns"`
}

// Calendar returns the time of the scaled calendar at a time of the run.
func (o *OffPeak) Calendar(at time.Duration) time.Time {
	wall := time.Unix(0, o.Epoch).UTC().Add(at)
	midnight := wall.Truncate(24 * time.Hour)
	return midnight.Add(time.Duration(float64(wall.Sub(midnight)) * max(o.Scale, 1)))
}

// Retention is how long entries are kept after they came to their end; 0: for ever. Sweep is how often that is looked
// after.
type Retention struct {
	Resolved time.Duration `json:"resolved_ns"`
	Failed   time.Duration `json:"failed_ns"`
	Archived time.Duration `json:"archived_ns"`
	Sweep    time.Duration `json:"sweep_ns"`
}

// The Instances of the store's service. Routers and workers are numbered from 0, separately.
const (
	firstRouter = -200
	firstWorker = -400
	firstKeeper = -600
	// ProcessLimit is the maximum number of processes of each kind in a run.
	ProcessLimit = 100
)

// Router returns the Instance of router n; n must be below ProcessLimit.
func Router(n int) int16 { return int16(firstRouter + n) }

// Worker returns the Instance of worker n; see Router.
func Worker(n int) int16 { return int16(firstWorker + n) }

// Keeper returns the Instance of process n that applies the retention; see Router.
func Keeper(n int) int16 { return int16(firstKeeper + n) }

// OfStore reports whether the Instance is a process of the store's service.
func OfStore(instance int16) bool {
	kind, _ := StoreProcess(instance)
	return kind != ""
}

// StoreProcess returns the kind and number of a process of the store's service: "router", "worker" or "keeper". The
// kind is "" for any other Instance.
func StoreProcess(instance int16) (kind string, number int) {
	switch at := int(instance); {
	case at >= firstRouter && at < firstRouter+ProcessLimit:
		return "router", at - firstRouter
	case at >= firstWorker && at < firstWorker+ProcessLimit:
		return "worker", at - firstWorker
	case at >= firstKeeper && at < firstKeeper+ProcessLimit:
		return "keeper", at - firstKeeper
	}
	return "", None
}

// StoreChange is the decoded Text of a KindStoreChange or KindStoreEntry event.
type StoreChange struct {
	From, To StoreState
	// By is the owner of the entry's lock, "" if it is unlocked. Strategy is the retry strategy. Word is the status
	// word itself if it is unknown.
	By, Strategy, Word string
	// Next is the earliest time of the next retry, Lease the time until which the entry is locked. Both are times of
	// the database's clock, converted to the run's clock; None if there is none.
	Next, Lease time.Duration
	// Hand: the table attributes the change to a person.
	Hand bool
}

// String returns the change as it stands in Text: "pending>processing by=worker-1 next=1200000 lease=2400000". Words
// with blanks are escaped as in URLs.
func (c StoreChange) String() string {
	var b strings.Builder
	b.WriteString(string(c.From) + ">" + string(c.To))
	for _, one := range []struct{ name, value string }{{"by", c.By}, {"strategy", c.Strategy}, {"word", c.Word}} {
		if one.value != "" {
			b.WriteString(" " + one.name + "=" + url.QueryEscape(one.value))
		}
	}
	for _, one := range []struct {
		name  string
		value time.Duration
	}{{"next", c.Next}, {"lease", c.Lease}} {
		if one.value != None {
			b.WriteString(" " + one.name + "=" + strconv.FormatInt(int64(one.value), 10))
		}
	}
	if c.Hand {
		b.WriteString(" hand=true")
	}
	return b.String()
}

// ParseStoreChange reverses String. It ignores unknown names, so that a later version may add some.
func ParseStoreChange(text string) (StoreChange, error) {
	c := StoreChange{Next: None, Lease: None}
	states, rest, _ := strings.Cut(text, " ")
	from, to, both := strings.Cut(states, ">")
	if !both || from == "" || to == "" {
		return c, fmt.Errorf(
			"reading the change of an entry: %.60q does not begin with two states, such as pending>processing", text)
	}
	c.From, c.To = StoreState(from), StoreState(to)
	for word := range strings.FieldsSeq(rest) {
		name, escaped, _ := strings.Cut(word, "=")
		value, err := url.QueryUnescape(escaped)
		switch name {
		case "by":
			c.By = value
		case "strategy":
			c.Strategy = value
		case "word":
			c.Word = value
		case "next", "lease":
			var ns int64
			if ns, err = strconv.ParseInt(value, 10, 64); name == "next" {
				c.Next = time.Duration(ns)
			} else {
				c.Lease = time.Duration(ns)
			}
		case "hand":
			c.Hand = value == "true"
		}
		if err != nil {
			return c, fmt.Errorf("reading the change of an entry: %.60q: %w", word, err)
		}
	}
	return c, nil
}
