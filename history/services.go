package history

import "slices"

// Service is one of several services that share the run's dead-letter topic, each a consumer in a group of its own;
// topics are indices in Header.Topics.
type Service struct {
	Name string `json:"name"`
	// Input is the topic that the workload sends the service's records to, Retry the one that its dead letters come
	// back through.
	Input int16  `json:"input"`
	Retry int16  `json:"retry"`
	Group string `json:"group"`
	// First is the number of its first instance, Instances how many it has.
	First     int      `json:"first_instance"`
	Instances int      `json:"instances"`
	Contract  Contract `json:"contract"`
}

// ServiceOf returns the index of the service that the instance belongs to, None if there is none.
func (h *Header) ServiceOf(instance int16) int {
	return slices.IndexFunc(h.Services, func(s Service) bool {
		return int(instance) >= s.First && int(instance) < s.First+s.Instances
	})
}

// ServiceReading returns the index of the service that consumes the topic, None if none does: the dead-letter topic is
// nobody's.
func (h *Header) ServiceReading(topic int16) int {
	return slices.IndexFunc(h.Services, func(s Service) bool { return s.Input == topic || s.Retry == topic })
}
