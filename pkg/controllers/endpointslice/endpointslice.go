// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package endpointslice publishes the pods of a Service as EndpointSlices. The slicing itself is the published package
// k8s.io/endpointslice; touch this one when a change of a Service, pod, slice or node does not lead to it.
package endpointslice

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	"k8s.io/endpointslice"
	"k8s.io/endpointslice/topologycache"
	endpointsliceutil "k8s.io/endpointslice/util"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/internal/backend"
	"minik8s.io/minik8s/pkg/controllers/ownwrites"
	"minik8s.io/minik8s/pkg/controllers/setup"
)

const (
	// ManagedBy is the value of the label endpointslice.kubernetes.io/managed-by on the slices of this controller.
	ManagedBy = "endpointslice-controller.k8s.io"
	// maxPerSlice is the number of endpoints a slice is filled up to.
	maxPerSlice = 100
)

// Reconciler works on the slices of one Service at a time.
type Reconciler struct {
	reader  client.Reader
	events  record.EventRecorder
	slices  *endpointslice.Reconciler
	tracker *endpointsliceutil.EndpointSliceTracker
	trigger *endpointsliceutil.TriggerTimeTracker
	zones   *topologycache.TopologyCache
}

// New returns a reconciler that reads from reader and writes slices with clientset.
func New(reader client.Reader, clientset kubernetes.Interface, events record.EventRecorder) *Reconciler {
	tracker := endpointsliceutil.NewEndpointSliceTracker()
	zones := topologycache.NewTopologyCache()
	return &Reconciler{
		reader:  reader,
		events:  events,
		tracker: tracker,
		trigger: endpointsliceutil.NewTriggerTimeTracker(),
		zones:   zones,
		slices: endpointslice.NewReconciler(clientset, nodes{reader}, maxPerSlice, tracker, zones, events, ManagedBy,
			endpointslice.WithPreferSameTrafficDistributionEnabled(true)),
	}
}

// errBehind asks for another look: the cache has not seen the last changes of the slices of a Service yet.
var errBehind = errors.New("the cache has not seen the last changes of its endpoint slices yet")

// Setup adds the controller to the manager.
func Setup(env setup.Env) error {
	if err := register(); err != nil {
		return err
	}
	clientset, err := kubernetes.NewForConfigAndClient(env.RESTConfig, env.HTTPClient)
	if err != nil {
		return fmt.Errorf("creating the clientset: %w", err)
	}
	r := New(env.Client, clientset, env.Events)
	return ctrl.NewControllerManagedBy(env.Manager).
		Named(env.Name).
		For(&corev1.Service{}).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(backend.Requests(env.Client)), builder.WithPredicates(backend.Changed())).
		Watches(&discoveryv1.EndpointSlice{}, handler.EnqueueRequestsFromMapFunc(backend.ServiceOf), builder.WithPredicates(r.foreignChange())).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(r.nodesChanged), builder.WithPredicates(zoneChange())).
		WithOptions(env.Options()).
		Complete(env.Barrier.PerRequest(r))
}

// Reconcile brings the slices of the Service in req up to date. Those of a Service that is gone are left to the garbage
// collector, as they are owned by it.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	err := r.sync(ctx, req)
	count(err)
	return reconcile.Result{}, err
}

func (r *Reconciler) sync(ctx context.Context, req reconcile.Request) error {
	svc := &corev1.Service{}
	err := r.reader.Get(ctx, req.NamespacedName, svc)
	if apierrors.IsNotFound(err) {
		r.trigger.DeleteService(req.Namespace, req.Name)
		r.tracker.DeleteService(req.Namespace, req.Name)
		r.slices.DeleteService(req.Namespace, req.Name)
		return nil
	}
	if err != nil || !backend.HasBackends(svc) {
		return err
	}
	pods, err := backend.Pods(ctx, r.reader, svc)
	if err != nil {
		return err
	}
	slices, err := backend.Slices(ctx, r.reader, req.NamespacedName, ManagedBy)
	if err != nil {
		return err
	}
	if r.tracker.StaleSlices(svc, slices) {
		return fmt.Errorf("service %q: %w", req, errBehind)
	}
	triggered := r.trigger.ComputeEndpointLastChangeTriggerTime(svc.Namespace, svc, pods)
	if err := r.slices.Reconcile(klog.FromContext(ctx), svc, pods, slices, triggered); err != nil {
		if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			return nil
		}
		r.events.Eventf(svc, corev1.EventTypeWarning, "FailedToUpdateEndpointSlices", "Error updating Endpoint Slices for Service %s/%s: %v", svc.Namespace, svc.Name, err)
		return fmt.Errorf("updating the endpoint slices of service %q: %w", req, err)
	}
	return nil
}

// nodes serves the slicing package, which looks up the zone of a pod's node.
type nodes struct{ reader client.Reader }

// List returns the nodes that the selector matches.
func (n nodes) List(selector labels.Selector) ([]*corev1.Node, error) {
	return ownwrites.Peek[*corev1.Node](context.Background(), n.reader, &corev1.NodeList{}, client.MatchingLabelsSelector{Selector: selector})
}

// Get returns the node of that name, or an error as the API server would give it. A pod that has no node yet asks for the
// empty name.
func (n nodes) Get(name string) (*corev1.Node, error) {
	if name == "" {
		return nil, apierrors.NewNotFound(corev1.Resource("nodes"), name)
	}
	node := &corev1.Node{}
	if err := n.reader.Get(context.Background(), types.NamespacedName{Name: name}, node, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	return node, nil
}
