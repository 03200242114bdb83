package scenarios

// A drill with a script: what breaks is written down, when it breaks nobody knows before.

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/dlqbench/dlqbench/faults"
	"github.com/dlqbench/dlqbench/faults/catalogue"
	"github.com/dlqbench/dlqbench/internal/units"
)

// Drill is a script: faults that come at times drawn from the seed, so that who is on call can't know them. They are a
// part of the plan like the scenario's own faults, whoever runs it.
type Drill struct {
	// Pick is how many of Faults happen, drawn from the seed; default: all of them.
	Pick int `json:"pick,omitempty" jsonschema:"minimum=1"`
	// Faults are what may break.
	Faults []DrillFault `json:"faults" jsonschema:"required,minItems=1"`
}

// DrillFault is a fault that comes at a time nobody knows. It has no at, when and after.
type DrillFault struct {
	// From and To bound when it starts, from the start of the steady phase; To is not before From.
	From units.Duration `json:"from,omitempty"`
	To   units.Duration `json:"to" jsonschema:"required"`
	catalogue.Spec
}

// Draw returns what happens for the seed, with its times, in the order of the script; none without a script. Which are
// picked and when they start does not depend on one another.
func (d *Drill) Draw(seed uint64) []catalogue.Spec {
	if d == nil {
		return nil
	}
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	copy(key[8:], "drill")
	random := rand.New(rand.NewChaCha8(key))
	picked := random.Perm(len(d.Faults))[:cmp.Or(min(d.Pick, len(d.Faults)), len(d.Faults))]
	var drawn []catalogue.Spec
	for i, one := range d.Faults {
		share := random.Float64()
		if !slices.Contains(picked, i) {
			continue
		}
		spec := one.Spec
		spec.At = one.From + milliseconds(time.Duration(share*float64(one.To-one.From)))
		drawn = append(drawn, spec)
	}
	return drawn
}

// Planned returns the faults of a run with the seed as they are written: the scenario's own, then what is drawn of its
// script.
func (s *Scenario) Planned(seed uint64) []catalogue.Spec {
	return append(slices.Clone(s.Faults), s.Drill.Draw(seed)...)
}

// Written returns all faults of the scenario, those of the script too.
func (s *Scenario) Written() []catalogue.Spec {
	all := slices.Clone(s.Faults)
	if s.Drill != nil {
		for _, one := range s.Drill.Faults {
			all = append(all, one.Spec)
		}
	}
	return all
}

// faultPath leads to the written fault with that number.
func (s *Scenario) faultPath(number int) string {
	if own := len(s.Faults); number >= own {
		return fmt.Sprintf("/drill/faults/%d", number-own)
	}
	return fmt.Sprintf("/faults/%d", number)
}

// checkDrill checks the script; each fault of it must be right as a fault that starts at the latest time it may.
func (c *checker) checkDrill(setting faults.Setting) {
	if c.s.Drill == nil || !c.sound("/drill", "/drill/faults") {
		return
	}
	c.refuseIf(c.s.Drill.Pick > len(c.s.Drill.Faults), "/drill/pick", "%d faults are to be picked, and there are %d",
		c.s.Drill.Pick, len(c.s.Drill.Faults))
	taken := map[string]bool{}
	for _, spec := range c.s.Faults {
		taken[spec.Name] = true
	}
	for i, one := range c.s.Drill.Faults {
		base := fmt.Sprintf("/drill/faults/%d", i)
		if !c.allSound(base) {
			continue
		}
		c.refuseIf(one.Name != "" && taken[one.Name], base+"/name", "the name %s is taken", one.Name)
		taken[one.Name] = true
		for _, key := range []string{"/at", "/when", "/after"} {
			c.refuseIf(c.has(base+key), base+key,
				"a fault of a drill has no time that anybody knows: write from and to, or put it among the scenario's faults")
		}
		if one.To < one.From {
			c.at(base+"/to", "it ends before it begins: from %s to %s", one.From, one.To)
			continue
		}
		spec := one.Spec
		spec.At = one.To
		c.defects(base, spec, setting)
	}
}

// milliseconds is d in whole milliseconds: a scenario that records it stays readable.
func milliseconds(d time.Duration) units.Duration {
	return units.Duration(d.Truncate(time.Millisecond))
}
