// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"minik8s.io/minik8s/pkg/registry"
	"minik8s.io/minik8s/pkg/registry/discovery"
)

// onePod is a store with the pod ns/p, which has two addresses.
type onePod struct{}

func (onePod) Get(ctx context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	switch apirequest.NamespaceValue(ctx) + "/" + name {
	case "ns/p":
		return &corev1.Pod{Status: corev1.PodStatus{PodIP: "10.0.0.1", PodIPs: []corev1.PodIP{{IP: "10.0.0.1"}, {IP: "fd00::1"}}}}, nil
	case "ns/starting":
		return &corev1.Pod{}, nil
	}
	return nil, apierrors.NewNotFound(corev1.Resource("pods"), name)
}

func TestOwnedByPod(t *testing.T) {
	ref := func(namespace, name string) *corev1.ObjectReference {
		return &corev1.ObjectReference{Kind: "Pod", Namespace: namespace, Name: name}
	}
	for _, tc := range []struct {
		name    string
		ref     *corev1.ObjectReference
		address string
		failure string
	}{
		{"its first address", ref("ns", "p"), "10.0.0.1", ""},
		{"its second address", ref("ns", "p"), "fd00::1", ""},
		{"another's address", ref("ns", "p"), "10.0.0.2", "pod ip(s) doesn't match endpoint ip"},
		{"the machine's address", ref("ns", "p"), "127.0.0.1", "pod ip(s) doesn't match endpoint ip"},
		{"a pod without address", ref("ns", "starting"), "10.0.0.1", "pod ip(s) doesn't match endpoint ip"},
		{"no pod of that name", ref("ns", "q"), "10.0.0.1", "not found"},
		{"a pod elsewhere", ref("other", "p"), "10.0.0.1", "namespace doesn't match"},
		{"no pod", nil, "10.0.0.1", "no target ref"},
		{"no address", ref("ns", "p"), "", "no target ref"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e := &discoveryv1.Endpoint{TargetRef: tc.ref}
			if tc.address != "" {
				e.Addresses = []string{tc.address}
			}
			err := ownedByPod(apirequest.WithNamespace(t.Context(), "ns"), onePod{}, e)
			if (err == nil) != (tc.failure == "") || err != nil && !strings.Contains(err.Error(), tc.failure) {
				t.Errorf("error is %v, want %q", err, tc.failure)
			}
		})
	}
}

// bare pods are all that the proxy needs to know of pods.
func bare() *registry.Resource[*corev1.Pod] {
	return &registry.Resource[*corev1.Pod]{
		Kind: corev1.SchemeGroupVersion.WithKind("Pod"), Name: "pods",
		New:     func() *corev1.Pod { return &corev1.Pod{} },
		NewList: func() runtime.Object { return &corev1.PodList{} },
	}
}

func TestLocate(t *testing.T) {
	// The subresource is seen from inside the server.
	var proxy *ProxyREST
	spy := *Resource
	spy.Subresources = func(s *registry.Store[*corev1.Service], c registry.Config) (map[string]rest.Storage, error) {
		proxy = newProxyREST(s, c)
		return nil, nil
	}
	core := registry.Group{AddToScheme: corev1.AddToScheme, Versions: []registry.Version{{Name: "v1", Resources: []registry.Descriptor{&spy, bare()}}}}
	client := kubernetes.NewForConfigOrDie(serve(t, registry.Config{}, core, discovery.Group()))
	ctx := apirequest.WithNamespace(t.Context(), "default")
	pod := func(namespace, name, ip string) *corev1.ObjectReference {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.PodStatus{PodIPs: []corev1.PodIP{{IP: ip}}}}
		if _, err := client.CoreV1().Pods(namespace).Create(ctx, p, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		return &corev1.ObjectReference{Kind: "Pod", Namespace: namespace, Name: name}
	}
	const none = "no endpoints available for service"
	for _, tc := range []struct {
		name, id     string
		ref          *corev1.ObjectReference
		want, reason string
	}{
		{name: "pod", id: "pod:80", ref: pod("default", "p", "10.0.0.9"), want: "//10.0.0.9:8080"},
		{name: "scheme-and-port-by-name", id: "https:scheme-and-port-by-name:web", ref: pod("default", "q", "10.0.0.9"), want: "https://10.0.0.9:8080"},
		{name: "no-pod", id: "no-pod:80", reason: none + ` "no-pod"`},
		{name: "other-address", id: "other-address:80", ref: pod("default", "other", "10.0.0.8"), reason: none},
		{name: "other-namespace", id: "other-namespace:80", ref: pod("kube-system", "p", "10.0.0.9"), reason: none},
		{name: "no-such-port", id: "no-such-port:81", ref: pod("default", "r", "10.0.0.9"), reason: `no service port 81 found for service "no-such-port"`},
		{name: "no-name", id: "no-name", ref: pod("default", "s", "10.0.0.9"), reason: none + ` "no-name"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := web()
			s.Name, s.Spec.Ports = tc.name, []corev1.ServicePort{{Name: "web", Port: 80}}
			if _, err := client.CoreV1().Services("default").Create(ctx, s, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			slice := &discoveryv1.EndpointSlice{
				ObjectMeta:  metav1.ObjectMeta{Name: tc.name, Labels: map[string]string{discoveryv1.LabelServiceName: tc.name}},
				AddressType: discoveryv1.AddressTypeIPv4,
				Ports:       []discoveryv1.EndpointPort{{Name: new("web"), Port: ptr.To[int32](8080)}},
				Endpoints: []discoveryv1.Endpoint{
					{Addresses: []string{"10.0.0.9"}, TargetRef: tc.ref},
					{Addresses: []string{"10.0.0.7"}, TargetRef: tc.ref, Conditions: discoveryv1.EndpointConditions{Ready: new(false)}},
				},
			}
			if _, err := client.DiscoveryV1().EndpointSlices("default").Create(ctx, slice, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			// Slices are read from the cache, which follows the store.
			err := wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, 20*time.Second, true, func(context.Context) (bool, error) {
				slices, err := proxy.endpoints(ctx, tc.name)
				return len(slices) == 1, err
			})
			if err != nil {
				t.Fatal(err)
			}
			got, err := proxy.locate(ctx, tc.id)
			switch {
			case tc.reason != "":
				if !apierrors.IsServiceUnavailable(err) || !strings.Contains(err.Error(), tc.reason) {
					t.Errorf("%v, %v, want no service: %q", got, err, tc.reason)
				}
			case err != nil || got.String() != tc.want:
				t.Errorf("%v, %v, want %q", got, err, tc.want)
			}
		})
	}
	for _, id := range []string{"none:80", "a:b:c:d"} {
		if got, err := proxy.locate(ctx, id); !apierrors.IsNotFound(err) && !apierrors.IsBadRequest(err) {
			t.Errorf("%s: %v, %v", id, got, err)
		}
	}
}
