// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package alone is Docker without a cluster: what its daemon takes, and copies of the containers of a pod made by calls of its API
// alone, which the benches compare pods with. Touch it when the kubelet makes something else of a pod.
package alone

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
	"k8s.io/apimachinery/pkg/util/wait"

	"minik8s.io/minik8s/test/program"
)

// Engine is Docker, and the process of its daemon.
type Engine struct {
	*client.Client
	pid int
}

// New finds the Docker of the environment, which is to be on this machine.
func New(ctx context.Context) (*Engine, error) {
	c, err := client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation())
	if err != nil {
		return nil, err
	}
	if _, err := c.Ping(ctx); err != nil {
		return nil, err
	}
	pid, err := server(strings.TrimPrefix(c.DaemonHost(), "unix://"))
	return &Engine{Client: c, pid: pid}, err
}

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
func (e *Engine) processor() (time.Duration, error) {
	u, err := program.UsageOf(e.pid)
	return u.Processor, err
}

// Cost is what something takes: of time, and of the processor in the daemon.
type Cost struct{ Took, Daemon time.Duration }

// CostOf measures f.
func (e *Engine) CostOf(f func() error) (Cost, error) {
	before, err := e.processor()
	if err != nil {
		return Cost{}, err
	}
	begin := time.Now()
	if err := f(); err != nil {
		return Cost{}, err
	}
	took := time.Since(begin)
	after, err := e.processor()
	return Cost{took, after - before}, err
}

// containersOf returns the containers with a label.
func (e *Engine) containersOf(ctx context.Context, labels ...string) ([]container.Summary, error) {
	args := filters.NewArgs()
	for _, l := range labels {
		args.Add("label", l)
	}
	return e.ContainerList(ctx, container.ListOptions{All: true, Filters: args})
}

// podName is the label of containers that names their pod.
const podName = "io.kubernetes.pod.name"

// Left is how many containers there are of a cluster's pods whose names begin so.
func (e *Engine) Left(ctx context.Context, cluster, prefix string) (n int, err error) {
	list, err := e.containersOf(ctx, "minik8s.io/cluster="+cluster)
	for _, c := range list {
		if strings.HasPrefix(c.Labels[podName], prefix) {
			n++
		}
	}
	return n, err
}

// Main finds the only container of a pod beside its sandbox.
func (e *Engine) Main(ctx context.Context, pod string) (container.InspectResponse, error) {
	return e.one(ctx, pod, "container")
}

// Gone waits until there is no container of a pod any more.
func (e *Engine) Gone(ctx context.Context, pod string) error {
	err := wait.PollUntilContextTimeout(ctx, look, patience, true, func(ctx context.Context) (bool, error) {
		list, err := e.containersOf(ctx, podName+"="+pod)
		return len(list) == 0, err
	})
	if err != nil {
		return fmt.Errorf("waiting for the end of pod %s: %w", pod, err)
	}
	return nil
}

// How often is looked whether something is gone, and for how long.
const (
	look     = 50 * time.Millisecond
	patience = time.Minute
)

// one finds the only container of a pod that is of a type.
func (e *Engine) one(ctx context.Context, pod, kind string) (container.InspectResponse, error) {
	list, err := e.containersOf(ctx, podName+"="+pod, "io.kubernetes.docker.type="+kind)
	if err != nil {
		return container.InspectResponse{}, err
	}
	if len(list) != 1 {
		return container.InspectResponse{}, fmt.Errorf("pod %s has %d containers of type %s, want 1", pod, len(list), kind)
	}
	return e.ContainerInspect(ctx, list[0].ID)
}
