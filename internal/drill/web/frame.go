package web

// This file builds the data sent to browsers: the state as the session gives it to a role, with the log split so that
// every line is sent once.

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/dlqbench/dlqbench/internal/drill"
)

// publisher remembers the log lines that each role's channel has received.
type publisher struct {
	session Watched
	told    map[drill.Role]int
	// run is the run's id, once it is known.
	run string
}

// unnamed removes the run's id from the sent data. It prefixes the name of every topic, also in the subject's output,
// and contains the scenario's name, which often reveals the faults. The page does not need it.
func (p *publisher) unnamed(data []byte) []byte {
	if p.run == "" {
		return data
	}
	data = bytes.ReplaceAll(data, []byte(p.run+"."), nil)
	return bytes.ReplaceAll(data, []byte(p.run), nil)
}

// publish gets each role's state from the session and passes it to the role's channel.
func (s *Server) publish(p *publisher) {
	for _, role := range roles() {
		state := p.session.State(role)
		if role == drill.RoleInjector && state.Live != nil {
			p.run = state.Live.RunID
		}
		events := p.fresh(role, state.Log)
		state.Log = nil
		if state.Live != nil {
			// The run's own events are in the session's log, as far as the role may see them.
			live := *state.Live
			live.Events = nil
			state.Live = &live
		}
		frame, err := json.Marshal(state)
		if err != nil {
			s.log.Printf("writing the state down: %v", err)
			continue
		}
		s.channels[role].publish(p.unnamed(frame), point(state), events)
	}
}

// fresh returns, as JSON, the log lines that the role has not received.
func (p *publisher) fresh(role drill.Role, lines []drill.Entry) [][]byte {
	var events [][]byte
	for _, line := range lines {
		if line.Number <= p.told[role] {
			continue
		}
		if event, err := json.Marshal(line); err == nil {
			events = append(events, p.unnamed(event))
		}
		p.told[role] = line.Number
	}
	return events
}

// point is the frame's point in the curves, which a later browser receives as history: the drill's time in s; records
// sent, processed and dead-lettered per second; lag; retries in flight; p50 and p99 of success in ms. assets/drill.js
// reads it in this order.
func point(state drill.State) []float64 {
	seconds := func(d time.Duration) float64 { return float64(d.Milliseconds()) / 1e3 }
	live := state.Live
	if live == nil || state.Stage != drill.StageOpen && state.Stage != drill.StageDrain {
		return nil
	}
	return []float64{
		seconds(state.At), rounded(live.SentRate), rounded(live.ProcessedRate), rounded(live.DeadLetterRate),
		float64(live.Lag), float64(live.RetriesInFlight),
		seconds(1000 * live.Latency.Success.P50), seconds(1000 * live.Latency.Success.P99),
	}
}

// rounded keeps one decimal, which is more precise than a curve can show.
func rounded(rate float64) float64 { return float64(int64(rate*10+0.5)) / 10 }
