package engine

import (
	"errors"
	"testing"
)

// A port in use is distinguished from other failures, in the messages of several engines.
func TestPortTaken(t *testing.T) {
	for text, want := range map[string]bool{
		"driver failed programming external connectivity on endpoint x: Bind for 127.0.0.1:20000 failed: port is already " +
			"allocated": true,
		"driver failed programming external connectivity: Error starting userland proxy: listen tcp4 127.0.0.1:1: bind: " +
			"address already in use": true,
		"Ports are not available: exposing port TCP": false, "ports are not available: exposing port TCP 127.0.0.1:1": true,
		"no such image": false,
	} {
		if got := PortTaken(errors.New(text)); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}
