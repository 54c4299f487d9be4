// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package resourcequota

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"minik8s.io/minik8s/pkg/apis/quota"
	"minik8s.io/minik8s/pkg/controllers/controllertest"
)

var (
	now     = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	request = reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "ns", Name: "quota"}}
)

// objects lists from a client and knows no kinds but pods, services and secrets.
type objects struct{ client.Client }

func (o objects) Devices() quota.Devices { return devices{o.Client} }

func (o objects) List(ctx context.Context, kind quota.Kind, namespace string) ([]runtime.Object, error) {
	lists := map[string]client.ObjectList{"pods": &corev1.PodList{}, "services": &corev1.ServiceList{}, "secrets": &corev1.SecretList{}, "resourceclaims": &resourcev1.ResourceClaimList{}}
	list, ok := lists[kind.Resource.Resource]
	switch kind.Resource.Resource {
	case "broken":
		return nil, errors.New("broken")
	case "endless":
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if !ok {
		return nil, fmt.Errorf("%w: %s", ErrNotServed, kind.Resource)
	}
	if err := o.Client.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return nil, err
	}
	return meta.ExtractList(list)
}

func amounts(pairs map[string]string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for name, amount := range pairs {
		list[corev1.ResourceName(name)] = resource.MustParse(amount)
	}
	return list
}

func resourceQuota(hard map[string]string, change ...func(*corev1.ResourceQuota)) *corev1.ResourceQuota {
	q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "quota"}, Spec: corev1.ResourceQuotaSpec{Hard: amounts(hard)}}
	for _, c := range change {
		c(q)
	}
	return q
}

func counted(hard, used map[string]string) func(*corev1.ResourceQuota) {
	return func(q *corev1.ResourceQuota) {
		q.Status = corev1.ResourceQuotaStatus{Hard: amounts(hard), Used: amounts(used)}
	}
}

func pod(namespace, name, cpu string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: corev1.PodSpec{Containers: []corev1.Container{
		{Name: "c", Resources: corev1.ResourceRequirements{Requests: amounts(map[string]string{"cpu": cpu})}},
	}}}
}

// devicesOf are a class behind an extended resource, a pod that requests one, and claims for three devices each, of which the first
// says that it was made for the pod.
func devicesOf() []client.Object {
	user := pod("ns", "a", "1")
	user.UID = "1"
	user.Spec.Containers[0].Resources.Requests["example.com/gpu"] = resource.MustParse("1")
	objects := []client.Object{user, &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}, Spec: resourcev1.DeviceClassSpec{ExtendedResourceName: new("example.com/gpu")}}}
	for _, name := range []string{"b", "c"} {
		objects = append(objects, &resourcev1.ResourceClaim{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "ns", Name: name, Annotations: map[string]string{resourcev1.ExtendedResourceClaimAnnotation: "true"},
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: user.Name, UID: user.UID, Controller: new(true)}},
			},
			Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{Exactly: &resourcev1.ExactDeviceRequest{
				DeviceClassName: "gpu", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 3,
			}}}}},
		})
	}
	return objects
}

func TestReconciler(t *testing.T) {
	hard := map[string]string{"pods": "5", "requests.cpu": "2", "secrets": "3"}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "s"}}
	tests := []struct {
		name    string
		objects []client.Object
		used    map[string]string
	}{
		{name: "new", objects: []client.Object{resourceQuota(hard)}, used: map[string]string{"pods": "0", "requests.cpu": "0", "secrets": "0"}},
		{
			name: "in use", objects: []client.Object{resourceQuota(hard), pod("ns", "a", "100m"), pod("ns", "b", "1"), pod("other", "c", "1"), secret},
			used: map[string]string{"pods": "2", "requests.cpu": "1100m", "secrets": "1"},
		},
		{
			name: "objects are gone", objects: []client.Object{resourceQuota(hard, counted(hard, map[string]string{"pods": "4", "requests.cpu": "2", "secrets": "1"}))},
			used: map[string]string{"pods": "0", "requests.cpu": "0", "secrets": "0"},
		},
		{
			name: "other limits", objects: []client.Object{
				resourceQuota(map[string]string{"pods": "9"}, counted(hard, map[string]string{"pods": "1", "requests.cpu": "2", "secrets": "1"})), pod("ns", "a", "1"),
			},
			used: map[string]string{"pods": "1"},
		},
		{
			name: "scope", objects: []client.Object{
				resourceQuota(map[string]string{"pods": "5"}, func(q *corev1.ResourceQuota) {
					q.Spec.Scopes = []corev1.ResourceQuotaScope{"NotTerminating", "NotBestEffort"}
				}),
				pod("ns", "a", "1"), pod("ns", "b", "0"),
			},
			used: map[string]string{"pods": "1"},
		},
		{
			name: "devices", objects: append(devicesOf(), resourceQuota(map[string]string{"requests.example.com/gpu": "9", "gpu.deviceclass.resource.k8s.io/devices": "9"})),
			used: map[string]string{"requests.example.com/gpu": "6", "gpu.deviceclass.resource.k8s.io/devices": "6"}, // 1 by the pod, 2 and 3 by the claims
		},
		{
			name:    "kinds that are not served",
			objects: []client.Object{resourceQuota(map[string]string{"persistentvolumeclaims": "1", "requests.storage": "1Gi", "count/widgets.example.com": "1"})},
			used:    map[string]string{"persistentvolumeclaims": "0", "requests.storage": "0"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			controllertest.Run(t, controllertest.Case{
				Objects: tt.objects,
				Request: request,
				New: func(c client.Client) reconcile.Reconciler {
					return &Reconciler{Client: c, Objects: objects{c}, Clock: clocktesting.NewFakePassiveClock(now)}
				},
				Want: func(ctx context.Context, c client.Client) error {
					var q corev1.ResourceQuota
					if err := c.Get(ctx, request.NamespacedName, &q); err != nil {
						return err
					}
					if !quota.Equal(q.Status.Hard, q.Spec.Hard) || !quota.Equal(q.Status.Used, amounts(tt.used)) {
						return fmt.Errorf("status %v", q.Status)
					}
					return nil
				},
			})
		})
	}
}

