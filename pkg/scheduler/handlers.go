// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"

	"minik8s.io/minik8s/pkg/scheduler/framework"
)

// source tells of objects, as an informer does.
type source interface {
	AddEventHandler(cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error)
	RemoveEventHandler(cache.ResourceEventHandlerRegistration) error
}

// sources returns those whose objects make cluster events that a plugin
// declares, besides pods and nodes.
func (s *Scheduler) sources() map[fwk.EventResource]source {
	core, storage := s.cfg.Informers.Core().V1(), s.cfg.Informers.Storage().V1()
	known := map[fwk.EventResource]func() source{
		framework.Namespace:       func() source { return core.Namespaces().Informer() },
		fwk.PersistentVolume:      func() source { return core.PersistentVolumes().Informer() },
		fwk.PersistentVolumeClaim: func() source { return core.PersistentVolumeClaims().Informer() },
		fwk.StorageClass:          func() source { return storage.StorageClasses().Informer() },
		fwk.CSINode:               func() source { return storage.CSINodes().Informer() },
		fwk.CSIDriver:             func() source { return storage.CSIDrivers().Informer() },
		fwk.CSIStorageCapacity:    func() source { return storage.CSIStorageCapacities().Informer() },
		fwk.VolumeAttachment:      func() source { return storage.VolumeAttachments().Informer() },
		fwk.ResourceClaim:         func() source { return s.dra.Claims() },
		fwk.ResourceSlice:         func() source { return s.dra.Slices() },
		fwk.DeviceClass:           func() source { return s.dra.Classes() },
	}
	if s.groups != nil {
		known[fwk.PodGroup] = func() source { return s.cfg.Informers.Scheduling().V1beta1().PodGroups().Informer() }
	}
	out := map[fwk.EventResource]source{fwk.AssignedPod: core.Pods().Informer(), fwk.Node: core.Nodes().Informer()}
	for _, e := range s.declared() {
		if source, ok := known[e.Resource]; ok {
			out[e.Resource] = source()
		} else if r := customResource(e.Resource); r != nil && s.dynamic != nil {
			out[e.Resource] = s.dynamic.ForResource(*r).Informer()
		}
	}
	return out
}

// declared lists the events that any plugin wants to hear of.
func (s *Scheduler) declared() (out []fwk.ClusterEvent) {
	for _, profile := range s.profiles {
		for _, events := range profile.Events() {
			for _, e := range events {
				out = append(out, e.Event)
			}
		}
	}
	return out
}

// customResource reads a kind of event that has no name of its own, as upstream
// has it: foos.v1.example.com. It is nil if it is none.
func customResource(kind fwk.EventResource) *schema.GroupVersionResource {
	if strings.Count(string(kind), ".") < 2 || strings.Contains(string(kind), "/") {
		return nil
	}
	r, _ := schema.ParseResourceArg(string(kind))
	return r
}

// prepareEvents finds out what there is to watch for besides pods and nodes.
func (s *Scheduler) prepareEvents() error {
	for _, e := range s.declared() {
		switch e.Resource {
		case fwk.Pod, fwk.AssignedPod, fwk.WildCard:
			s.anyUpdate = s.anyUpdate || e.ActionType&fwk.Update == fwk.Update
		}
		if customResource(e.Resource) == nil || s.dynamic != nil {
			continue
		}
		if s.cfg.KubeConfig == nil {
			return fmt.Errorf("a plugin wants events of %s, for which the scheduler needs KubeConfig", e.Resource)
		}
		client, err := dynamic.NewForConfig(s.cfg.KubeConfig)
		if err != nil {
			return fmt.Errorf("preparing to watch %s: %w", e.Resource, err)
		}
		s.dynamic = dynamicinformer.NewDynamicSharedInformerFactory(client, 0)
	}
	s.sources() // asking for an informer is what registers it with the factory
	return nil
}

