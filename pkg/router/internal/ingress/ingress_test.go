// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package ingress

import (
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"minik8s.io/minik8s/pkg/router/internal/resolve"
	"minik8s.io/minik8s/pkg/router/internal/table"
)

const controller = "minik8s.io/router"

// parse reads an Ingress of the namespace ns. Its class is "own" unless it says so.
func parse(t *testing.T, name, spec string) *networkingv1.Ingress {
	t.Helper()
	i := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
	if err := yaml.UnmarshalStrict([]byte(spec), &i.Spec); err != nil {
		t.Fatal(err)
	}
	if i.Spec.IngressClassName == nil {
		i.Spec.IngressClassName = new("own")
	}
	return i
}

func nn(name string) types.NamespacedName { return types.NamespacedName{Namespace: "ns", Name: name} }

// objects have a Service of each name, with one endpoint, at two ports.
func objects(services ...string) resolve.Objects {
	o := resolve.Objects{Services: map[types.NamespacedName]*corev1.Service{}, Slices: map[types.NamespacedName][]*discoveryv1.EndpointSlice{}}
	for _, s := range services {
		o.Services[nn(s)] = &corev1.Service{Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "web", Port: 80}, {Name: "h2", Port: 81, AppProtocol: new("kubernetes.io/h2c")}}}}
		o.Slices[nn(s)] = []*discoveryv1.EndpointSlice{{
			AddressType: discoveryv1.AddressTypeIPv4,
			Ports:       []discoveryv1.EndpointPort{{Name: new("web"), Port: ptr.To[int32](8080)}, {Name: new("h2"), Port: ptr.To[int32](8081)}},
			Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{s}}},
		}}
	}
	o.Services[nn("elsewhere")] = &corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "example.com", Ports: []corev1.ServicePort{{Port: 80}}}}
	return o
}

func input(ingresses []*networkingv1.Ingress, services ...string) Input {
	class := func(name, controller string) *networkingv1.IngressClass {
		return &networkingv1.IngressClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: networkingv1.IngressClassSpec{Controller: controller}}
	}
	return Input{
		Ingresses: ingresses, Classes: []*networkingv1.IngressClass{class("own", controller), class("other", "example.com/other")}, Controller: controller,
		HTTP: netip.MustParseAddrPort("127.0.0.1:80"), HTTPS: netip.MustParseAddrPort("127.0.0.1:443"),
		Resolver: resolve.New(objects(services...), &resolve.KeyPairs{}),
	}
}

// ask returns the endpoint that answers a request on the port for HTTP: "none" if there is no route, "nobody" if there is no endpoint.
func ask(out Output, host, path string) string {
	l := table.Build(out.Contents).Ports[netip.MustParseAddrPort("127.0.0.1:80")]
	if l == nil {
		return "closed"
	}
	route := l.Find(host, httptest.NewRequest("GET", path, nil))
	if route == nil {
		return "none"
	}
	if endpoint := route.Choose().Backend.Next(); endpoint != "" {
		return endpoint
	}
	return "nobody"
}

func problems(out Output) []string {
	var all []string
	for _, p := range out.Problems {
		all = append(all, p.Ingress.Name+": "+p.Reason+": "+p.Text)
	}
	return all
}

const backend = "backend: {service: {name: NAME, port: {number: 80}}}"

func to(name string) string { return strings.Replace(backend, "NAME", name, 1) }

