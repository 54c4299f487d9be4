// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package eviction keeps a node from running out of memory, disk and process ids: it tells of the pressure, frees what nobody
// needs, and ends pods, also those that use more local storage than they may. Touch it when another resource can run short, or
// to change who is ended first. Its decisions follow https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction/.
package eviction

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Signal names what is observed of a node.
type Signal string

// The signals, as KubeletConfiguration names them. Those of containerfs are those of imagefs or nodefs, on which containers are.
const (
	MemoryAvailable Signal = "memory.available"
	// AllocatableMemoryAvailable is what all pods together may still use, where that is limited.
	AllocatableMemoryAvailable Signal = "allocatableMemory.available"
	NodeFsAvailable            Signal = "nodefs.available"
	NodeFsInodesFree           Signal = "nodefs.inodesFree"
	ImageFsAvailable           Signal = "imagefs.available"
	ImageFsInodesFree          Signal = "imagefs.inodesFree"
	ContainerFsAvailable       Signal = "containerfs.available"
	ContainerFsInodesFree      Signal = "containerfs.inodesFree"
	PIDAvailable               Signal = "pid.available"
)

const (
	resourceInodes corev1.ResourceName = "inodes"
	resourcePIDs   corev1.ResourceName = "pids"
)

// kind is what a signal is about.
type kind struct {
	condition corev1.NodeConditionType
	resource  corev1.ResourceName
}

var kinds = map[Signal]kind{
	MemoryAvailable:            {corev1.NodeMemoryPressure, corev1.ResourceMemory},
	AllocatableMemoryAvailable: {corev1.NodeMemoryPressure, corev1.ResourceMemory},
	NodeFsAvailable:            {corev1.NodeDiskPressure, corev1.ResourceEphemeralStorage},
	NodeFsInodesFree:           {corev1.NodeDiskPressure, resourceInodes},
	ImageFsAvailable:           {corev1.NodeDiskPressure, corev1.ResourceEphemeralStorage},
	ImageFsInodesFree:          {corev1.NodeDiskPressure, resourceInodes},
	ContainerFsAvailable:       {corev1.NodeDiskPressure, corev1.ResourceEphemeralStorage},
	ContainerFsInodesFree:      {corev1.NodeDiskPressure, resourceInodes},
	PIDAvailable:               {corev1.NodePIDPressure, resourcePIDs},
}

// Value is an amount, or a part of the capacity if Quantity is nil.
type Value struct {
	Quantity *resource.Quantity
	// Part is at most 1.
	Part float32
}

// Of is the amount for a capacity.
func (v Value) Of(capacity resource.Quantity) resource.Quantity {
	if v.Quantity != nil {
		return v.Quantity.DeepCopy()
	}
	return *resource.NewQuantity(int64(float64(capacity.Value())*float64(v.Part)), resource.BinarySI)
}

// Threshold is met when less than Value is there.
type Threshold struct {
	Signal Signal
	Value  Value
	// Grace is how long it is met before something is done; 0 makes it a hard threshold.
	Grace time.Duration
	// MinReclaim is how much more than Value has to be there before it counts as not met any more; nil is nothing.
	MinReclaim *Value
}

// Hard says that pods get no time of their own to end.
func (t Threshold) Hard() bool { return t.Grace == 0 }

// Settings are those of KubeletConfiguration, by signal.
type Settings struct {
	Hard, Soft, SoftGracePeriod, MinimumReclaim map[string]string
}

// Parse returns the thresholds of settings in a fixed order: hard ones first. Errors have upstream's texts. Those of containerfs
// are checked and left out: Docker keeps containers where images are, so that they would say the same again.
func Parse(s Settings) ([]Threshold, error) {
	hard, err := parseThresholds(s.Hard)
	if err != nil {
		return nil, err
	}
	soft, err := parseThresholds(s.Soft)
	if err != nil {
		return nil, err
	}
	grace, err := parseGrace(s.SoftGracePeriod)
	if err != nil {
		return nil, err
	}
	reclaim, err := parseReclaim(s.MinimumReclaim)
	if err != nil {
		return nil, err
	}
	for i := range soft {
		period, ok := grace[soft[i].Signal]
		if !ok {
			return nil, fmt.Errorf("grace period must be specified for the soft eviction threshold %v", soft[i].Signal)
		}
		soft[i].Grace = period
	}
	all := append(hard, soft...)
	for i := range all {
		if v, ok := reclaim[all[i].Signal]; ok {
			all[i].MinReclaim = &v
		}
	}
	return slices.DeleteFunc(all, func(t Threshold) bool {
		return t.Signal == ContainerFsAvailable || t.Signal == ContainerFsInodesFree
	}), nil
}

// Allocatable adds the thresholds of a node whose pods are limited together: they are short of memory as the node would be, before they
// meet that limit, and the kernel chooses whom to kill.
func Allocatable(thresholds []Threshold) []Threshold {
	out := slices.Clone(thresholds)
	for _, t := range thresholds {
		if t.Hard() && t.Signal == MemoryAvailable {
			t.Signal = AllocatableMemoryAvailable
			out = append(out, t)
		}
	}
	return out
}

// each calls f with the settings in the order of their signals, until one is wrong.
func each(settings map[string]string, f func(Signal, string) error) error {
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		signal := Signal(name)
		if _, ok := kinds[signal]; !ok {
			return fmt.Errorf("unsupported eviction signal %v", signal)
		}
		if err := f(signal, settings[name]); err != nil {
			return err
		}
	}
	return nil
}

