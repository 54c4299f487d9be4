// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package dra

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	drahealthv1 "k8s.io/kubelet/pkg/apis/dra-health/v1"
	drahealthv1alpha1 "k8s.io/kubelet/pkg/apis/dra-health/v1alpha1"
	drav1 "k8s.io/kubelet/pkg/apis/dra/v1"
	drav1beta1 "k8s.io/kubelet/pkg/apis/dra/v1beta1"

	"minik8s.io/minik8s/pkg/kubelet/internal/pluginregistration"
)

// driver is one that refuses, hangs, loses answers and lies when a test asks it to.
type driver struct {
	drav1.UnimplementedDRAPluginServer
	drahealthv1.UnimplementedDRAResourceHealthServer
	name, endpoint string
	server         *grpc.Server
	// health are the reports to send; nil: it does not know of them.
	health chan []*drahealthv1.DeviceHealth
	// asked has a value for each call that hangs.
	asked chan string

	mu sync.Mutex // guards the fields below
	// calls are the methods with the names of claims, prepared the claims by UID.
	calls    []string
	prepared map[string]bool
	// refuse is the error of each claim, lose that of each call whose work is done; hang has calls wait for their end.
	refuse string
	lose   bool
	hang   chan struct{}
	// alter changes an answer.
	alter func(map[string]*drav1.NodePrepareResourceResponse)
}

// serve puts a driver at a socket below the kubelet's directory and returns how it registers. As one that is killed it leaves its
// socket.
func serve(t *testing.T, root, name, file string, versions ...string) (*driver, pluginregistration.Plugin) {
	t.Helper()
	d := &driver{name: name, endpoint: filepath.Join(root, file), prepared: map[string]bool{}, asked: make(chan string, 100)}
	if slices.ContainsFunc(versions, func(v string) bool { return strings.Contains(v, "Health") }) {
		d.health = make(chan []*drahealthv1.DeviceHealth, 10)
	}
	d.listen(t)
	if len(versions) == 0 {
		versions = []string{drav1.DRAPluginService}
	}
	return d, pluginregistration.Plugin{Type: "DRAPlugin", Name: name, Endpoint: d.endpoint, Versions: versions}
}

func (d *driver) listen(t *testing.T) {
	t.Helper()
	if err := os.Remove(d.endpoint); err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	var c net.ListenConfig
	l, err := c.Listen(t.Context(), "unix", d.endpoint)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	d.server = grpc.NewServer()
	drav1.RegisterDRAPluginServer(d.server, d)
	drav1beta1.RegisterDRAPluginServer(d.server, drav1beta1.V1ServerWrapper{DRAPluginServer: d})
	if d.health != nil {
		drahealthv1.RegisterDRAResourceHealthServer(d.server, d)
		drahealthv1alpha1.RegisterDRAResourceHealthServer(d.server, drahealthv1.V1ServerWrapper{Server: d})
	}
	go func() { _ = d.server.Serve(l) }()
	t.Cleanup(d.server.Stop)
}

// begin notes a call and does what all of them do.
func (d *driver) begin(ctx context.Context, method string, claims []*drav1.Claim) error {
	for _, c := range claims {
		method += " " + c.GetNamespace() + "/" + c.GetName()
	}
	d.mu.Lock()
	d.calls = append(d.calls, method)
	hang := d.hang
	d.mu.Unlock()
	if hang == nil {
		return nil
	}
	d.asked <- method
	select {
	case <-hang:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (d *driver) NodePrepareResources(ctx context.Context, r *drav1.NodePrepareResourcesRequest) (*drav1.NodePrepareResourcesResponse, error) {
	if err := d.begin(ctx, "prepare", r.GetClaims()); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	out := map[string]*drav1.NodePrepareResourceResponse{}
	for _, c := range r.GetClaims() {
		if d.refuse != "" {
			out[c.GetUid()] = &drav1.NodePrepareResourceResponse{Error: d.refuse}
			continue
		}
		d.prepared[c.GetUid()] = true
		out[c.GetUid()] = &drav1.NodePrepareResourceResponse{Devices: []*drav1.Device{
			{PoolName: "pool", DeviceName: "a", RequestNames: []string{"first"}, CdiDeviceIds: []string{d.name + "/c=" + c.GetUid() + "-a"}},
			{PoolName: "pool", DeviceName: "b", RequestNames: []string{"second"}, CdiDeviceIds: []string{d.name + "/c=" + c.GetUid() + "-b"}, ShareId: new("s")},
		}}
	}
	if d.alter != nil {
		d.alter(out)
	}
	if d.lose {
		return nil, errors.New("the answer is lost")
	}
	return &drav1.NodePrepareResourcesResponse{Claims: out}, nil
}

func (d *driver) NodeUnprepareResources(ctx context.Context, r *drav1.NodeUnprepareResourcesRequest) (*drav1.NodeUnprepareResourcesResponse, error) {
	if err := d.begin(ctx, "unprepare", r.GetClaims()); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	out := map[string]*drav1.NodeUnprepareResourceResponse{}
	for _, c := range r.GetClaims() {
		if d.refuse != "" {
			out[c.GetUid()] = &drav1.NodeUnprepareResourceResponse{Error: d.refuse}
			continue
		}
		delete(d.prepared, c.GetUid())
		out[c.GetUid()] = &drav1.NodeUnprepareResourceResponse{}
	}
	if d.lose {
		return nil, errors.New("the answer is lost")
	}
	return &drav1.NodeUnprepareResourcesResponse{Claims: out}, nil
}

func (d *driver) NodeWatchResources(_ *drahealthv1.NodeWatchResourcesRequest, s grpc.ServerStreamingServer[drahealthv1.NodeWatchResourcesResponse]) error {
	for {
		select {
		case <-s.Context().Done():
			return s.Context().Err()
		case list, is := <-d.health:
			if !is {
				return errors.New("no more")
			}
			if err := s.Send(&drahealthv1.NodeWatchResourcesResponse{Devices: list}); err != nil {
				return err
			}
		}
	}
}

// set changes how the driver behaves.
func (d *driver) set(change func(*driver)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	change(d)
}

// want checks the calls since the last time, and which claims are prepared now.
func (d *driver) want(t *testing.T, prepared int, calls ...string) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if !slices.Equal(d.calls, calls) || len(d.prepared) != prepared {
		t.Errorf("%s has prepared %v, after %q, want %q", d.name, d.prepared, d.calls, calls)
	}
	d.calls = nil
}
