// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package resourcequota

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"minik8s.io/minik8s/pkg/apiserver/admission/admissiontest"
)

func amounts(pairs map[string]string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for name, amount := range pairs {
		list[corev1.ResourceName(name)] = resource.MustParse(amount)
	}
	return list
}

// start returns the plugin in a cluster with one quota.
func start(t *testing.T, quota *corev1.ResourceQuota) (admission.Interface, *fake.Clientset) {
	t.Helper()
	return startWith(t, nil, quota)
}

// startWith configures it, too.
func startWith(t *testing.T, config io.Reader, quota *corev1.ResourceQuota) (admission.Interface, *fake.Clientset) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	plugin, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	client := fake.NewClientset(quota)
	shared := informers.NewSharedInformerFactory(client, 0)
	initializer.New(client, nil, shared, nil, nil, nil, ctx.Done(), nil).Initialize(plugin)
	if err := admission.ValidateInitialization(plugin); err != nil {
		t.Fatal(err)
	}
	shared.Start(ctx.Done())
	t.Cleanup(func() {
		cancel()
		shared.Shutdown()
	})
	for kind, ok := range shared.WaitForCacheSync(ctx.Done()) {
		if !ok {
			t.Fatalf("informer of %v did not sync", kind)
		}
	}
	return plugin, client
}

func pod(cpu string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", ResourceVersion: "1"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}}}}
	if cpu != "" {
		p.Spec.Containers[0].Resources.Requests = amounts(map[string]string{"cpu": cpu})
	}
	return p
}

func ending(p *corev1.Pod) *corev1.Pod {
	p.Spec.ActiveDeadlineSeconds = ptr.To[int64](60)
	return p
}

func service(typ corev1.ServiceType) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "s", ResourceVersion: "1"}, Spec: corev1.ServiceSpec{Type: typ, Ports: []corev1.ServicePort{{Port: 80}}}}
}

// claim asks for a little and holds the given amount.
func claim(holds string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c", ResourceVersion: "1"},
		Spec:       corev1.PersistentVolumeClaimSpec{Resources: corev1.VolumeResourceRequirements{Requests: amounts(map[string]string{"storage": "1Gi"})}},
		Status:     corev1.PersistentVolumeClaimStatus{AllocatedResources: amounts(map[string]string{"storage": holds})},
	}
}

