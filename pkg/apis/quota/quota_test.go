// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var now = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// amounts parses a list of resources.
func amounts(pairs map[string]string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for name, amount := range pairs {
		list[corev1.ResourceName(name)] = resource.MustParse(amount)
	}
	return list
}

// printed is a list in a form that can be compared.
func printed(list corev1.ResourceList) map[string]string {
	out := map[string]string{}
	for name, amount := range list {
		out[string(name)] = amount.String()
	}
	return out
}

func container(name string, requests, limits map[string]string) corev1.Container {
	return corev1.Container{Name: name, Resources: corev1.ResourceRequirements{Requests: amounts(requests), Limits: amounts(limits)}}
}

func pod(change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{
		container("a", map[string]string{"cpu": "100m", "memory": "1Gi", "example.com/gpu": "1"}, map[string]string{"cpu": "200m", "example.com/gpu": "1"}),
		container("b", map[string]string{"cpu": "1", "hugepages-2Mi": "4Mi"}, nil),
	}}}
	for _, c := range change {
		c(p)
	}
	return p
}

func TestUsage(t *testing.T) {
	ended := map[string]string{"count/pods": "1"}
	running := map[string]string{
		"count/pods": "1", "pods": "1", "cpu": "1100m", "requests.cpu": "1100m", "limits.cpu": "200m", "memory": "1Gi", "requests.memory": "1Gi",
		"requests.example.com/gpu": "1", "hugepages-2Mi": "4Mi", "requests.hugepages-2Mi": "4Mi",
	}
	service := func(typ corev1.ServiceType, change ...func(*corev1.Service)) *corev1.Service {
		s := &corev1.Service{Spec: corev1.ServiceSpec{Type: typ, Ports: []corev1.ServicePort{{Port: 80}, {Port: 443, NodePort: 30000}}}}
		for _, c := range change {
			c(s)
		}
		return s
	}
	claim := &corev1.PersistentVolumeClaim{
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: new("gold"), Resources: corev1.VolumeResourceRequirements{Requests: amounts(map[string]string{"storage": "1Gi"})},
		},
		Status: corev1.PersistentVolumeClaimStatus{AllocatedResources: amounts(map[string]string{"storage": "2Gi"})},
	}
	tests := []struct {
		name string
		kind Kind
		obj  runtime.Object
		want map[string]string
	}{
		{name: "pod", kind: pods, obj: pod(), want: running},
		{name: "failed pod", kind: pods, obj: pod(func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }), want: ended},
		{name: "pod ends in time", kind: pods, obj: pod(func(p *corev1.Pod) {
			p.DeletionTimestamp, p.DeletionGracePeriodSeconds = new(metav1.NewTime(now.Add(-time.Second))), new(int64(30))
		}), want: running},
		{name: "pod overdue", kind: pods, obj: pod(func(p *corev1.Pod) {
			p.DeletionTimestamp, p.DeletionGracePeriodSeconds = new(metav1.NewTime(now.Add(-time.Minute))), new(int64(30))
		}), want: ended},
		{name: "service", kind: services, obj: service(corev1.ServiceTypeClusterIP), want: map[string]string{"count/services": "1", "services": "1", "services.nodeports": "0", "services.loadbalancers": "0"}},
		{name: "node port", kind: services, obj: service(corev1.ServiceTypeNodePort), want: map[string]string{"count/services": "1", "services": "1", "services.nodeports": "2", "services.loadbalancers": "0"}},
		{name: "load balancer", kind: services, obj: service(corev1.ServiceTypeLoadBalancer), want: map[string]string{"count/services": "1", "services": "1", "services.nodeports": "2", "services.loadbalancers": "1"}},
		{name: "load balancer without node ports", kind: services, obj: service(corev1.ServiceTypeLoadBalancer, func(s *corev1.Service) { s.Spec.AllocateLoadBalancerNodePorts = new(false) }),
			want: map[string]string{"count/services": "1", "services": "1", "services.nodeports": "1", "services.loadbalancers": "1"}},
		{name: "claim of a part of a byte", kind: claims, obj: &corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{
			Resources: corev1.VolumeResourceRequirements{Requests: amounts(map[string]string{"storage": "1500m"})},
		}}, want: map[string]string{"count/persistentvolumeclaims": "1", "persistentvolumeclaims": "1", "requests.storage": "2"}},
		{name: "claim", kind: claims, obj: claim, want: map[string]string{
			"count/persistentvolumeclaims": "1", "persistentvolumeclaims": "1", "requests.storage": "2Gi",
			"gold.storageclass.storage.k8s.io/persistentvolumeclaims": "1", "gold.storageclass.storage.k8s.io/requests.storage": "2Gi",
		}},
		{name: "secret", kind: Plain(corev1.Resource("secrets"), corev1.ResourceSecrets), obj: &metav1.PartialObjectMetadata{}, want: map[string]string{"count/secrets": "1", "secrets": "1"}},
		{name: "custom resource", kind: Plain(schema.GroupResource{Group: "example.com", Resource: "widgets"}), obj: &metav1.PartialObjectMetadata{}, want: map[string]string{"count/widgets.example.com": "1"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			used, err := tt.kind.Usage(tt.obj, now)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, printed(used)); diff != "" {
				t.Errorf("usage (-want +got):\n%s", diff)
			}
			for name := range used {
				if !tt.kind.Counts(name) {
					t.Errorf("uses %s, but does not count as it", name)
				}
			}
		})
	}
	for _, kind := range []Kind{pods, services, claims} {
		if _, err := kind.Usage(&corev1.Node{}, now); err == nil {
			t.Errorf("a node is counted as one of %s", kind.Resource)
		}
	}
}

