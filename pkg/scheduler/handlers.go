// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"minik8s.io/minik8s/pkg/scheduler/framework"
)

// informers returns those whose objects make cluster events.
func (s *Scheduler) informers() map[framework.EventResource]cache.SharedIndexInformer {
	core, storage := s.cfg.Informers.Core().V1(), s.cfg.Informers.Storage().V1()
	return map[framework.EventResource]cache.SharedIndexInformer{
		framework.AssignedPod:           core.Pods().Informer(),
		framework.Node:                  core.Nodes().Informer(),
		framework.Namespace:             core.Namespaces().Informer(),
		framework.PersistentVolume:      core.PersistentVolumes().Informer(),
		framework.PersistentVolumeClaim: core.PersistentVolumeClaims().Informer(),
		framework.StorageClass:          storage.StorageClasses().Informer(),
		framework.CSIDriver:             storage.CSIDrivers().Informer(),
		framework.CSIStorageCapacity:    storage.CSIStorageCapacities().Informer(),
	}
}

// watch adds the event handlers. stop removes them.
func (s *Scheduler) watch(ctx context.Context) (stop func(), synced []cache.InformerSynced, err error) {
	var undo []func()
	stop = func() {
		for _, u := range undo {
			u()
		}
	}
	informers := s.informers()
	for _, kind := range slices.Sorted(maps.Keys(informers)) {
		informer := informers[kind]
		var h cache.ResourceEventHandler
		switch kind {
		case framework.AssignedPod:
			h = on(func(old, new *corev1.Pod) { s.onPod(ctx, old, new) })
		case framework.Node:
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
		reg, err := informer.AddEventHandler(h)
		if err != nil {
			stop()
			return nil, nil, fmt.Errorf("watching %s: %w", kind, err)
		}
		undo = append(undo, func() { _ = informer.RemoveEventHandler(reg) })
		synced = append(synced, reg.HasSynced)
	}
	// Plugins read listers that have no handler here.
	return stop, append(synced, s.pluginInformers()...), nil
}

// pluginInformers returns what plugins list but nobody here listens to.
func (s *Scheduler) pluginInformers() []cache.InformerSynced {
	f := s.cfg.Informers
	return []cache.InformerSynced{
		f.Core().V1().Services().Informer().HasSynced,
		f.Core().V1().ReplicationControllers().Informer().HasSynced,
		f.Apps().V1().ReplicaSets().Informer().HasSynced,
		f.Apps().V1().StatefulSets().Informer().HasSynced,
		f.Policy().V1().PodDisruptionBudgets().Informer().HasSynced,
	}
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
	return p != nil && p.Spec.NodeName == "" && p.Spec.SchedulerName == s.cfg.SchedulerName && !terminal(p)
}

func terminal(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// onPod keeps cache and queue in step with a pod. Both identify pods by UID, so
// a pod that was replaced between two lists is a deletion and an addition.
func (s *Scheduler) onPod(ctx context.Context, old, new *corev1.Pod) {
	if old != nil && new != nil && old.UID != new.UID {
		s.onPod(ctx, old, nil)
		old = nil
	}
	assigned := func(a framework.Action) {
		var o, n any
		if old != nil {
			o = old
		}
		if new != nil {
			n = new
		}
		s.queue.Move(ctx, framework.ClusterEvent{Resource: framework.AssignedPod, Action: a}, o, n)
	}
	switch was, is := placed(old), placed(new); {
	case is:
		s.queue.Delete(new.UID)
		s.nominated.Remove(new.UID)
		s.cache.AddPod(new)
		if !was {
			assigned(framework.Add)
		} else if a := framework.PodActions(old, new); a != 0 {
			assigned(a)
		}
		return
	case was:
		s.cache.RemovePod(old.UID)
		assigned(framework.Delete)
	}
	if s.waits(new) {
		before := ""
		if old != nil {
			before = old.Status.NominatedNodeName
		}
		// Only a change counts: our own nominations are known before they are written.
		if n := new.Status.NominatedNodeName; n != before && !s.cache.Has(new.UID) {
			s.nominated.Set(framework.NewPodInfo(new), n)
		}
		s.queue.Add(ctx, new)
		return
	}
	if old != nil && s.waits(old) {
		s.queue.Delete(old.UID)
		// It may have been assumed, and bound without our seeing that.
		freed := s.cache.RemovePod(old.UID)
		if s.nominated.Remove(old.UID) || freed {
			assigned(framework.Delete)
		}
	}
}

func (s *Scheduler) onNode(ctx context.Context, old, new *corev1.Node) {
	event := framework.ClusterEvent{Resource: framework.Node}
	switch {
	case new == nil:
		s.cache.RemoveNode(old.Name)
		event.Action = framework.Delete
		s.queue.Move(ctx, event, old, nil)
	case old == nil:
		s.cache.AddNode(new)
		event.Action = framework.Add
		s.queue.Move(ctx, event, nil, new)
	default:
		s.cache.AddNode(new)
		if event.Action = framework.NodeActions(old, new); event.Action != 0 {
			s.queue.Move(ctx, event, old, new)
		}
	}
}

// onOther makes an event of an object that only plugins look at.
func (s *Scheduler) onOther(ctx context.Context, kind framework.EventResource, old, new any, added, deleted bool) {
	event := framework.ClusterEvent{Resource: kind, Action: framework.Update}
	if added {
		event.Action, old = framework.Add, nil
	} else if deleted {
		event.Action, new = framework.Delete, nil
	}
	s.queue.Move(ctx, event, old, new)
}
