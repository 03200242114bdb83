package run

// A run with a dead-letter store: its database, the processes of its service, and the watching of its table from
// outside. Routers and workers run beside the subject, in the same group of processes: their slots follow those of
// the instances. In the history they have numbers of their own.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/dlqbench/dlqbench/faults"
	"github.com/dlqbench/dlqbench/faults/network"
	faultsubject "github.com/dlqbench/dlqbench/faults/subject"
	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/env/postgres"
	"github.com/dlqbench/dlqbench/internal/env/storewatch"
	"github.com/dlqbench/dlqbench/internal/env/subject"
	"github.com/dlqbench/dlqbench/internal/env/workload"
	"github.com/dlqbench/dlqbench/scenarios"
)

// watchStoreEvery is the interval at which the store is read.
const (
	watchStoreEvery = 20 * time.Millisecond
	watchMongoEvery = 50 * time.Millisecond // each look reads all documents
)

// storeStage is what a run with a dead-letter store starts in addition.
type storeStage struct {
	// address is the address of the database. linked is the address given to its service: through the link, if the
	// database is a server.
	address, linked string
	server          *postgres.Server // private, nil if there is none
	dropped         string           // database that the run created, and removes
	broken          breakage
	probe           *healthProbe // nil if workers use none
	stub            *workload.Stub
	watcher         *storewatch.Watcher
	bootstraps      map[int16]string
	downstreamURLs  map[int16]string
	// waiting are the entries that may be replayed, by record. selected are the ids of the entries that are replayed.
	waiting  map[int32][]string
	selected []string
}

// writeStore puts the promises of the store into the header.
func (r *run) writeStore() {
	if r.ownStore() != nil {
		r.header.Store = r.ownStore().Contract()
		return
	}
	if s := r.scenario.Store; s != nil {
		r.header.Store = s.Contract(time.Now().Add(-r.clock.Now()), r.dir.id+".dlq-router")
		r.header.Store.ByHand = r.scenario.Replay != nil
	}
}

// services returns the number of processes of the store's service.
func (r *run) services() int {
	if r.scenario.Store == nil {
		return 0
	}
	return r.scenario.Store.Routers + r.scenario.Store.Workers + r.scenario.Store.Keepers()
}

// service returns the Instance of the process in the slot, if that is a process of the store's service.
func (r *run) service(slot int) (instance int16, is bool) {
	n, s := slot-r.header.Instances, r.scenario.Store
	switch {
	case n < 0 || n >= r.services():
		return 0, false
	case n < s.Routers:
		return history.Router(n), true
	case n < s.Routers+s.Workers:
		return history.Worker(n - s.Routers), true
	}
	return history.Keeper(n - s.Routers - s.Workers), true
}

// renumbered gives the events of a slot of the store's service its Instance.
type renumbered struct{ r *run }

// Record implements history.Sink.
func (s renumbered) Record(event history.Event) {
	if instance, is := s.r.service(int(event.Instance)); is {
		event.Instance = instance
	}
	s.r.live.Record(event)
}

// openStore starts the database, makes its tables, and opens the taps, the link and the downstream of its service.
func (r *run) openStore(ctx context.Context) error {
	s := r.scenario.Store
	r.store.broken = breakage{offsets: map[int]time.Duration{}, watched: map[int]func(){},
		copies: map[topicPartition]map[int64]bool{}}
	switch {
	case r.ownStore() != nil && s != nil:
		return errors.New(
			"the subject has a dead-letter store of its own, and the scenario brings another: leave one of the two out")
	case r.ownStore() != nil:
		return r.openOwnStore()
	case s == nil:
		return nil
	}
	if err := r.openDatabase(ctx); err != nil {
		return err
	}
	if err := r.makeTables(ctx); err != nil {
		return err
	}
	if err := r.openProbe(); err != nil {
		return err
	}
	return r.openService()
}

