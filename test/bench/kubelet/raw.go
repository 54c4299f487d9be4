// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync/atomic"

	"github.com/docker/docker/api/types/container"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sync/errgroup"
)

// raw makes by calls of Docker's API what the kubelet makes of a pod: copies of the containers of one that runs, with a link to
// the node.
type raw struct {
	engine        *engine
	sandbox, main container.InspectResponse
	links         atomic.Uint32
	// at is how many pods are made at a time: whatever is fastest here.
	at int
}

// rawPod are the containers of a copy.
type rawPod struct{ sandbox, main string }

// newRaw returns a raw that copies a pod of the node, which stays, and finds out how many at a time are made fastest.
func newRaw(ctx context.Context, b *bench, n *node) (*raw, error) {
	const original = "original"
	if err := n.starts(ctx, original, 1); err != nil {
		return nil, err
	}
	r := &raw{engine: b.engine}
	var err error
	if r.sandbox, err = b.engine.one(ctx, original+"-0", "podsandbox"); err != nil {
		return nil, err
	}
	if r.main, err = b.engine.one(ctx, original+"-0", "container"); err != nil {
		return nil, err
	}
	fastest := map[int]cost{}
	for _, at := range []int{1, 2, 4, 8, 16} { // the first warms up
		pods, c, err := r.starts(ctx, at, b.batch)
		if _, err := r.stops(ctx, at, pods); err != nil {
			return nil, err
		}
		if err != nil {
			return nil, err
		}
		if fastest[at] = c; r.at == 0 || c.took < fastest[r.at].took {
			r.at = at
		}
	}
	fmt.Fprintf(os.Stderr, "Docker alone makes %d pods fastest %d at a time: %v\n", b.batch, r.at, fastest)
	return r, nil
}

// starts makes copies, so many at a time.
func (r *raw) starts(ctx context.Context, at, count int) ([]rawPod, cost, error) {
	pods := make([]rawPod, count)
	c, err := r.engine.costOf(func() error {
		var all errgroup.Group
		all.SetLimit(at)
		for i := range pods {
			all.Go(func() error { return r.start(ctx, &pods[i]) })
		}
		return all.Wait()
	})
	return pods, c, err
}

// stops kills and removes copies, so many at a time.
func (r *raw) stops(ctx context.Context, at int, pods []rawPod) (cost, error) {
	return r.engine.costOf(func() error {
		var all errgroup.Group
		all.SetLimit(at)
		for _, p := range pods {
			all.Go(func() error {
				var errs []error
				for _, id := range []string{p.main, p.sandbox} { // the link goes with the sandbox
					if id != "" {
						errs = append(errs, r.engine.ContainerRemove(context.WithoutCancel(ctx), id, container.RemoveOptions{Force: true}))
					}
				}
				return errors.Join(errs...)
			})
		}
		return all.Wait()
	})
}

func (r *raw) start(ctx context.Context, p *rawPod) (err error) {
	if p.sandbox, err = r.copy(ctx, r.sandbox, ""); err != nil {
		return err
	}
	found, err := r.engine.ContainerInspect(ctx, p.sandbox)
	if err != nil {
		return err
	}
	if err := r.connect(found.State.Pid); err != nil {
		return fmt.Errorf("connecting: %w", err)
	}
	p.main, err = r.copy(ctx, r.main, p.sandbox)
	return err
}

// copy creates and starts a copy of a container, in a sandbox if it is none itself.
func (r *raw) copy(ctx context.Context, of container.InspectResponse, sandbox string) (string, error) {
	config, host := *of.Config, *of.HostConfig
	config.Labels = nil // it is nobody's pod
	if sandbox != "" {
		in := func(mode string) string {
			return strings.Replace(mode, "container:"+r.sandbox.ID, "container:"+sandbox, 1)
		}
		host.NetworkMode = container.NetworkMode(in(string(host.NetworkMode)))
		host.IpcMode = container.IpcMode(in(string(host.IpcMode)))
		host.PidMode = container.PidMode(in(string(host.PidMode)))
		config.Hostname, config.Domainname = "", "" // those of the sandbox
	}
	made, err := r.engine.ContainerCreate(ctx, &config, &host, nil, nil, "")
	if err != nil {
		return "", fmt.Errorf("creating a copy of %s: %w", of.Name, err)
	}
	if err := r.engine.ContainerStart(ctx, made.ID, container.StartOptions{}); err != nil {
		return made.ID, fmt.Errorf("starting a copy of %s: %w", of.Name, err)
	}
	return made.ID, nil
}

// connect gives the namespace of a process a link to the node with an address and routes.
func (r *raw) connect(pid int) error {
	ns, err := netns.GetFromPid(pid)
	if err != nil {
		return err
	}
	defer ns.Close()
	inside, err := netlink.NewHandleAt(ns)
	if err != nil {
		return err
	}
	defer inside.Close()
	number := r.links.Add(1)
	// RFC 2544 has these addresses for benchmarks.
	address := &net.IPNet{IP: net.IPv4(198, 18, byte(number>>8), byte(number)), Mask: net.CIDRMask(32, 32)}
	gateway := &net.IPNet{IP: net.IPv4(169, 254, 1, 1), Mask: net.CIDRMask(32, 32)}
	veth := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: fmt.Sprintf("bench%d", number)},
		PeerName: "eth0", PeerNamespace: netlink.NsFd(ns)}
	if err := netlink.LinkAdd(veth); err != nil {
		return err
	}
	outer, err := netlink.LinkByName(veth.Name)
	if err != nil {
		return err
	}
	inner, err := inside.LinkByName("eth0")
	if err != nil {
		return err
	}
	loopback, err := inside.LinkByName("lo")
	if err != nil {
		return err
	}
	to := func(link netlink.Link, dst *net.IPNet, via net.IP) *netlink.Route {
		route := &netlink.Route{LinkIndex: link.Attrs().Index, Dst: dst, Gw: via}
		if via == nil {
			route.Scope = netlink.SCOPE_LINK
		}
		return route
	}
	for _, step := range []func() error{
		func() error { return netlink.LinkSetUp(outer) },
		func() error { return inside.LinkSetUp(loopback) },
		func() error { return inside.LinkSetUp(inner) },
		func() error { return inside.AddrAdd(inner, &netlink.Addr{IPNet: address}) },
		func() error { return inside.RouteAdd(to(inner, gateway, nil)) },
		func() error { return inside.RouteAdd(to(inner, nil, gateway.IP)) },
		func() error {
			return os.WriteFile("/proc/sys/net/ipv4/conf/"+veth.Name+"/proxy_arp", []byte("1"), 0)
		},
		func() error { return netlink.RouteAdd(to(outer, address, nil)) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}
