// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"

	"minik8s.io/minik8s/pkg/router/internal/resolve"
	"minik8s.io/minik8s/pkg/router/internal/table"
)

const controller = "minik8s.io/router"

var address = netip.MustParseAddr("127.0.0.1")

// input reads manifests of the Gateway API. Objects without a namespace are in "ns". There are Services a, b, c of "ns" and d of
// "other", each with one endpoint of its name.
func input(t *testing.T, manifests string) Input {
	t.Helper()
	in := Input{
		Controller: controller, Address: address, Port: func(p int32) uint16 { return uint16(p) },
		Classes: []*gatewayv1.GatewayClass{{ObjectMeta: metav1.ObjectMeta{Name: "own"}, Spec: gatewayv1.GatewayClassSpec{ControllerName: controller}}},
		Now:     metav1.NewTime(time.Unix(100, 0)),
	}
	o := resolve.Objects{
		Services: map[types.NamespacedName]*corev1.Service{}, Slices: map[types.NamespacedName][]*discoveryv1.EndpointSlice{},
		Namespaces: map[string]map[string]string{"ns": {"team": "a"}, "other": {"team": "b"}},
	}
	for _, name := range []types.NamespacedName{{Namespace: "ns", Name: "a"}, {Namespace: "ns", Name: "b"}, {Namespace: "ns", Name: "c"}, {Namespace: "other", Name: "d"}} {
		o.Services[name] = &corev1.Service{Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
		o.Slices[name] = []*discoveryv1.EndpointSlice{{
			AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: new(""), Port: new(int32(80))}},
			Endpoints: []discoveryv1.Endpoint{{Addresses: []string{name.Name}}},
		}}
	}
	in.Resolver = resolve.New(o, &resolve.KeyPairs{})
	for m := range strings.SplitSeq(manifests, "\n---\n") {
		var kind metav1.TypeMeta
		if err := yaml.Unmarshal([]byte(m), &kind); err != nil {
			t.Fatalf("%v:\n%s", err, m)
		}
		read := func(into metav1.Object) {
			if err := yaml.UnmarshalStrict([]byte(m), into); err != nil {
				t.Fatalf("%v:\n%s", err, m)
			}
			if into.GetNamespace() == "" {
				into.SetNamespace("ns")
			}
			into.SetGeneration(7)
		}
		switch kind.Kind {
		case "Gateway":
			g := &gatewayv1.Gateway{}
			read(g)
			g.Spec.GatewayClassName = "own"
			in.Gateways = append(in.Gateways, g)
		case "HTTPRoute":
			r := &gatewayv1.HTTPRoute{}
			read(r)
			in.HTTPRoutes = append(in.HTTPRoutes, r)
		case "GRPCRoute":
			r := &gatewayv1.GRPCRoute{}
			read(r)
			in.GRPCRoutes = append(in.GRPCRoutes, r)
		case "ReferenceGrant":
			g := &gatewayv1.ReferenceGrant{}
			read(g)
			in.Grants = append(in.Grants, g)
		default:
			t.Fatalf("kind %q", kind.Kind)
		}
	}
	return in
}

// told are the conditions that an output has written: "OBJECT[/PART] TYPE" to "STATUS REASON".
func told(out *Output, failed map[netip.AddrPort]error) map[string]string {
	all := map[string]string{}
	add := func(of string, conditions []metav1.Condition) {
		for _, c := range conditions {
			all[of+" "+c.Type] = string(c.Status) + " " + c.Reason
		}
	}
	for _, o := range out.Statuses(failed) {
		switch o := o.(type) {
		case *gatewayv1.GatewayClass:
			add(o.Name, o.Status.Conditions)
		case *gatewayv1.Gateway:
			add(o.Name, o.Status.Conditions)
			for _, l := range o.Status.Listeners {
				add(o.Name+"/"+string(l.Name), l.Conditions)
				all[o.Name+"/"+string(l.Name)+" routes"] = fmt.Sprint(l.AttachedRoutes)
			}
		case *gatewayv1.HTTPRoute:
			for _, p := range o.Status.Parents {
				add(o.Name+"/"+string(p.ParentRef.Name), p.Conditions)
			}
		case *gatewayv1.GRPCRoute:
			for _, p := range o.Status.Parents {
				add(o.Name+"/"+string(p.ParentRef.Name), p.Conditions)
			}
		}
	}
	return all
}

