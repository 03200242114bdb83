package external

import "errors"

// What an error of Connect, CreateTopics or Sweep is about; each is in the chain of the error. None of them is the
// user's scenario being wrong: what they say has to be changed at the cluster, on the way to it, or in its settings.
var (
	// ErrUnreachable: no connection, or no answer in time.
	ErrUnreachable = errors.New("the cluster can't be reached")
	// ErrProtocol: TLS to a port that speaks none, the reverse, or no Kafka at all.
	ErrProtocol = errors.New("the port does not speak what security.protocol says")
	// ErrCertificate: the broker's certificate is not accepted, or ours is not.
	ErrCertificate = errors.New("a certificate is not accepted")
	// ErrAuthentication: the cluster does not take dlqbench for who it says it is.
	ErrAuthentication = errors.New("the cluster refuses the credentials")
	// ErrForbidden: the cluster's ACLs or policies don't allow what is needed.
	ErrForbidden = errors.New("the cluster does not allow it")
	// ErrLimit: the scenario does not fit the cluster's limits.
	ErrLimit = errors.New("the scenario does not fit the cluster's limits")
	// ErrForeign: it was not made by this run, and so is not touched.
	ErrForeign = errors.New("it does not belong to this run")
	// ErrNotConfigured: a fault needs a command that is not configured.
	ErrNotConfigured = errors.New("dlqbench does not know how to do this to a broker of this cluster")
	// ErrClosed is returned by calls on a cluster that was closed.
	ErrClosed = errors.New("the connection to the cluster is closed")
)
