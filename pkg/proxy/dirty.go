// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"sync"
	"time"

	"minik8s.io/minik8s/pkg/proxy/model"
)

// dirty collects which Services may have changed since they were looked at last. It is safe for concurrent use.
type dirty struct {
	mu  sync.Mutex
	now changes // guarded by mu
}

// changes are what was collected.
type changes struct {
	everything bool
	services   map[model.Name]bool
	// triggered are the instants at which something happened that changed endpoints of a family, as the API says.
	triggered map[model.Family][]time.Time
}

func noChanges() changes {
	return changes{services: map[model.Name]bool{}, triggered: map[model.Family][]time.Time{}}
}

func newDirty() *dirty { return &dirty{now: noChanges()} }

// add notes a Service, and the instant of what has changed its endpoints of a family unless that is zero.
func (d *dirty) add(name model.Name, f model.Family, triggered time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.now.services[name] = true
	if !triggered.IsZero() {
		d.now.triggered[f] = append(d.now.triggered[f], triggered)
	}
}

// all notes every Service. What was to be measured is not: it is from before this process.
func (d *dirty) all() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.now.everything = true
	clear(d.now.triggered)
}

// take returns what was noted and begins anew.
func (d *dirty) take() changes {
	d.mu.Lock()
	defer d.mu.Unlock()
	taken := d.now
	d.now = noChanges()
	return taken
}

// retry gives back the instants of changes of a family that did not reach the kernel.
func (d *dirty) retry(f model.Family, triggered []time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.now.triggered[f] = append(triggered, d.now.triggered[f]...)
}
