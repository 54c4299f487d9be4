// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package garbagecollector

import (
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Task asks for one object to be looked at.
type Task struct {
	UID types.UID
	// Orphan is set when the object waits for its dependents to lose it as their owner; else the object is looked at for
	// being deleted, with or after its owners.
	Orphan bool
}

// Graph knows every object of the cluster by its UID, together with who owns it. It is fed with what watches report and
// answers with the tasks that follow; it does no I/O. It is safe for concurrent use.
//
// Owners that no watch has reported need no node: dependents are indexed by the UID that their owner reference names.
type Graph struct {
	mu         sync.Mutex
	nodes      map[types.UID]*node
	dependents map[types.UID]map[types.UID]struct{}
}

// node is what is kept of an object.
type node struct {
	resource  Resource
	namespace string
	name      string
	version   string
	owners    []metav1.OwnerReference
	// policy is how the object's dependents go when it is deleted.
	policy metav1.DeletionPropagation
	// deleting is set from the deletion timestamp on.
	deleting bool
	// foreground and orphaning are set while a deleting object has the finalizer of that kind of deletion.
	foreground bool
	orphaning  bool
}

// NewGraph returns an empty graph.
func NewGraph() *Graph {
	return &Graph{nodes: map[types.UID]*node{}, dependents: map[types.UID]map[types.UID]struct{}{}}
}

// Observe takes in the present metadata of an object.
func (g *Graph) Observe(resource Resource, obj metav1.Object) []Task {
	g.mu.Lock()
	defer g.mu.Unlock()
	uid := obj.GetUID()
	deleting := obj.GetDeletionTimestamp() != nil
	next := &node{
		resource:   resource,
		namespace:  obj.GetNamespace(),
		name:       obj.GetName(),
		version:    obj.GetResourceVersion(),
		owners:     slices.Clone(obj.GetOwnerReferences()),
		policy:     propagation(obj.GetFinalizers()),
		deleting:   deleting,
		foreground: deleting && slices.Contains(obj.GetFinalizers(), metav1.FinalizerDeleteDependents),
		orphaning:  deleting && slices.Contains(obj.GetFinalizers(), metav1.FinalizerOrphanDependents),
	}
	before := g.nodes[uid]
	if before == nil {
		before = &node{}
	}
	g.nodes[uid] = next

	var tasks []Task
	for _, ref := range before.owners {
		after, still := reference(next.owners, ref.UID)
		if !still {
			delete(g.dependents[ref.UID], uid)
			if len(g.dependents[ref.UID]) == 0 {
				delete(g.dependents, ref.UID)
			}
		}
		// An owner in foreground deletion may have waited for just this reference.
		if isBlocking(ref) && (!still || !isBlocking(after)) {
			tasks = append(tasks, Task{UID: ref.UID})
		}
	}
	for _, ref := range next.owners {
		if g.dependents[ref.UID] == nil {
			g.dependents[ref.UID] = map[types.UID]struct{}{}
		}
		g.dependents[ref.UID][uid] = struct{}{}
	}
	if g.isDoubtful(next) {
		tasks = append(tasks, Task{UID: uid})
	}
	if before.name == "" {
		// Dependents seen earlier may name this owner wrongly, in another namespace for example.
		for dependent := range g.dependents[uid] {
			if n := g.nodes[dependent]; n != nil && g.isDoubtful(n) {
				tasks = append(tasks, Task{UID: dependent})
			}
		}
	}
	if next.orphaning && !before.orphaning {
		tasks = append(tasks, Task{UID: uid, Orphan: true})
	}
	if next.foreground && !before.foreground {
		for dependent := range g.dependents[uid] {
			tasks = append(tasks, Task{UID: dependent})
		}
		tasks = append(tasks, Task{UID: uid})
	}
	return tasks
}

// Forget takes in that an object is gone.
func (g *Graph) Forget(uid types.UID) []Task {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.forget(uid)
}

func (g *Graph) forget(uid types.UID) []Task {
	n := g.nodes[uid]
	if n == nil {
		return nil
	}
	delete(g.nodes, uid)
	var tasks []Task
	for _, ref := range n.owners {
		delete(g.dependents[ref.UID], uid)
		if len(g.dependents[ref.UID]) == 0 {
			delete(g.dependents, ref.UID)
		}
		if owner := g.nodes[ref.UID]; owner != nil && owner.foreground {
			tasks = append(tasks, Task{UID: ref.UID})
		}
	}
	for dependent := range g.dependents[uid] {
		tasks = append(tasks, Task{UID: dependent})
	}
	return tasks
}

// Retain forgets the objects of a resource that a complete list of it does not hold.
func (g *Graph) Retain(resource Resource, present map[types.UID]struct{}) []Task {
	g.mu.Lock()
	defer g.mu.Unlock()
	var tasks []Task
	for uid, n := range g.nodes {
		if _, ok := present[uid]; !ok && n.resource.GroupVersionResource == resource.GroupVersionResource {
			tasks = append(tasks, g.forget(uid)...)
		}
	}
	return tasks
}

// View is what the graph knows about one object and its surroundings, at one moment.
type View struct {
	Resource  Resource
	Namespace string
	Name      string
	// Version is the resource version that has the owners, and Policy how the dependents go.
	Version string
	Owners  []metav1.OwnerReference
	Policy  metav1.DeletionPropagation
	// Deleting is set from the deletion timestamp on, Foreground while it waits for its dependents.
	Deleting   bool
	Foreground bool
	// Doubtful is set when an owner is not known to be alive and well.
	Doubtful bool
	// Dependents are the objects that name this one as an owner. They are left out while it waits for them: there may be many.
	Dependents []Dependent
}

// Dependent is an object that names another as its owner.
type Dependent struct {
	UID        types.UID
	Resource   Resource
	Namespace  string
	Name       string
	Foreground bool
}

// View returns what is known about an object; ok is false when it is not known at all.
func (g *Graph) View(uid types.UID) (view View, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := g.nodes[uid]
	if n == nil {
		return View{}, false
	}
	view = View{
		Resource:   n.resource,
		Namespace:  n.namespace,
		Name:       n.name,
		Version:    n.version,
		Owners:     n.owners,
		Policy:     n.policy,
		Deleting:   n.deleting,
		Foreground: n.foreground,
		Doubtful:   g.isDoubtful(n),
	}
	if n.foreground {
		return view, true
	}
	view.Dependents = g.dependentsOf(uid)
	return view, true
}

// Dependents returns the objects that name this one as an owner.
func (g *Graph) Dependents(uid types.UID) []Dependent {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.dependentsOf(uid)
}

func (g *Graph) dependentsOf(uid types.UID) []Dependent {
	var dependents []Dependent
	for dependent := range g.dependents[uid] {
		d := g.nodes[dependent]
		if d == nil {
			continue
		}
		dependents = append(dependents, Dependent{
			UID:        dependent,
			Resource:   d.resource,
			Namespace:  d.namespace,
			Name:       d.name,
			Foreground: d.foreground,
		})
	}
	return dependents
}

// Blocked reports whether a dependent keeps the object from going.
func (g *Graph) Blocked(uid types.UID) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for dependent := range g.dependents[uid] {
		if d := g.nodes[dependent]; d != nil {
			if ref, _ := reference(d.owners, uid); isBlocking(ref) {
				return true
			}
		}
	}
	return false
}