func TestPlugin(t *testing.T) {
	create := func(group, plural string, obj runtime.Object) admissiontest.Request {
		return admissiontest.Request{Group: group, Resource: plural, Name: "p", Object: obj}
	}
	tests := []struct {
		name       string
		scopes     []corev1.ResourceQuotaScope
		hard, used map[string]string
		request    admissiontest.Request
		// after is what is used when the request has passed, err a part of the error when it has not.
		after map[string]string
		err   string
	}{
		{name: "room", hard: map[string]string{"pods": "2", "requests.cpu": "1"}, used: map[string]string{"pods": "1", "requests.cpu": "500m"},
			request: create("", "pods", pod("500m")), after: map[string]string{"pods": "2", "requests.cpu": "1"}},
		{name: "too many", hard: map[string]string{"pods": "1"}, used: map[string]string{"pods": "1"},
			request: create("", "pods", pod("")), err: "exceeded quota: quota, requested: pods=1, used: pods=1, limited: pods=1"},
		{name: "too much", hard: map[string]string{"requests.cpu": "1"}, used: map[string]string{"requests.cpu": "600m"},
			request: create("", "pods", pod("500m")), err: "exceeded quota: quota, requested: requests.cpu=500m, used: requests.cpu=600m, limited: requests.cpu=1"},
		{name: "does not say", hard: map[string]string{"requests.cpu": "1"}, used: map[string]string{"requests.cpu": "0"},
			request: create("", "pods", pod("")), err: "failed quota: quota: must specify requests.cpu for: c"},
		{name: "other scope", scopes: []corev1.ResourceQuotaScope{"BestEffort"}, hard: map[string]string{"pods": "0"}, used: map[string]string{"pods": "0"},
			request: create("", "pods", pod("1")), after: map[string]string{"pods": "0"}},
		{name: "not counted yet", hard: map[string]string{"pods": "1"}, request: create("", "pods", pod("")), err: "status unknown for quota: quota, resources: pods"},
		{name: "plain kind", hard: map[string]string{"configmaps": "1"}, used: map[string]string{"configmaps": "1"},
			request: create("", "configmaps", &corev1.ConfigMap{}), err: "exceeded quota"},
		{name: "any kind", hard: map[string]string{"count/widgets.example.com": "1"}, used: map[string]string{"count/widgets.example.com": "0"},
			request: create("example.com", "widgets", &metav1.PartialObjectMetadata{}), after: map[string]string{"count/widgets.example.com": "1"}},
		{name: "events pass", hard: map[string]string{"count/events": "0"}, used: map[string]string{"count/events": "0"},
			request: create("", "events", &corev1.Event{}), after: map[string]string{"count/events": "0"}},
		{name: "pod update", hard: map[string]string{"pods": "0"}, used: map[string]string{"pods": "0"},
			request: admissiontest.Request{Resource: "pods", Operation: admission.Update, Object: pod("2"), Old: pod("1")}, after: map[string]string{"pods": "0"}},
		{name: "pod gets a deadline", scopes: []corev1.ResourceQuotaScope{"Terminating"}, hard: map[string]string{"pods": "1"}, used: map[string]string{"pods": "0"},
			request: admissiontest.Request{Resource: "pods", Operation: admission.Update, Object: ending(pod("1")), Old: pod("1")}, after: map[string]string{"pods": "1"}},
		{name: "pod gets a deadline, too many", scopes: []corev1.ResourceQuotaScope{"Terminating"}, hard: map[string]string{"pods": "1"}, used: map[string]string{"pods": "1"},
			request: admissiontest.Request{Resource: "pods", Operation: admission.Update, Object: ending(pod("1")), Old: pod("1")}, err: "exceeded quota"},
		{name: "pod resize", hard: map[string]string{"requests.cpu": "1"}, used: map[string]string{"requests.cpu": "1"},
			request: admissiontest.Request{Resource: "pods", Subresource: "resize", Operation: admission.Update, Object: pod("2"), Old: pod("1")}, err: "exceeded quota"},
		{name: "claim holds more than it asks for", // counted, though what a status says is never refused
			hard: map[string]string{"requests.storage": "2Gi"}, used: map[string]string{"requests.storage": "1Gi"},
			request: admissiontest.Request{Resource: "persistentvolumeclaims", Subresource: "status", Operation: admission.Update, Object: claim("3Gi"), Old: claim("1Gi")}, after: map[string]string{"requests.storage": "3Gi"}},
		{name: "service changes its type", hard: map[string]string{"services.nodeports": "0"}, used: map[string]string{"services.nodeports": "0"},
			request: admissiontest.Request{Resource: "services", Operation: admission.Update, Object: service(corev1.ServiceTypeNodePort), Old: service(corev1.ServiceTypeClusterIP)}, err: "exceeded quota"},
		{name: "service stays", hard: map[string]string{"services": "1"}, used: map[string]string{"services": "1"},
			request: admissiontest.Request{Resource: "services", Operation: admission.Update, Object: service(corev1.ServiceTypeNodePort), Old: service(corev1.ServiceTypeNodePort)}, after: map[string]string{"services": "1"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			quota := &corev1.ResourceQuota{
				ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "quota", ResourceVersion: "1"},
				Spec:       corev1.ResourceQuotaSpec{Hard: amounts(tt.hard), Scopes: tt.scopes},
				Status:     corev1.ResourceQuotaStatus{Hard: amounts(tt.hard), Used: amounts(tt.used)},
			}
			plugin, client := start(t, quota)
			err := admissiontest.Run(plugin, tt.request.Attributes())
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("error %v, want %q", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got, err := client.CoreV1().ResourceQuotas("ns").Get(t.Context(), "quota", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for name, want := range amounts(tt.after) {
				if used := got.Status.Used[name]; used.Cmp(want) != 0 {
					t.Errorf("uses %s of %s, want %s", used.String(), name, want.String())
				}
			}
		})
	}
}

func TestLimitedResources(t *testing.T) {
	const config = `{"apiVersion": "apiserver.config.k8s.io/v1", "kind": "ResourceQuotaConfiguration", "limitedResources": [{"resource": "pods", "matchContains": ["requests.cpu"]}]}`
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "q"}, Spec: corev1.ResourceQuotaSpec{Hard: amounts(map[string]string{"requests.cpu": "2"})},
		Status: corev1.ResourceQuotaStatus{Hard: amounts(map[string]string{"requests.cpu": "2"}), Used: amounts(map[string]string{"requests.cpu": "0"})}}
	for _, tc := range []struct{ name, config, namespace, want string }{
		{"without a quota", config, "free", "insufficient quota to consume: requests.cpu"},
		{"with a quota", config, "ns", ""},
		{"nothing is limited", "", "free", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var r io.Reader
			if tc.config != "" {
				r = strings.NewReader(tc.config)
			}
			plugin, _ := startWith(t, r, quota.DeepCopy())
			p := pod("1")
			p.Namespace = tc.namespace
			err := admissiontest.Run(plugin, admissiontest.Request{Resource: "pods", Namespace: tc.namespace, Name: "p", Object: p}.Attributes())
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error = %v, want %q", err, tc.want)
			}
		})
	}
	for name, bad := range map[string]string{
		"no resource":   `{"apiVersion": "apiserver.config.k8s.io/v1", "kind": "ResourceQuotaConfiguration", "limitedResources": [{"matchContains": ["requests.cpu"]}]}`,
		"unknown field": `{"apiVersion": "apiserver.config.k8s.io/v1", "kind": "ResourceQuotaConfiguration", "limited": []}`,
		"no kind":       `{}`,
	} {
		if _, err := New(strings.NewReader(bad)); err == nil || !strings.Contains(err.Error(), "configuration of ResourceQuota") {
			t.Errorf("%s: error = %v", name, err)
		}
	}
}

