// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package disruption

import (
	"context"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// workload is a controller and the number of pods it wants.
type workload struct {
	uid      types.UID
	replicas int32
}

// expectedScale sums up what the controllers of the pods want and returns the names of the pods that have none. Every
// controller counts once, a Deployment for all its ReplicaSets.
func (r *Reconciler) expectedScale(ctx context.Context, selected []*corev1.Pod) (expected int32, unmanaged []string, err error) {
	asked := map[types.UID]bool{}
	scales := map[types.UID]int32{}
	for _, pod := range selected {
		ref := metav1.GetControllerOfNoCopy(pod)
		if ref == nil {
			unmanaged = append(unmanaged, pod.Name)
			continue
		}
		if asked[ref.UID] {
			continue
		}
		found, err := r.workloadOf(ctx, pod.Namespace, ref)
		if err != nil {
			return 0, nil, err
		}
		if found == nil {
			return 0, nil, fmt.Errorf("found no controllers for pod %q", pod.Name)
		}
		asked[ref.UID] = true
		scales[found.uid] = found.replicas
	}
	for _, replicas := range scales {
		expected += replicas
	}
	return expected, unmanaged, nil
}

// workloadOf returns the controller that ref refers to; nil when it is gone or another one of its name. The built-in kinds
// come from the cache. What is not there may be too new for it, or belong to somebody whose kind is called Deployment, too: that
// has the subresource scale, as any other kind has to.
func (r *Reconciler) workloadOf(ctx context.Context, namespace string, ref *metav1.OwnerReference) (*workload, error) {
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return nil, fmt.Errorf("parsing the API version of %s %q: %w", ref.Kind, ref.Name, err)
	}
	found, err := r.cached(ctx, namespace, gv.WithKind(ref.Kind).GroupKind(), ref)
	if found != nil || err != nil {
		return found, err
	}
	return r.scalable(ctx, namespace, gv.WithKind(ref.Kind), ref)
}

// cached returns a controller of a built-in kind, nil if the cache does not have it.
func (r *Reconciler) cached(ctx context.Context, namespace string, kind schema.GroupKind, ref *metav1.OwnerReference) (*workload, error) {
	switch kind {
	case corev1.SchemeGroupVersion.WithKind("ReplicationController").GroupKind():
		rc := &corev1.ReplicationController{}
		if err := r.get(ctx, namespace, ref, rc); err != nil || rc.UID != ref.UID {
			return nil, err
		}
		return &workload{rc.UID, ptr.Deref(rc.Spec.Replicas, 1)}, nil
	case appsv1.SchemeGroupVersion.WithKind("ReplicaSet").GroupKind():
		return r.replicaSet(ctx, namespace, ref)
	case appsv1.SchemeGroupVersion.WithKind("StatefulSet").GroupKind():
		set := &appsv1.StatefulSet{}
		if err := r.get(ctx, namespace, ref, set); err != nil || set.UID != ref.UID {
			return nil, err
		}
		return &workload{set.UID, ptr.Deref(set.Spec.Replicas, 1)}, nil
	}
	return nil, nil
}

// replicaSet returns the Deployment of a ReplicaSet, or the ReplicaSet itself when no Deployment controls it.
func (r *Reconciler) replicaSet(ctx context.Context, namespace string, ref *metav1.OwnerReference) (*workload, error) {
	rs := &appsv1.ReplicaSet{}
	if err := r.get(ctx, namespace, ref, rs); err != nil || rs.UID != ref.UID {
		return nil, err
	}
	owner := metav1.GetControllerOfNoCopy(rs)
	if owner == nil || owner.Kind != "Deployment" {
		return &workload{rs.UID, ptr.Deref(rs.Spec.Replicas, 1)}, nil
	}
	d := &appsv1.Deployment{}
	if err := r.get(ctx, namespace, owner, d); err != nil || d.UID != owner.UID {
		return nil, err
	}
	return &workload{d.UID, ptr.Deref(d.Spec.Replicas, 1)}, nil
}

// get reads from the cache; what is not there stays empty, without a UID.
func (r *Reconciler) get(ctx context.Context, namespace string, ref *metav1.OwnerReference, obj client.Object) error {
	err := r.Client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: ref.Name}, obj, client.UnsafeDisableDeepCopy)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading %s %q: %w", ref.Kind, ref.Name, err)
	}
	return nil
}

// scalable asks the API server for the scale of a controller of any kind.
func (r *Reconciler) scalable(ctx context.Context, namespace string, kind schema.GroupVersionKind, ref *metav1.OwnerReference) (*workload, error) {
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(kind)
	obj.SetNamespace(namespace)
	obj.SetName(ref.Name)
	scale := &autoscalingv1.Scale{}
	err := r.Client.SubResource("scale").Get(ctx, obj, scale)
	switch {
	case meta.IsNoMatchError(err):
		return nil, fmt.Errorf("%s is not a kind that the API server knows: %w", kind.GroupKind(), err)
	case apierrors.IsNotFound(err):
		// Either the object is missing or its kind has no such subresource.
		if err := r.hasScale(kind); err != nil {
			return nil, err
		}
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading the scale of %s %q: %w", ref.Kind, ref.Name, err)
	case scale.UID != ref.UID:
		return nil, nil
	}
	return &workload{scale.UID, scale.Spec.Replicas}, nil
}

// hasScale returns an error for a kind that does not have the subresource scale.
func (r *Reconciler) hasScale(kind schema.GroupVersionKind) error {
	list, err := r.Resources.ServerResourcesForGroupVersion(kind.GroupVersion().String())
	if err != nil {
		return fmt.Errorf("discovering %s: %w", kind.GroupVersion(), err)
	}
	resource := schema.GroupResource{Group: kind.Group}
	names := sets.New[string]()
	for i := range list.APIResources {
		name := list.APIResources[i].Name
		names.Insert(name)
		if list.APIResources[i].Kind == kind.Kind && !strings.Contains(name, "/") {
			resource.Resource = name
		}
	}
	if resource.Resource == "" {
		return fmt.Errorf("%s is not a kind that the API server serves", kind.GroupKind())
	}
	if names.Has(resource.Resource + "/scale") {
		return nil
	}
	return fmt.Errorf("%s does not implement the scale subresource", resource)
}
