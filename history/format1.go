package history

import "encoding/json"

// format1 is what a header of format 1 has in the place of Consumers.
type format1 struct {
	Group    string   `json:"group"`
	Contract Contract `json:"contract"`
	ReplayTo string   `json:"replay_to"`
	Graph    *struct {
		Nodes []Consumer `json:"nodes"`
	} `json:"graph"`
	Services []struct {
		Consumer
		Retry int16 `json:"retry"`
	} `json:"services"`
}

// readFormat1 fills in the consumers of a header that was read from data of format 1.
func (h *Header) readFormat1(data []byte) error {
	var old format1
	if err := json.Unmarshal(data, &old); err != nil {
		return err
	}
	switch {
	case old.Graph != nil:
		h.Consumers = old.Graph.Nodes
	case len(old.Services) > 0:
		dlq := int16(len(h.Topics) - 1) // format 1 writes the DLQ topic last
		for _, one := range old.Services {
			if one.DLQ = dlq; one.Retry >= 0 && int(one.Retry) < len(h.Topics) {
				one.ReplayTo = h.Topics[one.Retry].Name
			}
			h.Consumers = append(h.Consumers, one.Consumer)
		}
	default:
		h.Consumers = []Consumer{{Group: old.Group, Instances: h.Instances, DLQ: 1, ReplayTo: old.ReplayTo,
			Contract: old.Contract}}
	}
	return nil
}