// Has reports whether a watch has reported the object, and in which namespace.
func (g *Graph) Has(uid types.UID) (namespace string, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := g.nodes[uid]
	if n == nil {
		return "", false
	}
	return n.namespace, true
}

// isDoubtful reports whether an owner of n is unknown, waits for its dependents to go, or is another object than the
// reference describes. Whether the owner exists is then for the API server to say.
func (g *Graph) isDoubtful(n *node) bool {
	return slices.ContainsFunc(n.owners, func(ref metav1.OwnerReference) bool {
		owner := g.nodes[ref.UID]
		return owner == nil || owner.foreground || !owner.matches(ref, n.namespace)
	})
}

// matches reports whether a reference in an object of the given namespace describes n.
func (n *node) matches(ref metav1.OwnerReference, namespace string) bool {
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	return err == nil && gv.Group == n.resource.Group && ref.Kind == n.resource.Kind && ref.Name == n.name &&
		(n.namespace == "" || n.namespace == namespace)
}

func reference(owners []metav1.OwnerReference, uid types.UID) (metav1.OwnerReference, bool) {
	for _, ref := range owners {
		if ref.UID == uid {
			return ref, true
		}
	}
	return metav1.OwnerReference{}, false
}

func isBlocking(ref metav1.OwnerReference) bool {
	return ref.BlockOwnerDeletion != nil && *ref.BlockOwnerDeletion
}

// propagation is how the dependents of an object with these finalizers go.
func propagation(finalizers []string) metav1.DeletionPropagation {
	switch {
	case slices.Contains(finalizers, metav1.FinalizerOrphanDependents):
		return metav1.DeletePropagationOrphan
	case slices.Contains(finalizers, metav1.FinalizerDeleteDependents):
		return metav1.DeletePropagationForeground
	}
	return metav1.DeletePropagationBackground
}