// ask returns which endpoint, or which status, answers a request "[METHOD ]HOST[:PORT]/PATH".
func ask(out *Output, request string) string {
	method, target, ok := strings.Cut(request, " ")
	if !ok {
		method, target = "GET", request
	}
	host, path, _ := strings.Cut(target, "/")
	host, port, _ := strings.Cut(host, ":")
	if port == "" {
		port = "80"
	}
	l := table.Build(out.Contents).Ports[netip.MustParseAddrPort(address.String()+":"+port)]
	if l == nil {
		return "closed"
	}
	r := httptest.NewRequest(method, "/"+path, nil)
	r.Header = http.Header{"Version": {"two"}}
	route := l.Find(host, r)
	if route == nil {
		return "404"
	}
	if route.Redirect != nil {
		return fmt.Sprint(route.Redirect.Code)
	}
	b := route.Choose()
	if b == nil || b.Backend == nil {
		return "500"
	}
	if len(b.Backend.Endpoints) == 0 {
		return "503"
	}
	return b.Backend.Next()
}

const httpGateway = `
kind: Gateway
metadata: {name: gw}
spec: {listeners: [{name: http, port: 80, protocol: HTTP, allowedRoutes: {namespaces: {from: All}}}]}
---
`

func routeTo(name, rest string) string {
	return "kind: HTTPRoute\nmetadata: {name: " + name + "}\nspec: {parentRefs: [{name: gw}], " + rest + "}"
}