func TestInScope(t *testing.T) {
	exists := func(scope corev1.ResourceQuotaScope) corev1.ScopedResourceSelectorRequirement {
		return corev1.ScopedResourceSelectorRequirement{ScopeName: scope, Operator: corev1.ScopeSelectorOpExists}
	}
	class := func(operator corev1.ScopeSelectorOperator, values ...string) corev1.ScopedResourceSelectorRequirement {
		return corev1.ScopedResourceSelectorRequirement{ScopeName: corev1.ResourceQuotaScopePriorityClass, Operator: operator, Values: values}
	}
	deadline := func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = new(int64(5)) }
	modest := func(p *corev1.Pod) { p.Spec.Containers = []corev1.Container{{Name: "c"}} }
	high := func(p *corev1.Pod) { p.Spec.PriorityClassName = "high" }
	crossing := func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{PodAffinityTerm: corev1.PodAffinityTerm{NamespaceSelector: &metav1.LabelSelector{}}}},
		}}
	}
	tests := []struct {
		name  string
		scope corev1.ScopedResourceSelectorRequirement
		pod   *corev1.Pod
		want  bool
	}{
		{name: "terminating", scope: exists("Terminating"), pod: pod(deadline), want: true},
		{name: "not terminating", scope: exists("Terminating"), pod: pod()},
		{name: "not terminating scope", scope: exists("NotTerminating"), pod: pod(), want: true},
		{name: "best effort", scope: exists("BestEffort"), pod: pod(modest), want: true},
		{name: "not best effort", scope: exists("BestEffort"), pod: pod()},
		{name: "not best effort scope", scope: exists("NotBestEffort"), pod: pod(), want: true},
		{name: "any class", scope: class("Exists"), pod: pod(high), want: true},
		{name: "no class", scope: class("Exists"), pod: pod()},
		{name: "class must not be", scope: class("DoesNotExist"), pod: pod(), want: true},
		{name: "this class", scope: class("In", "low", "high"), pod: pod(high), want: true},
		{name: "other class", scope: class("In", "low"), pod: pod(high)},
		{name: "none of them", scope: class("NotIn", "high"), pod: pod(), want: true},
		{name: "cross namespace", scope: exists("CrossNamespacePodAffinity"), pod: pod(crossing), want: true},
		{name: "own namespace", scope: exists("CrossNamespacePodAffinity"), pod: pod()},
		{name: "not for pods", scope: exists("VolumeAttributesClass"), pod: pod()},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got, err := pods.InScopes([]corev1.ScopedResourceSelectorRequirement{tt.scope}, tt.pod); got != tt.want || err != nil {
				t.Errorf("got %v, error %v", got, err)
			}
		})
	}
	if in, err := services.InScopes([]corev1.ScopedResourceSelectorRequirement{exists("BestEffort")}, &corev1.Service{}); in || err != nil {
		t.Errorf("a service is in a scope of pods: %v, error %v", in, err)
	}
	claim := &corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{VolumeAttributesClassName: new("fast")}}
	fast := corev1.ScopedResourceSelectorRequirement{ScopeName: corev1.ResourceQuotaScopeVolumeAttributesClass, Operator: corev1.ScopeSelectorOpIn, Values: []string{"fast"}}
	if in, err := claims.InScopes([]corev1.ScopedResourceSelectorRequirement{fast}, claim); !in || err != nil {
		t.Errorf("the claim is not of its class: %v, error %v", in, err)
	}
}

