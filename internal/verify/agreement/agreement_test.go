package agreement

import (
	"bytes"
	"encoding/json"
	"flag"
	"maps"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sync/errgroup"
	"pgregory.net/rapid"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/verify/generate"
	"github.com/dlqbench/dlqbench/internal/verify/reference"
)

// drawn takes choices from a property test, so that rapid can shrink them.
type drawn struct{ t *rapid.T }

func (d drawn) Intn(n int) int { return rapid.IntRange(0, n-1).Draw(d.t, "choice") }

// The proof judges more histories, or others, than the quick tests do (make prove-agreement).
var (
	first = flag.Uint64("first", 0, "first seed of TestSeedsAgree; the others are consecutive")
	count = flag.Uint64("seeds", 0, "number of seeds of TestSeedsAgree (0: 100 with -short, 1000 without)")
)

// seeds is the number of histories that a test covers.
func seeds() uint64 {
	switch {
	case *count > 0:
		return *count
	case testing.Short():
		return 100
	}
	return 1000
}

// TestSeedsAgree judges the histories of each seed. It describes the first disagreements in full, and names the seeds
// of the others.
func TestSeedsAgree(t *testing.T) {
	all := NewReport()
	var failed atomic.Int64
	var mu sync.Mutex
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for seed := *first; seed < *first+seeds(); seed++ {
		group.Go(func() error {
			report, err := Check(seed)
			if err != nil && failed.Add(1) <= 20 {
				t.Error(err)
			} else if err != nil {
				t.Errorf("seed %d disagrees, too", seed)
			}
			mu.Lock()
			defer mu.Unlock()
			all.Add(report)
			return nil
		})
	}
	_ = group.Wait() // disagreements are reported above
	t.Logf("%d seeds, %d judgements of %d events, %d minimal corruptions, %d disagreements", seeds(), all.Histories,
		all.Events, all.corruptions(), failed.Load())
	if testing.Short() || failed.Load() > 0 {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(all.Corrupted)) {
		t.Logf("%6d times %s", all.Corrupted[name], name)
	}
	t.Logf("%d of %d records decided; %v", all.Decided, all.Records, all.Compared)
	if seeds() < 1000 {
		return // a few need not show everything
	}
	if all.Decided*4 < all.Records*3 {
		t.Errorf("only %d of %d records could be compared", all.Decided, all.Records)
	}
	for _, name := range reference.Invariants() {
		if all.Compared[name] == 0 {
			t.Errorf("the two never had an opinion on %s together", name)
		}
	}
}

