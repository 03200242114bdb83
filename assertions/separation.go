package assertions

// service-separation: services that share a dead-letter topic process separate records. Each attempts and dead-letters
// its own records. It handles another service's records only if the replay put them into a topic that it reads; that is
// a fault of the replay, which replay-round-trip reports.
//
// The tap stamps the replay's writes before the broker has them, so a service that received a record through the replay
// is never seen with it earlier.

import (
	"fmt"

	"github.com/dlqbench/dlqbench/history"
)

func separationInvariant() Invariant {
	return Invariant{
		Name:    serviceSeparation,
		Promise: "Services that share a dead-letter topic stay separate: each handles only its own records.",
		Rule: "A record belongs to the service to whose input topic the workload sent it. No instance of another " +
			"service calls the downstream with it or dead-letters it, unless the replay wrote it to a topic which that " +
			"service reads; that counts against the replay (replay-round-trip, replay-wrong-topic).",
		Evidence: "the workload's sends, the attempts by instance, the produce requests of the instances and of the " +
			"replay tool",
		Cause: "A service subscribes to a pattern that matches another's topics. The name of its retry topic comes " +
			"from a dead letter, or from a copied setting. Two services have the same name.",
		Anomalies: []AnomalyNote{
			{"another-services-record", "a service attempted or dead-lettered a record of another service that no " +
				"replay had given to it", []string{
				"2.000 s  the workload sends record 7 to input.orders",
				"2.010 s  an instance of billing calls the downstream with record 7",
			}},
		},
		of: "attempts and dead letters",
		needs: []precondition{{
			func(w *state) bool { return w.header.Shared() }, Inapplicable,
			"there are not several services that share a dead-letter topic",
		}},
		check: func(r *report) checker { return &separation{r, newHomes(r.w.header), map[loan]bool{}} },
		observes: []history.Kind{history.KindSend, history.KindAcked, history.KindAttemptStart,
			history.KindProduceRequest},
	}
}

const serviceSeparation = "service-separation"

type separation struct {
	*report
	homes homes
	lent  map[loan]bool
}

// loan is a record that the replay put into a topic of a service to which it does not belong.
type loan struct {
	record int32
	to     int
}

func (c *separation) observe(e *history.Event) {
	c.homes.take(e)
	home := c.homes.of(e.Record)
	if home < 0 {
		return
	}
	switch {
	case e.Kind == history.KindAttemptStart:
		c.judge(e, home, "attempted")
	case e.Kind == history.KindProduceRequest && e.Instance == history.Replayer:
		if to := c.w.header.ReaderOf(e.Topic); to >= 0 {
			c.lent[loan{e.Record, to}] = true
		}
	case e.Kind == history.KindProduceRequest && c.w.role(e.Topic) == history.RoleDLQ:
		c.judge(e, home, "dead-lettered")
	}
}

func (c *separation) judge(e *history.Event, home int, deed string) {
	by := c.w.header.ConsumerOf(e.Instance)
	if by < 0 {
		return
	}
	if by != home && c.lent[loan{e.Record, by}] {
		c.remark("put into its topic by the replay")
		return
	}
	c.result.Judged++
	if by == home {
		return
	}
	services, at := c.w.header.Consumers, e.Time
	c.saw("another-services-record", c.w.about(e.Record, 0, at, func() string {
		return fmt.Sprintf(
			"service %s %s it: it is a record of service %s, and no replay had put it into a topic that %s reads",
			services[by].Name, deed, services[home].Name, services[by].Name)
	}, moment{e.Kind, at}))
}

func (c *separation) finish() Result {
	return c.judgedOrNot(Inconclusive, "nothing was attempted or dead-lettered")
}