func TestRequire(t *testing.T) {
	tests := []struct {
		name     string
		required []corev1.ResourceName
		pod      *corev1.Pod
		want     string
	}{
		{name: "nothing", pod: pod()},
		{name: "all say", required: []corev1.ResourceName{"cpu", "requests.cpu"}, pod: pod()},
		{name: "one does not", required: []corev1.ResourceName{"requests.memory", "limits.cpu"}, pod: pod(), want: "must specify limits.cpu for: b; requests.memory for: b"},
		{name: "nobody says", required: []corev1.ResourceName{"limits.memory"}, pod: pod(), want: "must specify limits.memory for: a,b"},
		{name: "may be left out", required: []corev1.ResourceName{"pods", "requests.example.com/gpu", "ephemeral-storage"}, pod: pod()},
		{name: "init container", required: []corev1.ResourceName{"cpu"}, pod: pod(func(p *corev1.Pod) { p.Spec.InitContainers = []corev1.Container{{Name: "init"}} }), want: "must specify cpu for: init"},
		{name: "said for the pod", required: []corev1.ResourceName{"limits.memory"}, pod: pod(func(p *corev1.Pod) {
			p.Spec.Resources = &corev1.ResourceRequirements{Limits: amounts(map[string]string{"memory": "1Gi"})}
		})},
		{name: "something else is said for the pod", required: []corev1.ResourceName{"limits.memory"}, pod: pod(func(p *corev1.Pod) {
			p.Spec.Resources = &corev1.ResourceRequirements{Requests: amounts(map[string]string{"cpu": "1"})}
		})},
		{name: "what a pod cannot have", required: []corev1.ResourceName{"limits.memory"}, pod: pod(func(p *corev1.Pod) {
			p.Spec.Resources = &corev1.ResourceRequirements{Requests: amounts(map[string]string{"ephemeral-storage": "1Gi"})}
		}), want: "must specify limits.memory for: a,b"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := ""
			if err := podRequire(tt.required, tt.pod); err != nil {
				got = err.Error()
			}
			if got != tt.want {
				t.Errorf("error %q, want %q", got, tt.want)
			}
		})
	}
}

