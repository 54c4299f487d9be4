// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"errors"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"minik8s.io/minik8s/pkg/addons/apis/networking/v1alpha1"
	"minik8s.io/minik8s/pkg/router/internal/resolve"
	"minik8s.io/minik8s/pkg/router/internal/table"
)

var (
	port = netip.MustParseAddrPort("192.0.2.1:80")
	now  = metav1.Unix(1000, 0)
)

// parse reads a Dns of NAMESPACE/NAME, made some seconds after 0.
func parse(t *testing.T, key string, age int64, spec string) *v1alpha1.Dns {
	t.Helper()
	namespace, name, _ := strings.Cut(key, "/")
	d := &v1alpha1.Dns{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Generation: 3, CreationTimestamp: metav1.Unix(age, 0)}}
	if err := yaml.UnmarshalStrict([]byte(spec), &d.Spec); err != nil {
		t.Fatal(err)
	}
	return d
}

// resolver knows Services of each name in the namespaces a and b, whose endpoint has the name NAMESPACE-NAME.
func resolver(services ...string) *resolve.Resolver {
	o := resolve.Objects{Services: map[types.NamespacedName]*corev1.Service{}, Slices: map[types.NamespacedName][]*discoveryv1.EndpointSlice{}}
	for _, namespace := range []string{"a", "b"} {
		for _, s := range services {
			key := types.NamespacedName{Namespace: namespace, Name: s}
			o.Services[key] = &corev1.Service{Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Port: 80}}}}
			o.Slices[key] = []*discoveryv1.EndpointSlice{{
				AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: new("http"), Port: ptr.To[int32](8080)}},
				Endpoints: []discoveryv1.Endpoint{{Addresses: []string{namespace + "-" + s}}},
			}}
		}
	}
	o.Services[types.NamespacedName{Namespace: "a", Name: "elsewhere"}] = &corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName}}
	return resolve.New(o, &resolve.KeyPairs{})
}

func translate(objects ...*v1alpha1.Dns) *Output {
	return Translate(Input{Objects: objects, HTTP: port, Resolver: resolver("one", "two"), Now: now})
}

// ask returns the endpoint and the path that it is asked for, or what else the client is told.
func ask(out *Output, host, path string) string {
	l := table.Build(out.Contents).Ports[port]
	if l == nil {
		return "closed"
	}
	r := httptest.NewRequest("GET", path, nil)
	route := l.Find(host, r)
	if route == nil {
		return "none"
	}
	b := route.Choose().Backend
	if len(b.Endpoints) == 0 {
		return "absent: " + b.Absent
	}
	path = r.URL.EscapedPath()
	if route.Rewrite != nil {
		path = route.Rewrite.Path.Of(path, route.Match.Path)
	}
	return strings.TrimSuffix(b.Next(), ":8080") + " " + path
}

const shop = `{host: shop.test, paths: [{subPath: /one, service: one, port: 80}, {subPath: /one/two, service: two, port: http}]}`

