package faults

// What can be wrong with a fault of the dead-letter store.

import "strings"

// Worker is the number in Process, "worker N".
func (s Store) Worker() (number int, err error) {
	_, number, err = readProcess(s.Process)
	return number, err
}

func (s Store) validate(setting Setting) []Defect {
	if setting.StoreProcesses == nil {
		return []Defect{{Message: "the run has no dead-letter store of its own, so there is nothing to break: add store"}}
	}
	set := names(map[string]bool{
		"restart": s.Restart, "crash": s.Crash, "clock_ahead": s.ClockAhead > 0, "clock_behind": s.ClockBehind > 0,
		"repeat_letters": s.RepeatLetters > 0, "unhealthy": s.Unhealthy != "",
	})
	defects := exactlyOne(set, "restart, crash, clock_ahead, clock_behind, unhealthy and repeat_letters")
	if (s.Restart || s.Crash) && setting.StoreFixed != "" {
		defects = append(defects, Defect{Path: "/" + s.key(), Message: setting.StoreFixed})
	}
	if s.Unhealthy != "" && !setting.StoreProbe {
		defects = append(defects, Defect{Path: "/unhealthy", Message: "the workers ask no health probe, so this fault " +
			"could have no effect: add probe: true to store"})
	}
	return append(defects, s.clock(setting)...)
}

// clock checks whose clock it is: only workers have one that they could go by.
func (s Store) clock(setting Setting) []Defect {
	wrong := s.Offset() != 0
	switch {
	case !wrong && s.Process != "":
		return []Defect{{Path: "/process", Message: "process goes with clock_ahead and clock_behind: leave it out"}}
	case !wrong:
		return nil
	case s.Process == "":
		return []Defect{{Message: "say whose clock is wrong: add process, such as process: worker 0"}}
	case strings.HasPrefix(s.Process, "router "):
		return []Defect{{Path: "/process", Message: "a router does not use a clock: write worker N, N from 0"}}
	}
	return storeProcess(s.Process, setting)
}
