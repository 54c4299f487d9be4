// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package ptp is the default network.Plugin: every pod has a pair of virtual Ethernet links of its own to the node, and
// the node routes. Touch it when pods cannot reach something or to change how they are wired.
//
// There is no bridge. A pod has a single address (/32 or /128) and sends everything to a gateway that exists only as a
// neighbour entry for the other end of its link. The node has a route to each of its pods. That a packet is routed, and
// never switched, is why Services work between pods of one node without any bridge setting.
package ptp

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"k8s.io/klog/v2"

	"minik8s.io/minik8s/pkg/network"
	"minik8s.io/minik8s/pkg/network/bandwidth"
	"minik8s.io/minik8s/pkg/network/keyedmutex"
	"minik8s.io/minik8s/pkg/network/namespace"
	"minik8s.io/minik8s/pkg/network/ptp/internal/ipam"
	"minik8s.io/minik8s/pkg/network/ruleset"
	"minik8s.io/minik8s/pkg/network/uplink"
)

// resync is how often rules are put back that somebody removed, such as a Docker daemon that starts.
const resync = 30 * time.Second

// Plugin implements network.Plugin.
type Plugin struct {
	config Config
	pool   *ipam.Pool

	// mu keeps rules and the state of the plugin together: no rule is put back after a purge.
	mu     sync.Mutex
	purged bool
	look   ruleset.Look // to look at rules takes a dozen programs
	// connections are how the kernel is to remember those; mu guards of which the log has said that they cannot be so.
	connections []setting
	stays       map[string]bool

	// sandboxes serializes work on one sandbox.
	sandboxes keyedmutex.Mutex
	// unfinished are sandboxes that have an allocation, and may not be connected. A set of their ids.
	unfinished sync.Map
}

var _ network.Plugin = (*Plugin)(nil)

// New returns a Plugin with the allocations that are on disk.
func New(config Config) (*Plugin, error) {
	if err := config.complete(); err != nil {
		return nil, err
	}
	pool, err := ipam.Open(filepath.Join(config.StateDir, "ipam.json"), config.PodCIDRs)
	if err != nil {
		return nil, err
	}
	return &Plugin{config: config, pool: pool, connections: connections(processors()), stays: map[string]bool{}}, nil
}

// Start implements network.Plugin. It returns when the node is prepared; until ctx ends, rules that get lost are put
// back.
func (p *Plugin) Start(ctx context.Context) error {
	if err := p.prepare(); err != nil {
		return err
	}
	logger := klog.FromContext(ctx)
	go func() {
		ticker := time.NewTicker(resync)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				if err := p.ensure(); err != nil {
					logger.Error(err, "Could not restore the pod network's rules")
				}
			}
		}
	}()
	return nil
}

// inside does something in the node's network namespace.
func (p *Plugin) inside(f func() error) error { return namespace.Do(p.config.NetNS, f) }

func (p *Plugin) prepare() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.purged = false
	return p.inside(p.lay)
}

func (p *Plugin) lay() error {
	if err := p.addFallbackRoutes(); err != nil {
		return err
	}
	if err := p.forwarding(); err != nil {
		return err
	}
	return p.ensureRules()
}

// ensure puts back what may have been removed, unless the plugin was purged.
func (p *Plugin) ensure() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.purged {
		return nil
	}
	return p.inside(p.mend)
}

// mend mends each for itself: a setting that somebody holds keeps no rule from being put back.
func (p *Plugin) mend() error {
	return errors.Join(p.addFallbackRoutes(), p.forwarding(), p.look.Mend(p.ensureRules))
}

// Ready implements network.Plugin: what was started can.
func (p *Plugin) Ready() error { return nil }

// Reserve implements network.Plugin.
func (p *Plugin) Reserve(ctx context.Context, sandboxID string) ([]netip.Addr, error) {
	defer p.sandboxes.Lock(sandboxID)()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return p.reserve(sandboxID)
}