// makeTables starts this program again to create the store's tables. The store is under judgement, so the harness
// shares no code with it.
func (r *run) makeTables(ctx context.Context) error {
	arguments := []string{"dlq", "migrate", "--audit"}
	if vocabulary := r.scenario.Store.Vocabulary; vocabulary != "" {
		arguments = append(arguments, "--vocabulary", vocabulary)
	}
	command := exec.CommandContext(ctx, r.options.Executable, arguments...)
	command.Env = append(os.Environ(), "DLQBENCH_STORE_URL="+r.store.address)
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("creating the tables of the dead-letter store: %w: %s", err, bytes.TrimSpace(output))
	}
	return nil
}

// openDatabase determines the location of the database: a file of the run, or a server behind the link "store". Runs
// kill processes but never cut the power, and a killed process loses nothing that it wrote. So commits do not wait
// for the disk. If they did, a disk that was busy with something else for seconds (a compiler's output) would stop
// every worker for as long, and planned faults would pass without an effect.
func (r *run) openDatabase(ctx context.Context) error {
	s := r.scenario.Store
	if s.Engine == scenarios.EngineSQLite {
		path, err := filepath.Abs(r.dir.file(fileStore))
		r.store.address = "sqlite:" + path
		r.store.linked = r.store.address + "?_pragma=synchronous(NORMAL)"
		return err
	}
	switch r.store.address = s.URL; {
	case s.Engine == scenarios.EngineMongoDB:
		if err := r.chooseMongo(); err != nil {
			return err
		}
	case s.URL == "":
		if err := r.startPostgres(ctx); err != nil {
			return err
		}
	}
	return r.linkStore()
}

// linkStore puts the link "store" before the existing server.
func (r *run) linkStore() error {
	address, err := url.Parse(r.store.address)
	if err != nil {
		return errors.New("reading the store's url: it is none") // it may hold a password
	}
	link, err := r.openLink(network.LinkStore, network.Upstream{Address: hostAndPort(address)}, 0)
	if err != nil {
		return err
	}
	address.Host = link.Address()
	if isMongo(address.Scheme) {
		// Without this, a client asks the server for the addresses of its replica set and goes there past the link.
		query := address.Query()
		query.Set("directConnection", "true")
		address.RawQuery = query.Encode()
	}
	r.store.linked = address.String()
	return nil
}

func isMongo(scheme string) bool { return scheme == "mongodb" }

// mongoVariable names the environment variable with the server of scenarios with engine: mongodb and no url.
const mongoVariable = "DLQBENCH_MONGODB_URL"

// chooseMongo determines the MongoDB to use. In a server from the environment, the run creates its own database and
// removes it at the end.
func (r *run) chooseMongo() error {
	if r.store.address != "" {
		return nil
	}
	address, err := url.Parse(os.Getenv(mongoVariable))
	switch {
	case os.Getenv(mongoVariable) == "":
		return fmt.Errorf("no MongoDB: this scenario needs one that runs: say store.url, or %s=mongodb://HOST:PORT/",
			mongoVariable)
	case err != nil || !isMongo(address.Scheme):
		return fmt.Errorf("%s: the address of a MongoDB is mongodb://HOST:PORT/", mongoVariable)
	}
	r.store.dropped = "dlqbench_" + strings.ReplaceAll(r.dir.id, ".", "_")
	address.Path = "/" + r.store.dropped
	r.store.address = address.String()
	return nil
}

// dropMongo removes the database that the run created.
func (r *run) dropMongo() error {
	if r.store.dropped == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), dropLimit)
	defer cancel()
	client, err := mongo.Connect(options.Client().ApplyURI(r.store.address))
	if err != nil {
		return fmt.Errorf("removing the database %s: %w", r.store.dropped, err)
	}
	if err := errors.Join(client.Database(r.store.dropped).Drop(ctx), client.Disconnect(ctx)); err != nil {
		return fmt.Errorf("removing the database %s: %w", r.store.dropped, err)
	}
	return nil
}

// dropLimit bounds the time for removing a database.
const dropLimit = 10 * time.Second

// startPostgres starts a server for this run alone.
func (r *run) startPostgres(ctx context.Context) error {
	var err error
	r.store.server, r.store.address, err = r.ownPostgres(ctx, "dead_letters", "",
		"(without faults that end the database) store.url")
	return err
}

