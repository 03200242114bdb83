package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dlqbench/dlqbench/internal/pods"
	"github.com/dlqbench/dlqbench/internal/run"
	"github.com/dlqbench/dlqbench/reports"
)

// keptForCopy is how long the coordinator waits for its run directory to be copied.
const keptForCopy = 10 * time.Minute

// podCommand has what runs in the pods of dlqbench run --on kubernetes.
func (a *app) podCommand() *cobra.Command {
	pod := &cobra.Command{Use: "pod", Hidden: true, Args: noArgs}
	pod.AddCommand(a.coordinatorCommand(), a.sidecarCommand(),
		&cobra.Command{Use: "interrupt", Args: noArgs, RunE: func(c *cobra.Command, _ []string) error {
			return pods.Interrupt(c.Context(), os.Getenv(pods.TokenVariable))
		}},
		&cobra.Command{Use: "copy DIR", Args: takes(1, 1), RunE: func(_ *cobra.Command, args []string) error {
			return pods.Pack(a.stdout, args[0])
		}},
		&cobra.Command{Use: "deleted POD [ERROR]", Args: takes(1, 2), RunE: func(c *cobra.Command, args []string) error {
			return pods.Deleted(c.Context(), os.Getenv(pods.TokenVariable), args[0], strings.Join(args[1:], ""))
		}})
	return pod
}

func (a *app) sidecarCommand() *cobra.Command {
	var coordinator string
	var signals bool
	command := &cobra.Command{Use: "sidecar", Args: noArgs, RunE: func(command *cobra.Command, _ []string) error {
		sidecar := &pods.Sidecar{Coordinator: coordinator, Token: os.Getenv(pods.TokenVariable),
			Pod: os.Getenv(pods.PodVariable), Version: programVersion(), Say: a.sayLine}
		if signals {
			sidecar.Processes = pods.SharedProcesses{}
		}
		return sidecar.Run(command.Context())
	}}
	command.Flags().StringVar(&coordinator, "coordinator", "", "address of the coordinator")
	command.Flags().BoolVar(&signals, "signals", false, "the pod shares its processes")
	return command
}

func (a *app) coordinatorCommand() *cobra.Command {
	flags, rerun := runFlags{on: onKubernetes, out: filepath.Join(pods.WorkFolder, "runs"), parallel: 1}, ""
	flags.cluster.provider = run.ClusterEmbedded
	command := &cobra.Command{Use: "coordinator SCENARIO", Args: takes(1, 1),
		RunE: func(command *cobra.Command, args []string) error {
			options, err := a.runOptions(args[0], run.ClusterOptions{Provider: run.ClusterEmbedded}, flags)
			if err != nil {
				return usageError{err}
			}
			options.Rerun = rerun
			return a.coordinate(command.Context(), options)
		}}
	command.Flags().StringVar(&flags.subject, "subject", "", "subject.yaml")
	command.Flags().StringVar(&flags.seed, "seed", "", "seed")
	command.Flags().StringArrayVar(&flags.sets, "set", nil, "override")
	command.Flags().StringVar(&rerun, "rerun", "", "command that runs the same plan again")
	return command
}

// coordinate runs a scenario for the consumer's pods, says in the log how it ended, and waits until the run directory
// is copied: then the Job is removed. ctx ends when Kubernetes ends the pod, which does not count as an
// interruption by the user.
func (a *app) coordinate(ctx context.Context, options run.Options) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", ":"+strconv.Itoa(pods.CoordinatorPort))
	if err != nil {
		return fmt.Errorf("listening for the sidecars: %w", err)
	}
	running, interrupt := context.WithCancel(context.WithoutCancel(ctx))
	defer interrupt()
	hub := pods.Serve(listener, pods.HubConfig{
		Token: os.Getenv(pods.TokenVariable), Version: programVersion(), Ports: podPorts(options),
		Signals: signalled(options.Scenario),
		Begin:   func(env map[string]string) error { return pods.News{Env: env}.Write(a.stdout) },
		Delete:  func(pod string) error { return pods.News{Delete: pod}.Write(a.stdout) }, Interrupt: interrupt,
	})
	defer context.AfterFunc(ctx, hub.End)()
	options.Pods, options.Log, options.Watch = hub, a.logger(a.stderr), a.progressNews()
	outcome, err := run.Run(running, options)
	done := &pods.Done{Version: programVersion(), Interrupted: running.Err() != nil}
	if outcome != nil {
		done.Judged = outcome.Verdict != nil
		if _, missing := os.Stat(outcome.Dir); missing == nil {
			done.Dir = outcome.Dir
		}
	}
	if err = errors.Join(err, hub.Close()); err != nil {
		done.Error = err.Error()
	}
	if err := (pods.News{Done: done}).Write(a.stdout); err != nil {
		return err
	}
	if ctx.Err() != nil {
		time.Sleep(keptForCopy) // Kubernetes ends the pod before that
	}
	select {
	case <-ctx.Done():
	case <-time.After(keptForCopy):
	}
	return nil
}

// podPorts are the ports of each instance.
func podPorts(options run.Options) [][]int {
	e, ports := options.Subject.External, make([][]int, options.Scenario.MaxInstances())
	for instance := range ports {
		for broker := range options.Scenario.Cluster.Brokers {
			ports[instance] = append(ports[instance], e.KafkaPort(instance)+broker)
		}
		for number := range options.Subject.Called() {
			ports[instance] = append(ports[instance], e.OtherPort(instance, number))
		}
		if len(options.Subject.Formats()) > 0 {
			ports[instance] = append(ports[instance], e.Registry)
		}
	}
	return ports
}

// progressNews returns a function that writes the run's snapshots to the log: every two seconds, and when a phase or a
// fault begins or ends.
func (a *app) progressNews() func(reports.Snapshot) {
	var last reports.Snapshot
	return func(s reports.Snapshot) {
		if s.Phase == last.Phase && len(s.ActiveFaults) == len(last.ActiveFaults) &&
			s.Now-last.Now < 2*time.Second {
			return
		}
		last = s
		if news, err := pods.ProgressOf(s); err == nil {
			_ = news.Write(a.stdout) // the next one may be written
		}
	}
}
