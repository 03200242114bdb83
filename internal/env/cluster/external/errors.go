package external

import "errors"

// The causes of errors of Connect, CreateTopics and Sweep; each is in the chain of the error. None of them means
// that the user's scenario is wrong: the remedy is a change of the cluster, of the way to it, or of its settings.
var (
	// ErrUnreachable means no connection, or no answer in time.
	ErrUnreachable = errors.New("the cluster can't be reached")
	// ErrProtocol means TLS to a port without TLS, the reverse, or no Kafka at all.
	ErrProtocol = errors.New("the port does not speak what security.protocol says")
	// ErrCertificate means that the broker's certificate is not accepted, or ours is not.
	ErrCertificate = errors.New("a certificate is not accepted")
	// ErrAuthentication means that the cluster does not accept dlqbench's credentials.
	ErrAuthentication = errors.New("the cluster refuses the credentials")
	// ErrForbidden means that the cluster's ACLs or policies do not permit a required action.
	ErrForbidden = errors.New("the cluster does not allow it")
	// ErrLimit means that the scenario does not fit the cluster's limits.
	ErrLimit = errors.New("the scenario does not fit the cluster's limits")
	// ErrForeign means that an object was not created by this run, and so is not touched.
	ErrForeign = errors.New("it does not belong to this run")
	// ErrNotConfigured means that a fault needs a command that is not configured.
	ErrNotConfigured = errors.New("dlqbench does not know how to do this to a broker of this cluster")
	// ErrClosed is returned by calls on a cluster that was closed.
	ErrClosed = errors.New("the connection to the cluster is closed")
)
