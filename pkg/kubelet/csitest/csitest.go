// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package csitest is a CSI driver whose volumes are directories, for tests of what calls drivers: over a real socket, with real
// mounts, and with faults that a test asks for. Touch it when a driver is to be able to do, or to fail in, something else.
package csitest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
	registrationv1 "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// Driver is what can be set of it before Start.
type Driver struct {
	csipb.UnimplementedIdentityServer
	csipb.UnimplementedControllerServer
	csipb.UnimplementedNodeServer
	registrationv1.UnimplementedRegistrationServer

	// Name and NodeID are what it says of itself, Data is where it keeps volumes: a folder for each. All are required.
	Name, NodeID, Data string
	// Capabilities are what it says that it can do on the node.
	Capabilities []csipb.NodeServiceCapability_RPC_Type
	// Topology and MaxVolumes are what it says of the node.
	Topology   map[string]string
	MaxVolumes int64
	// Device is what volumes of mode Block are; none if "".
	Device string

	mu     sync.Mutex // guards the fields below
	faults map[string][]Fault
	calls  []Call
	status chan *registrationv1.RegistrationStatus

	servers []*grpc.Server
	sockets []string
}

// Fault is what becomes of one call.
type Fault struct {
	// Err is answered. With Done the call is carried out nevertheless: its answer is lost.
	Err  error
	Done bool
	// Hang has the call wait until its caller has given up; with Done it is carried out before.
	Hang bool
	// Met is closed when a call has met the fault; nil: nobody wants to know.
	Met chan struct{}
	// Lie has the driver say that it is done, without doing anything.
	Lie bool
}

// Call is one that the driver has got.
type Call struct {
	// Method is that of the service, such as NodePublishVolume.
	Method  string
	Request proto.Message
}

// Fail has the next calls of a method meet faults, one each.
func (d *Driver) Fail(method string, faults ...Fault) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.faults == nil {
		d.faults = map[string][]Fault{}
	}
	d.faults[method] = append(d.faults[method], faults...)
}

// Calls returns the calls of the methods, all if there are none, in the order in which they came.
func (d *Driver) Calls(methods ...string) []Call {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []Call
	for _, c := range d.calls {
		if len(methods) == 0 || slices.Contains(methods, c.Method) {
			out = append(out, c)
		}
	}
	return out
}

// Registered delivers what the kubelet says of registrations.
func (d *Driver) Registered() <-chan *registrationv1.RegistrationStatus { return d.status }

// Start serves the driver at a socket until Stop.
func (d *Driver) Start(socket string) error {
	s := grpc.NewServer(grpc.UnaryInterceptor(d.meet))
	csipb.RegisterIdentityServer(s, d)
	csipb.RegisterControllerServer(s, d)
	csipb.RegisterNodeServer(s, d)
	return d.serve(s, socket)
}

// Announce serves at another socket what kubelets ask of plugins. endpoint is what the driver's own socket is called there.
func (d *Driver) Announce(socket, endpoint string) error {
	d.status = make(chan *registrationv1.RegistrationStatus, 100)
	s := grpc.NewServer()
	registrationv1.RegisterRegistrationServer(s, &announcement{d, endpoint, registrationv1.UnimplementedRegistrationServer{}})
	return d.serve(s, socket)
}

func (d *Driver) serve(s *grpc.Server, socket string) error {
	if err := os.MkdirAll(filepath.Dir(socket), 0o750); err != nil {
		return err
	}
	if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	// By its folder's descriptor the path may be longer than the kernel allows in an address.
	dir, err := os.Open(filepath.Dir(socket))
	if err != nil {
		return err
	}
	defer dir.Close()
	var c net.ListenConfig
	l, err := c.Listen(context.Background(), "unix", fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(socket)))
	if err != nil {
		return fmt.Errorf("serving a driver: %w", err)
	}
	if u, ok := l.(*net.UnixListener); ok {
		u.SetUnlinkOnClose(false) // by that path it would not be found
	}
	d.servers, d.sockets = append(d.servers, s), append(d.sockets, socket)
	go func() { _ = s.Serve(l) }()
	return nil
}