func TestTranslate(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, manifests string
		answers         map[string]string
		told            map[string]string // some of the conditions
	}{
		{
			"simple", httpGateway + routeTo("r", "rules: [{backendRefs: [{name: a, port: 80}]}]"),
			map[string]string{"x.com/y": "a:80"},
			map[string]string{
				"own Accepted": "True Accepted", "gw Accepted": "True Accepted", "gw Programmed": "True Programmed", "gw/http Accepted": "True Accepted",
				"gw/http ResolvedRefs": "True ResolvedRefs", "gw/http Conflicted": "False NoConflicts", "gw/http Programmed": "True Programmed", "gw/http routes": "1",
				"r/gw Accepted": "True Accepted", "r/gw ResolvedRefs": "True ResolvedRefs",
			},
		},
		{
			// https://gateway-api.sigs.k8s.io/guides/http-routing
			"routing", httpGateway + routeTo("foo", "hostnames: [foo.example.com], rules: [{matches: [{path: {type: PathPrefix, value: /login}}], backendRefs: [{name: a, port: 80}]}]") + "\n---\n" +
				routeTo("bar", "hostnames: [bar.example.com], rules: [{matches: [{headers: [{name: version, value: two}]}], backendRefs: [{name: b, port: 80}]}, {backendRefs: [{name: c, port: 80}]}]"),
			map[string]string{"foo.example.com/login/x": "a:80", "foo.example.com/": "404", "bar.example.com/": "b:80", "baz.example.com/login": "404"}, nil,
		},
		{
			"methods and paths", httpGateway + routeTo("r", `rules: [
				{matches: [{path: {type: Exact, value: /one}}, {path: {type: RegularExpression, value: "/v[0-9]+"}}], backendRefs: [{name: a, port: 80}]},
				{matches: [{method: POST}], backendRefs: [{name: b, port: 80}]}, {matches: [{queryParams: [{name: q, value: "1"}]}], backendRefs: [{name: c, port: 80}]}]`),
			map[string]string{"x/one": "a:80", "x/one/": "404", "x/v12": "a:80", "x/v12/x": "404", "POST x/": "b:80", "POST x/?q=1": "b:80", "x/?q=1": "c:80"}, nil,
		},
		{
			"references that lead nowhere", httpGateway + routeTo("kind", "rules: [{matches: [{path: {value: /kind}}], backendRefs: [{name: a, port: 80, group: example.com, kind: Bucket}]}]") + "\n---\n" +
				routeTo("gone", "rules: [{matches: [{path: {value: /gone}}], backendRefs: [{name: gone, port: 80}]}]") + "\n---\n" +
				routeTo("far", "rules: [{matches: [{path: {value: /far}}], backendRefs: [{name: d, namespace: other, port: 80}]}, {matches: [{path: {value: /near}}], backendRefs: [{name: a, port: 80}]}]") + "\n---\n" +
				routeTo("none", "rules: [{matches: [{path: {value: /none}}]}]"),
			map[string]string{"x/kind": "500", "x/gone": "500", "x/far": "500", "x/near": "a:80", "x/none": "500"},
			map[string]string{
				"kind/gw Accepted": "True Accepted", "kind/gw ResolvedRefs": "False InvalidKind", "gone/gw ResolvedRefs": "False BackendNotFound",
				"far/gw ResolvedRefs": "False RefNotPermitted", "none/gw ResolvedRefs": "True ResolvedRefs", "gw/http routes": "4",
			},
		},
		{
			"a grant", httpGateway + routeTo("far", "rules: [{backendRefs: [{name: d, namespace: other, port: 80}]}]") + `
---
kind: ReferenceGrant
metadata: {name: g, namespace: other}
spec: {from: [{group: gateway.networking.k8s.io, kind: HTTPRoute, namespace: ns}], to: [{group: "", kind: Service, name: d}]}`,
			map[string]string{"x/": "d:80"}, map[string]string{"far/gw ResolvedRefs": "True ResolvedRefs"},
		},
		{
			"a grant for somebody else", httpGateway + routeTo("far", "rules: [{backendRefs: [{name: d, namespace: other, port: 80}]}]") + `
---
kind: ReferenceGrant
metadata: {name: g, namespace: other}
spec: {from: [{group: gateway.networking.k8s.io, kind: GRPCRoute, namespace: ns}], to: [{group: "", kind: Service}]}
---
kind: ReferenceGrant
metadata: {name: h, namespace: other}
spec: {from: [{group: gateway.networking.k8s.io, kind: HTTPRoute, namespace: ns}], to: [{group: "", kind: Service, name: e}]}`,
			map[string]string{"x/": "500"}, map[string]string{"far/gw ResolvedRefs": "False RefNotPermitted"},
		},
		{
			"attachment", `
kind: Gateway
metadata: {name: gw}
spec: {listeners: [
  {name: same, port: 80, protocol: HTTP, hostname: "*.same.com"},
  {name: team, port: 80, protocol: HTTP, hostname: team.com, allowedRoutes: {namespaces: {from: Selector, selector: {matchLabels: {team: b}}}}},
  {name: grpc, port: 8080, protocol: HTTP, allowedRoutes: {kinds: [{kind: GRPCRoute}]}}]}
---
` + routeTo("here", "rules: [{backendRefs: [{name: a, port: 80}]}]") + `
---
kind: HTTPRoute
metadata: {name: there, namespace: other}
spec: {parentRefs: [{name: gw, namespace: ns}], hostnames: [team.com, x.same.com], rules: [{backendRefs: [{name: d, port: 80}]}]}
---
kind: HTTPRoute
metadata: {name: section}
spec: {parentRefs: [{name: gw, sectionName: nope}]}
---
kind: HTTPRoute
metadata: {name: port}
spec: {parentRefs: [{name: gw, sectionName: same, port: 8080}]}
---
kind: HTTPRoute
metadata: {name: kind}
spec: {parentRefs: [{name: gw, port: 8080}]}
---
kind: HTTPRoute
metadata: {name: host}
spec: {parentRefs: [{name: gw}], hostnames: [other.com]}`,
			map[string]string{"x.same.com/": "a:80", "same.com/": "404", "team.com/": "d:80", "x.com:8080/": "404"},
			map[string]string{
				"here/gw Accepted": "True Accepted", "there/gw Accepted": "True Accepted", "section/gw Accepted": "False NoMatchingParent",
				"port/gw Accepted": "False NoMatchingParent", "kind/gw Accepted": "False NotAllowedByListeners", "host/gw Accepted": "False NoMatchingListenerHostname",
				"gw/same routes": "1", "gw/team routes": "1", "gw/grpc routes": "0",
			},
		},
		{
			"listeners", `
kind: Gateway
metadata: {name: gw}
spec: {listeners: [
  {name: odd, port: 53, protocol: example.com/QUIC},
  {name: kinds, port: 80, protocol: HTTP, allowedRoutes: {kinds: [{kind: HTTPRoute}, {kind: TCPRoute}]}},
  {name: cert, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: gone}]}},
  {name: far, port: 444, protocol: HTTPS, tls: {certificateRefs: [{name: x, namespace: other}]}},
  {name: one, port: 90, protocol: HTTP}, {name: two, port: 90, protocol: HTTPS}]}
---
kind: Gateway
metadata: {name: none}
spec: {listeners: [{name: odd, port: 54, protocol: example.com/QUIC}]}
---
kind: Gateway
metadata: {name: parameters}
spec: {infrastructure: {parametersRef: {group: x, kind: y, name: z}}, listeners: [{name: http, port: 8081, protocol: HTTP}]}
---
kind: Gateway
metadata: {name: elsewhere}
spec: {addresses: [{value: 192.0.2.1}], listeners: [{name: http, port: 8082, protocol: HTTP}]}
---
kind: Gateway
metadata: {name: named}
spec: {addresses: [{type: Hostname, value: x.com}], listeners: [{name: http, port: 8083, protocol: HTTP}]}`,
			map[string]string{"x:443/": "closed", "x:90/": "closed", "x:8081/": "closed", "x:8082/": "closed", "x/": "404"},
			map[string]string{
				"gw Accepted": "True ListenersNotValid", "gw/odd Accepted": "False UnsupportedProtocol", "gw/kinds ResolvedRefs": "False InvalidRouteKinds",
				"gw/kinds Programmed": "True Programmed", "gw/cert ResolvedRefs": "False InvalidCertificateRef", "gw/cert Programmed": "False Invalid",
				"gw/far ResolvedRefs": "False RefNotPermitted", "gw/one Conflicted": "True ProtocolConflict", "gw/two Accepted": "False ProtocolConflict",
				"none Accepted": "False ListenersNotValid", "none Programmed": "False Invalid", "parameters Accepted": "False InvalidParameters",
				"gw ResolvedRefs": "False ListenersNotResolved", "none ResolvedRefs": "True ResolvedRefs",
				"elsewhere Accepted": "True Accepted", "elsewhere Programmed": "False AddressNotUsable", "named Accepted": "False UnsupportedAddress",
			},
		},
		{
			"what is not supported", httpGateway + routeTo("all", "rules: [{matches: [{path: {value: /all}}], filters: [{type: ExtensionRef, extensionRef: {group: x, kind: y, name: z}}]}]") + "\n---\n" +
				routeTo("part", `rules: [{matches: [{path: {type: RegularExpression, value: "/("}}, {path: {value: /bad}}], backendRefs: [{name: a, port: 80}]}, {matches: [{path: {value: /good}}], backendRefs: [{name: a, port: 80}]}]`),
			map[string]string{"x/all": "404", "x/bad": "500", "x/good": "a:80"},
			map[string]string{
				"all/gw Accepted": "False UnsupportedValue", "part/gw Accepted": "True Accepted", "part/gw PartiallyInvalid": "True UnsupportedValue",
				"gw/http routes": "1",
			},
		},
		{
			"gRPC", httpGateway + `
kind: GRPCRoute
metadata: {name: g}
spec: {parentRefs: [{name: gw}], rules: [
  {matches: [{method: {service: pkg.Echo, method: Say}}], backendRefs: [{name: a, port: 80}]},
  {matches: [{method: {service: pkg.Echo}}], backendRefs: [{name: b, port: 80}]},
  {matches: [{method: {method: Ping}}], backendRefs: [{name: c, port: 80}]},
  {matches: [{method: {service: pkg.Gone}}], backendRefs: [{name: gone, port: 80}]},
  {matches: [{method: {service: pkg.None}}]},
  {matches: [{method: {method: Other}}, {headers: [{name: version, value: two}]}], backendRefs: [{name: a, port: 80}]}]}`,
			map[string]string{
				"x/pkg.Echo/Say": "a:80", "x/pkg.Echo/Other": "b:80", "x/pkg.Echo/Ping": "b:80", "x/pkg.Other/Ping": "c:80", "x/pkg.Other/Say": "a:80", "x/pkg.Gone/Say": "503", "x/pkg.None/Say": "503",
			},
			map[string]string{"g/gw Accepted": "True Accepted", "g/gw ResolvedRefs": "False BackendNotFound"},
		},
		{
			"overlapping hosts", `
kind: Gateway
metadata: {name: gw}
spec: {listeners: [
  {name: one, port: 443, protocol: HTTPS, hostname: foo.example.com, tls: {certificateRefs: [{name: gone}]}},
  {name: apart, port: 443, protocol: HTTPS, hostname: foo.example.org, tls: {certificateRefs: [{name: gone}]}},
  {name: many, port: 443, protocol: HTTPS, hostname: "*.example.com", tls: {certificateRefs: [{name: gone}]}},
  {name: elsewhere, port: 444, protocol: HTTPS, hostname: foo.example.com, tls: {certificateRefs: [{name: gone}]}},
  {name: plain, port: 80, protocol: HTTP, hostname: foo.example.com}, {name: all, port: 80, protocol: HTTP}]}`,
			map[string]string{"foo.example.com/": "404"},
			map[string]string{
				"gw/one OverlappingTLSConfig": "True OverlappingHostnames", "gw/many OverlappingTLSConfig": "True OverlappingHostnames",
				"gw/apart OverlappingTLSConfig": "", "gw/elsewhere OverlappingTLSConfig": "", "gw/plain OverlappingTLSConfig": "", "gw/all OverlappingTLSConfig": "",
			},
		},
		{
			"HTTP and gRPC that share hosts of a listener", `
kind: Gateway
metadata: {name: gw}
spec: {listeners: [{name: http, port: 80, protocol: HTTP, hostname: "*.com"}, {name: other, port: 8080, protocol: HTTP, hostname: "*.com", allowedRoutes: {kinds: [{kind: HTTPRoute}]}}]}
---
kind: HTTPRoute
metadata: {name: young, creationTimestamp: "2026-01-01T00:00:02Z"}
spec: {parentRefs: [{name: gw, sectionName: http}], hostnames: [x.com, a.com], rules: [{backendRefs: [{name: a, port: 80}]}]}
---
kind: HTTPRoute
metadata: {name: elsewhere, creationTimestamp: "2026-01-01T00:00:02Z"}
spec: {parentRefs: [{name: gw}], hostnames: ["*.com"], rules: [{backendRefs: [{name: c, port: 80}]}]}
---
kind: GRPCRoute
metadata: {name: old, creationTimestamp: "2026-01-01T00:00:01Z"}
spec: {parentRefs: [{name: gw}], hostnames: [a.com, only.org], rules: [{backendRefs: [{name: b, port: 80}]}]}
---
kind: HTTPRoute
metadata: {name: apart, creationTimestamp: "2026-01-01T00:00:02Z"}
spec: {parentRefs: [{name: gw, sectionName: http}], hostnames: [b.com, only.org], rules: [{backendRefs: [{name: c, port: 80}]}]}
---
kind: GRPCRoute
metadata: {name: all, creationTimestamp: "2026-01-01T00:00:03Z"}
spec: {parentRefs: [{name: gw}], rules: [{backendRefs: [{name: b, port: 80}]}]}`,
			map[string]string{"a.com/": "b:80", "x.com/": "404", "b.com/": "c:80", "a.com:8080/": "c:80"},
			map[string]string{
				"old/gw Accepted": "True Accepted", "young/gw Accepted": "False HostnameConflict", "young/gw ResolvedRefs": "True ResolvedRefs",
				"elsewhere/gw Accepted": "True Accepted", "apart/gw Accepted": "True Accepted", "all/gw Accepted": "False HostnameConflict",
				"gw/http routes": "2", "gw/other routes": "1",
			},
		},
		{
			"of HTTP and gRPC of one age the one whose name is first", httpGateway + `kind: GRPCRoute
metadata: {namespace: ns-a, name: z}
spec: {parentRefs: [{namespace: ns, name: gw}], rules: [{backendRefs: [{name: a, port: 80}]}]}
---
` + routeTo("r", "rules: [{backendRefs: [{name: b, port: 80}]}]"),
			map[string]string{"x.com/": "503"}, map[string]string{"z/gw Accepted": "True Accepted", "r/gw Accepted": "False HostnameConflict"},
		},
		{
			"options of TLS", `
kind: Gateway
metadata: {name: gw}
spec: {listeners: [{name: http, port: 80, protocol: HTTP}, {name: tls, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: c}], options: {example.com/least-version: "1.3"}}}]}`,
			map[string]string{"x.com/": "404", "x.com:443/": "closed"},
			map[string]string{"gw Accepted": "True ListenersNotValid", "gw/tls Accepted": "False UnsupportedValue", "gw/tls Programmed": "False Invalid"},
		},
		{
			"default Gateways", `
kind: Gateway
metadata: {name: gw}
spec: {defaultScope: All, listeners: [{name: http, port: 80, protocol: HTTP}]}
---
kind: Gateway
metadata: {name: other}
spec: {listeners: [{name: http, port: 8080, protocol: HTTP}]}
---
kind: HTTPRoute
metadata: {name: wants}
spec: {useDefaultGateways: All, hostnames: [wants.com], rules: [{backendRefs: [{name: a, port: 80}]}]}
---
kind: HTTPRoute
metadata: {name: both}
spec: {useDefaultGateways: All, parentRefs: [{name: gw}, {name: other}], hostnames: [both.com], rules: [{backendRefs: [{name: b, port: 80}]}]}
---
kind: HTTPRoute
metadata: {name: not}
spec: {useDefaultGateways: None, hostnames: [not.com], rules: [{backendRefs: [{name: c, port: 80}]}]}`,
			map[string]string{"wants.com/": "a:80", "wants.com:8080/": "404", "both.com/": "b:80", "both.com:8080/": "b:80", "not.com/": "404"},
			map[string]string{"wants/gw Accepted": "True Accepted", "wants/other Accepted": "", "both/gw Accepted": "True Accepted", "not/gw Accepted": "", "gw/http routes": "2"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			out := Translate(input(t, tc.manifests))
			answers := map[string]string{}
			for request := range tc.answers {
				answers[request] = ask(out, request)
			}
			if diff := cmp.Diff(tc.answers, answers); diff != "" {
				t.Errorf("answers (-want +got):\n%s", diff)
			}
			got := told(out, nil)
			for what, want := range tc.told {
				if got[what] != want {
					t.Errorf("%s: %q, want %q", what, got[what], want)
				}
			}
		})
	}
}

