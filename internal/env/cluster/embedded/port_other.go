//go:build !linux

package embedded

// Outside Linux a port cannot be held without listening on it, so nothing is reserved. The system chooses the port
// when a broker first listens. If another socket has taken the port meanwhile, a restart of the broker waits for it
// (see gate.open).

type reservation struct{ port int }

func reservePort() (*reservation, error) { return &reservation{}, nil }

func (r *reservation) release() {}
