package clients_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// franz is this test program as a client.
func (r *rig) franz(t *testing.T, mode string, count int) *exec.Cmd {
	t.Helper()
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(own, r.bootstrap, r.input, r.output, r.group, strconv.Itoa(count))
	command.Env = append(os.Environ(), roleVariable+"="+mode)
	return command
}

// job is what every client is told: where Kafka is, and to copy so many records.
type job struct {
	bootstrap            []string
	input, output, group string
	count                int
}

func franzClient(mode string, arguments []string) error {
	if len(arguments) != 5 {
		return fmt.Errorf("wrong arguments: %q", arguments)
	}
	count, err := strconv.Atoi(arguments[4])
	if err != nil {
		return err
	}
	j := job{strings.Split(arguments[0], ","), arguments[1], arguments[2], arguments[3], count}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	switch mode {
	case "classic", "consumer":
		return j.copy(ctx, mode == "consumer")
	case "transactions":
		return j.copyOnce(ctx)
	case "share":
		return j.share(ctx)
	case "exactly-once", "leaky":
		return j.exactlyOnce(ctx, mode == "leaky")
	}
	return fmt.Errorf("there is no mode %q", mode)
}

func (j job) options() []kgo.Opt {
	return []kgo.Opt{
		kgo.SeedBrokers(j.bootstrap...), kgo.ConsumeTopics(j.input), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.ConsumerGroup(j.group), kgo.DefaultProduceTopic(j.output), kgo.FetchMaxWait(500e6),
	}
}

// copy copies, and commits what was copied.
func (j job) copy(ctx context.Context, nextGeneration bool) error {
	options := append(j.options(), kgo.DisableAutoCommit())
	if nextGeneration {
		options = append(options, kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer()))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return err
	}
	defer client.Close()
	seen := map[string]bool{}
	for len(seen) < j.count {
		fetches := client.PollRecords(ctx, 50)
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("after %d records: %w", len(seen), err)
		}
		var out []*kgo.Record
		fetches.EachRecord(func(r *kgo.Record) {
			seen[string(r.Value)] = true
			out = append(out, &kgo.Record{Value: r.Value})
		})
		if err := client.ProduceSync(ctx, out...).FirstErr(); err != nil {
			return err
		}
		if err := client.CommitUncommittedOffsets(ctx); err != nil {
			fmt.Println("a commit failed:", err)
		}
	}
	return nil
}

// copyOnce copies in transactions: offsets and copies together.
func (j job) copyOnce(ctx context.Context) error {
	session, err := kgo.NewGroupTransactSession(append(j.options(), kgo.TransactionalID(j.group),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()))...)
	if err != nil {
		return err
	}
	defer session.Close()
	seen := map[string]bool{}
	for len(seen) < j.count {
		fetches := session.PollRecords(ctx, 50)
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("after %d records: %w", len(seen), err)
		}
		if fetches.NumRecords() == 0 {
			continue
		}
		if err := session.Begin(); err != nil {
			return err
		}
		var inside []string
		fetches.EachRecord(func(r *kgo.Record) {
			inside = append(inside, string(r.Value))
			session.Produce(ctx, &kgo.Record{Value: r.Value}, func(_ *kgo.Record, err error) {
				if err != nil {
					fmt.Println("a write failed:", err)
				}
			})
		})
		committed, err := session.End(ctx, kgo.TryCommit)
		if err != nil {
			return err
		}
		for _, one := range inside {
			if committed {
				seen[one] = true
			}
		}
	}
	return nil
}

// metadataAge bounds how long a client of a share group goes by leaders that are none any more: what it is told of a
// move may be lost with a connection.
const metadataAge = 5 * time.Second

func (j job) shareOptions() []kgo.Opt {
	return []kgo.Opt{
		kgo.SeedBrokers(j.bootstrap...), kgo.ConsumeTopics(j.input), kgo.ShareGroup(j.group), kgo.ShareMaxRecords(50),
		kgo.DefaultProduceTopic(j.output), kgo.MetadataMaxAge(metadataAge),
	}
}

// share copies as a member of a share group: each seventh record is released at its first delivery, each eleventh is
// rejected once it is copied.
func (j job) share(ctx context.Context) error {
	client, err := kgo.NewClient(j.shareOptions()...)
	if err != nil {
		return err
	}
	defer client.Close()
	seen, number := map[string]bool{}, 0
	for len(seen) < j.count {
		fetches := client.PollRecords(ctx, 50)
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("after %d records: %w", len(seen), err)
		}
		for _, r := range fetches.Records() {
			number++
			if number%7 == 0 && r.DeliveryCount() == 1 {
				r.Ack(kgo.AckRelease)
				continue
			}
			if err := client.ProduceSync(ctx, &kgo.Record{Value: r.Value}).FirstErr(); err != nil {
				return err
			}
			seen[string(r.Value)] = true
			if number%11 == 0 {
				r.Ack(kgo.AckReject)
			} else {
				r.Ack(kgo.AckAccept)
			}
		}
		if err := client.FlushAcks(ctx); err != nil {
			fmt.Println("acknowledging failed:", err)
		}
	}
	return nil
}

func TestFranzGo(t *testing.T) {
	c := startCluster(t)
	for _, mode := range []string{"classic", "consumer", "transactions"} {
		t.Run(mode, func(t *testing.T) {
			r := c.newRig(t)
			r.exercise(t, r.franz(t, mode, records))
			r.expectGroup(t)
		})
	}
	t.Run("share", func(t *testing.T) {
		r := c.newRig(t)
		r.beginEarly(t)
		defer r.showUnfinished(t)
		r.meanwhile = r.free
		r.exercise(t, r.franz(t, "share", records))
		r.expectShareGroup(t)
	})
	t.Run("stranded", func(t *testing.T) {
		r := c.newRig(t)
		r.beginEarly(t)
		r.freesStranded(t)
	})
}