func TestTranslate(t *testing.T) {
	t.Parallel()
	root := `{host: shop.test, paths: [{subPath: /, service: two, port: 80}]}`
	leaving := parse(t, "a/gone", 1, shop)
	leaving.DeletionTimestamp = &now
	for _, tc := range []struct {
		name    string
		objects []*v1alpha1.Dns
		// asked is HOST/PATH with what comes of it.
		asked map[string]string
	}{
		{"nothing", nil, map[string]string{"shop.test/": "closed"}},
		{"one that is being deleted", []*v1alpha1.Dns{leaving}, map[string]string{"shop.test/one": "closed"}},
		{"paths by elements, the longest wins, and the prefix goes", []*v1alpha1.Dns{parse(t, "a/shop", 1, shop)}, map[string]string{
			"shop.test/one": "a-one /", "shop.test/one/": "a-one /", "shop.test/one/x": "a-one /x", "shop.test/one/two": "a-two /", "shop.test/one/two/x%2Fy": "a-two /x%2Fy",
			"shop.test/onetwo": "none", "shop.test/": "none", "other.test/one": "none",
		}},
		{"root", []*v1alpha1.Dns{parse(t, "a/shop", 1, root)}, map[string]string{"shop.test/": "a-two /", "shop.test/x/y": "a-two /x/y"}},
		{"empty path", []*v1alpha1.Dns{parse(t, "a/shop", 1, `{host: shop.test, paths: [{subPath: "", service: two, port: 80}]}`)}, map[string]string{"shop.test/x": "a-two /x"}},
		{"upper case", []*v1alpha1.Dns{parse(t, "a/shop", 1, `{host: Shop.Test, paths: [{subPath: /, service: two, port: 80}]}`)}, map[string]string{"shop.test/x": "a-two /x"}},
		{"two of a namespace", []*v1alpha1.Dns{parse(t, "a/shop", 2, shop), parse(t, "a/root", 1, root)}, map[string]string{
			"shop.test/one/x": "a-one /x", "shop.test/two": "a-two /two",
		}},
		{"two of a namespace with the same path", []*v1alpha1.Dns{
			parse(t, "a/new", 2, `{host: shop.test, paths: [{subPath: /one, service: two, port: 80}, {subPath: /more, service: two, port: 80}]}`), parse(t, "a/shop", 1, shop),
		}, map[string]string{"shop.test/one": "a-one /", "shop.test/more": "a-two /"}},
		{"two namespaces", []*v1alpha1.Dns{parse(t, "b/root", 2, root), parse(t, "a/shop", 1, shop)}, map[string]string{"shop.test/one": "a-one /", "shop.test/": "none"}},
		{"of the same age", []*v1alpha1.Dns{parse(t, "b/shop", 1, shop), parse(t, "a/shop", 1, shop)}, map[string]string{"shop.test/one": "a-one /"}},
		{"what is not there hides what is less specific", []*v1alpha1.Dns{parse(t, "a/shop", 1, `{host: shop.test, paths: [
			{subPath: /, service: one, port: 80}, {subPath: /gone, service: gone, port: 80}, {subPath: /port, service: one, port: https},
			{subPath: /number, service: one, port: 81}, {subPath: /elsewhere, service: elsewhere, port: 80}]}`)}, map[string]string{
			"shop.test/x":         "a-one /x",
			"shop.test/gone":      `absent: path /gone: service "a/gone" not found`,
			"shop.test/port":      `absent: path /port: port https of service "a/one" not found`,
			"shop.test/number/x":  `absent: path /number: port 81 of service "a/one" not found`,
			"shop.test/elsewhere": `absent: path /elsewhere: service "a/elsewhere" is of type ExternalName, which is not supported`,
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			out := translate(tc.objects...)
			for at, want := range tc.asked {
				host, path, _ := strings.Cut(at, "/")
				if got := ask(out, host, "/"+path); got != want {
					t.Errorf("%s: %q, want %q", at, got, want)
				}
			}
		})
	}
}

// An Ingress of the same host and path has it if it is older.
func TestTranslate_BesideAnIngress(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		created int64
		want    string
	}{{"older", 0, "Ingress"}, {"younger", 2, "Dns"}} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			out := translate(parse(t, "a/shop", 1, shop))
			route := &table.Route{
				Match: table.Match{Kind: table.Prefix, Path: "/one"}, Origin: table.Origin{Kind: "Ingress", Namespace: "z", Created: time.Unix(tc.created, 0)},
			}
			all := out.With(table.Contents{Entries: []table.Entry{{Port: port, Host: "shop.test", OneLabel: true, Route: route}}})
			if got := table.Build(all).Ports[port].Find("shop.test", httptest.NewRequest("GET", "/one", nil)).Origin.Kind; got != tc.want {
				t.Errorf("it is a route of %s, want %s", got, tc.want)
			}
		})
	}
}

