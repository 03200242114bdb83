//go:build !linux

package embedded

// Outside Linux a port can't be held without listening on it, so nothing is reserved: the system picks the port when a
// broker first listens, and starting it again waits for its port should another socket have taken it meanwhile (see
// gate.open).

type reservation struct{ port int }

func reservePort() (*reservation, error) { return &reservation{}, nil }

func (r *reservation) release() {}