// watch adds the event handlers. stop removes them.
func (s *Scheduler) watch(ctx context.Context) (stop func(), synced []cache.InformerSynced, err error) {
	var undo []func()
	stop = func() {
		for _, u := range undo {
			u()
		}
	}
	sources := s.sources()
	for _, kind := range slices.Sorted(maps.Keys(sources)) {
		source := sources[kind]
		var h cache.ResourceEventHandler
		switch kind {
		case fwk.AssignedPod:
			h = on(func(old, new *corev1.Pod) { s.onPod(ctx, old, new) })
		case fwk.Node:
			h = on(func(old, new *corev1.Node) { s.onNode(ctx, old, new) })
		case framework.Namespace:
			h = on(func(old, new *corev1.Namespace) {
				if old == nil || new == nil || !maps.Equal(old.Labels, new.Labels) {
					s.onOther(ctx, kind, old, new, old == nil, new == nil)
				}
			})
		default:
			h = on(func(old, new any) { s.onOther(ctx, kind, old, new, old == nil, new == nil) })
		}
		reg, err := source.AddEventHandler(h)
		if err != nil {
			stop()
			return nil, nil, fmt.Errorf("watching %s: %w", kind, err)
		}
		undo = append(undo, func() { _ = source.RemoveEventHandler(reg) })
		// The kind of a custom resource may come later, or never.
		if customResource(kind) == nil {
			synced = append(synced, reg.HasSynced)
		}
	}
	return stop, synced, nil
}

// on folds additions, updates and deletions into one function of two versions,
// of which one is the zero T.
func on[T any](f func(old, new T)) cache.ResourceEventHandler {
	var none T
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			if t, ok := obj.(T); ok {
				f(none, t)
			}
		},
		UpdateFunc: func(a, b any) {
			old, okOld := a.(T)
			new, okNew := b.(T)
			if okOld && okNew {
				f(old, new)
			}
		},
		DeleteFunc: func(obj any) {
			if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = gone.Obj
			}
			if t, ok := obj.(T); ok {
				f(t, none)
			}
		},
	}
}

// placed tells whether a pod occupies a node.
func placed(p *corev1.Pod) bool { return p != nil && p.Spec.NodeName != "" && !terminal(p) }

// waits tells whether a pod is ours to place.
func (s *Scheduler) waits(p *corev1.Pod) bool {
	return p != nil && p.Spec.NodeName == "" && s.profiles[p.Spec.SchedulerName] != nil && !terminal(p)
}

func terminal(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// podEvent tells what happened to a pod, in the words of metrics.
func podEvent(old, new *corev1.Pod) fwk.ClusterEvent {
	switch was, is := placed(old), placed(new); {
	case is && !was:
		return fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.Add}
	case is:
		return fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.Update}
	case was:
		return fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.Delete}
	case old == nil:
		return fwk.ClusterEvent{Resource: fwk.UnscheduledPod, ActionType: fwk.Add}
	case new == nil:
		return fwk.ClusterEvent{Resource: fwk.UnscheduledPod, ActionType: fwk.Delete}
	}
	return fwk.ClusterEvent{Resource: fwk.UnscheduledPod, ActionType: fwk.Update}
}

// handled counts what came of an event since start.
func (s *Scheduler) handled(event fwk.ClusterEvent, start time.Time) {
	if s.metrics != nil && event.ActionType != 0 {
		s.metrics.Handled(event.Label(), start)
	}
}

