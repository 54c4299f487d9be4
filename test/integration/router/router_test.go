// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package router tests the router with a real API server and its own rights. Traffic goes to loopback addresses only, at which an
// EndpointSlice may have no endpoint: that routes reach pods is tested in test/e2e.
package router

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"

	"minik8s.io/minik8s/pkg/router"
	"minik8s.io/minik8s/test/integration/framework"
)

var cluster *framework.Cluster

func TestMain(m *testing.M) {
	os.Exit(framework.Main(m, framework.Options{}, func(c *framework.Cluster) error {
		cluster = c
		_, err := c.Client.NetworkingV1().IngressClasses().Create(context.Background(), router.Class(), metav1.CreateOptions{})
		return err
	}))
}

// part is a router that runs.
type part struct {
	http, https netip.AddrPort
	events      chan string
}

// start runs a router on an address of its own until the test ends.
func start(t *testing.T, address string) *part {
	t.Helper()
	return startAt(t, address, netip.Addr{})
}

// startAt runs a router with a second address, and with subnets of addresses that the machine has already.
func startAt(t *testing.T, address string, second netip.Addr, subnets ...netip.Prefix) *part {
	t.Helper()
	recorder := record.NewFakeRecorder(1000)
	p := &part{events: recorder.Events}
	a := netip.MustParseAddr(address)
	p.http, p.https = free(t, a), free(t, a)
	r, err := router.New(router.Config{
		REST: cluster.User(router.User), Recorder: recorder, Address: a, Second: second, HTTPPort: p.http.Port(), HTTPSPort: p.https.Port(),
		Subnets: subnets, Take: func([]netip.Addr) error { return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Start: %v", err)
		}
	})
	return p
}

// An Ingress is served at both addresses of the router, and says so.
func TestIngress_SecondAddress(t *testing.T) {
	second := netip.MustParseAddr("127.0.0.9")
	p := startAt(t, "127.0.0.8", second)
	ns := namespace(t, cluster.Client)
	kind := networkingv1.PathTypePrefix
	ingress, err := cluster.Client.NetworkingV1().Ingresses(ns).Create(t.Context(), &networkingv1.Ingress{
		ObjectMeta: metav1.ObjectMeta{Name: "second"},
		Spec: networkingv1.IngressSpec{Rules: []networkingv1.IngressRule{{Host: "second.test", IngressRuleValue: networkingv1.IngressRuleValue{
			HTTP: &networkingv1.HTTPIngressRuleValue{Paths: []networkingv1.HTTPIngressPath{{
				Path: "/", PathType: &kind,
				Backend: networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: "gone", Port: networkingv1.ServiceBackendPort{Number: 80}}},
			}}},
		}}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []netip.AddrPort{p.http, netip.AddrPortFrom(second, p.http.Port())} {
		eventually(t, "an answer at "+at.String(), answers(at, "second.test", "/", http.StatusServiceUnavailable))
	}
	eventually(t, "both addresses in the status", func(ctx context.Context) error {
		i, err := cluster.Client.NetworkingV1().Ingresses(ns).Get(ctx, ingress.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if at := i.Status.LoadBalancer.Ingress; len(at) != 2 || at[0].IP != p.http.Addr().String() || at[1].IP != second.String() {
			return fmt.Errorf("the status has %v", at)
		}
		return nil
	})
	if err := cluster.Client.NetworkingV1().Ingresses(ns).Delete(t.Context(), ingress.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

func free(t *testing.T, a netip.Addr) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp", netip.AddrPortFrom(a, 0).String())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return netip.MustParseAddrPort(l.Addr().String())
}

func eventually(t *testing.T, what string, check func(context.Context) error) {
	t.Helper()
	last := errors.New("never asked")
	err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		last = check(ctx)
		return last == nil, nil
	})
	if err != nil {
		t.Fatalf("%s: %v", what, last)
	}
}

// answers checks the status of an answer.
func answers(at netip.AddrPort, host, path string, want int) func(context.Context) error {
	return func(ctx context.Context) error {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+at.String()+path, nil)
		if err != nil {
			return err
		}
		r.Host = host
		transport := &http.Transport{DisableKeepAlives: true}
		answer, err := (&http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}).Do(r)
		if err != nil {
			return err
		}
		_ = answer.Body.Close()
		if answer.StatusCode != want {
			return fmt.Errorf("%s%s answers %d, want %d", host, path, answer.StatusCode, want)
		}
		return nil
	}
}

func closed(at netip.AddrPort) func(context.Context) error {
	return func(context.Context) error {
		c, err := net.DialTimeout("tcp", at.String(), time.Second)
		if err != nil {
			return nil //nolint:nilerr // that is what is wanted
		}
		_ = c.Close()
		return fmt.Errorf("%s is open", at)
	}
}

func namespace(t *testing.T, client kubernetes.Interface) string {
	t.Helper()
	ns, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "router-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return ns.Name
}

func TestIngress(t *testing.T) {
	p := start(t, "127.0.0.1")
	client := cluster.Client
	ns := namespace(t, client)
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Port: 80}}}}
	if _, err := client.CoreV1().Services(ns).Create(t.Context(), service, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	kind := networkingv1.PathTypePrefix
	paths := func(service string) *networkingv1.HTTPIngressRuleValue {
		return &networkingv1.HTTPIngressRuleValue{Paths: []networkingv1.HTTPIngressPath{{Path: "/", PathType: &kind, Backend: networkingv1.IngressBackend{
			Service: &networkingv1.IngressServiceBackend{Name: service, Port: networkingv1.ServiceBackendPort{Name: "http"}}}}}}
	}
	ingress := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: networkingv1.IngressSpec{Rules: []networkingv1.IngressRule{
		{Host: "web.example.com", IngressRuleValue: networkingv1.IngressRuleValue{HTTP: paths("web")}},
		{Host: "gone.example.com", IngressRuleValue: networkingv1.IngressRuleValue{HTTP: paths("gone")}},
	}}}
	ingress, err := client.NetworkingV1().Ingresses(ns).Create(t.Context(), ingress, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := ingress.Spec.IngressClassName; got == nil || *got != router.Name {
		t.Fatalf("the class is %v", got)
	}
	eventually(t, "a host with a Service of no endpoints", answers(p.http, "web.example.com", "/x", http.StatusServiceUnavailable))
	eventually(t, "another host", answers(p.http, "other.example.com", "/", http.StatusNotFound))
	eventually(t, "status", func(ctx context.Context) error {
		i, err := client.NetworkingV1().Ingresses(ns).Get(ctx, "web", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if lb := i.Status.LoadBalancer.Ingress; len(lb) != 1 || lb[0].IP != "127.0.0.1" {
			return fmt.Errorf("it is %v", lb)
		}
		return nil
	})
	if event := <-p.events; !strings.HasPrefix(event, "Warning BackendNotUsable spec.rules[1].http.paths[0].backend: service") {
		t.Errorf("event is %q", event)
	}
	if err := client.NetworkingV1().Ingresses(ns).Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the port of the last Ingress", closed(p.http))
}