func (p *Plugin) reserve(sandboxID string) ([]netip.Addr, error) {
	p.unfinished.Store(sandboxID, true)
	addrs, err := p.pool.Allocate(sandboxID)
	if err != nil {
		return nil, fmt.Errorf("allocating addresses of sandbox %q: %w", sandboxID, err)
	}
	return addrs, nil
}

// SetUp implements network.Plugin.
func (p *Plugin) SetUp(ctx context.Context, pod network.Pod, netns string) ([]netip.Addr, error) {
	sandboxID := pod.SandboxID
	defer p.sandboxes.Lock(sandboxID)()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	// The allocation comes first: whatever was begun can be found and undone by it.
	addrs, err := p.reserve(sandboxID)
	if err != nil {
		return nil, err
	}
	err = p.inside(func() (err error) {
		mtu := p.config.MTU
		if mtu == 0 {
			if mtu, err = uplink.MTU(); err != nil {
				return err
			}
		}
		return connect(netns, p.linkName(sandboxID), addrs, mtu, pod.Bandwidth)
	})
	if err != nil {
		return nil, fmt.Errorf("connecting sandbox %q: %w", sandboxID, err)
	}
	p.unfinished.Delete(sandboxID)
	return addrs, nil
}

// Addresses implements network.Plugin.
func (p *Plugin) Addresses(sandboxID string) []netip.Addr {
	if _, unfinished := p.unfinished.Load(sandboxID); unfinished {
		return nil
	}
	return p.pool.Addresses(sandboxID)
}

// TearDown implements network.Plugin.
func (p *Plugin) TearDown(_ context.Context, sandboxID string) error {
	defer p.sandboxes.Lock(sandboxID)()
	link := p.linkName(sandboxID)
	if err := p.inside(func() error { return errors.Join(removeLink(link), bandwidth.Remove(shaper(link))) }); err != nil {
		return err
	}
	if err := p.pool.Release(sandboxID); err != nil {
		return err
	}
	p.unfinished.Delete(sandboxID)
	return nil
}

// Retain implements network.Plugin.
func (p *Plugin) Retain(ctx context.Context, keep map[string]bool) error {
	var errs []error
	for _, id := range p.pool.Owners() {
		if !keep[id] {
			errs = append(errs, p.TearDown(ctx, id))
		}
	}
	return errors.Join(errs...)
}

// Purge implements network.Plugin. It also removes the links of the cluster's other nodes, should several share this
// network namespace.
func (p *Plugin) Purge(context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.purged = true
	err := errors.Join(p.inside(func() error {
		return errors.Join(removeLinks("veth", p.linkPrefix()), removeLinks("ifb", shaper(p.linkPrefix())), p.removeFallbackRoutes(), p.removeRules(), p.restoreSysctls())
	}), p.pool.Remove())
	if removed := os.Remove(p.config.StateDir); removed != nil && !errors.Is(removed, fs.ErrNotExist) && !errors.Is(removed, syscall.ENOTEMPTY) {
		err = errors.Join(err, removed)
	}
	return err
}

// hash is a short name for a longer one.
func hash(s string, digits int) string {
	return fmt.Sprintf("%x", sha256.Sum256([]byte(s)))[:digits]
}

// linkPrefix begins the names of the cluster's links.
func (p *Plugin) linkPrefix() string { return linksOf(p.config.Name) }

// linksOf begins the names of the links of a cluster of that name.
func linksOf(cluster string) string { return linkPrefix + hash(cluster, 5) }

// linkName is the node's end of a sandbox's link; Linux allows 15 characters.
func (p *Plugin) linkName(sandboxID string) string {
	return p.linkPrefix() + hash(sandboxID, linkDigits)
}

// linkPrefix begins the names of all clusters' links, linkDigits of a hash end them.
const (
	linkPrefix = "mk"
	linkDigits = 8
)

// shaper is what a limited pod's packets wait at, by the name of its link.
func shaper(link string) string { return "mb" + link[len(linkPrefix):] }
