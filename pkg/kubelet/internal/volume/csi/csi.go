// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package csi is the kubelet's side of the Container Storage Interface: drivers that run on the node, in pods or beside them,
// bring volumes to it and take them away. Touch it to change what drivers are asked for, or when. See
// https://github.com/container-storage-interface/spec and KEP-178.
//
// A volume is staged once on the node, if its driver wants that, and published to each pod. Drivers are asked in steps, and before
// each step it is on disk that it begins: however the kubelet ends, what may have been done is undone when the pod goes. Each step
// can be repeated, which the interface demands of drivers.
package csi

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	storageinformers "k8s.io/client-go/informers/storage/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	events "k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"minik8s.io/minik8s/pkg/kubelet/internal/kubeletdir"
	"minik8s.io/minik8s/pkg/kubelet/internal/volume/mount"
	"minik8s.io/minik8s/pkg/kubelet/internal/volume/object"
	"minik8s.io/minik8s/pkg/kubelet/internal/volume/token"
)

// lookEvery is how long a volume that has been set up is left alone: then it is seen whether it has grown, or is to be published
// again because its tokens are new.
const lookEvery = 30 * time.Second

// Config is what CSI is made from; all fields but Recorder are required.
type Config struct {
	// RootDir is the kubelet's directory, by its real path.
	RootDir  string
	NodeName string
	Client   kubernetes.Interface
	// Recorder tells of volumes that have grown, or could not.
	Recorder events.EventRecorder
	Clock    clock.Clock
	// Node is this node as last seen, nil while it is not known.
	Node   func() *corev1.Node
	Tokens *token.Manager
	Mounts mount.Interface
	// InUse is called when the volumes in use have changed, which the node's status should tell soon. It must not block.
	InUse func()
	// Calls is told of calls of drivers. nil: nobody is told.
	Calls Calls
}

// CSI is the plugin of volumes that drivers provide. It is safe for concurrent use, but for the calls for one pod.
type CSI struct {
	Registrar *Registrar

	cfg     Config
	layout  layout
	records *records
	infos   *object.Informer
	busy    locks

	beside sync.WaitGroup // of what is done in background
	left   chan struct{}  // has an element when a volume may have been left staged

	mu   sync.Mutex // guards the fields below
	seen map[key]sight
	told map[corev1.UniqueVolumeName]bool
	// staged are the directories of volumes that this process has staged.
	staged map[string]bool
	// renewals end what is done about volumes beside their pods' workers.
	renewals map[key]context.CancelFunc
	ended    bool // no renewal begins any more
	// before are the volumes that the node's status has told to be in use when a record could not be read; nil if all could.
	before map[corev1.UniqueVolumeName]bool
}

// sight is what this process knows of a volume of a pod that it has seen to be set up.
type sight struct {
	at   time.Time
	size resource.Quantity // that the file system has at least
}

// New returns a CSI that knows what earlier ones have left on disk. Beside an error, which is of records that cannot be read, it can
// be used: the pods of these records keep their volumes.
func New(c Config) (*CSI, error) {
	l := layout{c.RootDir}
	found, err := load(l)
	n := &node{name: c.NodeName, client: c.Client, clock: c.Clock, wake: make(chan struct{}, 1), pending: map[string]*csipb.NodeGetInfoResponse{}}
	left := make(chan struct{}, 1)
	left <- struct{}{}
	return &CSI{
		Registrar: &Registrar{calls: c.Calls, root: c.RootDir, node: n, drivers: map[string]driver{}},
		cfg:       c, layout: l, records: found, left: left, busy: locks{held: map[string]*held{}},
		infos: object.NewInformer("csidrivers", storageinformers.NewCSIDriverInformer(c.Client, 0, cache.Indexers{})),
		seen:  map[key]sight{}, told: map[corev1.UniqueVolumeName]bool{}, staged: map[string]bool{}, renewals: map[key]context.CancelFunc{},
	}, err
}

// Start keeps the CSINode, and unstages what pods have left, until ctx ends.
func (c *CSI) Start(ctx context.Context) {
	defer c.infos.Stop()
	var parts sync.WaitGroup
	parts.Go(func() { c.recount(ctx) })
	parts.Go(func() { c.unstageLeft(ctx) })
	c.Registrar.node.start(ctx)
	parts.Wait()
	c.mu.Lock()
	c.ended = true
	for _, end := range c.renewals {
		end()
	}
	c.mu.Unlock()
	c.beside.Wait()
}

// inBackground does something about a volume that a pod has while the pod's worker goes on: one thing at a time, until the volume goes or
// the kubelet ends.
func (c *CSI) inBackground(ctx context.Context, k key, do func(context.Context)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended || c.renewals[k] != nil {
		return
	}
	ctx, end := context.WithCancel(context.WithoutCancel(ctx))
	c.renewals[k] = end
	c.beside.Go(func() {
		do(ctx)
		end()
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.renewals, k)
	})
}

