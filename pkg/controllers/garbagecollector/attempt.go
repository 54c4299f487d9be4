// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package garbagecollector

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
)

// errUnresolvable is met when an object without a namespace names an owner that lives in one. Nobody can say which owner
// is meant, so that the object is left alone.
var errUnresolvable = errors.New("cluster-scoped objects cannot refer to namespaced owners")

// errUnobserved asks for another look: the owner exists, but no watch has reported it, so that its end would go unnoticed.
var errUnobserved = errors.New("an owner exists which no watch has reported yet")

// errNotServed asks for another look: the resource of an object is not served any more, or not yet.
var errNotServed = errors.New("the resource is not served")

// errUnsettled asks for another look when all watches are up.
var errUnsettled = errors.New("some resources are not watched yet")

// absentOwner identifies an owner that is known not to exist.
type absentOwner struct {
	uid                               types.UID
	apiVersion, kind, namespace, name string
}

// attempt decides whether the object of uid goes, and deletes it then.
func (c *Collector) attempt(ctx context.Context, uid types.UID) error {
	view, ok := c.graph.View(uid)
	if !ok || (view.Deleting && !view.Foreground) || (!view.Foreground && !view.Doubtful) {
		return nil
	}
	if view.Foreground {
		return c.waitForDependents(ctx, uid, view)
	}
	deleted, err := c.deleteAsObserved(ctx, uid, view)
	if deleted || err != nil {
		return err
	}
	latest, err := c.latest(ctx, uid, view)
	if err != nil || latest == nil || len(latest.OwnerReferences) == 0 {
		return err
	}
	return c.judge(ctx, view, latest)
}

// latest reads the object of uid; it is nil when that is gone.
func (c *Collector) latest(ctx context.Context, uid types.UID, view View) (*metav1.PartialObjectMetadata, error) {
	latest, err := c.get(ctx, view.Resource, view.Namespace, view.Name)
	if apierrors.IsNotFound(err) || (err == nil && latest.UID != uid) {
		// The watch will say so too, unless it was interrupted at the wrong moment.
		c.enqueue(c.graph.Forget(uid))
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading %v: %w", view, err)
	}
	return latest, nil
}

// deleteAsObserved deletes an object that has to go as a watch has reported it last, which saves reading it first. It deletes
// nothing, and says so, if something else is to be done or the object has changed since.
func (c *Collector) deleteAsObserved(ctx context.Context, uid types.UID, view View) (deleted bool, err error) {
	observed := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: view.Namespace, Name: view.Name, UID: uid, ResourceVersion: view.Version, OwnerReferences: view.Owners,
	}}
	o, err := c.classify(ctx, observed)
	if err != nil {
		return false, err
	}
	switch decide(o, view.Dependents) {
	case DeleteForeground:
		err = c.delete(ctx, view.Resource, observed, metav1.DeletePropagationForeground, true)
	case Delete:
		err = c.delete(ctx, view.Resource, observed, view.Policy, true)
	default:
		return false, nil
	}
	if apierrors.IsConflict(err) {
		return false, nil
	}
	return err == nil, err
}

// waitForDependents lets an object in foreground deletion go once no dependent blocks it any more. Each dependent that goes leads
// here, and was itself looked at when the deletion began.
func (c *Collector) waitForDependents(ctx context.Context, uid types.UID, view View) error {
	if !c.settled() {
		return errUnsettled
	}
	if c.graph.Blocked(uid) {
		return nil
	}
	latest, err := c.latest(ctx, uid, view)
	if err != nil || latest == nil {
		return err
	}
	return c.removeFinalizer(ctx, view, latest, metav1.FinalizerDeleteDependents)
}

// owners sorts the owner references of an object by what the API server says about the owners.
type owners struct {
	// solid ones exist, dangling ones do not, and waiting ones are in foreground deletion.
	solid, dangling, waiting []metav1.OwnerReference
}

// Verdict is what becomes of an object that has owners.
type Verdict int

// The verdicts.
const (
	// Stay leaves the object alone.
	Stay Verdict = iota
	// Disown takes the owners away that are gone or going.
	Disown
	// Unblock takes the blocking from all references and deletes in the foreground: the object is part of a circle of
	// owners which all wait for one another.
	Unblock
	// DeleteForeground deletes the object together with its dependents.
	DeleteForeground
	// Delete deletes the object as its finalizers ask.
	Delete
)

// decide returns the verdict on an object with these owners and dependents.
func decide(o owners, dependents []Dependent) Verdict {
	switch {
	case len(o.solid) > 0 && len(o.dangling)+len(o.waiting) == 0:
		return Stay
	case len(o.solid) > 0:
		return Disown
	case len(o.waiting) > 0 && slices.ContainsFunc(dependents, func(d Dependent) bool { return d.Foreground }):
		return Unblock
	case len(o.waiting) > 0 && len(dependents) > 0:
		return DeleteForeground
	case len(o.waiting)+len(o.dangling) > 0:
		return Delete
	}
	return Stay
}