// What was written once is not written again, and what others have written stays.
func TestStatuses_Settle(t *testing.T) {
	t.Parallel()
	in := input(t, httpGateway+routeTo("r", `rules: [{backendRefs: [{name: a, port: 80}]}, {matches: [{path: {type: RegularExpression, value: "/("}}]}]`))
	others := gatewayv1.RouteParentStatus{ControllerName: "example.com/other", ParentRef: gatewayv1.ParentReference{Name: "theirs"}}
	in.HTTPRoutes[0].Status.Parents = []gatewayv1.RouteParentStatus{others}
	objects := Translate(in).Statuses(nil)
	if len(objects) != 3 {
		t.Fatalf("%d objects have another status", len(objects))
	}
	for _, o := range objects {
		switch o := o.(type) {
		case *gatewayv1.GatewayClass:
			in.Classes[0] = o
		case *gatewayv1.Gateway:
			in.Gateways[0] = o
		case *gatewayv1.HTTPRoute:
			in.HTTPRoutes[0] = o
			if diff := cmp.Diff(others, o.Status.Parents[0]); diff != "" || len(o.Status.Parents) != 2 {
				t.Errorf("parents: %v", o.Status.Parents)
				continue
			}
			c := meta.FindStatusCondition(o.Status.Parents[1].Conditions, string(gatewayv1.RouteConditionPartiallyInvalid))
			if c == nil || !strings.HasPrefix(c.Message, "Dropped Rule") {
				t.Errorf("what is wrong with a rule is told by %v", c)
			}
		}
	}
	in.Now = metav1.NewTime(in.Now.Add(time.Hour))
	if again := Translate(in).Statuses(nil); len(again) != 0 {
		t.Errorf("%d objects have another status again", len(again))
	}
	// A route that leaves takes its status along.
	in.HTTPRoutes[0].Spec.ParentRefs = nil
	for _, o := range Translate(in).Statuses(nil) {
		if r, ok := o.(*gatewayv1.HTTPRoute); ok && len(r.Status.Parents) != 1 {
			t.Errorf("parents: %v", r.Status.Parents)
		}
	}
}