func hostAndPort(address *url.URL) string {
	switch {
	case address.Port() != "":
		return address.Host
	case isMongo(address.Scheme):
		return address.Hostname() + ":27017"
	}
	return address.Hostname() + ":5432"
}

// openService opens a tap for every process of the service and, for the workers, the downstream stub, behind links
// like those of the subject.
func (r *run) openService() error {
	r.store.bootstraps, r.store.downstreamURLs = map[int16]string{}, map[int16]string{}
	for slot := r.header.Instances; slot < r.header.Instances+r.services(); slot++ {
		instance, _ := r.service(slot)
		bootstrap, err := r.tap.Open(int(instance))
		if err != nil {
			return err
		}
		r.store.bootstraps[instance] = bootstrap
	}
	s := r.scenario.Store
	var err error
	r.store.stub, err = workload.NewStub(workload.StubConfig{
		AttemptsConfig: workload.AttemptsConfig{
			Plan: r.plan.ForStore(s), IDs: r.ids, Instances: s.Workers, First: int(history.Worker(0)),
			Ops: &r.ops, Clock: r.clock, Sink: r.live,
		},
		Topics: r.header.Topics,
	})
	if err != nil {
		return err
	}
	for n := range s.Workers {
		name := fmt.Sprintf("downstream of worker %d", n)
		link, err := r.openLink(name, stub{Stub: r.store.stub}.Upstream(int(history.Worker(n))), 0, "downstream")
		if err != nil {
			return err
		}
		r.store.downstreamURLs[history.Worker(n)] = "http://" + link.Address()
	}
	return nil
}

// startStore begins to watch the store and starts its service. It returns when every process is ready.
func (r *run) startStore(ctx context.Context) error {
	if r.scenario.Store == nil {
		return nil
	}
	own, poll := storewatch.Own, watchStoreEvery
	if r.scenario.Store.Engine == scenarios.EngineMongoDB {
		own, poll = storewatch.OwnMongo, watchMongoEvery
	}
	layout, err := own(r.scenario.Store.Vocabulary)
	if err != nil {
		return err
	}
	r.store.watcher, err = storewatch.Start(ctx, storewatch.Config{
		Address: r.store.address, Layout: layout, Poll: poll, Topics: r.header.Topics, IDs: r.ids, Records: r.header.Records,
		Worker: workerNamed, Clock: r.clock, Sink: lockCounter{r}, Log: r.options.Log,
	})
	if err != nil {
		return err
	}
	first := r.header.Instances
	for slot := first; slot < first+r.services(); slot++ {
		if err := r.subject.Start(ctx, slot); err != nil {
			return err
		}
	}
	for slot := first; slot < first+r.services(); slot++ {
		if err := r.subject.WaitReady(ctx, slot); err != nil {
			return err
		}
	}
	return nil
}

// The log messages that a router and a worker write when they are at work, and that the retention writes when it was
// applied.
var (
	serviceReady = regexp.MustCompile(`"state":"ready"`)
	keeperReady  = regexp.MustCompile(`resolved deleted`)
)