// TestSeedsThatDisagreedAgree guards against regressions with seeds that once disagreed. A change to the generator
// changes the history of a seed; later seeds then replace earlier ones.
func TestSeedsThatDisagreedAgree(t *testing.T) {
	for seed, what := range map[uint64]string{
		167: "an audit reads the dead letters of two records at one place",
		471: "a refused retry copy is asked for again when the next has failed",
		448: "garbage whose place only the audit tells is dead-lettered without an id, and again after a rebalance",
		629: "a retry copy of which no word came is asked for again when the next has failed",
		1070: "a node of a graph dead-letters the second copy of a document whose first one is committed, and its " +
			"attempts were not seen",
		1377: "garbage is tried in the retry topic while its dead letter, of another delivery, is refused",
		1813: "two copies of a record are replayed, and the second is written while the first is being tried",
		27812: "two copies of a record are replayed, and the second is written while the first one's dead letter is on " +
			"its way",
		39366:  "garbage is tried twice, and its dead letter quotes an answer that tells nothing",
		40428:  "garbage is written back again while the first copy is being tried",
		301345: "a node asks again for the dead letter of one copy while another copy of the document is being tried",
		301361: "a second commit fails while a process that went back is still handed what it had",
		603254: "of two commits of a node that cover copies of one document, the later one is answered first",
		607171: "garbage that is put back is dead-lettered without an attempt, just when it is put back again",
		610181: "a commit that has no answer passes a tombstone, whose dead letters are then put back",
		700264: "a record that was given up after its retries succeeds when it is handed out again, and the contract is " +
			"made to promise one attempt more",
		7001595:  "an audit finds another record at the place that a dead letter without an id names as its source",
		15000687: "a record of an old schema is dead-lettered after attempts that a broken link hid, with poison: halt",
		100600:   "a record of an old schema is handed on after attempts that a broken link hid, with poison: halt",
		45554:    "a record of an old schema is committed after attempts that a broken link hid, with poison: halt",
		49445:    "a process that was frozen succeeds with a record between two calls of another one that fail",
		15000454: "a client that repeats calls makes an attempt of several calls, one without an answer, again",
		12000682: "an instance that lost a record, whose acknowledgement was lost, dead-letters it without an attempt",
		9101150:  "a fault's answer to another downstream ends a record whose dead letter can't be written",
		9103031:  "a fault's answer to another downstream ends a record whose dead letter was refused",
		9103403:  "a fault's answer ends a record that an instance tried which was killed since",
		9103975:  "a record that was written back is found before the audit begins",
		7002721:  "a call that a fault answers with a logical failure may have failed a record that was written back",
		5001525:  "an attempt of garbage succeeds, and its dead letter quotes that the stub does not know the record",
	} {
		if _, err := Check(seed); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestSeedsOfSeveralDownstreamsAgree guards against regressions with seeds of such histories that once disagreed.
func TestSeedsOfSeveralDownstreamsAgree(t *testing.T) {
	for seed, what := range map[uint64]string{
		71395: "a call for several records fails, and the record that it is taken for is left behind",
		80070: "a process goes back because a commit was not answered, and three dead letters of a record are found",
		81029: "a copy in the retry topic is written for a failed call while another copy of the record is tried",
	} {
		if err := NewReport().other(what, generate.Several, generate.SeveralCorruptions(),
			generate.NewSeeded(seed)); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
	}
}

// TestSeedsOfHaltingConsumersAgree guards against regressions with seeds of such histories that once disagreed.
func TestSeedsOfHaltingConsumersAgree(t *testing.T) {
	for seed, what := range map[uint64]string{
		102760: "a retry copy of which no answer came is found where a record that was written back is held",
		104844: "a record that was written back is handed on to a partition in which nothing goes on",
	} {
		if err := NewReport().other(what, generate.Halting, generate.HaltingCorruptions(),
			generate.NewSeeded(seed)); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
	}
}

// TestSeedsOfRecordsProducedTwiceAgree guards against regressions with seeds of such histories that once disagreed.
func TestSeedsOfRecordsProducedTwiceAgree(t *testing.T) {
	for seed, what := range map[uint64]string{
		101390: "the dead letter of one copy is acknowledged and not found, and the other copy succeeds",
		102267: "the dead letters of the two copies have different values",
	} {
		if err := NewReport().other(what, generate.Twice, generate.TwiceCorruptions(),
			generate.NewSeeded(seed)); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
	}
}

// TestLargerHistoriesAgree checks that larger histories show the anomalies that need large numbers, and nothing else.
func TestLargerHistoriesAgree(t *testing.T) {
	all := NewReport()
	for seed := range uint64(16) {
		if err := all.larger(generate.NewSeeded(seed)); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
	}
	for _, anomaly := range []string{"head-of-line-blocked", "no-jitter"} {
		if all.Corrupted["a larger history: "+anomaly] == 0 {
			t.Errorf("none of the larger histories shows %s", anomaly)
		}
	}
}

// TestOthersAgree checks, for each seed, a history of a consumer with effects in a sink, one of records that are
// produced twice and one of a consumer that makes several calls, and for some one of a graph and one of a dead-letter
// store.
func TestOthersAgree(t *testing.T) {
	all := NewReport()
	for seed := range seeds() / 10 {
		c := generate.NewSeeded(seed)
		if err := all.other("a graph", generate.Graph, generate.GraphCorruptions(), c); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
		if err := all.other("a dead-letter store", generate.Store, generate.StoreCorruptions(), c); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
	}
	for seed := range seeds() {
		c := generate.NewSeeded(seed)
		if err := all.other("a consumer with effects", generate.Effects, generate.EffectsCorruptions(), c); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
		if err := all.other("records produced twice", generate.Twice, generate.TwiceCorruptions(), c); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
		if err := all.calls(seed, c); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
	}
	for _, name := range []string{"graph-conservation", "store-lifecycle", "effects"} {
		if all.Correct[name] == 0 || all.Compared[name] == 0 {
			t.Errorf("%s was judged in %d correct histories, and compared on %d records", name, all.Correct[name],
				all.Compared[name])
		}
	}
}

// TestTransactionsAgree checks histories of consumers whose dead letters and offsets are in transactions.
func TestTransactionsAgree(t *testing.T) {
	all := NewReport()
	for seed := range seeds() {
		if err := all.transactions(generate.NewSeeded(seed)); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
	}
	for _, name := range []string{"commit-after-dlq", "commit-after-outcome", "duplicates", "bounded-retries"} {
		if all.Correct[name] == 0 {
			t.Errorf("%s was judged in no history", name)
		}
	}
}

// calls checks a history of a consumer that calls several downstreams, or whose client repeats calls by itself.
func (r *Report) calls(seed uint64, c generate.Choices) error {
	switch seed % 3 {
	case 0:
		return r.other("several downstreams", generate.Several, generate.SeveralCorruptions(), c)
	case 1:
		return r.other("effects elsewhere", generate.SeveralEffects, generate.EffectsCorruptions(), c)
	}
	return r.other("repeated calls", generate.Repeats, generate.RepeatsCorruptions(), c)
}

// TestAttemptsOfSeveralCallsAgree checks consumers whose attempts have several calls, which they may break off.
func TestAttemptsOfSeveralCallsAgree(t *testing.T) {
	all := NewReport()
	for seed := range seeds() / 4 {
		c := generate.NewSeeded(seed)
		err := all.other("attempts of several calls", generate.Spans, generate.Corruptions(), c)
		if seed%4 == 0 && err == nil {
			err = all.other("attempts of several repeated calls", generate.RepeatedSpans, generate.RepeatsCorruptions(), c)
		}
		if err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
	}
	if all.Decided*2 < all.Records {
		t.Errorf("of %d records only %d could be decided", all.Records, all.Decided)
	}
	t.Logf("%d of %d decided; judged %v, compared %v, %v", all.Decided, all.Records, all.Correct, all.Compared,
		all.Corrupted)
}

// TestUnnamedRecordsAgree checks that many of the records that the downstream stub cannot identify are decided, and
// that the checkers and the reference checker both name the dropped ones.
func TestUnnamedRecordsAgree(t *testing.T) {
	all := NewReport()
	sent, decided := 0, 0
	for seed := range seeds() {
		c := generate.NewSeeded(seed)
		if err := all.other("records without an id", generate.Unnamed, generate.UnnamedCorruptions(), c); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
		h := generate.Unnamed(generate.NewSeeded(seed))
		opinion := reference.Judge(&h.Header, h.Events)
		for i := range h.Events {
			if e := &h.Events[i]; e.Kind == history.KindSend && e.Flags != 0 {
				sent++
				lost := reference.Finding{Subject: reference.OfRecord("no-loss", e.Record), Anomaly: "lost"}
				if opinion.Decided[lost.Subject] && !opinion.Open[lost] {
					decided++
				}
			}
		}
	}
	if decided*4 < sent {
		t.Errorf("of %d records without an id only %d could be decided", sent, decided)
	}
	for _, one := range generate.UnnamedCorruptions() {
		if all.Corrupted[one.Name] == 0 {
			t.Errorf("%q was never made", one.Name)
		}
	}
	t.Logf("%d of %d decided; %v", decided, sent, all.Corrupted)
}

// TestHaltingConsumersAgree checks consumers that halt at records that they can't read, in each way in which they may.
func TestHaltingConsumersAgree(t *testing.T) {
	all := NewReport()
	for seed := range seeds() / 2 {
		if err := all.other("a consumer that halts", generate.Halting, generate.HaltingCorruptions(),
			generate.NewSeeded(seed)); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
	}
	t.Logf("judged %v, compared %v, %v", all.Correct, all.Compared, all.Corrupted)
}

// TestRefusableRecordsAgree checks records that a consumer may process or refuse.
func TestRefusableRecordsAgree(t *testing.T) {
	all := NewReport()
	for seed := range seeds() / 2 {
		if err := all.other("records that may be refused", generate.Refusable, generate.RefusableCorruptions(),
			generate.NewSeeded(seed)); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
	}
	t.Logf("judged %v, compared %v, %v", all.Correct, all.Compared, all.Corrupted)
}

// TestDrawnHistoriesAgree draws histories with rapid, which can make one that disagrees smaller. They are the same each
// time, unless -first or -rapid.seed says otherwise: no change may be refused for what it did not cause and chance
// found.
func TestDrawnHistoriesAgree(t *testing.T) {
	if seed := flag.Lookup("rapid.seed"); seed.Value.String() == "0" {
		if err := seed.Value.Set(strconv.FormatUint(*first+1, 10)); err != nil {
			t.Fatal(err)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		if err := NewReport().check(drawn{t}); err != nil {
			t.Fatal(err)
		}
	})
}

// TestEveryCorruptionHasItsPlace checks that each corruption is found under its name in at least one history.
func TestEveryCorruptionHasItsPlace(t *testing.T) {
	for kind, of := range map[string]struct {
		generate func(generate.Choices) *generate.History
		all      []generate.Corruption
	}{
		"consumers": {generate.Consumer, generate.Corruptions()},
		"graphs":    {generate.Graph, generate.GraphCorruptions()},
		"stores":    {generate.Store, generate.StoreCorruptions()},
		"unnamed":   {generate.Unnamed, generate.UnnamedCorruptions()},
		"halting":   {generate.Halting, generate.HaltingCorruptions()},
		"effects":   {generate.Effects, generate.EffectsCorruptions()},
		"several":   {generate.Several, generate.SeveralCorruptions()},
		"repeats":   {generate.Repeats, generate.RepeatsCorruptions()},
		"inputs":    {generate.Inputs, generate.Corruptions()},
		"spans":     {generate.Spans, generate.Corruptions()},

		"transactions": {generate.Transactions, generate.TransactionCorruptions()},
		"bulk":         {generate.Bulk, generate.BulkCorruptions()},
		"refusable":    {generate.Refusable, generate.RefusableCorruptions()},
		"twice":        {generate.Twice, generate.TwiceCorruptions()},
	} {
		t.Run(kind, func(t *testing.T) { everyCorruptionApplies(t, of.generate, of.all) })
	}
}

func everyCorruptionApplies(t *testing.T, draw func(generate.Choices) *generate.History,
	all []generate.Corruption) {
	applied := map[string]bool{}
	for seed := uint64(0); len(applied) < len(all) && seed < 20_000; seed++ {
		c := generate.NewSeeded(seed)
		h := draw(c)
		for _, one := range all {
			if applied[one.Name] {
				continue
			}
			if damaged, _ := one.Apply(h, c); damaged != nil {
				applied[one.Name] = true
			}
		}
	}
	for _, one := range all {
		if !applied[one.Name] {
			t.Errorf("%q applies to none of the histories", one.Name)
		}
	}
}

// TestVerdictsAreDetermined checks that a history, and a copy with events of equal times reordered, give byte-identical
// verdicts.
func TestVerdictsAreDetermined(t *testing.T) {
	for seed := range seeds() / 10 {
		c := generate.NewSeeded(seed)
		h := generate.Consumer(c)
		for _, one := range []*generate.History{h, generate.Scramble(h, c)} {
			first := verdict(t, one.Source())
			if again := verdict(t, one.Source()); !bytes.Equal(first, again) {
				t.Fatalf("seed %d: judged twice, and not the same", seed)
			}
			if shuffled := verdict(t, shuffle(one, seed).Source()); !bytes.Equal(first, shuffled) {
				t.Errorf("seed %d: with the events of equal times in another order the verdict is\n%s\nand was\n%s", seed,
					shuffled, first)
			}
		}
	}
}

func verdict(t *testing.T, source history.Source) []byte {
	t.Helper()
	v, _, err := assertions.Judge(source)
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// shuffle reorders events that have equal times.
func shuffle(h *generate.History, seed uint64) *generate.History {
	other := h.Clone()
	random := rand.New(rand.NewPCG(seed, 1))
	for from := 0; from < len(other.Events); {
		to := from
		for to < len(other.Events) && other.Events[to].Time == other.Events[from].Time {
			to++
		}
		same := other.Events[from:to]
		random.Shuffle(len(same), func(a, b int) { same[a], same[b] = same[b], same[a] })
		from = to
	}
	return other
}

// TestSameSeedSameHistory checks that a printed seed reproduces its history.
func TestSameSeedSameHistory(t *testing.T) {
	for seed := range uint64(50) {
		one, two := generate.Consumer(generate.NewSeeded(seed)), generate.Consumer(generate.NewSeeded(seed))
		if len(one.Events) != len(two.Events) {
			t.Fatalf("seed %d makes %d events, then %d", seed, len(one.Events), len(two.Events))
		}
		for i := range one.Events {
			if !reflect.DeepEqual(one.Events[i], two.Events[i]) {
				t.Fatalf("seed %d: event %d is %+v, then %+v", seed, i, one.Events[i], two.Events[i])
			}
		}
		if len(one.Events) == 0 || one.Events[len(one.Events)-1].Text != history.PhaseSeal {
			t.Fatalf("seed %d makes no whole run", seed)
		}
	}
}

// TestUsageChangesNoVerdict checks that measured process usage affects thresholds only, never a verdict.
func TestUsageChangesNoVerdict(t *testing.T) {
	judged := func(h *generate.History) []byte {
		v, _, err := assertions.Judge(h.Source())
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal([]any{v.Verdict, v.Reasons, v.Invariants, v.Faults, v.Thresholds, v.Latency, v.Ledger,
			v.Conservation, v.Drain})
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	for seed := range seeds() / 5 {
		choices := generate.NewSeeded(seed)
		for _, draw := range []func(generate.Choices) *generate.History{generate.Consumer, generate.Graph,
			generate.Store} {
			with := draw(choices)
			if seed%2 == 1 {
				with = generate.Scramble(with, choices)
			}
			without := with.Clone()
			without.Events = slices.DeleteFunc(without.Events, func(e history.Event) bool {
				return e.Kind == history.KindSample
			})
			if len(without.Events) == len(with.Events) {
				t.Fatalf("seed %d: nothing was read", seed)
			}
			if got, want := judged(with), judged(without); !bytes.Equal(got, want) {
				t.Errorf("seed %d: with readings\n%s\nwithout\n%s", seed, got, want)
			}
		}
	}
}
