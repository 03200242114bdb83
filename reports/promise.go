package reports

import "strings"

// promise says in a sentence what an invariant holds a consumer to, for readers who do not know its name yet.
func promise(invariant string) string {
	if _, ofNode, found := strings.Cut(invariant, "/"); found {
		invariant = ofNode // that of one node of a graph, or of one of several services
	}
	switch invariant {
	case "service-separation":
		return "Services that share a dead-letter topic each have to do with their own records only."
	case "graph-conservation":
		return "Every document leaves the graph or lies in exactly one node's dead-letter topic or quarantine, by the way " +
			"its id says."
	case "no-loss":
		return "Every record that Kafka acknowledged reaches an end: processed, dead-lettered, or ended by contract."
	case "commit-after-dlq":
		return "An offset is committed only after the dead letters below it were acknowledged."
	case "commit-after-outcome":
		return "An offset is committed only after every record below it has reached its end."
	case "halt-on-dlq-failure":
		return "While dead letters can't be written, commits stand still and the failure is made known."
	case "bounded-retries":
		return "A failing record is tried exactly as often as promised."
	case "classification":
		return "Only what may heal is retried, and only what failed is dead-lettered."
	case "backoff":
		return "The wait between two attempts is the promised one, neither shorter nor longer."
	case "dlq-fidelity":
		return "A dead letter carries the original record unchanged, and the truth about where it came from."
	case "dlq-once":
		return "A record is dead-lettered once, unless a disruption explains a repeat."
	case "duplicates":
		return "A record is processed once, unless a disruption explains a repeat."
	case "ordering":
		return "Records that must stay in order are processed in order."
	case "isolation":
		return "Failing records do not hold up the others."
	case "liveness":
		return "Once everything is healed, the backlog is worked off."
	case "graceful-stop":
		return "Asked to stop, the consumer ends in time and drops nothing."
	case "stays-up":
		return "The consumer keeps running, and ends in order when it is told to."
	case "replay-round-trip":
		return "A replayed dead letter goes back once, restored to what it was, and is processed."
	case "store-lifecycle":
		return "Stored dead letters change state only as they may, with one worker at a time."
	}
	return ""
}