// endRenewal ends what is done about a volume, which whoever takes its lock then need not wait for.
func (c *CSI) endRenewal(k key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if end := c.renewals[k]; end != nil {
		end()
	}
}

// InUse are the volumes that must not be detached from this node, by the names that they have in its status. Those of a driver that has
// become one without attachments may be: what is left of them can go while pods use them. While a record cannot be read, what the node's
// status has told stays, unless it is known to have gone since.
func (c *CSI) InUse() []corev1.UniqueVolumeName {
	out := c.records.inUse(c.attachesStill)
	if c.records.unknown(key{}) == nil {
		return out
	}
	node := c.cfg.Node()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.before == nil && node != nil {
		c.before = map[corev1.UniqueVolumeName]bool{}
		for _, name := range node.Status.VolumesInUse {
			c.before[name] = true
		}
	}
	out = slices.AppendSeq(out, maps.Keys(c.before))
	slices.Sort(out)
	return slices.Compact(out)
}

// attachesStill says whether the volumes of a driver are to be attached as far as is known now.
func (c *CSI) attachesStill(driver string) bool {
	o, _, _ := c.infos.GetStore().GetByKey(driver) // the error is of keys that are none
	d, _ := o.(*storagev1.CSIDriver)
	return attachRequired(d)
}

// Told says which volumes in use the API server knows of. The others are not mounted: they could be detached at any time.
func (c *CSI) Told(names []corev1.UniqueVolumeName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.told)
	for _, n := range names {
		c.told[n] = true
	}
}

// info returns the CSIDriver of a driver, nil if it has none. Errors wrap plugin.ErrUnavailable if that is not known.
func (c *CSI) info(ctx context.Context, driver string) (*storagev1.CSIDriver, error) {
	if err := c.infos.Await(ctx); err != nil {
		return nil, err
	}
	o, there, err := c.infos.GetStore().GetByKey(driver)
	if err != nil || !there {
		return nil, err
	}
	d, ok := o.(*storagev1.CSIDriver)
	if !ok {
		return nil, fmt.Errorf("unexpected type %T", o)
	}
	return d, nil
}

// Due says whether path is a volume of the pod that a driver has published (known), and whether SetUp has something to do about it.
func (c *CSI) Due(pod types.UID, path string) (known, due bool) {
	r, ok := c.at(pod, path)
	if !ok {
		return false, false
	}
	c.mu.Lock()
	s, seen := c.seen[r.key()]
	c.mu.Unlock()
	return true, !seen || c.cfg.Clock.Since(s.at) >= lookEvery
}

// Holds says whether a volume that was published at path is there still. It may be gone, because the machine was started anew.
func (c *CSI) Holds(pod types.UID, path string) bool {
	r, ok := c.at(pod, path)
	return ok && c.holds(r)
}

func (c *CSI) holds(r record) bool {
	if !r.Published {
		return false
	}
	c.mu.Lock()
	_, seen := c.seen[r.key()]
	c.mu.Unlock()
	if seen {
		return true
	}
	mounted, err := c.mounted(c.layout.target(r.pod, r.Name, r.block()))
	return err == nil && mounted
}

// mounted says whether something is mounted on path. It does not touch what is mounted, which could hang.
func (c *CSI) mounted(path string) (bool, error) {
	points, err := c.cfg.Mounts.Under(filepath.Dir(path))
	return slices.ContainsFunc(points, func(p string) bool { return p == path || strings.HasPrefix(p, path+"/") }), err
}

// at is the record of the volume of a pod that is at path.
func (c *CSI) at(pod types.UID, path string) (record, bool) {
	for _, r := range c.records.of(pod) {
		if c.layout.target(pod, r.Name, r.block()) == path {
			return r, true
		}
	}
	return record{}, false
}

// seenBy is what a driver calls a path below the kubelet's directory.
func (c *CSI) seenBy(d driver, path string) string {
	return kubeletdir.AsSeen(c.layout.root, d.endpoint, path)
}

func (c *CSI) noteSeen(k key, s sight) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen[k] = s
}

func (c *CSI) sightOf(k key) (sight, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.seen[k]
	return s, ok
}

// locks let one volume be worked at by one at a time: what one pod stages another must not take away.
type locks struct {
	mu   sync.Mutex
	held map[string]*held
}

type held struct {
	turn    chan struct{} // has an element while nobody has the lock
	waiting int
}

// take waits for the lock of a volume until ctx ends.
func (l *locks) take(ctx context.Context, name string) (release func(), err error) {
	l.mu.Lock()
	h := l.held[name]
	if h == nil {
		h = &held{turn: make(chan struct{}, 1)}
		h.turn <- struct{}{}
		l.held[name] = h
	}
	h.waiting++
	l.mu.Unlock()
	leave := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if h.waiting--; h.waiting == 0 {
			delete(l.held, name)
		}
	}
	select {
	case <-ctx.Done():
		leave()
		return nil, fmt.Errorf("waiting for another pod's step with volume %s: %w", name, ctx.Err())
	case <-h.turn:
		return func() { h.turn <- struct{}{}; leave() }, nil
	}
}