// judge carries out the verdict on an object.
func (c *Collector) judge(ctx context.Context, view View, latest *metav1.PartialObjectMetadata) error {
	o, err := c.classify(ctx, latest)
	if err != nil {
		return err
	}
	switch decide(o, view.Dependents) {
	case Disown:
		return c.patchOwners(ctx, view.Resource, latest, o.solid)
	case Unblock:
		unblocked := slices.Clone(latest.OwnerReferences)
		for i := range unblocked {
			if isBlocking(unblocked[i]) {
				unblocked[i].BlockOwnerDeletion = new(false)
			}
		}
		if err := c.patchOwners(ctx, view.Resource, latest, unblocked); err != nil {
			return err
		}
		return c.delete(ctx, view.Resource, latest, metav1.DeletePropagationForeground, false)
	case DeleteForeground:
		return c.delete(ctx, view.Resource, latest, metav1.DeletePropagationForeground, true)
	case Delete:
		return c.delete(ctx, view.Resource, latest, propagation(latest.Finalizers), true)
	}
	for _, ref := range o.solid {
		if _, observed := c.graph.Has(ref.UID); !observed {
			return errUnobserved
		}
	}
	return nil
}

// classify asks the API server about every owner of an object.
func (c *Collector) classify(ctx context.Context, obj *metav1.PartialObjectMetadata) (owners, error) {
	var o owners
	for _, ref := range obj.OwnerReferences {
		owner, err := c.owner(ctx, obj, ref)
		switch {
		case err != nil:
			return owners{}, err
		case owner == nil:
			o.dangling = append(o.dangling, ref)
		case owner.DeletionTimestamp != nil && slices.Contains(owner.Finalizers, metav1.FinalizerDeleteDependents):
			o.waiting = append(o.waiting, ref)
		default:
			o.solid = append(o.solid, ref)
		}
	}
	return o, nil
}

// owner returns the owner that ref in obj describes, nil when there is none. UIDs are never used again, so that an owner
// once missed is known to be absent for good.
func (c *Collector) owner(ctx context.Context, obj *metav1.PartialObjectMetadata, ref metav1.OwnerReference) (*metav1.PartialObjectMetadata, error) {
	if from, deleted := c.absent.Get(ref.UID); deleted {
		if from == "" || from == obj.Namespace {
			return nil, nil // a watch has seen it go; its resource may have gone with it
		}
		if obj.Namespace == "" {
			c.reportNamespace(obj, ref)
			return nil, errUnresolvable
		}
	}
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return nil, fmt.Errorf("parsing owner reference %q: %w", ref.APIVersion, err)
	}
	mapping, err := c.mapper.RESTMapping(schema.GroupKind{Group: gv.Group, Kind: ref.Kind}, gv.Version)
	if err != nil {
		return nil, fmt.Errorf("finding the resource of owner %s %q: %w", ref.Kind, ref.Name, err)
	}
	namespace := ""
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		if namespace = obj.Namespace; namespace == "" {
			c.reportNamespace(obj, ref)
			return nil, errUnresolvable
		}
	}
	key := absentOwner{ref.UID, ref.APIVersion, ref.Kind, namespace, ref.Name}
	if _, absent := c.absent.Get(key); absent {
		return nil, nil
	}
	owner, err := c.get(ctx, Resource{GroupVersionResource: mapping.Resource}, namespace, ref.Name)
	if apierrors.IsNotFound(err) || (err == nil && owner.UID != ref.UID) {
		c.absent.Add(key, nil)
		if at, known := c.graph.Has(ref.UID); known && at != namespace {
			c.reportNamespace(obj, ref)
		}
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading owner %s %q: %w", ref.Kind, ref.Name, err)
	}
	return owner, nil
}

// reportNamespace tells the users of obj that its owner is not where it has to be.
func (c *Collector) reportNamespace(obj *metav1.PartialObjectMetadata, ref metav1.OwnerReference) {
	view, ok := c.graph.View(obj.UID)
	if !ok {
		return
	}
	about := &corev1.ObjectReference{
		APIVersion: view.Resource.GroupVersion().String(),
		Kind:       view.Resource.Kind,
		Namespace:  obj.Namespace,
		Name:       obj.Name,
		UID:        obj.UID,
	}
	owner := fmt.Sprintf("[%s/%s, namespace: %s, name: %s, uid: %s]", ref.APIVersion, ref.Kind, obj.Namespace, ref.Name, ref.UID)
	c.events.Eventf(about, corev1.EventTypeWarning, "OwnerRefInvalidNamespace", "ownerRef %s does not exist in namespace %q", owner, obj.Namespace)
}

