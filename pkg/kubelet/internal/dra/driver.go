// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package dra

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/connectivity"
	"k8s.io/klog/v2"
	drahealthv1 "k8s.io/kubelet/pkg/apis/dra-health/v1"
	drahealthv1alpha1 "k8s.io/kubelet/pkg/apis/dra-health/v1alpha1"
	drav1 "k8s.io/kubelet/pkg/apis/dra/v1"
	drav1beta1 "k8s.io/kubelet/pkg/apis/dra/v1beta1"

	"minik8s.io/minik8s/pkg/kubelet/internal/kubeletdir"
	"minik8s.io/minik8s/pkg/kubelet/internal/pluginregistration"
	"minik8s.io/minik8s/pkg/kubelet/internal/socket"
)

// services are the APIs of drivers that are understood.
var services = []string{drav1.DRAPluginService, drav1beta1.DRAPluginService}

// reconnect is how often a driver is looked for whose socket is there and does not answer.
var reconnect = grpc.ConnectParams{
	Backoff: backoff.Config{BaseDelay: time.Second, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 10 * time.Second}, MinConnectTimeout: 10 * time.Second,
}

// instance is one process of a driver. During an update there are two.
type instance struct {
	driver, endpoint string
	conn             *grpc.ClientConn
	client           drav1.DRAPluginClient
	// health is the service by which it tells of its devices' health, nil if it does not.
	health drahealthv1.DRAResourceHealthClient
	// connected is guarded by the manager's mu.
	connected bool
	leave     context.CancelFunc // ends the care for it
}

// Registered are the drivers that are found by their sockets in the directory of all plugins.
func (m *Manager) Registered() pluginregistration.Handler { return handler{m} }

type handler struct{ manager *Manager }

func (handler) Validate(p pluginregistration.Plugin) error {
	_, err := choose(p)
	return err
}

// choose is the service that is used of a plugin: the first of its own that is understood, as upstream.
func choose(p pluginregistration.Plugin) (string, error) {
	for _, s := range p.Versions {
		if slices.Contains(services, s) {
			return s, nil
		}
	}
	return "", fmt.Errorf("invalid supported gRPC versions of DRA driver plugin %s at endpoint %s: "+
		"none of services supported by the plugin (%q) are supported by the kubelet (%q)", p.Name, p.Endpoint, p.Versions, services)
}

// Register does not wait for the driver: whether it answers is seen in the background, as long as it is registered.
func (h handler) Register(_ context.Context, p pluginregistration.Plugin) error {
	service, err := choose(p)
	if err != nil {
		return err
	}
	m := h.manager
	name, is := kubeletdir.Below(m.cfg.RootDir, p.Endpoint)
	if !is {
		return fmt.Errorf("endpoint %s is not below the kubelet's directory", p.Endpoint)
	}
	i := &instance{driver: p.Name, endpoint: p.Endpoint}
	if i.conn, err = socket.Client(m.cfg.RootDir, name, grpc.WithConnectParams(reconnect), grpc.WithChainUnaryInterceptor(m.timed(p.Name))); err != nil {
		return err
	}
	i.client = drav1.NewDRAPluginClient(i.conn)
	if service == drav1beta1.DRAPluginService {
		i.client = drav1beta1.V1Beta1ClientWrapper{DRAPluginClient: drav1beta1.NewDRAPluginClient(i.conn)}
	}
	switch {
	case slices.Contains(p.Versions, drahealthv1.DRAResourceHealthService):
		i.health = drahealthv1.NewDRAResourceHealthClient(i.conn)
	case slices.Contains(p.Versions, drahealthv1alpha1.DRAResourceHealthService):
		i.health = drahealthv1.V1Alpha1ClientWrapper{Client: drahealthv1alpha1.NewDRAResourceHealthClient(i.conn)}
	}
	if err := m.add(i); err != nil {
		return errors.Join(err, i.conn.Close())
	}
	return nil
}

// timed measures the calls of a driver.
func (m *Manager) timed(driver string) grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		began := m.cfg.Clock.Now()
		err := invoke(ctx, method, req, reply, conn, opts...)
		m.cfg.Metrics.Call(driver, method, m.cfg.Clock.Since(began), err)
		return err
	}
}

// add takes an instance into use.
func (m *Manager) add(i *instance) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.life == nil || m.life.Err() != nil {
		return errStopped
	}
	for _, other := range m.drivers[i.driver] {
		if other.endpoint == i.endpoint {
			return fmt.Errorf("endpoint %s already registered for DRA driver plugin %s", i.endpoint, i.driver)
		}
	}
	own, leave := context.WithCancel(m.life)
	i.leave = leave
	m.drivers[i.driver] = append(m.drivers[i.driver], i)
	m.watchUse(i.driver)
	m.wg.Go(func() {
		defer leave()
		m.follow(own, i)
	})
	if i.health != nil {
		m.wg.Go(func() { m.watchHealth(own, i) })
	}
	return nil
}

// Deregister is told of what Register has taken.
func (h handler) Deregister(p pluginregistration.Plugin) {
	m := h.manager
	m.mu.Lock()
	defer m.mu.Unlock()
	m.drivers[p.Name] = slices.DeleteFunc(m.drivers[p.Name], func(i *instance) bool {
		if i.endpoint == p.Endpoint {
			i.leave()
			return true
		}
		return false
	})
	if len(m.drivers[p.Name]) == 0 {
		delete(m.drivers, p.Name)
	}
	m.watchUse(p.Name)
}

// follow keeps the connection of an instance, and notes whether there is one, until ctx ends.
func (m *Manager) follow(ctx context.Context, i *instance) {
	for {
		now := i.conn.GetState()
		m.mu.Lock()
		if i.connected != (now == connectivity.Ready) {
			i.connected = !i.connected
			m.watchUse(i.driver)
		}
		m.mu.Unlock()
		if now == connectivity.Idle {
			i.conn.Connect()
		}
		if !i.conn.WaitForStateChange(ctx, now) {
			break
		}
	}
	if err := i.conn.Close(); err != nil {
		klog.FromContext(ctx).Error(err, "Disconnecting from a DRA driver failed", "driverName", i.driver)
	}
}

// driver is the instance of a driver to speak with: the newest that is connected, else the newest.
func (m *Manager) driver(name string) (*instance, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := m.drivers[name]
	if len(all) == 0 {
		return nil, fmt.Errorf("DRA driver %s is not registered", name)
	}
	for _, i := range slices.Backward(all) {
		if i.connected {
			return i, nil
		}
	}
	return all[len(all)-1], nil
}