func TestSum(t *testing.T) {
	spec := &corev1.ResourceQuotaSpec{Hard: amounts(map[string]string{
		"pods": "5", "requests.cpu": "4", "services": "1", "count/widgets.example.com": "3", "count/gadgets.example.com": "3", "configmaps": "7",
	})}
	down := errors.New("down")
	list := func(kind Kind) ([]runtime.Object, error) {
		switch kind.Resource.Resource {
		case "pods":
			return []runtime.Object{pod(), pod(), pod(func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })}, nil
		case "widgets":
			return []runtime.Object{&metav1.PartialObjectMetadata{}}, nil
		case "gadgets":
			return nil, down
		}
		return nil, nil
	}
	got, err := Sum(spec, devices{}, list, now)
	if !errors.Is(err, down) {
		t.Errorf("error %v", err)
	}
	want := map[string]string{"pods": "2", "requests.cpu": "2200m", "services": "0", "count/widgets.example.com": "1", "configmaps": "0"}
	if diff := cmp.Diff(want, printed(got)); diff != "" {
		t.Errorf("sum (-want +got):\n%s", diff)
	}
	// What two kinds take is not told by the half of one.
	shared := &corev1.ResourceQuotaSpec{Hard: amounts(map[string]string{"pods": "5", "requests.example.com/gpu": "3"})}
	got, err = Sum(shared, devices{}, func(kind Kind) ([]runtime.Object, error) {
		if kind.Resource.Resource == "resourceclaims" {
			return nil, down
		}
		return []runtime.Object{pod()}, nil
	}, now)
	if !errors.Is(err, down) || !Equal(got, amounts(map[string]string{"pods": "1"})) {
		t.Errorf("sum without claims %v, error %v", got, err)
	}
	spec.Scopes = []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeBestEffort}
	spec.Hard = amounts(map[string]string{"pods": "5"})
	if got, err := Sum(spec, devices{}, list, now); err != nil || !Equal(got, amounts(map[string]string{"pods": "0"})) {
		t.Errorf("sum of best-effort pods %v, error %v", got, err)
	}
}

func TestCounts(t *testing.T) {
	tests := map[corev1.ResourceName]string{
		"cpu": "pods", "limits.memory": "pods", "requests.ephemeral-storage": "pods", "requests.hugepages-1Gi": "pods", "requests.example.com/gpu": "podsresourceclaims.resource.k8s.io",
		"requests.deviceclass.resource.kubernetes.io/gpu": "podsresourceclaims.resource.k8s.io", "gpu.deviceclass.resource.k8s.io/devices": "resourceclaims.resource.k8s.io",
		"example.com/gpu": "", "requests.kubernetes.io/x": "", "limits.example.com/gpu": "", "requests.storage": "persistentvolumeclaims",
		"gold.storageclass.storage.k8s.io/requests.storage": "persistentvolumeclaims", "gold.storageclass.storage.k8s.io/count/persistentvolumeclaims": "", "services.nodeports": "services", "count/secrets": "secrets",
		"replicationcontrollers": "replicationcontrollers", "resourcequotas": "resourcequotas", "count/deployments.apps": "deployments.apps",
	}
	for name, want := range tests {
		t.Run(string(name), func(t *testing.T) {
			got := ""
			for _, kind := range For(corev1.ResourceList{name: resource.MustParse("1")}, devices{}) {
				got += kind.Resource.String()
			}
			if got != want {
				t.Errorf("counted by %q, want %q", got, want)
			}
		})
	}
}

func TestMoves(t *testing.T) {
	claim := func(class string) *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{VolumeAttributesClassName: &class}}
	}
	if claims.Moves(claim("fast"), claim("fast")) || !claims.Moves(claim("fast"), claim("slow")) {
		t.Error("a claim moves with its class of attributes")
	}
	pod := func(deadline *int64) *corev1.Pod {
		return &corev1.Pod{Spec: corev1.PodSpec{ActiveDeadlineSeconds: deadline}}
	}
	if pods.Moves(pod(nil), pod(nil)) || pods.Moves(pod(new(int64(9))), pod(new(int64(5)))) || !pods.Moves(pod(nil), pod(new(int64(5)))) {
		t.Error("a pod moves when it gets a deadline")
	}
}