// What is not this router's any more does not say that it is served, and is left alone from then on.
func TestStatuses_Orphans(t *testing.T) {
	t.Parallel()
	in := input(t, strings.TrimSuffix(httpGateway, "---\n"))
	in.Gateways[0].Spec.AllowedListeners = &gatewayv1.AllowedListeners{Namespaces: &gatewayv1.ListenerNamespaces{From: new(gatewayv1.NamespacesFromSame)}}
	in.ListenerSets = []*gatewayv1.ListenerSet{{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "set"},
		Spec: gatewayv1.ListenerSetSpec{
			ParentRef: gatewayv1.ParentGatewayReference{Name: "gw"}, Listeners: []gatewayv1.ListenerEntry{{Name: "more", Port: 8080, Protocol: gatewayv1.HTTPProtocolType}},
		},
	}}
	write := func() (written int) {
		for _, o := range Translate(in).Statuses(nil) {
			switch o := o.(type) {
			case *gatewayv1.Gateway:
				in.Gateways[0] = o
				written++
			case *gatewayv1.ListenerSet:
				in.ListenerSets[0] = o
				written++
			}
		}
		return written
	}
	if n := write(); n != 2 || len(in.Gateways[0].Status.Addresses) != 1 || !meta.IsStatusConditionTrue(in.ListenerSets[0].Status.Conditions, "Programmed") {
		t.Fatalf("%d were told: %+v, %+v", n, in.Gateways[0].Status, in.ListenerSets[0].Status)
	}
	foreign := metav1.Condition{Type: "example.com/Foreign", Status: metav1.ConditionTrue, Reason: "R"}
	in.Gateways[0].Status.Conditions = append(in.Gateways[0].Status.Conditions, foreign)
	own := in.Classes[0]
	other := own.DeepCopy()
	other.Spec.ControllerName = "example.com/other"
	in.Classes = []*gatewayv1.GatewayClass{other} // which speaks for the Gateway
	if n := write(); n != 1 || len(in.Gateways[0].Status.Addresses) != 1 {
		t.Errorf("%d were told of another controller's class", n)
	}
	in.Classes = nil
	if n := write(); n != 1 {
		t.Errorf("%d were told that the class is gone", n)
	}
	now := in.Gateways[0].Status
	if len(now.Addresses) != 0 || len(now.Listeners) != 0 || len(now.Conditions) != 3 || meta.FindStatusCondition(now.Conditions, foreign.Type) == nil {
		t.Errorf("the Gateway says %+v", now)
	}
	for of, conditions := range map[string][]metav1.Condition{"gw": now.Conditions, "set": in.ListenerSets[0].Status.Conditions} {
		for _, kind := range []string{"Accepted", "Programmed"} {
			if c := meta.FindStatusCondition(conditions, kind); c == nil || c.Status != metav1.ConditionUnknown || c.Reason != "Pending" {
				t.Errorf("%s: %s is %v", of, kind, c)
			}
		}
	}
	if n := write(); n != 0 {
		t.Errorf("%d were told again", n)
	}
	in.Classes = []*gatewayv1.GatewayClass{own}
	if n := write(); n != 2 || len(in.Gateways[0].Status.Addresses) != 1 {
		t.Errorf("%d were told that the class is back", n)
	}
}

