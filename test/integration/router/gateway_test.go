// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package router

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"minik8s.io/minik8s/pkg/router"
)

// definitions are the manifests of the standard channel, as they are in the module.
func definitions(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/gateway-api").Output()
	if err != nil {
		t.Fatalf("finding the module: %v", err)
	}
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(out)), "config/crd/standard/gateway.*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no manifests: %v", err)
	}
	var all []*unstructured.Unstructured
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		o := parse(t, string(data))
		if o.GetKind() == "CustomResourceDefinition" {
			all = append(all, o)
		}
	}
	return all
}

func parse(t *testing.T, manifest string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(manifest), &o.Object); err != nil {
		t.Fatal(err)
	}
	return o
}

// bothFamilies has a Gateway to itself served at an address of each family, until it goes.
func bothFamilies(t *testing.T, gateways dynamic.ResourceInterface) {
	t.Helper()
	six := free(t, netip.IPv6Loopback())
	four := netip.AddrPortFrom(netip.MustParseAddr("127.0.54.1"), six.Port())
	own := fmt.Sprintf(`{apiVersion: gateway.networking.k8s.io/v1, kind: Gateway, metadata: {name: own}, spec: {gatewayClassName: minik8s, addresses: [{value: "::1"}],
		listeners: [{name: http, port: %d, protocol: HTTP}]}}`, six.Port())
	if _, err := gateways.Create(t.Context(), parse(t, own), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, at := range []netip.AddrPort{four, six} {
		eventually(t, "an answer at "+at.String(), answers(at, "x.com", "/", http.StatusNotFound))
	}
	eventually(t, "both addresses in the status", func(ctx context.Context) error {
		g, err := gateways.Get(ctx, "own", metav1.GetOptions{})
		if err != nil {
			return err
		}
		addresses, _, err := unstructured.NestedSlice(g.Object, "status", "addresses")
		if want := "[map[type:IPAddress value:127.0.54.1] map[type:IPAddress value:::1]]"; err == nil && fmt.Sprint(addresses) != want {
			err = fmt.Errorf("it has %v, want %s", addresses, want)
		}
		return err
	})
	if err := gateways.Delete(t.Context(), "own", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, at := range []netip.AddrPort{four, six} {
		eventually(t, "nothing at "+at.String(), closed(at))
	}
}

// The Gateway API is served once its definitions are there, and not any more when its class or they have gone.
func TestGateway(t *testing.T) {
	// Of the subnets the first address is one that every machine has.
	p := startAt(t, "127.0.0.2", netip.Addr{}, netip.MustParsePrefix("127.0.54.0/28"), netip.MustParsePrefix("::/126"))
	client, err := dynamic.NewForConfig(cluster.Admin())
	if err != nil {
		t.Fatal(err)
	}
	ns := namespace(t, cluster.Client)
	crds := client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	for _, d := range definitions(t) {
		if _, err := crds.Create(t.Context(), d, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	of := func(resource string) dynamic.ResourceInterface {
		r := client.Resource(schema.GroupVersionResource{Group: "gateway.networking.k8s.io", Version: "v1", Resource: resource})
		if resource == "gatewayclasses" {
			return r
		}
		return r.Namespace(ns)
	}
	for _, o := range []struct{ resource, manifest string }{
		{"gatewayclasses", `{apiVersion: gateway.networking.k8s.io/v1, kind: GatewayClass, metadata: {name: minik8s}, spec: {controllerName: ` + router.Controller + `}}`},
		{"gateways", `{apiVersion: gateway.networking.k8s.io/v1, kind: Gateway, metadata: {name: gw}, spec: {gatewayClassName: minik8s, listeners: [{name: http, port: 80, protocol: HTTP}]}}`},
		{"httproutes", `{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {name: r}, spec: {parentRefs: [{name: gw}], hostnames: [x.com], rules: [
			{matches: [{path: {type: PathPrefix, value: /old}}], filters: [{type: RequestRedirect, requestRedirect: {statusCode: 301, path: {type: ReplacePrefixMatch, replacePrefixMatch: /new}}}]},
			{backendRefs: [{name: gone, port: 80}]}]}}`},
	} {
		eventually(t, "creating one of "+o.resource, func(ctx context.Context) error {
			_, err := of(o.resource).Create(ctx, parse(t, o.manifest), metav1.CreateOptions{})
			return err
		})
	}
	eventually(t, "a redirect", answers(p.http, "x.com", "/old/x", http.StatusMovedPermanently))
	eventually(t, "a backend that is not there", answers(p.http, "x.com", "/", http.StatusInternalServerError))
	eventually(t, "another host", answers(p.http, "y.com", "/", http.StatusNotFound))
	for _, want := range []struct{ resource, name, text string }{
		{"gatewayclasses", "minik8s", "reason:Accepted status:True"},
		{"gateways", "gw", "reason:Programmed status:True"},
		{"gateways", "gw", "value:127.0.0.2"},
		{"gateways", "gw", "attachedRoutes:1"},
		{"httproutes", "r", "reason:BackendNotFound status:False"},
	} {
		eventually(t, "the status of "+want.resource, func(ctx context.Context) error {
			o, err := of(want.resource).Get(ctx, want.name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if text := fmt.Sprint(o.Object["status"]); !strings.Contains(text, want.text) {
				return fmt.Errorf("no %q in %s", want.text, text)
			}
			return nil
		})
	}
	service := func(ctx context.Context) error {
		_, err := cluster.Client.CoreV1().Services(ns).Get(ctx, "gw-minik8s", metav1.GetOptions{})
		return err
	}
	eventually(t, "the Service of the Gateway", service)
	bothFamilies(t, of("gateways"))
	if err := of("gatewayclasses").Delete(t.Context(), "minik8s", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the port of a Gateway without a class", closed(p.http))
	eventually(t, "no Service of a Gateway without a class", func(ctx context.Context) error {
		if err := service(ctx); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there: %w", err)
		}
		return nil
	})
	eventually(t, "the status of a route without a Gateway", func(ctx context.Context) error {
		o, err := of("httproutes").Get(ctx, "r", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if text := fmt.Sprint(o.Object["status"]); strings.Contains(text, router.Controller) {
			return fmt.Errorf("the router is still in %s", text)
		}
		return nil
	})
	for _, d := range definitions(t) {
		if err := crds.Delete(t.Context(), d.GetName(), metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the port of the Gateway", closed(p.http))
}
