// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package devicemanager

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"google.golang.org/grpc"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	devicepluginv1beta1 "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"minik8s.io/minik8s/pkg/kubelet/internal/socket"
)

// patience is how long a plugin may take for a simple answer.
const patience = 10 * time.Second

// plugin is one that has registered.
type plugin struct {
	resource string
	path     string // where its socket was found
	socket   *socket.Socket
	conn     *grpc.ClientConn
	client   devicepluginv1beta1.DevicePluginClient
	options  *devicepluginv1beta1.DevicePluginOptions
	leave    context.CancelFunc // ends the care for it
	told     *devices           // what it has told of last, nil before; guarded as the manager's fields
}

var errStopped = errors.New("the kubelet is not running")

// connect takes the plugin of a resource into use whose socket is at name in dir. One of the same socket has gone then; another one that has
// the resource already waits, and is in use again if this one goes before it, as upstream. It returns once the plugin has said what it can do;
// which devices there are comes later.
func (m *Manager) connect(ctx context.Context, resource, dir, name string) (err error) {
	p := &plugin{resource: resource, path: filepath.Join(dir, name)}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.close())
		}
	}()
	if p.socket, err = socket.Open(dir, name); err != nil {
		return err
	}
	if p.conn, err = p.socket.Client(); err != nil {
		return err
	}
	p.client = devicepluginv1beta1.NewDevicePluginClient(p.conn)
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if p.options, err = p.client.GetDevicePluginOptions(ctx, &devicepluginv1beta1.Empty{}); err != nil {
		return fmt.Errorf("failed to get device plugin options: %w", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.life == nil || m.life.Err() != nil {
		return errStopped
	}
	own, leave := context.WithCancel(m.life)
	p.leave = leave
	m.leave(resource, p.path)
	m.plugins[resource] = append(m.plugins[resource], p)
	m.wg.Go(func() {
		defer leave()
		m.follow(own, p)
	})
	m.cfg.Counts.DevicePluginRegistered(resource)
	return nil
}

// leave ends the care for the plugins of a resource whose socket was found at path. It needs the lock.
func (m *Manager) leave(resource, path string) {
	for _, p := range m.plugins[resource] {
		if p.path == path {
			p.leave()
		}
	}
}

// inUse is the plugin of a resource, nil if there is none. It needs the lock.
func (m *Manager) inUse(resource string) *plugin {
	all := m.plugins[resource]
	if len(all) == 0 {
		return nil
	}
	return all[len(all)-1]
}

func (p *plugin) close() error {
	var errs []error
	if p.conn != nil {
		errs = append(errs, p.conn.Close())
	}
	if p.socket != nil {
		errs = append(errs, p.socket.Close())
	}
	return errors.Join(errs...)
}

// follow takes the devices that a plugin tells of until that ends.
func (m *Manager) follow(ctx context.Context, p *plugin) {
	logger := klog.FromContext(ctx).WithValues("resource", p.resource)
	logger.Info("Device plugin registered")
	stream, err := p.client.ListAndWatch(ctx, &devicepluginv1beta1.Empty{})
	for err == nil {
		var got *devicepluginv1beta1.ListAndWatchResponse
		if got, err = stream.Recv(); err == nil {
			if serr := m.update(p, got.GetDevices()); serr != nil {
				logger.Error(serr, "A later kubelet will not know of the resource")
			}
		}
	}
	if ctx.Err() == nil {
		logger.Error(err, "Device plugin has gone")
	}
	if err := m.lose(p); err != nil {
		logger.Error(err, "A later kubelet will not know of the resource")
	}
	if err := p.close(); err != nil {
		logger.Error(err, "Disconnecting from a device plugin failed")
	}
}

// update makes the devices of a plugin those of its resource, if it is in use.
func (m *Manager) update(p *plugin, list []*devicepluginv1beta1.Device) error {
	now := map[string]*devicepluginv1beta1.Device{}
	for _, d := range list {
		if d.GetID() != "" {
			now[d.GetID()] = d
		}
	}
	return m.change(p.resource, func(before *devices) *devices {
		p.told = &devices{known: now}
		if m.inUse(p.resource) != p {
			return before
		}
		return p.told
	})
}

// lose notes that a plugin has gone. If it was in use, the one before it is in use again, and the resource has the devices that this one has
// told of. Until there is one that has told, there is nothing of the resource, as upstream says of one whose plugin never told.
func (m *Manager) lose(p *plugin) error {
	return m.change(p.resource, func(before *devices) *devices {
		was := m.inUse(p.resource)
		m.plugins[p.resource] = slices.DeleteFunc(m.plugins[p.resource], func(other *plugin) bool { return other == p })
		if was != p {
			return before
		}
		if next := m.inUse(p.resource); next != nil && next.told != nil {
			return next.told
		}
		now := &devices{gone: m.cfg.Clock.Now(), prepared: p.options.GetPreStartRequired()}
		if before != nil {
			now.known = before.known
		}
		return now
	})
}

// change makes what now returns the devices of a resource, and tells of it if they are others than before, which may be nil. now is called with
// the lock. A resource that is new is written down.
func (m *Manager) change(resource string, now func(before *devices) *devices) error {
	m.mu.Lock()
	before := m.state.resources[resource]
	after := now(before)
	if after == before {
		m.mu.Unlock()
		return nil
	}
	m.state.resources[resource] = after
	touched := m.state.touched(resource, before)
	m.mu.Unlock()
	m.tell(touched)
	if before != nil {
		return nil
	}
	return m.save()
}

func (m *Manager) tell(touched []types.UID) {
	m.cfg.Changed()
	for _, uid := range touched {
		m.cfg.Wake(uid)
	}
}

// touched are the pods that have a device whose health is not what it was before.
func (s *state) touched(res string, before *devices) []types.UID {
	var out []types.UID
	for uid, containers := range s.pods {
		for _, own := range containers {
			a := own[res]
			if a == nil || slices.Contains(out, uid) {
				continue
			}
			if slices.ContainsFunc(a.Devices, func(id string) bool { return before.health(id) != s.resources[res].health(id) }) {
				out = append(out, uid)
			}
		}
	}
	return out
}

// prefer asks the plugin which of an offer it would choose, if it cares.
func (p *plugin) prefer(ctx context.Context, reuse, free []string, need int) ([]string, error) {
	if p == nil || !p.options.GetGetPreferredAllocationAvailable() || len(reuse) >= need || len(reuse)+len(free) <= need {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	got, err := p.client.GetPreferredAllocation(ctx, &devicepluginv1beta1.PreferredAllocationRequest{
		ContainerRequests: []*devicepluginv1beta1.ContainerPreferredAllocationRequest{{
			AvailableDeviceIDs: slices.Concat(reuse, free), MustIncludeDeviceIDs: reuse, AllocationSize: int32(need),
		}},
	})
	if err != nil {
		return nil, fmt.Errorf("device plugin GetPreferredAllocation rpc failed with err: %w", err)
	}
	if len(got.GetContainerResponses()) == 0 {
		return nil, nil
	}
	return got.GetContainerResponses()[0].GetDeviceIDs(), nil
}

// preStart has a plugin prepare devices, if it wants to before each start. One that has gone cannot: nothing starts with what it would have
// to prepare. Whether those of an earlier kubelet wanted to is not known.
func (m *Manager) preStart(ctx context.Context, res string, ids []string) error {
	m.mu.Lock()
	p, d := m.inUse(res), m.state.resources[res]
	m.mu.Unlock()
	switch {
	case p == nil && d != nil && d.prepared:
		return fmt.Errorf("device plugin PreStartContainer rpc failed with err: endpoint of %s has been stopped", res)
	case p == nil || !p.options.GetPreStartRequired():
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, allocatePatience)
	defer cancel()
	if _, err := p.client.PreStartContainer(ctx, &devicepluginv1beta1.PreStartContainerRequest{DevicesIds: ids}); err != nil {
		return fmt.Errorf("device plugin PreStartContainer rpc failed with err: %w", err)
	}
	return nil
}
