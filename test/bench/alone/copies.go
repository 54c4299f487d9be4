// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package alone

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
)

// Copies makes by calls of Docker's API what the kubelet makes of a pod: copies of the containers of one that runs, with a link to the
// node. Its methods may be called at the same time.
type Copies struct {
	engine        *Engine
	sandbox, main container.InspectResponse
	links         atomic.Uint32
}

// Pod are the containers of a copy, and its address.
type Pod struct {
	Sandbox, Main string
	Address       net.IP
}

// Copies returns what makes copies of a pod with one container, which runs on this machine.
func (e *Engine) Copies(ctx context.Context, pod string) (*Copies, error) {
	sandbox, err := e.one(ctx, pod, "podsandbox")
	if err != nil {
		return nil, err
	}
	main, err := e.Main(ctx, pod)
	return &Copies{engine: e, sandbox: sandbox, main: main}, err
}

// Start makes a copy. What there is of it is in p also if it fails.
func (c *Copies) Start(ctx context.Context, p *Pod) (err error) {
	if p.Sandbox, err = c.copy(ctx, c.sandbox, ""); err != nil {
		return err
	}
	found, err := c.engine.ContainerInspect(ctx, p.Sandbox)
	if err != nil {
		return err
	}
	if p.Address, err = c.connect(found.State.Pid); err != nil {
		return fmt.Errorf("connecting: %w", err)
	}
	p.Main, err = c.copy(ctx, c.main, p.Sandbox)
	return err
}

// Remove kills and removes a copy. The link goes with the sandbox.
func (c *Copies) Remove(ctx context.Context, p Pod) error {
	var errs []error
	for _, id := range []string{p.Main, p.Sandbox} {
		if id != "" {
			errs = append(errs, c.engine.ContainerRemove(context.WithoutCancel(ctx), id, container.RemoveOptions{Force: true}))
		}
	}
	return errors.Join(errs...)
}

// copy creates and starts a copy of a container, in a sandbox if it is none itself.
func (c *Copies) copy(ctx context.Context, of container.InspectResponse, sandbox string) (string, error) {
	config, host := *of.Config, *of.HostConfig
	config.Labels = nil // it is nobody's pod
	if sandbox != "" {
		in := func(mode string) string {
			return strings.Replace(mode, "container:"+c.sandbox.ID, "container:"+sandbox, 1)
		}
		host.NetworkMode = container.NetworkMode(in(string(host.NetworkMode)))
		host.IpcMode = container.IpcMode(in(string(host.IpcMode)))
		host.PidMode = container.PidMode(in(string(host.PidMode)))
		config.Hostname, config.Domainname = "", "" // those of the sandbox
	}
	made, err := c.engine.ContainerCreate(ctx, &config, &host, nil, nil, "")
	if err != nil {
		return "", fmt.Errorf("creating a copy of %s: %w", of.Name, err)
	}
	if err := c.engine.ContainerStart(ctx, made.ID, container.StartOptions{}); err != nil {
		return made.ID, fmt.Errorf("starting a copy of %s: %w", of.Name, err)
	}
	return made.ID, nil
}

// connect gives the namespace of a process a link to the node with an address, which it returns, and routes.
func (c *Copies) connect(pid int) (net.IP, error) {
	ns, err := netns.GetFromPid(pid)
	if err != nil {
		return nil, err
	}
	defer ns.Close()
	inside, err := netlink.NewHandleAt(ns)
	if err != nil {
		return nil, err
	}
	defer inside.Close()
	number := c.links.Add(1)
	// RFC 2544 has these addresses for benchmarks.
	address := &net.IPNet{IP: net.IPv4(198, 18, byte(number>>8), byte(number)), Mask: net.CIDRMask(32, 32)}
	gateway := &net.IPNet{IP: net.IPv4(169, 254, 1, 1), Mask: net.CIDRMask(32, 32)}
	veth := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: fmt.Sprintf("bench%d", number)},
		PeerName: "eth0", PeerNamespace: netlink.NsFd(ns)}
	if err := netlink.LinkAdd(veth); err != nil {
		return nil, err
	}
	outer, err := netlink.LinkByName(veth.Name)
	if err != nil {
		return nil, err
	}
	inner, err := inside.LinkByName("eth0")
	if err != nil {
		return nil, err
	}
	loopback, err := inside.LinkByName("lo")
	if err != nil {
		return nil, err
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
			return nil, err
		}
	}
	return address.IP, nil
}