// launchService starts this program again as a router or a worker, or the command that replaces it.
func (r *run) launchService(instance int16) (subject.Launch, error) {
	kind, n := history.StoreProcess(instance)
	s, contract := r.scenario.Store, r.header.Store
	command := r.options.StoreCommands[kind]
	if command == nil {
		command = []string{r.options.Executable, "dlq", kind}
	}
	if kind == "keeper" {
		return r.launchKeeper(n)
	}
	hours := make([]string, len(s.OffPeakHours))
	for i, hour := range s.OffPeakHours {
		hours[i] = strconv.Itoa(hour)
	}
	arguments := []string{
		"--log-format", "json", "--store", r.store.linked, "--bootstrap", r.store.bootstraps[instance], "--time-scale",
		strconv.FormatFloat(s.TimeScale, 'f', -1, 64),
		"--off-peak-hours", strings.Join(hours, ","), "--off-peak-zone", s.OffPeakZone, "--max-dlq-retries",
		strconv.Itoa(s.MaxRetries),
	}
	if r.store.probe != nil {
		// a router only has to know that there is a health probe
		arguments = append(arguments, "--health-url", r.store.probe.urls[min(n, s.Workers-1)])
	}
	if kind == "router" {
		arguments = append(arguments, "--dlq-topic", r.topic(history.RoleDLQ), "--router-group", contract.Group, "--dialect",
			r.header.Contract().Envelope)
	} else {
		arguments = append(arguments, "--workers", "1", "--worker-name", fmt.Sprintf("worker-%d", n), "--poll-interval",
			s.PollInterval.D().String(),
			"--lease", s.Lease.D().String(), "--batch-size", strconv.Itoa(s.BatchSize), "--concurrency",
			strconv.Itoa(s.Concurrency), "--retry", s.Retry, "--downstream-url", r.store.downstreamURLs[instance])
		if offset := r.clockOffset(n); offset != 0 {
			arguments = append(arguments, "--clock-offset", offset.String())
		}
	}
	return subject.Launch{
		Command: append(slices.Clip(command), arguments...), Env: environ(r.values.Security()),
		WorkDir: filepath.Join(r.dir.path, dirWork, fmt.Sprintf("%s-%d", kind, n)), Ready: subject.Ready{Log: serviceReady},
	}, nil
}

// launchKeeper starts this program again to apply the retention.
func (r *run) launchKeeper(n int) (subject.Launch, error) {
	command := r.options.StoreCommands["keeper"]
	if command == nil {
		command = []string{r.options.Executable, "dlq", "retain"}
	}
	archive, err := filepath.Abs(r.dir.file(dirArchive))
	if err != nil {
		return subject.Launch{}, fmt.Errorf("naming the archive's folder: %w", err)
	}
	retention := r.scenario.Store.Retention
	return subject.Launch{
		Command: append(slices.Clip(command), "--store", r.store.linked, "--archive", archive, "--every",
			retention.Every.D().String(), "--time-scale", strconv.FormatFloat(retention.TimeScale, 'f', -1, 64)),
		WorkDir: filepath.Join(r.dir.path, dirWork, fmt.Sprintf("keeper-%d", n)), Ready: subject.Ready{Log: keeperReady},
	}, nil
}

// workerNamed returns the number of the worker that owns a lock by that name. The locks of worker N are named
// worker-N-1, because each process has one worker.
func workerNamed(lockedBy string) int16 {
	number, _, found := strings.Cut(strings.TrimPrefix(lockedBy, "worker-"), "-")
	if n, err := strconv.Atoi(number); found && err == nil && n >= 0 && n < history.ProcessLimit {
		return history.Worker(n)
	}
	return history.None
}

// confirmStoreHealed restarts the processes of the service that are not running.
func (r *run) confirmStoreHealed(ctx context.Context) {
	for slot := r.header.Instances; slot < r.header.Instances+r.services(); slot++ {
		if r.subject.Alive(slot) {
			continue
		}
		if err := r.subject.Revive(ctx, slot); err != nil && ctx.Err() == nil {
			r.options.Log.Warn().Err(err).Msg("a process of the dead-letter store could not be brought back after the faults; " +
				"what it leaves unfinished is judged")
		}
	}
}

// storeAtRest reports whether the routers have taken every dead letter and the workers have nothing left to do on
// their own.
func (r *run) storeAtRest(ctx context.Context) (bool, error) {
	if r.scenario.Store == nil {
		return true, nil
	}
	topic := r.topic(history.RoleDLQ)
	offsets, err := r.admin.FetchOffsets(ctx, r.header.Store.Group)
	if err != nil {
		return false, fmt.Errorf("fetching the committed offsets of the routers: %w", err)
	}
	// Query the ends after the offsets, so that a dead letter written meanwhile counts as open.
	ends, err := r.admin.ListEndOffsets(ctx, topic)
	if err != nil {
		return false, fmt.Errorf("listing the end offsets of %s: %w", topic, err)
	}
	if open, _ := left(ends[topic], offsets[topic]); open {
		return false, nil
	}
	kept, open := r.store.watcher.Figures()
	if r.header.Store.Retention != nil && kept > 0 {
		return false, nil // a final entry has not been archived yet
	}
	return open == 0 && r.store.stub.InFlight() == 0, nil
}