// A class has no parameters.
func TestStatuses_ClassParameters(t *testing.T) {
	t.Parallel()
	in := input(t, httpGateway+routeTo("r", "rules: [{backendRefs: [{name: a, port: 80}]}]"))
	in.Classes[0].Spec.ParametersRef = &gatewayv1.ParametersReference{Group: "", Kind: "ConfigMap", Name: "x"}
	out := Translate(in)
	if got := ask(out, "x/"); got != "closed" {
		t.Errorf("requests are answered: %s", got)
	}
	got := told(out, nil)
	for what, want := range map[string]string{"own Accepted": "False InvalidParameters", "gw Accepted": "False InvalidParameters", "gw Programmed": "False Invalid"} {
		if got[what] != want {
			t.Errorf("%s: %q, want %q", what, got[what], want)
		}
	}
}

// A ListenerSet whose ports cannot be opened serves nothing, and nothing of its Gateway is served by it.
func TestStatuses_PortOfSetInUse(t *testing.T) {
	t.Parallel()
	in := input(t, strings.TrimSuffix(httpGateway, "---\n"))
	in.Gateways[0].Spec.AllowedListeners = &gatewayv1.AllowedListeners{Namespaces: &gatewayv1.ListenerNamespaces{From: new(gatewayv1.NamespacesFromSame)}}
	in.ListenerSets = []*gatewayv1.ListenerSet{{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "set"},
		Spec: gatewayv1.ListenerSetSpec{
			ParentRef: gatewayv1.ParentGatewayReference{Name: "gw"},
			Listeners: []gatewayv1.ListenerEntry{{Name: "more", Port: 80, Protocol: gatewayv1.HTTPProtocolType, Hostname: new(gatewayv1.Hostname("a.com"))}},
		},
	}}
	out := Translate(in)
	if got := told(out, nil)["gw Programmed"]; got != "True Programmed" {
		t.Errorf("an open port: %s", got)
	}
	if got := told(out, map[netip.AddrPort]error{netip.AddrPortFrom(address, 80): errors.New("in use")})["gw Programmed"]; got != "False Invalid" {
		t.Errorf("a port that is in use: %s", got)
	}
}

