// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package controllertest is the suite that every reconciler has to pass: it comes to rest, it does not mind that its object
// is gone, and it gets to the same end whichever of its writes fails or succeeds without an answer. Touch it when
// controllers get a new duty in common.
package controllertest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	migrationv1 "k8s.io/api/storagemigration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/pods"
)

// Case is a reconciler and a situation for it.
type Case struct {
	// Objects is the state at the beginning.
	Objects []client.Object
	// Request is what is reconciled.
	Request reconcile.Request
	// New returns a fresh reconciler, as after a restart of the process. All it knows has to come from the client.
	New func(client.Client) reconcile.Reconciler
	// World, if set, does after each pass what other parts of the cluster would do. Its writes are not counted.
	World func(context.Context, client.Client) error
	// Want checks the state at the end.
	Want func(context.Context, client.Client) error
	// MaxPasses is how many passes it may take to come to rest. Default: 20.
	MaxPasses int
}

// errCrash stands for the death of the process in the middle of a pass.
var errCrash = errors.New("crash")

// Run runs the whole suite on a case.
func Run(t *testing.T, c Case) {
	t.Helper()
	for _, check := range Checks() {
		t.Run(check.Name, func(t *testing.T) {
			if err := check.Run(context.WithoutCancel(t.Context()), c); err != nil {
				t.Error(err)
			}
		})
	}
}

// Check is one demand on a reconciler.
type Check struct {
	Name string
	Run  func(context.Context, Case) error
}

// Checks are all demands.
func Checks() []Check {
	return []Check{
		{"comes to rest", rests},
		{"object gone", gone},
		{"write fails", func(ctx context.Context, c Case) error { return everyWrite(ctx, c, fault{err: errCrash}) }},
		{"answer lost", func(ctx context.Context, c Case) error { return everyWrite(ctx, c, fault{err: errCrash, after: true}) }},
		{"conflict", func(ctx context.Context, c Case) error {
			conflict := apierrors.NewConflict(schema.GroupResource{Resource: "things"}, "thing", errors.New("changed meanwhile"))
			return everyWrite(ctx, c, fault{err: conflict})
		}},
	}
}

// rests checks that the state gets right and that a fresh reconciler then writes nothing.
func rests(ctx context.Context, c Case) error {
	w := newWorld(c.Objects)
	if err := w.settle(ctx, c, c.New(w.client)); err != nil {
		return err
	}
	before := w.writes
	if _, err := c.New(w.client).Reconcile(ctx, c.Request); err != nil {
		return fmt.Errorf("reconciling what is settled: %w", err)
	}
	if w.writes != before {
		return fmt.Errorf("wrote %d times though everything was settled: %v", w.writes-before, w.log[before:])
	}
	return nil
}

// gone checks that a request for an object that does not exist is no error.
func gone(ctx context.Context, c Case) error {
	w := newWorld(nil)
	if _, err := c.New(w.client).Reconcile(ctx, c.Request); err != nil {
		return fmt.Errorf("reconciling what does not exist: %w", err)
	}
	return nil
}

// everyWrite lets each write in turn meet the fault, restarts the reconciler, and checks that the state gets right.
func everyWrite(ctx context.Context, c Case, f fault) error {
	for n := 1; ; n++ {
		w := newWorld(c.Objects)
		w.fault, w.faultAt = f, n
		if err := w.settle(ctx, c, nil); err != nil {
			return fmt.Errorf("with the fault at write %d (%v): %w", n, w.log, err)
		}
		if w.writes < n {
			if n == 1 {
				return errors.New("the case makes no write at all, it proves nothing")
			}
			return nil
		}
	}
}

// fault is what happens to a write: it is not done, or it is done but the caller does not learn of it.
type fault struct {
	err   error
	after bool
}

// world is an API server with one client that counts writes and injects a fault.
type world struct {
	client  client.Client
	direct  client.Client
	fault   fault
	faultAt int

	mu sync.Mutex
	// writes, log and uids are guarded by mu.
	writes int
	log    []string
	uids   int
}

// settle reconciles until a pass neither fails nor writes, and checks the state. With a nil reconciler each pass gets a
// fresh one.
func (w *world) settle(ctx context.Context, c Case, r reconcile.Reconciler) error {
	limit := c.MaxPasses
	if limit == 0 {
		limit = 20
	}
	fresh := r == nil
	var last error
	for range limit {
		if fresh {
			r = c.New(w.client)
		}
		before := w.writes
		var result reconcile.Result
		result, last = r.Reconcile(ctx, c.Request)
		if hit := before < w.faultAt && w.faultAt <= w.writes; hit && last == nil && result.IsZero() {
			return errors.New("a write failed, but the pass neither returned an error nor asked for another one")
		}
		quiet := last == nil && w.writes == before
		if c.World != nil {
			changed, err := w.others(ctx, c.World)
			if err != nil {
				return fmt.Errorf("playing the rest of the cluster: %w", err)
			}
			quiet = quiet && !changed
		}
		if quiet {
			return c.Want(ctx, w.direct)
		}
	}
	return fmt.Errorf("not at rest after %d passes, last error: %w; writes: %v", limit, last, w.log)
}