// What cannot be counted keeps its amount and is tried again; the rest is written.
func TestReconcile_Partial(t *testing.T) {
	hard := map[string]string{"pods": "5", "count/broken.example.com": "5"}
	q := resourceQuota(hard, counted(hard, map[string]string{"pods": "4", "count/broken.example.com": "3"}))
	c := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(q, pod("ns", "a", "1")).WithStatusSubresource(q).Build()
	if _, err := (&Reconciler{Client: c, Objects: objects{c}, Clock: clocktesting.NewFakePassiveClock(now)}).Reconcile(t.Context(), request); err == nil {
		t.Error("no error")
	}
	if err := c.Get(t.Context(), request.NamespacedName, q); err != nil {
		t.Fatal(err)
	}
	if !quota.Equal(q.Status.Used, amounts(map[string]string{"pods": "1", "count/broken.example.com": "3"})) {
		t.Errorf("used %v", q.Status.Used)
	}
}

// A kind whose cache never gets filled, for its conversion fails, does not take the time that the others need.
func TestReconcile_KindThatCannotBeListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hard := map[string]string{"pods": "5", "count/endless.example.com": "5"}
		q := resourceQuota(hard, counted(hard, map[string]string{"pods": "4", "count/endless.example.com": "3"}))
		c := interceptor.NewClient(fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(q, pod("ns", "a", "1")).WithStatusSubresource(q).Build(), interceptor.Funcs{
			SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, obj client.Object, opts ...client.SubResourceUpdateOption) error {
				if err := ctx.Err(); err != nil {
					return err
				}
				return c.SubResource(sub).Update(ctx, obj, opts...)
			},
		})
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute) // as each pass has
		defer cancel()
		if _, err := (&Reconciler{Client: c, Objects: objects{c}, Clock: clocktesting.NewFakePassiveClock(now)}).Reconcile(ctx, request); err == nil {
			t.Error("no error")
		}
		if err := c.Get(t.Context(), request.NamespacedName, q); err != nil {
			t.Fatal(err)
		}
		if !quota.Equal(q.Status.Used, amounts(map[string]string{"pods": "1", "count/endless.example.com": "3"})) {
			t.Errorf("used %v", q.Status.Used)
		}
	})
}

func TestReconcile_Requeues(t *testing.T) {
	for name, want := range map[string]time.Duration{"pods": resync, "count/widgets.example.com": rediscover, "persistentvolumeclaims": rediscover} {
		t.Run(name, func(t *testing.T) {
			q := resourceQuota(map[string]string{name: "1"})
			c := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(q).WithStatusSubresource(q).Build()
			r := &Reconciler{Client: c, Objects: objects{c}, Clock: clocktesting.NewFakePassiveClock(now)}
			if result, err := r.Reconcile(t.Context(), request); err != nil || result.RequeueAfter != want {
				t.Errorf("result %v, error %v", result, err)
			}
		})
	}
}

