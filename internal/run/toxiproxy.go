package run

// Links through a toxiproxy server.

import (
	"context"
	"fmt"
	"strings"

	"github.com/dlqbench/dlqbench/faults/network"
	"github.com/dlqbench/dlqbench/internal/env/ports"
)

// environmentLinks is the name of what makes the links in a history's environment: linksOwn, or linksToxiproxy and the
// server.
const (
	environmentLinks = "links"
	linksOwn         = "own"
	linksToxiproxy   = "toxiproxy "
)

func linksOf(toxiproxy string) string {
	if toxiproxy == "" {
		return linksOwn
	}
	return linksToxiproxy + toxiproxy
}

// openPaths chooses what makes the links.
func (r *run) openPaths(ctx context.Context) error {
	r.paths, r.links = network.Relays{}, map[string][]network.Link{}
	server := r.options.Cluster.Toxiproxy
	if server == "" {
		return nil
	}
	made, err := network.OpenToxiproxy(ctx, network.ToxiproxySettings{Server: server, Prefix: proxyPrefix(r.dir.id),
		Port: func() (int, error) {
			free, err := ports.Free(1)
			if err != nil {
				return 0, err
			}
			return free[0], nil
		}})
	if err != nil {
		return err
	}
	r.paths = made
	return nil
}

// proxyPrefix begins the names of a run's proxies.
func proxyPrefix(runID string) string { return runID + "." }

// cleanProxies removes the proxies of a killed run from its toxiproxy server.
func cleanProxies(ctx context.Context, dir string) (did []string, err error) {
	header, err := readHeader(dir)
	server, used := strings.CutPrefix(header.Environment[environmentLinks], linksToxiproxy)
	if err != nil || !used || server == network.ToxiproxyStart { // that one ended with the run
		return nil, err
	}
	removed, err := network.RemoveProxies(ctx, server, proxyPrefix(header.RunID))
	for _, name := range removed {
		did = append(did, fmt.Sprintf("removed proxy %s from toxiproxy, left over from %s", name, dir))
	}
	return did, err
}
