package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"
)

// Label is the label that the containers and networks of a run carry; its value is the run's id.
const Label = "dlqbench.run"

// Sweep removes the containers and networks of a run that ended without removing them, and returns a name for each.
// The caller must know that the run has ended: Sweep also removes those of a run in progress. Without an engine, the
// error is ErrNoEngine.
func Sweep(ctx context.Context, runID string) (removed []string, err error) {
	engine, err := Connect(ctx)
	if err != nil {
		return nil, fmt.Errorf("removing what run %s left in containers: %w", runID, err)
	}
	defer func() { _ = engine.Close() }()
	return RemoveAll(ctx, engine.Client, runID)
}

// RemoveAll removes everything that carries the label of a run: the containers concurrently, and then their
// networks.
func RemoveAll(ctx context.Context, engine *client.Client, runID string) (removed []string, err error) {
	labelled := make(client.Filters).Add("label", Label+"="+runID)
	containers, err := engine.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: labelled})
	if err != nil {
		return nil, fmt.Errorf("looking for the containers of run %s: %w", runID, err)
	}
	var removing sync.WaitGroup
	errs := make([]error, len(containers.Items))
	for i, c := range containers.Items {
		name := c.ID
		if len(c.Names) > 0 {
			name = strings.TrimPrefix(c.Names[0], "/")
		}
		removed = append(removed, "container "+name)
		removing.Go(func() { errs[i] = Remove(ctx, engine, c.ID) })
	}
	removing.Wait()
	networks, err := engine.NetworkList(ctx, client.NetworkListOptions{Filters: labelled})
	errs = append(errs, err)
	for _, n := range networks.Items {
		removed = append(removed, "network "+n.Name)
		if _, err := engine.NetworkRemove(ctx, n.ID, client.NetworkRemoveOptions{}); err != nil && !errdefs.IsNotFound(err) {
			errs = append(errs, fmt.Errorf("removing network %s: %w", n.Name, err))
		}
	}
	slices.Sort(removed)
	return removed, errors.Join(errs...)
}

// Remove removes a container, running or not, with its data.
func Remove(ctx context.Context, engine *client.Client, id string) error {
	_, err := engine.ContainerRemove(ctx, id, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
	if err != nil && !errdefs.IsNotFound(err) {
		return fmt.Errorf("removing container %s: %w", id, err)
	}
	return nil
}