func parseThresholds(settings map[string]string) (list []Threshold, err error) {
	err = each(settings, func(signal Signal, text string) error {
		if text == "0%" || text == "100%" { // how a default is switched off
			return nil
		}
		v, err := parseValue(text)
		switch {
		case err != nil:
			return err
		case v.Quantity == nil && v.Part < 0:
			return fmt.Errorf("eviction percentage threshold %v must be >= 0%%: %s", signal, text)
		case v.Quantity == nil && v.Part > 1:
			return fmt.Errorf("eviction percentage threshold %v must be <= 100%%: %s", signal, text)
		case v.Quantity != nil && v.Quantity.Sign() <= 0:
			return fmt.Errorf("eviction threshold %v must be positive: %s", signal, v.Quantity)
		}
		list = append(list, Threshold{Signal: signal, Value: v})
		return nil
	})
	return list, err
}

func parseGrace(settings map[string]string) (map[Signal]time.Duration, error) {
	out := map[Signal]time.Duration{}
	err := each(settings, func(signal Signal, text string) error {
		d, err := time.ParseDuration(text)
		if err == nil && d < 0 {
			err = fmt.Errorf("invalid eviction grace period specified: %v, must be a positive value", text)
		}
		out[signal] = d
		return err
	})
	return out, err
}

func parseReclaim(settings map[string]string) (map[Signal]Value, error) {
	out := map[Signal]Value{}
	err := each(settings, func(signal Signal, text string) error {
		v, err := parseValue(text)
		switch {
		case err != nil:
			return err
		case v.Quantity == nil && v.Part <= 0:
			return fmt.Errorf("eviction percentage minimum reclaim %v must be positive: %s", signal, text)
		case v.Quantity != nil && v.Quantity.Sign() < 0:
			return fmt.Errorf("negative eviction minimum reclaim specified for %v", signal)
		}
		out[signal] = v
		return nil
	})
	return out, err
}

func parseValue(text string) (Value, error) {
	if number, ok := strings.CutSuffix(text, "%"); ok {
		f, err := strconv.ParseFloat(number, 32)
		if err != nil {
			return Value{}, err
		}
		return Value{Part: float32(f) / 100}, nil
	}
	q, err := resource.ParseQuantity(text)
	if err != nil {
		return Value{}, err
	}
	return Value{Quantity: &q}, nil
}

// Reserved is what the hard thresholds keep from pods.
func Reserved(thresholds []Threshold, capacity corev1.ResourceList) corev1.ResourceList {
	out := corev1.ResourceList{}
	for _, t := range thresholds {
		name := kinds[t.Signal].resource
		if !t.Hard() || t.Signal != MemoryAvailable && t.Signal != NodeFsAvailable {
			continue
		}
		out[name] = t.Value.Of(capacity[name])
	}
	return out
}

// Observation is how much there is of something.
type Observation struct{ Available, Capacity resource.Quantity }

// Observations are by signal; what could not be observed is missing.
type Observations map[Signal]Observation

// met says whether a threshold is met; with reclaim, whether it still is after it was.
func (o Observations) met(t Threshold, reclaim bool) bool {
	seen, ok := o[t.Signal]
	if !ok {
		return false
	}
	limit := t.Value.Of(seen.Capacity)
	if reclaim && t.MinReclaim != nil {
		limit.Add(t.MinReclaim.Of(seen.Capacity))
	}
	return seen.Available.Cmp(limit) < 0
}

// Tracker follows thresholds over time. It is not safe for concurrent use.
type Tracker struct {
	thresholds []Threshold
	transition time.Duration
	// since is from when on a threshold is met, starved those that were acted on; both by place in thresholds.
	since   map[int]time.Time
	starved map[int]bool
	last    map[corev1.NodeConditionType]time.Time
}

// NewTracker returns a Tracker of a node without pressure. A condition goes transition after its thresholds were last met.
func NewTracker(thresholds []Threshold, transition time.Duration) *Tracker {
	return &Tracker{thresholds: thresholds, transition: transition, last: map[corev1.NodeConditionType]time.Time{}}
}

// Observe takes what was observed now. It returns the conditions of the node, by name, and the thresholds that something has to
// be done about, the most urgent first.
func (t *Tracker) Observe(o Observations, now time.Time) (conditions []corev1.NodeConditionType, starved []Threshold) {
	since, acted := map[int]time.Time{}, map[int]bool{}
	for i, threshold := range t.thresholds {
		if met := o.met(threshold, false) || t.starved[i] && o.met(threshold, true); !met {
			continue
		}
		began, ok := t.since[i]
		if !ok {
			began = now
		}
		since[i] = began
		t.last[kinds[threshold.Signal].condition] = now
		if now.Sub(began) >= threshold.Grace {
			acted[i] = true
			starved = append(starved, threshold)
		}
	}
	t.since, t.starved = since, acted
	slices.SortStableFunc(starved, func(a, b Threshold) int { return cmp.Compare(urgency(a), urgency(b)) })
	for c, at := range t.last {
		if now.Sub(at) < t.transition || at.Equal(now) {
			conditions = append(conditions, c)
		}
	}
	slices.Sort(conditions)
	return conditions, starved
}

func urgency(t Threshold) int {
	if kinds[t.Signal].resource == corev1.ResourceMemory {
		return 0
	}
	return 1
}