// others runs the rest of the cluster with a client of its own and reports whether it wrote.
func (w *world) others(ctx context.Context, act func(context.Context, client.Client) error) (bool, error) {
	changed := false
	observed := interceptor.NewClient(w.direct.(client.WithWatch), w.funcs(func(string, client.Object) (func() error, error) {
		changed = true
		return nil, nil
	}))
	return changed, act(ctx, observed)
}

// NewClientBuilder returns a builder of clients with the index of pods that the manager's cache has.
func NewClientBuilder() *fake.ClientBuilder {
	return fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithIndex(&corev1.Pod{}, pods.ControllerField, pods.ControllerOf)
}

// newWorld returns a world with the objects in it.
func newWorld(objects []client.Object) *world {
	w := &world{}
	copies := make([]client.Object, len(objects))
	for i, obj := range objects {
		copies[i] = obj.DeepCopyObject().(client.Object)
	}
	store := NewClientBuilder().
		WithObjects(copies...).
		WithStatusSubresource(&appsv1.Deployment{}, &appsv1.ReplicaSet{}, &appsv1.DaemonSet{}, &appsv1.StatefulSet{}, &corev1.ReplicationController{},
			&corev1.Pod{}, &corev1.Node{}, &corev1.Namespace{}, &corev1.ResourceQuota{}, &policyv1.PodDisruptionBudget{}).
		WithStatusSubresource(&migrationv1.StorageVersionMigration{}, &admissionv1.ValidatingAdmissionPolicy{}, &resourcev1.ResourceClaim{},
			&resourcev1.DeviceTaintRule{}, &certificatesv1.CertificateSigningRequest{}, &networkingv1.ServiceCIDR{}).
		WithStatusSubresource(&batchv1.Job{}, &batchv1.CronJob{}).
		Build()
	w.direct = store
	w.client = interceptor.NewClient(store, w.funcs(w.record))
	return w
}

// record counts a write and tells its fate: an error before it, or a function to run after it.
func (w *world) record(verb string, obj client.Object) (after func() error, before error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writes++
	w.log = append(w.log, fmt.Sprintf("%s %T %s", verb, obj, obj.GetName()))
	if w.writes != w.faultAt {
		return nil, nil
	}
	if w.fault.after {
		return func() error { return w.fault.err }, nil
	}
	return nil, w.fault.err
}

// identify gives a new object what the API server would.
func (w *world) identify(obj client.Object) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if obj.GetUID() == "" {
		w.uids++
		obj.SetUID(types.UID(fmt.Sprintf("uid-%d", w.uids)))
	}
	if obj.GetGeneration() == 0 {
		obj.SetGeneration(1)
	}
	if created := obj.GetCreationTimestamp(); created.IsZero() {
		obj.SetCreationTimestamp(metav1.Unix(int64(1_700_000_000+w.uids), 0))
	}
}

// funcs wraps every write in decide.
func (w *world) funcs(decide func(verb string, obj client.Object) (func() error, error)) interceptor.Funcs {
	do := func(verb string, obj client.Object, write func() error) error {
		after, err := decide(verb, obj)
		if err != nil {
			return err
		}
		if err := write(); err != nil || after == nil {
			return err
		}
		return after()
	}
	return interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			w.identify(obj)
			return do("create", obj, func() error { return c.Create(ctx, obj, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			return do("delete", obj, func() error { return c.Delete(ctx, obj, opts...) })
		},
		Update: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.UpdateOption) error {
			return do("update", obj, func() error { return c.Update(ctx, obj, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			return do("patch", obj, func() error { return c.Patch(ctx, obj, patch, opts...) })
		},
		Apply: func(context.Context, client.WithWatch, runtime.ApplyConfiguration, ...client.ApplyOption) error {
			return errors.New("controllertest: typed apply is not supported, use Patch")
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, obj client.Object, opts ...client.SubResourceUpdateOption) error {
			return do("update "+sub, obj, func() error {
				if sub == "finalize" {
					// The fake client knows no such subresource; it writes the spec.
					return c.Update(ctx, obj)
				}
				return c.SubResource(sub).Update(ctx, obj, opts...)
			})
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			return do("patch "+sub, obj, func() error { return c.SubResource(sub).Patch(ctx, obj, patch, opts...) })
		},
		SubResourceApply: func(context.Context, client.Client, string, runtime.ApplyConfiguration, ...client.SubResourceApplyOption) error {
			return errors.New("controllertest: typed apply cannot read answers in protobuf, use setup.ApplyStatus")
		},
	}
}
