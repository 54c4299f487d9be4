// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package dra has drivers prepare the devices that ResourceClaims give to pods: the kubelet's part of dynamic resource allocation
// (KEP-4381, APIs v1 and v1beta1). Touch it when that API grows.
//
// Before a pod gets its sandbox, its claims are looked up, noted on disk, and prepared by their drivers; when nothing of it runs any
// more, and before the API server is told so, those that no other pod of the node uses are unprepared. What is noted says which
// claims drivers may know of, whatever happened to their answers and to the kubelet.
package dra

import (
	"context"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

// stateFile is where claims are noted, below the kubelet's directory; upstream's name.
const stateFile = "dra_manager_state"

// Metrics are told how long things took. They do not block.
type Metrics interface {
	// Operation is one about all claims of a pod: PrepareResources or UnprepareResources.
	Operation(name string, took time.Duration, err error)
	// Call is one of a driver, by the method's full name.
	Call(driver, method string, took time.Duration, err error)
}

// Config is what a Manager is made from; all fields are required.
type Config struct {
	// RootDir is the kubelet's directory, in which drivers have their sockets.
	RootDir  string
	NodeName string
	Client   kubernetes.Interface
	Clock    clock.WithTicker
	// Runs says whether the sandbox of a pod runs, by asking the engine if need be.
	Runs func(context.Context, types.UID) (bool, error)
	// Wake is called for each pod that has a device whose health has changed. It does not block.
	Wake    func(types.UID)
	Metrics Metrics
}

// Manager knows which claims are prepared on this node, and who can do that. Its methods are safe for concurrent use, but for those
// about one pod, which must come one after the other.
type Manager struct {
	cfg Config

	saving sync.Mutex // held while the state is written, so that the newest is written last

	mu    sync.Mutex // guards the fields below; held for no calls
	state state
	// fresh are the claims that this process has prepared, or knows to be.
	fresh map[types.UID]bool
	// busy are the claims that are being prepared or unprepared; the channel is closed at the end of that.
	busy map[types.UID]chan struct{}
	// drivers have the instances of each, the newest last.
	drivers map[string][]*instance
	// wipes end the wait to remove what a driver that has gone has told of its devices.
	wipes map[string]context.CancelFunc
	// health is what instances say of devices.
	health map[*instance]map[deviceKey]condition
	// life is that of Start, nil before. wg counts what goes on in the background.
	life context.Context //nolint:containedctx // drivers that register outlive the call by which they do
	wg   sync.WaitGroup
}

// New returns a Manager that knows what an earlier one has noted. What it cannot read of that is logged: the node runs all the same.
func New(ctx context.Context, cfg Config) *Manager {
	m := &Manager{
		cfg: cfg, fresh: map[types.UID]bool{}, busy: map[types.UID]chan struct{}{}, drivers: map[string][]*instance{},
		wipes: map[string]context.CancelFunc{}, health: map[*instance]map[deviceKey]condition{},
	}
	var err error
	if m.state, err = load(filepath.Join(cfg.RootDir, stateFile)); err != nil {
		klog.FromContext(ctx).Error(err, "Which resource claims are prepared is lost")
	}
	return m
}

var errStopped = errors.New("the kubelet is not running")

// Start takes drivers until ctx ends. What drivers had told of the node's devices is removed first, for until they are back nobody
// can use them; they tell again then.
func (m *Manager) Start(ctx context.Context) error {
	defer m.wg.Wait()
	life, cancel := context.WithCancel(ctx)
	m.mu.Lock()
	m.life = life
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		cancel() // nothing begins from here on
	}()
	m.wg.Go(func() { m.removeSlices(life, "") })
	<-ctx.Done()
	return nil
}

// Pods are those that claims are noted for.
func (m *Manager) Pods() ([]types.UID, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Keys(m.state.Pods)), nil
}

// InUse counts the claims that are prepared, by driver, and all of them under AnyDriver.
func (m *Manager) InUse() map[string]int {
	m.mu.Lock()
	defer m.mu.Unlock()
	counts := map[string]int{AnyDriver: 0}
	for _, c := range m.state.Claims {
		if !c.Prepared {
			continue
		}
		counts[AnyDriver]++
		for driver := range c.Drivers {
			counts[driver]++
		}
	}
	return counts
}

// AnyDriver stands for all drivers.
const AnyDriver = "<any>"

// acquire waits until nobody does anything with any of the claims, and keeps others from it until release is called.
func (m *Manager) acquire(ctx context.Context, claims []types.UID) (release func(), _ error) {
	for {
		m.mu.Lock()
		var wait chan struct{}
		for _, uid := range claims {
			if b := m.busy[uid]; b != nil {
				wait = b
			}
		}
		if wait == nil {
			done := make(chan struct{})
			for _, uid := range claims {
				m.busy[uid] = done
			}
			m.mu.Unlock()
			return func() {
				m.mu.Lock()
				defer m.mu.Unlock()
				for _, uid := range claims {
					delete(m.busy, uid)
				}
				close(done)
			}, nil
		}
		m.mu.Unlock()
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-wait:
		}
	}
}

// save writes the state as it is now.
func (m *Manager) save() error {
	m.saving.Lock()
	defer m.saving.Unlock()
	m.mu.Lock()
	data, err := m.state.encode()
	m.mu.Unlock()
	if err != nil {
		return err
	}
	return write(filepath.Join(m.cfg.RootDir, stateFile), data)
}