// Stop ends it and removes its sockets. Mounts stay.
func (d *Driver) Stop() {
	for _, s := range d.servers {
		s.Stop()
	}
	for _, s := range d.sockets {
		_ = os.Remove(s)
	}
	d.servers, d.sockets = nil, nil
}

// meet notes a call and has it meet its fault.
func (d *Driver) meet(ctx context.Context, request any, info *grpc.UnaryServerInfo, carryOut grpc.UnaryHandler) (any, error) {
	method := filepath.Base(info.FullMethod)
	var fault Fault
	d.mu.Lock()
	if m, ok := request.(proto.Message); ok {
		d.calls = append(d.calls, Call{method, m})
	}
	if f := d.faults[method]; len(f) > 0 {
		fault, d.faults[method] = f[0], f[1:]
	}
	d.mu.Unlock()
	if fault == (Fault{}) {
		return carryOut(ctx, request)
	}
	if fault.Done {
		if _, err := carryOut(ctx, request); err != nil {
			return nil, err
		}
	}
	if fault.Met != nil {
		close(fault.Met)
	}
	if fault.Lie {
		return lies[method], nil
	}
	if fault.Hang {
		<-ctx.Done()
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	return nil, fault.Err
}

// lies are the answers of what was not done.
var lies = map[string]proto.Message{
	"NodeStageVolume": &csipb.NodeStageVolumeResponse{}, "NodeUnstageVolume": &csipb.NodeUnstageVolumeResponse{},
	"NodePublishVolume": &csipb.NodePublishVolumeResponse{}, "NodeUnpublishVolume": &csipb.NodeUnpublishVolumeResponse{},
}

// announcement is the driver as kubelets see it before they use it.
type announcement struct {
	driver   *Driver
	endpoint string
	registrationv1.UnimplementedRegistrationServer
}

func (a *announcement) GetInfo(context.Context, *registrationv1.InfoRequest) (*registrationv1.PluginInfo, error) {
	return &registrationv1.PluginInfo{
		Type: registrationv1.CSIPlugin, Name: a.driver.Name, Endpoint: a.endpoint, SupportedVersions: []string{"1.0.0"},
	}, nil
}

func (a *announcement) NotifyRegistrationStatus(
	_ context.Context, s *registrationv1.RegistrationStatus,
) (*registrationv1.RegistrationStatusResponse, error) {
	a.driver.status <- s
	return &registrationv1.RegistrationStatusResponse{}, nil
}

// GetPluginInfo implements csipb.IdentityServer.
func (d *Driver) GetPluginInfo(context.Context, *csipb.GetPluginInfoRequest) (*csipb.GetPluginInfoResponse, error) {
	return &csipb.GetPluginInfoResponse{Name: d.Name, VendorVersion: "1"}, nil
}

// GetPluginCapabilities implements csipb.IdentityServer.
func (d *Driver) GetPluginCapabilities(context.Context, *csipb.GetPluginCapabilitiesRequest) (*csipb.GetPluginCapabilitiesResponse, error) {
	return &csipb.GetPluginCapabilitiesResponse{Capabilities: []*csipb.PluginCapability{{Type: &csipb.PluginCapability_Service_{
		Service: &csipb.PluginCapability_Service{Type: csipb.PluginCapability_Service_CONTROLLER_SERVICE},
	}}}}, nil
}

// Probe implements csipb.IdentityServer.
func (d *Driver) Probe(context.Context, *csipb.ProbeRequest) (*csipb.ProbeResponse, error) {
	return &csipb.ProbeResponse{Ready: wrapperspb.Bool(true)}, nil
}

// volume is the folder of a volume, an error if there is none.
func (d *Driver) volume(id string) (string, error) {
	if id == "" {
		return "", status.Error(codes.InvalidArgument, "no volume id")
	}
	dir := filepath.Join(d.Data, id)
	if !filepath.IsLocal(id) || filepath.Dir(dir) != filepath.Clean(d.Data) {
		return "", status.Errorf(codes.NotFound, "volume %q is none", id)
	}
	if _, err := os.Stat(dir); err != nil {
		return "", status.Errorf(codes.NotFound, "volume %q: %v", id, err)
	}
	return dir, nil
}