func TestStatuses(t *testing.T) {
	t.Parallel()
	older := parse(t, "a/old", 1, shop)
	for _, tc := range []struct {
		name   string
		spec   string // of b/new, or of what namespace says
		key    string
		failed error
		// conditions by type: "" for True, else the reason with a part of the message.
		want      map[string]string
		addresses []string
		events    int
	}{
		{"all well", `{host: other.test, paths: [{subPath: /, service: one, port: 80}]}`, "b/new", nil,
			map[string]string{"Accepted": "", "ResolvedRefs": "", "Programmed": ""}, []string{"192.0.2.1"}, 0},
		{"the host is another namespace's", shop, "b/new", nil,
			map[string]string{"Accepted": "HostConflict: host shop.test is that of Dns a/old, which is older", "ResolvedRefs": "", "Programmed": "NotAccepted: "}, nil, 1},
		{"one path is another's", `{host: shop.test, paths: [{subPath: /one, service: one, port: 80}, {subPath: /x, service: one, port: 80}]}`, "a/new", nil,
			map[string]string{"Accepted": "PathConflict: path /one of host shop.test is that of Dns a/old", "ResolvedRefs": "", "Programmed": ""}, []string{"192.0.2.1"}, 1},
		{"no Service", `{host: other.test, paths: [{subPath: /, service: gone, port: 80}, {subPath: /p, service: one, port: p}]}`, "b/new", nil,
			map[string]string{"Accepted": "", "ResolvedRefs": `ServiceNotFound: path /: service "b/gone" not found; path /p: port p of`, "Programmed": ""}, []string{"192.0.2.1"}, 1},
		{"no port", `{host: other.test, paths: [{subPath: /p, service: one, port: p}]}`, "b/new", nil,
			map[string]string{"Accepted": "", "ResolvedRefs": `PortNotFound: path /p: port p of service "b/one" not found: create what is missing`, "Programmed": ""}, []string{"192.0.2.1"}, 1},
		{"the port is taken", `{host: other.test, paths: [{subPath: /, service: one, port: 80}]}`, "b/new", errors.New("listen: in use"),
			map[string]string{"Accepted": "", "ResolvedRefs": "", "Programmed": "ListenFailed: listen: in use"}, nil, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			d := parse(t, tc.key, 2, tc.spec)
			foreign := metav1.Condition{Type: "InHostsFile", Status: metav1.ConditionTrue, Reason: "Written"}
			d.Status.Conditions = []metav1.Condition{foreign}
			failed := map[netip.AddrPort]error{}
			if tc.failed != nil {
				failed[port] = tc.failed
			}
			out := translate(d, older.DeepCopy())
			var status v1alpha1.DnsStatus
			for _, o := range out.Statuses(failed) {
				if o.GetName() == "new" {
					status = o.(*v1alpha1.Dns).Status
				}
			}
			for kind, want := range tc.want {
				c := meta.FindStatusCondition(status.Conditions, kind)
				switch {
				case c == nil || c.ObservedGeneration != 3:
					t.Errorf("%s is %v", kind, c)
				case want == "" && c.Status != metav1.ConditionTrue, want != "" && (c.Status != metav1.ConditionFalse || !strings.HasPrefix(c.Reason+": "+c.Message, want)):
					t.Errorf("%s is %s, %s: %s", kind, c.Status, c.Reason, c.Message)
				}
			}
			if diff := cmp.Diff(tc.addresses, status.Addresses); diff != "" || status.ObservedGeneration != 3 || (status.URL == "") != (len(tc.addresses) == 0) {
				t.Errorf("status is %+v (-want +got):\n%s", status, diff)
			}
			if diff := cmp.Diff(&foreign, meta.FindStatusCondition(status.Conditions, "InHostsFile")); diff != "" {
				t.Errorf("somebody else's condition (-want +got):\n%s", diff)
			}
			events := 0
			for _, p := range out.Problems(failed) {
				if p.Object.Name == "new" && p.Object.Kind == "Dns" {
					events++
				}
			}
			if events != tc.events {
				t.Errorf("%d events, want %d", events, tc.events)
			}
			// What was written is not written again.
			d.Status = status
			for _, o := range translate(d, older.DeepCopy()).Statuses(failed) {
				if o.GetName() == "new" {
					t.Errorf("it is written again: %v", o)
				}
			}
		})
	}
}

func TestStatuses_URL(t *testing.T) {
	t.Parallel()
	out := Translate(Input{Objects: []*v1alpha1.Dns{parse(t, "a/shop", 1, shop)}, HTTP: netip.MustParseAddrPort("192.0.2.1:8080"), Resolver: resolver("one", "two"), Now: now})
	if got := out.Statuses(nil)[0].(*v1alpha1.Dns).Status.URL; got != "http://shop.test:8080" {
		t.Errorf("URL is %q", got)
	}
}

func TestStatuses_Twin(t *testing.T) {
	t.Parallel()
	in := Input{Objects: []*v1alpha1.Dns{parse(t, "a/shop", 1, shop)}, HTTP: port, Twin: netip.MustParseAddr("fd00::1"), Resolver: resolver("one", "two"), Now: now}
	own, twin := in.HTTP, table.TwinOf(in.HTTP, in.Twin)
	away := errors.New("in use")
	for _, tc := range []struct {
		failed map[netip.AddrPort]error
		want   []string
		events int
	}{
		{nil, []string{own.Addr().String(), "fd00::1"}, 0},
		{map[netip.AddrPort]error{own: away}, []string{"fd00::1"}, 1},
		{map[netip.AddrPort]error{twin: away}, []string{own.Addr().String()}, 1},
		{map[netip.AddrPort]error{own: away, twin: away}, nil, 2},
	} {
		out := Translate(in)
		status := out.Statuses(tc.failed)[0].(*v1alpha1.Dns).Status
		if diff := cmp.Diff(tc.want, status.Addresses); diff != "" {
			t.Errorf("%v (-want +got):\n%s", tc.failed, diff)
		}
		if got := meta.IsStatusConditionTrue(status.Conditions, v1alpha1.Programmed); got != (len(tc.want) > 0) {
			t.Errorf("%v: Programmed is %v", tc.failed, got)
		}
		if got := len(out.Problems(tc.failed)); got != tc.events {
			t.Errorf("%v: %d problems", tc.failed, got)
		}
	}
}
