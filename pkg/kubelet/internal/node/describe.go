// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"minik8s.io/minik8s/pkg/kubelet/container"
)

const (
	// versionPatience is how long the engine may take to tell its version.
	versionPatience = 5 * time.Second
	// engineThreshold is how long the engine may give no answer before the node is not Ready, as upstream's: to restart a daemon
	// takes seconds, and who is not Ready has no endpoints.
	engineThreshold = 30 * time.Second
	// imagesEvery is how often images are listed, for the list is long and rarely changes. It may take imagesPatience, for which all else
	// that is told of the node waits.
	imagesEvery, imagesPatience = time.Minute, 5 * time.Second
)

// Resources are what the machine has and what of it is for pods.
type Resources struct {
	Host Host
	// Dir is on the file system whose size counts.
	Dir     string
	MaxPods int
	// Reserved is what of a capacity is not for pods.
	Reserved func(capacity corev1.ResourceList) []corev1.ResourceList
	// Devices are those that plugins have: all, and those that work.
	Devices func() (all, healthy corev1.ResourceList)
}

// Read returns both.
func (r Resources) Read() (capacity, allocatable corev1.ResourceList, err error) {
	if capacity, err = r.Host.Capacity(r.Dir, r.MaxPods); err != nil {
		return nil, nil, err
	}
	allocatable = Allocatable(capacity, r.Reserved(capacity)...)
	all, healthy := r.Devices()
	maps.Copy(capacity, all)
	maps.Copy(allocatable, healthy)
	return capacity, allocatable, nil
}

// Allocatable is what is for pods; nil if that cannot be found out.
func (r Resources) Allocatable() corev1.ResourceList {
	_, allocatable, err := r.Read()
	if err != nil {
		return nil
	}
	return allocatable
}

// Describer tells what a Node says of its machine. All fields are required but Port. Safe for concurrent use.
type Describer struct {
	Name      string
	IPs       []netip.Addr
	Version   string // of the kubelet
	Resources Resources
	Runtime   container.Runtime
	// DeclaredFeatures are those that not all kubelets have, in order.
	DeclaredFeatures []string
	// MaxImages is how many images are told of, -1 for all.
	MaxImages int
	Clock     clock.PassiveClock
	// NotReady is why pods cannot run, nil if they can.
	NotReady func() error
	Pressure func() []corev1.NodeConditionType
	// VolumesInUse are nil while they are not known.
	VolumesInUse func() []corev1.UniqueVolumeName
	// Port is where the kubelet's API listens; nil if it does not.
	Port func(context.Context) (int32, error)

	mu sync.Mutex // guards the fields below
	// engine is what answered at engineAt.
	engine   container.Version
	engineAt time.Time
	images   []corev1.ContainerImage
	imagesAt time.Time // when they were last asked for
}

// Engine is what the engine has last told of itself.
func (d *Describer) Engine() container.Version {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.engine
}

// RecursiveReadOnly says whether what a handler runs takes mounts that are recursively read-only.
func (d *Describer) RecursiveReadOnly(handler string) bool {
	return slices.Contains(d.Engine().Handlers, container.Handler{Name: handler, RecursiveReadOnly: true})
}

// Info is the machine's identity and versions.
func (d *Describer) Info() corev1.NodeSystemInfo { return d.Resources.Host.Info(d.Engine(), d.Version) }

// Machine describes the machine.
func (d *Describer) Machine(ctx context.Context) Machine {
	_, down := d.Ask(ctx)
	notReady := d.NotReady()
	failed := func(err error) {
		if notReady == nil {
			notReady = err
		}
	}
	if down != nil && d.away() > engineThreshold {
		failed(errors.New("container runtime is down"))
	}
	m := Machine{
		Addresses: Addresses(d.Name, d.IPs), Info: d.Info(), Handlers: Handlers(d.Engine()), Images: d.imageList(ctx, down == nil), Pressure: d.Pressure(),
		VolumesInUse: d.VolumesInUse(), DeclaredFeatures: d.DeclaredFeatures,
	}
	var err error
	if m.Capacity, m.Allocatable, err = d.Resources.Read(); err != nil {
		failed(err)
	}
	if d.Port != nil {
		if m.KubeletPort, err = d.Port(ctx); err != nil {
			failed(fmt.Errorf("kubelet API is not served: %w", err))
		}
	}
	if notReady != nil {
		m.NotReady = notReady.Error()
	}
	return m
}

// Ask has the engine tell of itself.
func (d *Describer) Ask(ctx context.Context) (container.Version, error) {
	vctx, cancel := context.WithTimeout(ctx, versionPatience)
	defer cancel()
	v, err := d.Runtime.Version(vctx)
	if err != nil {
		if ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "The container engine does not tell its version")
		}
		return v, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.engine, d.engineAt = v, d.Clock.Now()
	return v, nil
}

// away is how long the engine has not answered.
func (d *Describer) away() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.Clock.Since(d.engineAt)
}

// imageList is the node's image list, an older one if the engine does not tell.
func (d *Describer) imageList(ctx context.Context, up bool) []corev1.ContainerImage {
	d.mu.Lock()
	list, at := d.images, d.imagesAt
	d.mu.Unlock()
	if !up || d.Clock.Since(at) < imagesEvery {
		return list
	}
	ictx, cancel := context.WithTimeout(ctx, imagesPatience)
	defer cancel()
	fresh, err := Images(ictx, d.Runtime, d.MaxImages)
	switch {
	case err == nil:
		list = fresh
	case ctx.Err() == nil:
		klog.FromContext(ctx).Error(err, "The container engine does not list its images")
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.images, d.imagesAt = list, d.Clock.Now()
	return list
}