// A claim takes of an extended resource what its pod does not count, and a claim whose class cannot be looked up is not let through.
func TestPlugin_Devices(t *testing.T) {
	hard := map[string]string{"requests.example.com/gpu": "2"}
	plugin, client := start(t, &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "quota", ResourceVersion: "1"},
		Spec:       corev1.ResourceQuotaSpec{Hard: amounts(hard)},
		Status:     corev1.ResourceQuotaStatus{Hard: amounts(hard), Used: amounts(map[string]string{"requests.example.com/gpu": "0"})},
	})
	user := pod("1")
	user.UID = "1"
	user.Spec.Containers[0].Resources.Requests["example.com/gpu"] = resource.MustParse("1")
	class := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}, Spec: resourcev1.DeviceClassSpec{ExtendedResourceName: new("example.com/gpu")}}
	for _, obj := range []runtime.Object{user, class} {
		if err := client.Tracker().Add(obj); err != nil {
			t.Fatal(err)
		}
	}
	create := func(of metav1.ObjectMeta) error {
		of.Namespace, of.Name = "ns", "c"
		c := &resourcev1.ResourceClaim{ObjectMeta: of}
		c.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Exactly: &resourcev1.ExactDeviceRequest{
			DeviceClassName: "gpu", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 3,
		}}}
		return admissiontest.Run(plugin, admissiontest.Request{Group: "resource.k8s.io", Resource: "resourceclaims", Name: "c", Object: c}.Attributes())
	}
	if err := create(metav1.ObjectMeta{}); err == nil || !strings.Contains(err.Error(), "requested: requests.example.com/gpu=3, used: requests.example.com/gpu=0") {
		t.Errorf("a claim of its own: %v", err)
	}
	ofPod := metav1.ObjectMeta{
		Annotations:     map[string]string{resourcev1.ExtendedResourceClaimAnnotation: "true"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: user.Name, UID: user.UID, Controller: new(true)}},
	}
	if err := create(ofPod); err != nil {
		t.Errorf("the claim of a pod that counts one: %v", err)
	}
	client.PrependReactor("get", "deviceclasses", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, errors.New("refused") })
	if err := create(ofPod); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("its class cannot be looked up: %v", err)
	}
}