// orphan takes the object of uid from the owners of all its dependents, and then lets it go.
func (c *Collector) orphan(ctx context.Context, uid types.UID) error {
	if !c.settled() {
		return errUnsettled
	}
	view, ok := c.graph.View(uid)
	if !ok {
		return nil
	}
	for _, d := range c.graph.Dependents(uid) {
		latest, err := c.get(ctx, d.Resource, d.Namespace, d.Name)
		if apierrors.IsNotFound(err) || (err == nil && latest.UID != d.UID) {
			continue
		}
		if err != nil {
			return fmt.Errorf("reading dependent %q: %w", d.Name, err)
		}
		rest := slices.DeleteFunc(slices.Clone(latest.OwnerReferences), func(ref metav1.OwnerReference) bool { return ref.UID == uid })
		if err := c.patchOwners(ctx, d.Resource, latest, rest); err != nil {
			return err
		}
	}
	latest, err := c.get(ctx, view.Resource, view.Namespace, view.Name)
	if apierrors.IsNotFound(err) || (err == nil && latest.UID != uid) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading %v: %w", view, err)
	}
	return c.removeFinalizer(ctx, view, latest, metav1.FinalizerOrphanDependents)
}

func (c *Collector) resource(r Resource, namespace string) metadata.ResourceInterface {
	if namespace == "" {
		return c.metadata.Resource(r.GroupVersionResource)
	}
	return c.metadata.Resource(r.GroupVersionResource).Namespace(namespace)
}

// get reads an object. That its resource is not served says nothing about the object: another version may be.
func (c *Collector) get(ctx context.Context, r Resource, namespace, name string) (*metav1.PartialObjectMetadata, error) {
	obj, err := c.resource(r, namespace).Get(ctx, name, metav1.GetOptions{})
	if isNotServed(err) {
		return nil, fmt.Errorf("%w: %v", errNotServed, r.GroupVersionResource)
	}
	return obj, err
}

// isNotServed tells whether it is the resource that was not found.
func isNotServed(err error) bool {
	return apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// delete deletes exactly the object that the decision was made on. Its resource version is part of that where owners
// matter: somebody may have given it a new owner meanwhile. One that is gone is forgotten, as by latest: an owner may wait for it.
func (c *Collector) delete(ctx context.Context, r Resource, obj *metav1.PartialObjectMetadata, policy metav1.DeletionPropagation, unchanged bool) error {
	options := metav1.DeleteOptions{PropagationPolicy: &policy, Preconditions: &metav1.Preconditions{UID: &obj.UID}}
	if unchanged {
		options.Preconditions.ResourceVersion = &obj.ResourceVersion
	}
	err := c.resource(r, obj.Namespace).Delete(ctx, obj.Name, options)
	switch {
	case err == nil:
		return nil
	case isNotServed(err):
		return fmt.Errorf("%w: %v", errNotServed, r.GroupVersionResource)
	case apierrors.IsNotFound(err):
		c.enqueue(c.graph.Forget(obj.UID))
		return nil
	}
	return fmt.Errorf("deleting %s %q: %w", r.Kind, obj.Name, err)
}

// removeFinalizer takes one finalizer from an object.
func (c *Collector) removeFinalizer(ctx context.Context, view View, obj *metav1.PartialObjectMetadata, finalizer string) error {
	rest := slices.DeleteFunc(slices.Clone(obj.Finalizers), func(f string) bool { return f == finalizer })
	if len(rest) == len(obj.Finalizers) {
		return nil
	}
	return c.patch(ctx, view.Resource, obj, map[string]any{"finalizers": rest})
}

func (c *Collector) patchOwners(ctx context.Context, r Resource, obj *metav1.PartialObjectMetadata, refs []metav1.OwnerReference) error {
	if refs == nil {
		refs = []metav1.OwnerReference{}
	}
	return c.patch(ctx, r, obj, map[string]any{"ownerReferences": refs})
}

// patch merges fields into the metadata of an object, provided that it has not changed since it was read.
func (c *Collector) patch(ctx context.Context, r Resource, obj *metav1.PartialObjectMetadata, fields map[string]any) error {
	fields["uid"] = obj.UID
	fields["resourceVersion"] = obj.ResourceVersion
	data, err := json.Marshal(map[string]any{"metadata": fields})
	if err != nil {
		return fmt.Errorf("rendering a patch: %w", err)
	}
	_, err = c.resource(r, obj.Namespace).Patch(ctx, obj.Name, types.MergePatchType, data, metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("patching %s %q: %w", r.Kind, obj.Name, err)
	}
	return nil
}

// String names the object for errors.
func (v View) String() string {
	if v.Namespace == "" {
		return fmt.Sprintf("%s %q", v.Resource.Kind, v.Name)
	}
	return fmt.Sprintf("%s %q", v.Resource.Kind, v.Namespace+"/"+v.Name)
}