// How a backend is spoken to matters to whom speaks to it: what clients say to it is passed on as it is.
func TestTLSOf(t *testing.T) {
	t.Parallel()
	options := map[gatewayv1.AnnotationKey]gatewayv1.AnnotationValue{"example.com/least-version": "1.3"}
	for _, tc := range []struct {
		kind    string
		section gatewayv1.SectionName
		options map[gatewayv1.AnnotationKey]gatewayv1.AnnotationValue
		want    []string // reasons
	}{
		{"TLSRoute", "through", options, nil}, {"TLSRoute", "ends", nil, []string{"NoValidCACertificate"}}, {"TCPRoute", "tcp", nil, nil},
		{"HTTPRoute", "http", nil, []string{"NoValidCACertificate"}}, {"HTTPRoute", "http", options, []string{"Invalid"}},
	} {
		t.Run(tc.kind+" "+string(tc.section), func(t *testing.T) {
			t.Parallel()
			in := input(t, `
kind: Gateway
metadata: {name: gw}
spec: {listeners: [
  {name: through, port: 443, protocol: TLS, tls: {mode: Passthrough}}, {name: ends, port: 444, protocol: TLS, tls: {certificateRefs: [{name: gone}]}},
  {name: tcp, port: 445, protocol: TCP}, {name: http, port: 80, protocol: HTTP}]}`)
			in.BackendTLSPolicies = []*gatewayv1.BackendTLSPolicy{{
				ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"},
				Spec: gatewayv1.BackendTLSPolicySpec{
					TargetRefs: []gatewayv1.LocalPolicyTargetReferenceWithSectionName{{LocalPolicyTargetReference: gatewayv1.LocalPolicyTargetReference{Kind: "Service", Name: "a"}}},
					Validation: gatewayv1.BackendTLSPolicyValidation{
						WellKnownCACertificates: new(gatewayv1.WellKnownCACertificatesType("")),
						CACertificateRefs:       []gatewayv1.LocalObjectReference{{Kind: "ConfigMap", Name: "gone"}},
					},
					Options: tc.options,
				},
			}}
			common := gatewayv1.CommonRouteSpec{ParentRefs: []gatewayv1.ParentReference{{Name: "gw", SectionName: &tc.section}}}
			to := gatewayv1.BackendRef{BackendObjectReference: gatewayv1.BackendObjectReference{Name: "a", Port: new(gatewayv1.PortNumber(80))}}
			object := metav1.ObjectMeta{Namespace: "ns", Name: "r"}
			switch tc.kind {
			case "TLSRoute":
				in.TLSRoutes = []*gatewayv1.TLSRoute{{ObjectMeta: object, Spec: gatewayv1.TLSRouteSpec{
					CommonRouteSpec: common, Hostnames: []gatewayv1.Hostname{"x.com"}, Rules: []gatewayv1.TLSRouteRule{{BackendRefs: []gatewayv1.BackendRef{to}}},
				}}}
			case "TCPRoute":
				in.TCPRoutes = []*gatewayv1.TCPRoute{{ObjectMeta: object, Spec: gatewayv1.TCPRouteSpec{
					CommonRouteSpec: common, Rules: []gatewayv1.TCPRouteRule{{BackendRefs: []gatewayv1.BackendRef{to}}},
				}}}
			default:
				in.HTTPRoutes = []*gatewayv1.HTTPRoute{{ObjectMeta: object, Spec: gatewayv1.HTTPRouteSpec{
					CommonRouteSpec: common, Rules: []gatewayv1.HTTPRouteRule{{BackendRefs: []gatewayv1.HTTPBackendRef{{BackendRef: to}}}},
				}}}
			}
			out := Translate(in)
			var reasons []string
			for _, o := range out.Statuses(nil) {
				if p, ok := o.(*gatewayv1.BackendTLSPolicy); ok {
					for _, a := range p.Status.Ancestors {
						reasons = append(reasons, meta.FindStatusCondition(a.Conditions, "Accepted").Reason)
					}
				}
			}
			if diff := cmp.Diff(tc.want, reasons); diff != "" {
				t.Errorf("what the policy is told (-want +got):\n%s", diff)
			}
			for _, e := range out.Entries {
				if got := len(e.Route.Backends[0].Backend.Endpoints) == 0; got != (tc.want != nil) {
					t.Errorf("without endpoints: %t", got)
				}
			}
		})
	}
}

