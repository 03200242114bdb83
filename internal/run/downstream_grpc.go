package run

import (
	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/env/workload"
	"github.com/dlqbench/dlqbench/internal/samples"
	"github.com/dlqbench/dlqbench/scenarios"
)

// rpc returns the gRPC service that a subject declares.
func rpc(ids *history.IDs, declared *scenarios.GRPCDownstream) *workload.Service {
	cfg := workload.ServiceConfig{Methods: declared.Methods, Method: declared.Method,
		Answers: map[history.Outcome]workload.Reply{}, Routes: map[string]workload.ServiceRoute{}}
	if declared.At != "" {
		cfg.At, _ = samples.ParsePlace(declared.At) // it was checked with the subject file
	}
	given := declared.Answers.ByOutcome()
	for outcome, code := range declared.Codes() {
		reply := workload.Reply{Code: code}
		if one := given[outcome]; one != nil {
			reply.Message, reply.Body = one.Message, one.Body
		}
		cfg.Answers[outcome] = reply
	}
	for _, route := range declared.Routes {
		reply := workload.Reply{Code: route.Code.Value(), Message: route.Message, Body: route.Body}
		cfg.Routes[route.Method] = workload.ServiceRoute{Reply: reply, Attempt: route.Attempt}
	}
	if declared.Attempt != nil {
		cfg.First, cfg.Last = declared.Attempt.First, declared.Attempt.Last
	}
	return workload.NewService(ids, cfg)
}