// drainStore waits until the store has come to rest, and until the subject has finished the records written back to
// it. It gives up after the scenario's limit; the checkers then name what is unfinished.
func (r *run) drainStore(ctx context.Context) error {
	if r.scenario.Store == nil {
		return nil
	}
	r.busy("waiting for the dead-letter store to come to rest", storeDrain)
	defer r.activity.Store(nil)
	began, given := r.clock.Now(), r.allow()
	poll := time.NewTicker(drainPoll)
	defer poll.Stop()
	for calm := 0; calm < 2; {
		atRest, asking := r.storeAtRest(ctx)
		committed, sure, _ := r.committedToEnd(ctx)
		if atRest && committed && sure && r.live.figures().retrying == 0 {
			calm++ // twice, because the table is observed with a delay
		} else {
			calm = 0
		}
		if r.clock.Now()-began > storeDrain+given.back() {
			if asking != nil && ctx.Err() == nil {
				return environment("asking how far the dead-letter store is", asking)
			}
			_, open := r.store.watcher.Figures() // the kept entries are judged, too
			r.options.Log.Warn().Int("open",
				open).Msg("the drain reached its limit before the dead-letter store had come to rest")
			return nil
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return nil
		}
	}
	return nil
}

// auditStore ends the watching and reads the whole table.
func (r *run) auditStore(ctx context.Context) error {
	if r.store.watcher == nil {
		return nil
	}
	return environment("auditing the dead-letter store",
		errors.Join(r.store.watcher.Stop(ctx), r.store.watcher.Audit(ctx)))
}

// closeStore ends what openStore and startStore began.
func (r *run) closeStore() error {
	var errs []error
	if r.store.watcher != nil {
		errs = append(errs, r.store.watcher.Close())
	}
	if r.store.stub != nil {
		r.store.stub.Close()
	}
	errs = append(errs, r.store.probe.close(), r.dropMongo())
	if r.store.server != nil {
		errs = append(errs, r.store.server.Close())
	}
	return errors.Join(errs...)
}

// processes returns the injector of process faults: for the subject, and for the store's service.
func (r *run) processes() faults.Injector {
	instances := faultsubject.NewInjector(r.subject, r.scenario.InstanceCount(), r.header.Instances)
	if r.scenario.Store == nil {
		return forgiving{instances, r.options.Log}
	}
	all := r.header.Instances + r.services()
	return forgiving{serviceFaults{r, instances, faultsubject.NewInjector(r.subject, all, all)}, r.options.Log}
}

type serviceFaults struct {
	r                  *run
	instances, service faults.Injector
}

// Inject implements faults.Injector.
func (s serviceFaults) Inject(ctx context.Context, active faults.Active) (faults.Heal, error) {
	if spec, is := active.Fault.(*faultsubject.Subject); !is || spec.Process == "" {
		return s.instances.Inject(ctx, active)
	}
	return s.service.Inject(ctx, faults.NewActive(active.Planned, renumbered{s.r}, s.r.clock))
}

// waiting reports whether a dead letter of the record may be replayed: always or, from a store, as often as the
// record has waiting entries there. It selects those entries.
func (r *run) waiting(record int32) bool {
	if r.scenario.Store == nil {
		return true
	}
	ids := r.store.waiting[record]
	if len(ids) == 0 {
		return false
	}
	r.store.selected, r.store.waiting[record] = append(r.store.selected, ids[0]), ids[1:]
	return true
}

// storeReplay returns the launch that replays the selected entries of the store.
func (r *run) storeReplay(bootstrap string) subject.Launch {
	command := []string{
		r.options.Executable, "dlq", "replay", "--log-format", "json", "--store", r.store.linked, "--bootstrap", bootstrap,
		"--rate", r.replayRate() + "/s", "--name", "phase", "--by", "dlqbench",
	}
	return subject.Launch{Command: append(command, r.store.selected...), Env: environ(r.values.Security())}
}
