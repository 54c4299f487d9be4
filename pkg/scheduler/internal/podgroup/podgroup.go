// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package podgroup knows which pods belong to which PodGroup and how far each of
// them has come (KEP-4671). Touch it when a decision about a group needs another
// fact.
package podgroup

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	schedulinglisters "k8s.io/client-go/listers/scheduling/v1beta1"
	fwk "k8s.io/kube-scheduler/framework"

	"minik8s.io/minik8s/pkg/scheduler/framework"
)

// stage is how far a pod has come.
type stage int

const (
	waiting  stage = iota // has no node
	assumed               // has one, and the watch has not shown it yet
	assigned              // is bound
)

// Groups has the pods of all groups. It is safe for concurrent use. Nil is told in
// vain, and is not to be asked: framework.NoGroups is for that.
type Groups struct {
	framework.NoGroups // there are no composite ones
	objects            schedulinglisters.PodGroupLister

	mu      sync.Mutex
	groups  map[types.NamespacedName]*group    // guarded by mu; no empty ones
	groupOf map[types.UID]types.NamespacedName // guarded by mu
}

// group is the pods of one.
type group struct {
	members map[types.UID]member
	// told is a copy that plugins may have; nil if it is not what is. All members of a large group ask for it in turn.
	told state
}

func (g *group) set(uid types.UID, m member) { g.members[uid], g.told = m, nil }

var _ fwk.PodGroupManager = (*Groups)(nil)

type member struct {
	pod   *corev1.Pod
	stage stage
}

// New returns groups whose objects are in a lister.
func New(objects schedulinglisters.PodGroupLister) *Groups {
	return &Groups{
		objects: objects,
		groups:  map[types.NamespacedName]*group{},
		groupOf: map[types.UID]types.NamespacedName{},
	}
}

// Seen takes over what the watch shows of a pod: one with a node is assigned. A pod
// without a group is ignored.
func (g *Groups) Seen(pod *corev1.Pod) {
	name, ok := framework.GroupOf(pod)
	if g == nil || !ok {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.groups[name] == nil {
		g.groups[name] = &group{members: map[types.UID]member{}}
	}
	m := member{pod, waiting}
	if pod.Spec.NodeName != "" {
		m.stage = assigned
	} else if before := g.groups[name].members[pod.UID]; before.stage == assumed {
		m = before
	}
	g.groups[name].set(pod.UID, m)
	g.groupOf[pod.UID] = name
}

// Assume says that a pod has been given a node, unless it is gone.
func (g *Groups) Assume(pod *corev1.Pod) {
	g.change(pod.UID, func(m *member) { *m = member{pod, assumed} })
}

// Forget says that an assumed pod has lost its node.
func (g *Groups) Forget(pod *corev1.Pod) {
	g.change(pod.UID, func(m *member) {
		if m.stage == assumed {
			*m = member{pod, waiting}
		}
	})
}

func (g *Groups) change(uid types.UID, f func(*member)) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if name, ok := g.groupOf[uid]; ok {
		m := g.groups[name].members[uid]
		f(&m)
		g.groups[name].set(uid, m)
	}
}

// Remove forgets a pod that is gone, or has ended.
func (g *Groups) Remove(uid types.UID) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	name, ok := g.groupOf[uid]
	if !ok {
		return
	}
	delete(g.groupOf, uid)
	group := g.groups[name]
	group.told = nil
	if delete(group.members, uid); len(group.members) == 0 {
		delete(g.groups, name)
	}
}

// Waiting lists the pods of a group that have no node, in any order.
func (g *Groups) Waiting(name types.NamespacedName) (out []types.UID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if group := g.groups[name]; group != nil {
		for uid, m := range group.members {
			if m.stage == waiting {
				out = append(out, uid)
			}
		}
	}
	return out
}

// PodGroups implements fwk.PodGroupManager.
func (g *Groups) PodGroups() fwk.PodGroupLister { return objects{g.objects} }

type objects struct {
	schedulinglisters.PodGroupLister
}

// Get implements fwk.PodGroupLister.
func (o objects) Get(namespace, name string) (*schedulingv1beta1.PodGroup, error) {
	group, err := o.PodGroups(namespace).Get(name)
	if err != nil {
		return nil, fmt.Errorf("looking up the pod group %s/%s: %w", namespace, name, err)
	}
	return group, nil
}

// PodGroupStates implements fwk.PodGroupManager.
func (g *Groups) PodGroupStates() fwk.PodGroupStateLister { return states{g} }

type states struct{ *Groups }

// Get implements fwk.PodGroupStateLister: the state as of now.
func (s states) Get(namespace, name string) (fwk.PodGroupState, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	group := s.groups[types.NamespacedName{Namespace: namespace, Name: name}]
	if group == nil {
		return state(nil), nil
	}
	if group.told == nil {
		group.told = maps.Clone(group.members)
	}
	return group.told, nil
}

// state implements fwk.PodGroupState.
type state map[types.UID]member

var _ fwk.PodGroupState = state{}

func (s state) at(stages ...stage) sets.Set[types.UID] {
	out := sets.New[types.UID]()
	for uid, m := range s {
		if slices.Contains(stages, m.stage) {
			out.Insert(uid)
		}
	}
	return out
}

// AllPods implements fwk.PodGroupState.
func (s state) AllPods() sets.Set[types.UID] { return sets.KeySet(s) }

// AllPodsCount implements fwk.PodGroupState.
func (s state) AllPodsCount() int { return len(s) }

// UnscheduledPods implements fwk.PodGroupState.
func (s state) UnscheduledPods() map[string]*corev1.Pod {
	out := map[string]*corev1.Pod{}
	for _, m := range s {
		if m.stage == waiting {
			out[m.pod.Namespace+"/"+m.pod.Name] = m.pod
		}
	}
	return out
}

// AssumedPods implements fwk.PodGroupState.
func (s state) AssumedPods() sets.Set[types.UID] { return s.at(assumed) }

// AssignedPods implements fwk.PodGroupState.
func (s state) AssignedPods() sets.Set[types.UID] { return s.at(assigned) }

// ScheduledPods implements fwk.PodGroupState.
func (s state) ScheduledPods() (out []*corev1.Pod) {
	for _, m := range s {
		if m.stage != waiting {
			out = append(out, m.pod)
		}
	}
	return out
}

// ScheduledPodsCount implements fwk.PodGroupState.
func (s state) ScheduledPodsCount() int { return len(s.at(assumed, assigned)) }
