package plan

import (
	"testing"

	"pgregory.net/rapid"
)

// A consumer that halts gets unreadable records late and in one partition, at least one where any was drawn, and no
// other record is another for it.
func TestUnreadableRecordsForAConsumerThatHalts(t *testing.T) {
	const load = `workload: {rate: 200/s, duration: 4s, garbage: 3%, malformed: {share: 5%}, tombstones: 3%,
  outcomes: {success: 5, transient: {weight: 1, failures: 2}}}
faults: [{at: 1s, subject: {instance: 0, restart: true}}]
`
	rapid.Check(t, func(t *rapid.T) {
		s, seed := scenario(t, load), rapid.Uint64().Draw(t, "seed")
		usual := planOf(t, s, seed)
		halting, err := Make(s, seed, nil, true)
		if err != nil {
			t.Fatal(err)
		}
		partition, unreadable := int32(-1), 0
		for i := range halting.Records {
			one, was := &halting.Records[i], &usual.Records[i]
			if !one.poisonous() {
				if !was.poisonous() && *one != *was {
					t.Fatalf("record %d is %+v, and %+v for another consumer", i, one, was)
				}
				continue
			}
			if unreadable++; partition < 0 {
				partition = one.Partition
			}
			if *one != *was || one.Partition != partition || one.At < s.Workload.Duration.D()*3/4 ||
				one.At >= halting.WarmUp+halting.Steady {
				t.Fatalf("record %d is unreadable: %+v, was %+v", i, one, was)
			}
		}
		if unreadable == 0 {
			t.Fatal("no record is unreadable")
		}
	})
	s := scenario(t, "workload: {rate: 10/s, duration: 1s, garbage: 1%}\nfaults: [{at: 100ms, subject: {instance: 0, "+
		"restart: true}}]\n")
	for seed := range uint64(50) {
		if _, err := Make(s, seed, nil, true); err != nil {
			t.Fatal(err)
		}
	}
}
