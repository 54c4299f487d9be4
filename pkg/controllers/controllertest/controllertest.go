// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package controllertest is the suite that every reconciler has to pass: it comes to rest, it does not mind that its object
// is gone, it looks at no pods that it has nothing to do with, and it gets to the same end whichever of its writes fails or succeeds without an answer, however far its cache lags,
// and if watches break. Touch it when controllers get a new duty in common.
package controllertest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"sync"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
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
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/internal/index"
)

// Case is a reconciler and a situation for it.
type Case struct {
	// Objects is the state at the beginning.
	Objects []client.Object
	// Request is what is reconciled.
	Request reconcile.Request
	// New returns a fresh reconciler, as after a restart of the process. All it knows has to come from the client, and from
	// Live of the client where it may not rest on a cache.
	New func(client.Client) reconcile.Reconciler
	// World, if set, does after each pass what other parts of the cluster would do. Its writes are not counted.
	World func(context.Context, client.Client) error
	// Want checks the state at the end.
	Want func(context.Context, client.Client) error
	// Applies says that the reconciler writes by server-side apply. To keep managed fields takes three quarters of the time of a
	// case, so it is done for those only.
	Applies bool
	// Everything says that a pass is about all objects, so that bystanders may cost something.
	Everything bool
	// Repeats says that what was created without an answer may be created again, if it is gone at the end: a library makes the
	// writes, and the barrier does not learn of them.
	Repeats bool
	// MaxPasses is how many passes it may take to come to rest. Default: 20.
	MaxPasses int
}

func (c Case) maxPasses() int { return cmp.Or(c.MaxPasses, 20) }

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
		{"cache lags", lags},
		{"watch breaks", relists},
		{"time-out, written", unanswered(true)},
		{"time-out, not written", unanswered(false)},
		{"bystanders", func(ctx context.Context, c Case) error {
			if c.Everything {
				return nil
			}
			c.Want = func(context.Context, client.Client) error { return nil } // it may count them
			return bystand(ctx, c, podsElsewhere())
		}},
	}
}

// rests checks that the state gets right and that a fresh reconciler then writes nothing.
func rests(ctx context.Context, c Case) error {
	w := newWorld(c, c.Objects)
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
	w := newWorld(c, nil)
	if _, err := c.New(w.client).Reconcile(ctx, c.Request); err != nil {
		return fmt.Errorf("reconciling what does not exist: %w", err)
	}
	return nil
}

// everyWrite lets each write in turn meet the fault, restarts the reconciler, and checks that the state gets right.
func everyWrite(ctx context.Context, c Case, f fault) error {
	for n := 1; ; n++ {
		w := newWorld(c, c.Objects)
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
	// The following are guarded by mu while a pass runs.
	writes int
	log    []string
	uids   int
	// version is the latest resource version, kinds are those that there have been objects of, with whether one was written since a
	// cache listed them, and created counts the objects that the client created, by their types.
	version int
	kinds   map[schema.GroupVersionKind]bool
	created map[string]int
}

// settle reconciles until a pass neither fails nor writes, and checks the state. With a nil reconciler each pass gets a
// fresh one.
func (w *world) settle(ctx context.Context, c Case, r reconcile.Reconciler) error {
	limit := c.maxPasses()
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
	observed := interceptor.NewClient(w.direct.(client.WithWatch), w.funcs(func(string, client.Object) fault {
		changed = true
		return fault{}
	}, func(string, client.Object) {}))
	return changed, act(ctx, observed)
}

// NewClientBuilder returns a builder of clients with the indexes that the manager's cache has.
func NewClientBuilder() *fake.ClientBuilder {
	builder := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme)
	for _, i := range index.All() {
		builder = builder.WithIndex(i.Object, i.Field, i.Values)
	}
	return builder
}