// onPod keeps cache and queue in step with a pod. Both identify pods by UID, so
// a pod that was replaced between two lists is a deletion and an addition.
func (s *Scheduler) onPod(ctx context.Context, old, new *corev1.Pod) {
	if old != nil && new != nil && old.UID != new.UID {
		s.onPod(ctx, old, nil)
		old = nil
	}
	start := time.Now()
	defer s.handled(podEvent(old, new), start)
	switch {
	case placed(new) || s.waits(new):
		s.groups.Seen(new)
	case old != nil:
		s.groups.Remove(old.UID)
	}
	assigned := func(a fwk.ActionType) {
		var o, n any
		if old != nil {
			o = old
		}
		if new != nil {
			n = new
		}
		s.queue.Move(ctx, fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: a}, o, n)
	}
	switch was, is := placed(old), placed(new); {
	case is:
		s.queue.Delete(ctx, new.UID)
		s.nominated.Remove(new.UID)
		s.statuses.Forget(new.UID)
		s.cache.AddPod(new)
		if !was {
			assigned(fwk.Add)
			return
		}
		actions := framework.PodActions(old, new)
		for a := range framework.Single(actions) {
			assigned(a)
			s.handled(fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: a}, start)
		}
		if actions == 0 && s.anyUpdate {
			assigned(fwk.Update)
		}
		return
	case was:
		s.cache.RemovePod(old.UID)
		assigned(fwk.Delete)
	}
	if old != nil && s.waits(old) && (new == nil || new.DeletionTimestamp != nil) {
		s.release(ctx, old)
	}
	if s.waits(new) {
		before := ""
		if old != nil {
			before = old.Status.NominatedNodeName
		}
		// Only a change counts: our own nominations are known before they are written.
		changed := new.Status.NominatedNodeName != before && !s.cache.Has(new.UID)
		if changed {
			s.nominated.Set(framework.NewPodInfo(new), new.Status.NominatedNodeName)
		} else if s.nominated.NodeOf(new.UID) != "" {
			s.nominated.Refresh(framework.NewPodInfo(new)) // others are kept off its node by what it is now
		}
		s.queue.Add(ctx, new)
		if old != nil && s.metrics != nil {
			for a := range framework.Single(framework.PodActions(old, new)) {
				s.handled(fwk.ClusterEvent{Resource: fwk.UnscheduledPod, ActionType: a}, start)
			}
		}
		if changed && before != "" {
			s.queue.Free(ctx, old) // the room that it waited for
		}
		if _, grouped := framework.GroupOf(new); grouped && !s.waits(old) {
			s.queue.Move(ctx, fwk.ClusterEvent{Resource: fwk.UnscheduledPod, ActionType: fwk.Add}, nil, new)
		}
		return
	}
	if old != nil && s.waits(old) {
		s.queue.Delete(ctx, old.UID)
		s.statuses.Forget(old.UID)
		// It may have been assumed, and bound without our seeing that.
		freed := s.cache.RemovePod(old.UID)
		if s.nominated.Remove(old.UID) || freed {
			assigned(fwk.Delete)
		}
	}
}

// release takes its room from a pod that is deleted before it is bound: the API refuses the Binding, but it may be long until that is tried.
func (s *Scheduler) release(ctx context.Context, pod *corev1.Pod) {
	if s.profiles[pod.Spec.SchedulerName].RejectWaitingPod(pod.UID) {
		return // it ends by itself, as after any rejection
	}
	if assumed := s.cache.Forget(pod.UID); assumed != nil {
		s.queue.Move(ctx, fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.Delete}, assumed, nil)
	}
}

func (s *Scheduler) onNode(ctx context.Context, old, new *corev1.Node) {
	start := time.Now()
	happened := func(a fwk.ActionType, old, new any) {
		event := fwk.ClusterEvent{Resource: fwk.Node, ActionType: a}
		s.queue.Move(ctx, event, old, new)
		s.handled(event, start)
	}
	switch {
	case new == nil:
		s.cache.RemoveNode(old.Name)
		happened(fwk.Delete, old, nil)
	case old == nil:
		s.cache.AddNode(new)
		happened(fwk.Add, nil, new)
	default:
		s.cache.AddNode(new)
		for a := range framework.Single(framework.NodeActions(old, new)) {
			happened(a, old, new)
		}
	}
}

// onOther makes an event of an object that only plugins look at.
func (s *Scheduler) onOther(ctx context.Context, kind fwk.EventResource, old, new any, added, deleted bool) {
	event := fwk.ClusterEvent{Resource: kind, ActionType: fwk.Update}
	if added {
		event.ActionType, old = fwk.Add, nil
	} else if deleted {
		event.ActionType, new = fwk.Delete, nil
	}
	defer s.handled(event, time.Now())
	s.queue.Move(ctx, event, old, new)
}
