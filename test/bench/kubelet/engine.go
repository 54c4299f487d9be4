// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/client"

	"minik8s.io/minik8s/test/program"
)

// engine is Docker, and the process of its daemon.
type engine struct {
	*client.Client
	pid int
}

func newEngine(ctx context.Context) (*engine, error) {
	c, err := client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation())
	if err != nil {
		return nil, err
	}
	if _, err := c.Ping(ctx); err != nil {
		return nil, err
	}
	pid, err := server(strings.TrimPrefix(c.DaemonHost(), "unix://"))
	return &engine{Client: c, pid: pid}, err
}

func (e *engine) close() error { return e.Close() }

// server is the process that listens at a socket.
func server(socket string) (int, error) {
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		return 0, fmt.Errorf("finding dockerd: %w", err)
	}
	defer conn.Close()
	file, err := conn.File()
	if err != nil {
		return 0, err
	}
	defer file.Close()
	peer, err := syscall.GetsockoptUcred(int(file.Fd()), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	if err != nil {
		return 0, fmt.Errorf("finding dockerd: %w", err)
	}
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", peer.Pid))
	if err == nil && strings.TrimSpace(string(name)) != "dockerd" {
		err = fmt.Errorf("it is %s that listens at %s", strings.TrimSpace(string(name)), socket)
	}
	return int(peer.Pid), err
}

// processor is how much of the processor's time the daemon has taken so far.
func (e *engine) processor() (time.Duration, error) {
	u, err := program.UsageOf(e.pid)
	return u.Processor, err
}

// cost is what something takes.
type cost struct{ took, daemon time.Duration }

// costOf measures f.
func (e *engine) costOf(f func() error) (cost, error) {
	before, err := e.processor()
	if err != nil {
		return cost{}, err
	}
	begin := time.Now()
	if err := f(); err != nil {
		return cost{}, err
	}
	took := time.Since(begin)
	after, err := e.processor()
	return cost{took, after - before}, err
}

// containersOf returns the containers with a label.
func (e *engine) containersOf(ctx context.Context, labels ...string) ([]container.Summary, error) {
	args := filters.NewArgs()
	for _, l := range labels {
		args.Add("label", l)
	}
	return e.ContainerList(ctx, container.ListOptions{All: true, Filters: args})
}

// podName is the label of containers that names their pod.
const podName = "io.kubernetes.pod.name"

// left is how many containers there are of a cluster's pods whose names begin so.
func (e *engine) left(ctx context.Context, cluster, prefix string) (n int, err error) {
	list, err := e.containersOf(ctx, "minik8s.io/cluster="+cluster)
	for _, c := range list {
		if strings.HasPrefix(c.Labels[podName], prefix) {
			n++
		}
	}
	return n, err
}

// one finds the only container of a pod that is of a type.
func (e *engine) one(ctx context.Context, pod, kind string) (container.InspectResponse, error) {
	list, err := e.containersOf(ctx, podName+"="+pod, "io.kubernetes.docker.type="+kind)
	if err != nil {
		return container.InspectResponse{}, err
	}
	if len(list) != 1 {
		return container.InspectResponse{}, fmt.Errorf("pod %s has %d containers of type %s, want 1", pod, len(list), kind)
	}
	return e.ContainerInspect(ctx, list[0].ID)
}