func TestTranslate(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, spec string
		want       map[string]string // by host and path
		problems   []string
	}{
		{"default backend", `{defaultBackend: {service: {name: a, port: {number: 80}}}}`, map[string]string{"x.com/": "a:8080", "/y/z": "a:8080"}, nil},
		{"by name of the port", `{defaultBackend: {service: {name: a, port: {name: h2}}}}`, map[string]string{"/": "a:8081"}, nil},
		{"rules before the default", `{defaultBackend: {service: {name: a, port: {number: 80}}}, rules: [{http: {paths: [{path: /, pathType: Prefix, ` + to("b") + `}]}}]}`,
			map[string]string{"/": "b:8080"}, nil},
		{"hosts", `{rules: [{host: foo.com, http: {paths: [{path: /, pathType: Prefix, ` + to("a") + `}]}}, {host: "*.foo.com", http: {paths: [{path: /, pathType: Prefix, ` + to("b") + `}]}}]}`,
			map[string]string{"foo.com/": "a:8080", "bar.foo.com/": "b:8080", "x.bar.foo.com/": "none", "other.com/": "none"}, nil},
		{"no path of the host", `{defaultBackend: {service: {name: a, port: {number: 80}}}, rules: [{host: foo.com, http: {paths: [{path: /b, pathType: Exact, ` + to("b") + `}]}}]}`,
			map[string]string{"foo.com/b": "b:8080", "foo.com/b/": "a:8080", "foo.com/": "a:8080"}, nil},
		{"a host without paths", `{defaultBackend: {service: {name: a, port: {number: 80}}}, rules: [{host: foo.com}]}`, map[string]string{"foo.com/x": "a:8080"}, nil},
		{"implementation specific", `{rules: [{http: {paths: [{path: /a, pathType: ImplementationSpecific, ` + to("a") + `}]}}]}`, map[string]string{"/a/b": "a:8080", "/ab": "none"}, nil},
		{"the longest wins", `{rules: [{http: {paths: [{path: /a, pathType: Prefix, ` + to("a") + `}, {path: /a/b, pathType: Prefix, ` + to("b") + `}, {path: /a/b, pathType: Exact, ` + to("c") + `}]}}]}`,
			map[string]string{"/a": "a:8080", "/a/b": "c:8080", "/a/b/": "b:8080"}, nil},
		{"no such service", `{rules: [{http: {paths: [{path: /, pathType: Prefix, ` + to("a") + `}, {path: /x, pathType: Prefix, ` + to("gone") + `}]}}]}`,
			map[string]string{"/": "a:8080", "/x": "nobody"}, []string{`i: BackendNotUsable: spec.rules[0].http.paths[1].backend: service "ns/gone" not found`}},
		{"no such port", `{defaultBackend: {service: {name: a, port: {number: 99}}}}`, map[string]string{"/": "nobody"}, []string{`i: BackendNotUsable: spec.defaultBackend: port 99 of service "ns/a" not found`}},
		{"external name", `{defaultBackend: {service: {name: elsewhere, port: {number: 80}}}}`, map[string]string{"/": "nobody"},
			[]string{`i: BackendNotUsable: spec.defaultBackend: service "ns/elsewhere" is of type ExternalName, which is not supported`}},
		{"a resource", `{defaultBackend: {resource: {kind: Bucket, name: b}}}`, map[string]string{"/": "nobody"},
			[]string{`i: BackendNotUsable: spec.defaultBackend: a backend of kind Bucket is not supported`}},
		{"another class", `{ingressClassName: other, defaultBackend: {service: {name: a, port: {number: 80}}}}`, map[string]string{"/": "closed"}, nil},
		{"no such secret", `{tls: [{secretName: s}], defaultBackend: {service: {name: a, port: {number: 80}}}}`, map[string]string{"/": "a:8080"},
			[]string{`i: SecretNotUsable: spec.tls[0]: secret "ns/s" of type kubernetes.io/tls not found`}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			out := Translate(input([]*networkingv1.Ingress{parse(t, "i", tc.spec)}, "a", "b", "c"))
			got := map[string]string{}
			for at := range tc.want {
				host, path, _ := strings.Cut(at, "/")
				got[at] = ask(out, host, "/"+path)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("answers (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.problems, problems(out)); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

// TestTranslate_Paths: the examples of https://kubernetes.io/docs/concepts/services-networking/ingress/#examples.
func TestTranslate_Paths(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		paths []string // "KIND PATH", to the Services a, b and c
		want  map[string]string
	}{
		{"all", []string{"Prefix /"}, map[string]string{"/": "a", "/foo": "a", "/foo/bar": "a"}},
		{"exact", []string{"Exact /foo"}, map[string]string{"/foo": "a", "/bar": "default", "/foo/": "default", "/Foo": "default"}},
		{"exact with a slash", []string{"Exact /foo/"}, map[string]string{"/foo": "default", "/foo/": "a"}},
		{"prefix", []string{"Prefix /foo"}, map[string]string{"/foo": "a", "/foo/": "a", "/FOO": "default"}},
		{"prefix with a slash", []string{"Prefix /foo/"}, map[string]string{"/foo": "a", "/foo/": "a"}},
		{"part of an element", []string{"Prefix /aaa/bb"}, map[string]string{"/aaa/bbb": "default"}},
		{"elements", []string{"Prefix /aaa/bbb"}, map[string]string{"/aaa/bbb": "a", "/aaa/bbb/": "a", "/aaa/bbb/ccc": "a", "/aaa/bbbxyz": "default"}},
		{"elements with a slash", []string{"Prefix /aaa/bbb/"}, map[string]string{"/aaa/bbb": "a"}},
		{"two prefixes", []string{"Prefix /", "Prefix /aaa"}, map[string]string{"/aaa/ccc": "b", "/ccc": "a"}},
		{"three prefixes", []string{"Prefix /", "Prefix /aaa", "Prefix /aaa/bbb"}, map[string]string{"/aaa/bbb": "c", "/aaa/b": "b", "/ccc": "a"}},
		{"of one path the exact one", []string{"Prefix /foo", "Exact /foo"}, map[string]string{"/foo": "b", "/foo/x": "a"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var paths []string
			for n, path := range tc.paths {
				kind, path, _ := strings.Cut(path, " ")
				paths = append(paths, "{path: "+path+", pathType: "+kind+", "+to(string(rune('a'+n)))+"}")
			}
			out := Translate(input([]*networkingv1.Ingress{parse(t, "i", `{defaultBackend: {service: {name: default, port: {number: 80}}}, rules: [{host: x.com, http: {paths: [`+
				strings.Join(paths, ", ")+`]}}]}`)}, "a", "b", "c", "default"))
			got := map[string]string{}
			for path := range tc.want {
				got[path] = strings.TrimSuffix(ask(out, "x.com", path), ":8080")
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Of Ingresses that want the same the older one has it.
func TestTranslate_Several(t *testing.T) {
	t.Parallel()
	young := parse(t, "a-young", `{defaultBackend: {service: {name: a, port: {number: 80}}}}`)
	young.CreationTimestamp = metav1.NewTime(time.Unix(2, 0))
	old := parse(t, "old", `{defaultBackend: {service: {name: b, port: {number: 80}}}}`)
	old.CreationTimestamp = metav1.NewTime(time.Unix(1, 0))
	annotated := parse(t, "annotated", `{rules: [{host: x.com, http: {paths: [{path: /, pathType: Prefix, `+to("c")+`}]}}]}`)
	annotated.Spec.IngressClassName, annotated.Annotations = nil, map[string]string{ClassAnnotation: "own"}
	out := Translate(input([]*networkingv1.Ingress{young, old, annotated}, "a", "b", "c"))
	if got := ask(out, "y.com", "/"); got != "b:8080" {
		t.Errorf("the default is %s", got)
	}
	if got := ask(out, "x.com", "/"); got != "c:8080" {
		t.Errorf("the host's is %s", got)
	}
	if len(out.Served) != 3 {
		t.Errorf("%d are served", len(out.Served))
	}
}

// Without something for TLS the port for HTTPS stays closed.
func TestTranslate_Ports(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, spec string
		want       []table.Protocol
	}{
		{"HTTP", `{defaultBackend: {service: {name: a, port: {number: 80}}}}`, []table.Protocol{table.HTTP}},
		{"TLS", `{tls: [{hosts: [x.com]}], defaultBackend: {service: {name: a, port: {number: 80}}}}`, []table.Protocol{table.HTTP, table.HTTPS}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			out := Translate(input([]*networkingv1.Ingress{parse(t, "i", tc.spec)}, "a"))
			var got []table.Protocol
			for _, p := range out.Ports {
				got = append(got, p.Protocol)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
			if len(out.Entries) != len(tc.want) {
				t.Errorf("%d entries", len(out.Entries))
			}
		})
	}
}
