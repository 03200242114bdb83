package faults

// Whether a fault keeps every dead letter out. Violations are proven with it, so where it can't be told for certain the
// answer is no.

// StopsDeadLetters reports whether no dead letter can be acknowledged to any instance while the fault is in force, in a
// cluster with that many brokers, of which dlqBroker (0: none) holds the DLQ topic alone.
func (s Spec) StopsDeadLetters(brokers, dlqBroker int) bool {
	// only tells that broker number n leads all of the DLQ topic's partitions, and that no other can.
	only := func(n int) bool { return n > 0 && (n == dlqBroker || brokers == 1) }
	switch {
	case s.Network != nil:
		number, isBroker := s.Network.broker()
		all := s.Network.Link == "brokers" || s.Network.Link == "dlq" && dlqBroker > 0 || isBroker && only(number)
		return all && s.Network.stops()
	case s.Kafka != nil:
		return s.Kafka.stopsDeadLetters()
	case s.Broker != nil:
		// A restarted broker is back before anything else is known to have happened, moved leaders lead elsewhere.
		return only(s.Broker.Broker) && (s.Broker.Stop || s.Broker.Kill || s.Broker.Pause)
	}
	return false
}

// stops tells that no answer comes through the link: it is broken for all connections, old and new. Silence in one
// direction is enough: a request that does not arrive is not answered. Delays and limits let answers through, and so
// does a link that is half open, for new connections.
func (n Network) stops() bool {
	return n.Toxicity >= 1 && (n.Down || n.Timeout || n.Reset)
}

// stopsDeadLetters tells that every write to the DLQ topic is refused or goes unanswered. A fault that hits some writes
// only (one instance, one partition, one version, some client ids, the nth, a share) lets the others through.
func (k Kafka) stopsDeadLetters() bool {
	// The group is not asked: a Produce names none.
	everyone := k.Instance == nil && k.Partition == nil && k.Version == nil && k.ClientID == "" &&
		k.Nth == 0 && k.EveryNth <= 1 && k.Probability >= 1
	breaks := k.Error != "" || k.DropRequest || k.DropResponse || k.Close
	return everyone && breaks && k.API == apiProduce && (k.Topic == "" || k.Topic == roleDLQ)
}