// A class says what the router can do, in the order and the number that the API asks for.
func TestStatuses_Features(t *testing.T) {
	t.Parallel()
	in := input(t, strings.TrimSuffix(httpGateway, "---\n"))
	var names []string
	for _, o := range Translate(in).Statuses(nil) {
		if c, ok := o.(*gatewayv1.GatewayClass); ok {
			for _, f := range c.Status.SupportedFeatures {
				names = append(names, string(f.Name))
			}
		}
	}
	if !slices.IsSorted(names) || len(names) > 64 {
		t.Errorf("%d features: %q", len(names), names)
	}
	for name, want := range map[string]bool{
		"Gateway": true, "HTTPRoute": true, "GRPCRoute": true, "TLSRoute": true, "TCPRoute": true, "UDPRoute": true, "BackendTLSPolicy": true,
		"ListenerSet": true, "HTTPRouteCORS": true, "GatewayInfrastructure": true, "Mesh": false, "MeshHTTPRouteWeight": false,
	} {
		if slices.Contains(names, name) != want {
			t.Errorf("%s is told: %t", name, !want)
		}
	}
}

func TestStatuses_PortInUse(t *testing.T) {
	t.Parallel()
	out := Translate(input(t, strings.TrimSuffix(httpGateway, "---\n")))
	got := told(out, map[netip.AddrPort]error{netip.AddrPortFrom(address, 80): errors.New("in use")})
	for what, want := range map[string]string{"gw/http Accepted": "False PortUnavailable", "gw/http Programmed": "False Invalid", "gw Programmed": "False Invalid"} {
		if got[what] != want {
			t.Errorf("%s: %q, want %q", what, got[what], want)
		}
	}
}

func TestIntersection(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		listener string
		route    []gatewayv1.Hostname
		want     []string
	}{
		{"", nil, []string{""}},
		{"*.a.com", nil, []string{"*.a.com"}},
		{"", []gatewayv1.Hostname{"x.com", "*.Y.com"}, []string{"*.y.com", "x.com"}},
		{"*.a.com", []gatewayv1.Hostname{"b.a.com", "c.b.a.com", "a.com", "*.com", "b.com", "*.b.a.com"}, []string{"*.a.com", "*.b.a.com", "b.a.com", "c.b.a.com"}},
		{"b.a.com", []gatewayv1.Hostname{"*.a.com", "*.b.a.com", "b.a.com"}, []string{"b.a.com"}},
		{"b.a.com", []gatewayv1.Hostname{"a.com"}, nil},
	} {
		if diff := cmp.Diff(tc.want, intersection(tc.listener, tc.route)); diff != "" {
			t.Errorf("%s and %v (-want +got):\n%s", tc.listener, tc.route, diff)
		}
	}
}