func TestFrees(t *testing.T) {
	var pods quota.Kind
	for _, kind := range quota.Kinds(devices{}) {
		if kind.Resource == corev1.Resource("pods") {
			pods = kind
		}
	}
	running, ended := pod("ns", "a", "1"), pod("ns", "a", "1")
	ended.Status.Phase = corev1.PodSucceeded
	labeled := running.DeepCopy()
	labeled.Labels = map[string]string{"a": "b"}
	i := &informers{clock: clocktesting.NewFakePassiveClock(now)}
	p := i.frees(pods)
	if p.Create(event.CreateEvent{Object: running}) {
		t.Error("a new object is not left to admission")
	}
	if !p.Delete(event.DeleteEvent{Object: running}) {
		t.Error("a deletion goes unseen")
	}
	if !p.Update(event.UpdateEvent{ObjectOld: running, ObjectNew: ended}) {
		t.Error("the end of a pod goes unseen")
	}
	if p.Update(event.UpdateEvent{ObjectOld: running, ObjectNew: labeled}) {
		t.Error("an update that uses nothing wakes the quotas")
	}
}

// watching is a controller that counts what is watched.
type watching struct {
	controller.Controller
	begun int
}

func (w *watching) Watch(source.Source) error {
	w.begun++
	return nil
}

// forgetting is a cache that notes the versions that it is not to watch any more.
type forgetting struct {
	cache.Cache
	versions []string
}

func (f *forgetting) RemoveInformer(_ context.Context, obj client.Object) error {
	f.versions = append(f.versions, obj.GetObjectKind().GroupVersionKind().Version)
	return nil
}

// The version in which a custom resource is counted may not be served any more.
func TestWatch_AnotherVersion(t *testing.T) {
	clock, w, own := clocktesting.NewFakePassiveClock(now), &watching{}, &forgetting{}
	served, asked := "v1alpha1", 0
	i := &informers{
		scheme: clientgoscheme.Scheme, clock: clock, controller: w, own: own, watched: map[schema.GroupResource]watched{},
		discover: func() (meta.RESTMapper, error) {
			asked++
			mapper := meta.NewDefaultRESTMapper(nil)
			if served != "" {
				mapper.Add(schema.GroupVersionKind{Group: "example.com", Version: served, Kind: "Widget"}, meta.RESTScopeNamespace)
			}
			mapper.Add(corev1.SchemeGroupVersion.WithKind("Secret"), meta.RESTScopeNamespace)
			return mapper, nil
		},
	}
	widgets := quota.Kind{Resource: schema.GroupResource{Group: "example.com", Resource: "widgets"}, Plain: true}
	secrets := quota.Kind{Resource: corev1.Resource("secrets"), Plain: true}
	for _, step := range []struct {
		name, served string
		kind         quota.Kind
		after        time.Duration
		want         string
		asked, begun int
		removed      []string
	}{
		{name: "first", served: "v1alpha1", kind: widgets, want: "v1alpha1", asked: 1, begun: 1},
		{name: "a moment later", served: "v1", kind: widgets, after: time.Second, want: "v1alpha1", asked: 1, begun: 1},
		{name: "another version", served: "v1", kind: widgets, after: rediscover, want: "v1", asked: 2, begun: 2, removed: []string{"v1alpha1"}},
		{name: "the same", served: "v1", kind: widgets, after: rediscover, want: "v1", asked: 3, begun: 2, removed: []string{"v1alpha1"}},
		{name: "none", kind: widgets, after: rediscover, asked: 4, begun: 2, removed: []string{"v1alpha1"}},
		{name: "built in", kind: secrets, want: "v1", asked: 5, begun: 3, removed: []string{"v1alpha1"}},
		{name: "built in, which stays", kind: secrets, after: rediscover, want: "v1", asked: 5, begun: 3, removed: []string{"v1alpha1"}},
	} {
		served = step.served
		clock.SetTime(clock.Now().Add(step.after))
		gvk, err := i.watch(t.Context(), step.kind)
		if gvk.Version != step.want || errors.Is(err, ErrNotServed) != (step.want == "") {
			t.Errorf("%s: version %q, want %q; error %v", step.name, gvk.Version, step.want, err)
		}
		if asked != step.asked || w.begun != step.begun || !slices.Equal(own.versions, step.removed) {
			t.Errorf("%s: asked %d times, %d watched, %v not any more", step.name, asked, w.begun, own.versions)
		}
	}
}

func TestRespecified(t *testing.T) {
	hard := map[string]string{"pods": "5"}
	before := resourceQuota(hard)
	if respecified().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: resourceQuota(hard, counted(hard, map[string]string{"pods": "1"}))}) {
		t.Error("what admission counts makes the quota be added up")
	}
	if !respecified().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: resourceQuota(map[string]string{"pods": "6"})}) {
		t.Error("a new limit goes unseen")
	}
}
