package web

// What is sent: the state as the session gives it to a role, with the log taken apart so that every line goes out once.

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/dlqbench/dlqbench/internal/drill"
)

// publisher remembers which lines of the log each role's channel has got.
type publisher struct {
	session Watched
	told    map[drill.Role]int
	// run is the run's id, once it is known.
	run string
}

// unnamed takes the run's id out of what is sent: it stands before the name of every topic, also in what the subject
// writes, and holds the scenario's name, which often tells what will be broken. Nobody needs it on the page.
func (p *publisher) unnamed(data []byte) []byte {
	if p.run == "" {
		return data
	}
	data = bytes.ReplaceAll(data, []byte(p.run+"."), nil)
	return bytes.ReplaceAll(data, []byte(p.run), nil)
}

// publish asks the session for each role's state and hands it to the role's channel.
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

// fresh returns the lines of the log that the role has not been told, as JSON.
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

// point is the frame's place in the curves, which a browser that comes later is given of the past: the time in s of the
// drill, then sent, processed, dead-lettered per second, lag, retries in flight, p50 and p99 of success in ms.
// assets/drill.js reads it in this order.
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

// rounded keeps one place behind the point, which is more than a curve shows.
func rounded(rate float64) float64 { return float64(int64(rate*10+0.5)) / 10 }