// newWorld returns a world of a case with the objects in it.
func newWorld(c Case, objects []client.Object) *world {
	w := &world{kinds: map[schema.GroupVersionKind]bool{}, created: map[string]int{}}
	copies := make([]client.Object, len(objects))
	for i, obj := range objects {
		copies[i] = obj.DeepCopyObject().(client.Object)
		copies[i].SetResourceVersion("")
	}
	builder := NewClientBuilder()
	if !c.Applies {
		decoder := serializer.NewCodecFactory(clientgoscheme.Scheme).UniversalDecoder()
		builder = builder.WithObjectTracker(clienttesting.NewObjectTracker(clientgoscheme.Scheme, decoder))
	}
	store := builder.
		WithGlobalResourceVersionCounter().
		WithObjects(copies...).
		WithStatusSubresource(&appsv1.Deployment{}, &appsv1.ReplicaSet{}, &appsv1.DaemonSet{}, &appsv1.StatefulSet{}, &corev1.ReplicationController{},
			&corev1.Pod{}, &corev1.Node{}, &corev1.Namespace{}, &corev1.ResourceQuota{}, &policyv1.PodDisruptionBudget{}).
		WithStatusSubresource(&migrationv1.StorageVersionMigration{}, &admissionv1.ValidatingAdmissionPolicy{}, &resourcev1.ResourceClaim{},
			&resourcev1.DeviceTaintRule{}, &certificatesv1.CertificateSigningRequest{}, &networkingv1.ServiceCIDR{}).
		WithStatusSubresource(&batchv1.Job{}, &batchv1.CronJob{}, &autoscalingv2.HorizontalPodAutoscaler{}).
		Build()
	for _, obj := range copies {
		w.see(obj)
	}
	w.direct = store
	w.client = interceptor.NewClient(store, w.funcs(w.record, w.count))
	return w
}

// record counts a write and tells its fate.
func (w *world) record(verb string, obj client.Object) fault {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writes++
	w.log = append(w.log, fmt.Sprintf("%s %T %s", verb, obj, obj.GetName()))
	if w.writes != w.faultAt {
		return fault{}
	}
	return w.fault
}

// count counts what was created.
func (w *world) count(verb string, obj client.Object) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if verb == "create" {
		w.created[reflect.TypeOf(obj).Elem().Name()]++
	}
}

// see notes the kind and the version of an object that was written.
func (w *world) see(obj client.Object) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if gvk, err := apiutil.GVKForObject(obj, clientgoscheme.Scheme); err == nil {
		w.kinds[gvk] = true
	}
	if version, err := strconv.Atoi(obj.GetResourceVersion()); err == nil {
		w.version = max(w.version, version)
	}
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

// funcs lets decide tell the fate of every write, and done know of those that were done.
func (w *world) funcs(decide func(verb string, obj client.Object) fault, done func(verb string, obj client.Object)) interceptor.Funcs {
	do := func(verb string, obj client.Object, write func(client.Object) error) error {
		fate := decide(verb, obj)
		switch {
		case fate.err != nil && !fate.after:
			return fate.err
		case fate.err != nil:
			obj = obj.DeepCopyObject().(client.Object) // the caller gets no answer
		}
		if err := write(obj); err != nil {
			return err
		}
		w.see(obj)
		done(verb, obj)
		return fate.err
	}
	return interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			w.identify(obj)
			return do("create", obj, func(obj client.Object) error { return c.Create(ctx, obj, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			return do("delete", obj, func(obj client.Object) error { return c.Delete(ctx, obj, opts...) })
		},
		Update: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.UpdateOption) error {
			return do("update", obj, func(obj client.Object) error { return c.Update(ctx, obj, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			return do("patch", obj, func(obj client.Object) error { return c.Patch(ctx, obj, patch, opts...) })
		},
		Apply: func(context.Context, client.WithWatch, runtime.ApplyConfiguration, ...client.ApplyOption) error {
			return errors.New("controllertest: typed apply is not supported, use Patch")
		},
		SubResourceCreate: func(ctx context.Context, c client.Client, sub string, obj, body client.Object, opts ...client.SubResourceCreateOption) error {
			return do("create "+sub, obj, func(obj client.Object) error { return c.SubResource(sub).Create(ctx, obj, body, opts...) })
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, obj client.Object, opts ...client.SubResourceUpdateOption) error {
			return do("update "+sub, obj, func(obj client.Object) error {
				if sub == "finalize" {
					// The fake client knows no such subresource; it writes the spec.
					return c.Update(ctx, obj)
				}
				return c.SubResource(sub).Update(ctx, obj, opts...)
			})
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			return do("patch "+sub, obj, func(obj client.Object) error {
				if _, is := obj.(*corev1.Service); is && sub == "status" {
					return PatchStatus(ctx, c, obj, patch)
				}
				return c.SubResource(sub).Patch(ctx, obj, patch, opts...)
			})
		},
		SubResourceApply: func(context.Context, client.Client, string, runtime.ApplyConfiguration, ...client.SubResourceApplyOption) error {
			return errors.New("controllertest: typed apply cannot read answers in protobuf, use setup.ApplyStatus")
		},
	}
}
