// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"minik8s.io/minik8s/pkg/registry"
	"minik8s.io/minik8s/pkg/registry/networking"
	"minik8s.io/minik8s/pkg/registry/networking/servicecidr"
	"minik8s.io/minik8s/pkg/registry/registrytest"
)

var group = registry.Group{
	AddToScheme: corev1.AddToScheme,
	Versions:    []registry.Version{{Name: "v1", Resources: []registry.Descriptor{Resource}}},
}

// serve runs a server with the resources that services need and the default ServiceCIDR.
func serve(t *testing.T, c registry.Config, groups ...registry.Group) *rest.Config {
	t.Helper()
	config := registrytest.Serve(t, c, append(groups, networking.Group())...)
	makeDefaultCIDR(t, config, c.ServiceIPRanges...)
	return config
}

func makeDefaultCIDR(t *testing.T, config *rest.Config, prefixes ...netip.Prefix) {
	t.Helper()
	cidr := &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: servicecidr.Default}}
	for _, p := range prefixes {
		cidr.Spec.CIDRs = append(cidr.Spec.CIDRs, p.String())
	}
	if len(prefixes) == 0 {
		cidr.Spec.CIDRs = []string{"10.96.0.0/16"} // registrytest's
	}
	api := kubernetes.NewForConfigOrDie(config).NetworkingV1().ServiceCIDRs()
	if _, err := api.Create(t.Context(), cidr, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func web() *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "s"},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{"a": "b"}, Ports: []corev1.ServicePort{{Port: 80}}},
	}
}

func TestResource(t *testing.T) {
	typ := func(typ corev1.ServiceType) func(*corev1.Service) {
		return func(s *corev1.Service) { s.Spec.Type = typ }
	}
	registrytest.Run(t, Resource, registrytest.Case[*corev1.Service]{
		AddToScheme: corev1.AddToScheme,
		Beside:      []registry.Group{networking.Group()},
		Prepare: func(t *testing.T, c *rest.Config) {
			t.Helper()
			makeDefaultCIDR(t, c)
		},
		Valid:  web,
		Update: func(s *corev1.Service) { s.Spec.Selector["a"] = "c" },
		StatusUpdate: func(s *corev1.Service) {
			// Upstream accepts a condition of a Service without its transition time.
			s.Status.Conditions = []metav1.Condition{{Type: "T", Status: "True", Reason: "R"}}
		},
		Invalid: []registrytest.Invalid[*corev1.Service]{
			{Name: "no ports", Mutate: func(s *corev1.Service) { s.Spec.Ports = nil }, Field: "spec.ports"},
			{Name: "port 0", Mutate: func(s *corev1.Service) { s.Spec.Ports[0].Port = 0 }, Field: "spec.ports[0].port"},
			{Name: "same port twice", Mutate: func(s *corev1.Service) {
				s.Spec.Ports = []corev1.ServicePort{{Name: "a", Port: 1}, {Name: "b", Port: 1}}
			}, Field: "spec.ports[1]"},
			{Name: "no name", Mutate: func(s *corev1.Service) { s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Port: 81}) }, Field: "spec.ports[0].name"},
			{Name: "node port of ClusterIP", Mutate: func(s *corev1.Service) { s.Spec.Ports[0].NodePort = 30000 }, Field: "spec.ports[0].nodePort"},
			{Name: "node port out of range", Mutate: func(s *corev1.Service) { typ("NodePort")(s); s.Spec.Ports[0].NodePort = 1 }, Field: "spec.ports[0].nodePort"},
			{Name: "headless NodePort", Mutate: func(s *corev1.Service) { typ("NodePort")(s); s.Spec.ClusterIP = "None" }, Field: "spec.clusterIPs[0]"},
			{Name: "no external name", Mutate: typ("ExternalName"), Field: "spec.externalName"},
			{Name: "unknown type", Mutate: typ("x"), Field: "spec.type"},
			{Name: "IP out of range", Mutate: func(s *corev1.Service) { s.Spec.ClusterIP = "10.0.0.1" }, Field: "spec.clusterIPs"},
			{Name: "no IP", Mutate: func(s *corev1.Service) { s.Spec.ClusterIP = "x" }, Field: "spec.clusterIPs[0]"},
			{Name: "dual-stack", Mutate: func(s *corev1.Service) { s.Spec.IPFamilyPolicy = new(corev1.IPFamilyPolicyRequireDualStack) }, Field: "spec.ipFamilyPolicy"},
			{Name: "other family", Mutate: func(s *corev1.Service) { s.Spec.IPFamilies = []corev1.IPFamily{"IPv6"} }, Field: "spec.ipFamilies[0]"},
			{Name: "class without balancer", Mutate: func(s *corev1.Service) { s.Spec.LoadBalancerClass = new("a/b") }, Field: "spec.loadBalancerClass"},
			{Name: "external policy", Mutate: func(s *corev1.Service) { s.Spec.ExternalTrafficPolicy = "Local" }, Field: "spec.externalTrafficPolicy"},
			{Name: "timeout", Mutate: func(s *corev1.Service) {
				s.Spec.SessionAffinity = "ClientIP"
				s.Spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: ptr.To[int32](0)}}
			}, Field: "spec.sessionAffinityConfig.clientIP.timeoutSeconds"},
		},
		InvalidUpdates: []registrytest.InvalidUpdate[*corev1.Service]{
			{Name: "cluster IP", Mutate: func(s *corev1.Service) { s.Spec.ClusterIP = "10.96.7.7"; s.Spec.ClusterIPs = nil }, Field: "spec.clusterIPs"},
		},
	})
}

func TestTypeChanges(t *testing.T) {
	client := kubernetes.NewForConfigOrDie(serve(t, registry.Config{}, group)).CoreV1().Services("default")
	ctx := t.Context()
	s, err := client.Create(ctx, web(), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	first := s.Spec.ClusterIP
	if first == "" || len(s.Spec.ClusterIPs) != 1 || s.Spec.IPFamilies[0] != corev1.IPv4Protocol {
		t.Fatalf("spec = %+v", s.Spec)
	}
	patch := func(body string) *corev1.Service {
		t.Helper()
		s, err := client.Patch(ctx, "s", types.StrategicMergePatchType, []byte(body), metav1.PatchOptions{})
		if err != nil {
			t.Fatalf("patch %s: %v", body, err)
		}
		return s
	}
	s = patch(`{"spec":{"type":"NodePort"}}`)
	node := s.Spec.Ports[0].NodePort
	if node < 30000 || s.Spec.ClusterIP != first {
		t.Fatalf("spec = %+v", s.Spec)
	}
	other := web()
	other.Name, other.Spec.Type, other.Spec.Ports[0].NodePort = "other", "NodePort", node
	if _, err := client.Create(ctx, other, metav1.CreateOptions{}); !apierrors.IsInvalid(err) {
		t.Fatalf("second owner of port: %v, want invalid", err)
	}
	s = patch(`{"spec":{"type":"LoadBalancer","externalTrafficPolicy":"Local"}}`)
	if s.Spec.HealthCheckNodePort == 0 || s.Spec.Ports[0].NodePort != node {
		t.Fatalf("spec = %+v", s.Spec)
	}
	s = patch(`{"spec":{"type":"ClusterIP"}}`)
	if s.Spec.HealthCheckNodePort != 0 || s.Spec.Ports[0].NodePort != 0 || s.Spec.ExternalTrafficPolicy != "" || s.Spec.AllocateLoadBalancerNodePorts != nil {
		t.Fatalf("spec = %+v", s.Spec)
	}
	if _, err := client.Create(ctx, other, metav1.CreateOptions{}); err != nil {
		t.Fatalf("port was not released: %v", err)
	}
	s = patch(`{"spec":{"type":"ExternalName","externalName":"example.com"}}`)
	if s.Spec.ClusterIP != "" || s.Spec.ClusterIPs != nil || s.Spec.IPFamilies != nil {
		t.Fatalf("spec = %+v", s.Spec)
	}
	third := web()
	third.Name, third.Spec.ClusterIP = "third", first
	dry := third.DeepCopy()
	if _, err := client.Create(ctx, dry, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
		t.Fatalf("dry run: %v", err)
	}
	if _, err := client.Create(ctx, third, metav1.CreateOptions{}); err != nil {
		t.Fatalf("IP was not released, or taken by the dry run: %v", err)
	}
	if err := client.Delete(ctx, "third", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Create(ctx, third, metav1.CreateOptions{}); err != nil {
		t.Fatalf("IP was not released by the delete: %v", err)
	}
}

func TestConcurrentCreatesAreUnique(t *testing.T) {
	// 14 usable addresses for 20 who want one.
	deps := registry.Config{ServiceIPRanges: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/28")}}
	client := kubernetes.NewForConfigOrDie(serve(t, deps, group)).CoreV1().Services("default")
	var mu sync.Mutex // guards owners, full
	owners, full := map[string]string{}, 0
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			s := web()
			s.Name = fmt.Sprintf("s%d", i)
			s, err := client.Create(context.Background(), s, metav1.CreateOptions{})
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				if !apierrors.IsInternalError(err) {
					t.Errorf("create: %v", err)
				}
				full++
				return
			}
			if o := owners[s.Spec.ClusterIP]; o != "" {
				t.Errorf("%s belongs to %s and %s", s.Spec.ClusterIP, o, s.Name)
			}
			owners[s.Spec.ClusterIP] = s.Name
		})
	}
	wg.Wait()
	if len(owners) != 14 || full != 6 {
		t.Errorf("%d got an address and %d did not, want 14 and 6", len(owners), full)
	}
}

func TestDefaultFamilies(t *testing.T) {
	const v4, v6 = corev1.IPv4Protocol, corev1.IPv6Protocol
	single, prefer, require := corev1.IPFamilyPolicySingleStack, corev1.IPFamilyPolicyPreferDualStack, corev1.IPFamilyPolicyRequireDualStack
	both := []corev1.IPFamily{v4, v6}
	tests := []struct {
		name     string
		cluster  []corev1.IPFamily
		spec     corev1.ServiceSpec
		old      *corev1.ServiceSpec
		families []corev1.IPFamily
		policy   corev1.IPFamilyPolicy
		invalid  string
	}{
		{name: "single-stack cluster", cluster: both[:1], families: both[:1], policy: single},
		{name: "dual-stack cluster", cluster: both, families: both[:1], policy: single},
		{name: "prefer on single", cluster: both[:1], spec: corev1.ServiceSpec{IPFamilyPolicy: &prefer}, families: both[:1], policy: prefer},
		{name: "prefer on dual", cluster: both, spec: corev1.ServiceSpec{IPFamilyPolicy: &prefer}, families: both, policy: prefer},
		{name: "require on single", cluster: both[:1], spec: corev1.ServiceSpec{IPFamilyPolicy: &require}, invalid: "spec.ipFamilyPolicy"},
		{name: "family first", cluster: both, spec: corev1.ServiceSpec{IPFamilyPolicy: &require, IPFamilies: []corev1.IPFamily{v6}}, families: []corev1.IPFamily{v6, v4}, policy: require},
		{name: "family from IP", cluster: both, spec: corev1.ServiceSpec{ClusterIPs: []string{"fd00::1"}}, families: []corev1.IPFamily{v6}, policy: single},
		{name: "family against IP", cluster: both, spec: corev1.ServiceSpec{ClusterIPs: []string{"fd00::1"}, IPFamilies: both[:1]}, invalid: "spec.clusterIPs[0]"},
		{name: "two families, no policy", cluster: both, spec: corev1.ServiceSpec{IPFamilies: both}, invalid: "spec.ipFamilyPolicy"},
		{name: "unknown family", cluster: both[:1], spec: corev1.ServiceSpec{IPFamilies: []corev1.IPFamily{v6}}, invalid: "spec.ipFamilies[0]"},
		{
			name: "headless without selector", cluster: both[:1], spec: corev1.ServiceSpec{ClusterIP: "None", ClusterIPs: []string{"None"}},
			families: both, policy: require,
		},
		{
			name: "headless with selector", cluster: both[:1], spec: corev1.ServiceSpec{ClusterIP: "None", ClusterIPs: []string{"None"}, Selector: map[string]string{"a": "b"}},
			families: both[:1], policy: single,
		},
		{
			name: "no silent upgrade", cluster: both,
			spec:     corev1.ServiceSpec{IPFamilyPolicy: &prefer, IPFamilies: both[:1], ClusterIPs: []string{"10.0.0.1"}},
			old:      &corev1.ServiceSpec{IPFamilyPolicy: &prefer, IPFamilies: both[:1], ClusterIPs: []string{"10.0.0.1"}},
			families: both[:1], policy: prefer,
		},
		{
			name: "upgrade", cluster: both,
			spec:     corev1.ServiceSpec{IPFamilyPolicy: &prefer, IPFamilies: both[:1], ClusterIPs: []string{"10.0.0.1"}},
			old:      &corev1.ServiceSpec{IPFamilyPolicy: &single, IPFamilies: both[:1], ClusterIPs: []string{"10.0.0.1"}},
			families: both, policy: prefer,
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			s := &corev1.Service{Spec: tc.spec}
			s.Spec.Type = corev1.ServiceTypeClusterIP
			if len(s.Spec.ClusterIPs) > 0 {
				s.Spec.ClusterIP = s.Spec.ClusterIPs[0]
			}
			var old *corev1.Service
			if tc.old != nil {
				old = &corev1.Service{Spec: *tc.old}
				old.Spec.Type = corev1.ServiceTypeClusterIP
			}
			errs := defaultFamilies(s, old, tc.cluster)
			if tc.invalid != "" {
				if len(errs) != 1 || errs[0].Field != tc.invalid {
					t.Fatalf("errors = %v, want one of %s", errs, tc.invalid)
				}
				return
			}
			if len(errs) > 0 || !cmp.Equal(s.Spec.IPFamilies, tc.families) || *s.Spec.IPFamilyPolicy != tc.policy {
				t.Errorf("%v, families %v, policy %v; want %v, %v", errs, s.Spec.IPFamilies, *s.Spec.IPFamilyPolicy, tc.families, tc.policy)
			}
		})
	}
}

func TestNormalize_Downgrade(t *testing.T) {
	both := []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
	old := web()
	setDefaults(old)
	old.Spec.IPFamilies, old.Spec.IPFamilyPolicy = both, new(corev1.IPFamilyPolicyRequireDualStack)
	old.Spec.ClusterIP, old.Spec.ClusterIPs = "10.0.0.1", []string{"10.0.0.1", "fd00::1"}
	s := web()
	setDefaults(s)
	s.Spec.IPFamilyPolicy = new(corev1.IPFamilyPolicySingleStack)
	normalize(s, old)
	if !cmp.Equal(s.Spec.ClusterIPs, []string{"10.0.0.1"}) || !cmp.Equal(s.Spec.IPFamilies, both[:1]) {
		t.Errorf("cluster IPs %v, families %v", s.Spec.ClusterIPs, s.Spec.IPFamilies)
	}
	if got := planIPs(s, old).release; !cmp.Equal(got, []string{"fd00::1"}) {
		t.Errorf("releases %v", got)
	}
}

func TestPlanPorts(t *testing.T) {
	tcp, udp := corev1.ProtocolTCP, corev1.ProtocolUDP
	tests := []struct {
		name       string
		typ        corev1.ServiceType
		ports, old []corev1.ServicePort
		noAuto     bool
		want       portPlan
	}{
		{name: "ClusterIP", typ: "ClusterIP", ports: []corev1.ServicePort{{Port: 1}}, want: portPlan{}},
		{name: "any", typ: "NodePort", ports: []corev1.ServicePort{{Port: 1, Protocol: tcp}}, want: portPlan{take: map[int]int32{0: 0}}},
		{name: "certain", typ: "NodePort", ports: []corev1.ServicePort{{Port: 1, Protocol: tcp, NodePort: 30001}}, want: portPlan{take: map[int]int32{0: 30001}}},
		{
			name: "DNS shares one", typ: "NodePort",
			ports: []corev1.ServicePort{{Port: 53, Protocol: tcp}, {Port: 53, Protocol: udp}},
			want:  portPlan{take: map[int]int32{0: 0}, same: map[int]int{1: 0}},
		},
		{
			name: "two protocols ask for one", typ: "NodePort",
			ports: []corev1.ServicePort{{Port: 53, Protocol: tcp, NodePort: 30053}, {Port: 54, Protocol: udp, NodePort: 30053}},
			want:  portPlan{take: map[int]int32{0: 30053}},
		},
		{
			name: "kept, new and gone", typ: "NodePort",
			ports: []corev1.ServicePort{{Port: 1, Protocol: tcp, NodePort: 30001}, {Port: 2, Protocol: tcp, NodePort: 30003}},
			old:   []corev1.ServicePort{{Port: 1, NodePort: 30001}, {Port: 2, NodePort: 30002}},
			want:  portPlan{take: map[int]int32{1: 30003}, release: []int32{30002}},
		},
		{
			name: "no longer NodePort", typ: "ClusterIP", ports: []corev1.ServicePort{{Port: 1}},
			old: []corev1.ServicePort{{Port: 1, NodePort: 30001}}, want: portPlan{release: []int32{30001}},
		},
		{name: "balancer without node ports", typ: "LoadBalancer", noAuto: true, ports: []corev1.ServicePort{{Port: 1}}, want: portPlan{}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			s := &corev1.Service{Spec: corev1.ServiceSpec{Type: tc.typ, Ports: tc.ports}}
			if tc.noAuto {
				s.Spec.AllocateLoadBalancerNodePorts = new(false)
			}
			var old *corev1.Service
			if tc.old != nil {
				old = &corev1.Service{Spec: corev1.ServiceSpec{Type: "NodePort", Ports: tc.old}}
			}
			if tc.want.take == nil {
				tc.want.take = map[int]int32{}
			}
			if tc.want.same == nil {
				tc.want.same = map[int]int{}
			}
			if diff := cmp.Diff(tc.want, planPorts(s, old), cmp.AllowUnexported(portPlan{})); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

var errFake = errors.New("fake")

func TestNewAllocators_RefusesRanges(t *testing.T) {
	for _, text := range [][]string{nil, {"10.0.0.0/24", "10.1.0.0/24"}, {"10.0.0.0/24", "fd00::/64", "fd01::/64"}, {"fd00::/63"}} {
		var prefixes []netip.Prefix
		for _, p := range text {
			prefixes = append(prefixes, netip.MustParsePrefix(p))
		}
		none := func(context.Context) ([]corev1.Service, error) { return nil, errFake }
		if _, err := newAllocators(registry.Config{ServiceIPRanges: prefixes}, nil, none); err == nil {
			t.Errorf("%v: no error", text)
		}
	}
}

// TestAddresses looks at the IPAddresses behind ClusterIPs and at ranges that come and go.
func TestAddresses(t *testing.T) {
	deps := registry.Config{ServiceIPRanges: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/29"), netip.MustParsePrefix("fd00::/120")}}
	client := kubernetes.NewForConfigOrDie(serve(t, deps, group))
	services, addresses, cidrs := client.CoreV1().Services("default"), client.NetworkingV1().IPAddresses(), client.NetworkingV1().ServiceCIDRs()
	ctx := t.Context()
	create := func(name string, change func(*corev1.Service), options metav1.CreateOptions) (*corev1.Service, error) {
		s := web()
		s.Name = name
		if change != nil {
			change(s)
		}
		return services.Create(ctx, s, options)
	}

	dual, err := create("dual", func(s *corev1.Service) { s.Spec.IPFamilyPolicy = new(corev1.IPFamilyPolicyRequireDualStack) }, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i, family := range []string{"IPv4", "IPv6"} {
		ip, err := addresses.Get(ctx, dual.Spec.ClusterIPs[i], metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		labels := map[string]string{"ipaddress.kubernetes.io/ip-family": family, "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io"}
		if diff := cmp.Diff(labels, ip.Labels); diff != "" {
			t.Errorf("labels (-want +got):\n%s", diff)
		}
		if want := (networkingv1.ParentReference{Resource: "services", Namespace: "default", Name: "dual"}); *ip.Spec.ParentRef != want {
			t.Errorf("parent of %s is %+v", ip.Name, ip.Spec.ParentRef)
		}
	}
	if err := services.Delete(ctx, "dual", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if left, err := addresses.List(ctx, metav1.ListOptions{}); err != nil || len(left.Items) != 0 {
		t.Errorf("%v, %v are left of a deleted service", left.Items, err)
	}

	// A dry run takes nothing and tells upstream's placeholder.
	dry, err := create("dry", nil, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil || dry.Spec.ClusterIP != "10.0.0.0" {
		t.Errorf("dry run: %q, %v", dry.Spec.ClusterIP, err)
	}
	// One that wants more node ports than there are is told so.
	if _, err := create("dry", func(s *corev1.Service) {
		s.Spec.Type, s.Spec.Ports = corev1.ServiceTypeNodePort, nil
		for i := range int32(3000) {
			s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: fmt.Sprintf("p%d", i), Port: i + 1, Protocol: corev1.ProtocolTCP})
		}
	}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err == nil || !strings.Contains(err.Error(), "range is full") {
		t.Errorf("dry run with too many node ports: %v", err)
	}
	// Nor does a create that is refused.
	if _, err := create("bad", func(s *corev1.Service) { s.Spec.Ports[0].Port = 0 }, metav1.CreateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("bad: %v", err)
	}
	// An address that somebody else has taken is avoided, also by those who ask for it.
	taken := &networkingv1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{Name: "10.0.0.3"},
		Spec:       networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{Group: "example.com", Resource: "gateways", Name: "g"}},
	}
	if _, err := addresses.Create(ctx, taken, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := create("asks", func(s *corev1.Service) { s.Spec.ClusterIP = "10.0.0.3" }, metav1.CreateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("taken address: %v, want invalid", err)
	}
	for i := range 5 {
		if _, err := create(fmt.Sprintf("s%d", i), nil, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := create("full", nil, metav1.CreateOptions{}); !apierrors.IsInternalError(err) {
		t.Errorf("full range: %v, want internal error", err)
	}

	second := &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "second", Finalizers: []string{"example.com/wait"}}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.0.1.0/24"}}}
	if _, err := cidrs.Create(ctx, second, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	s, err := create("more", nil, metav1.CreateOptions{})
	if err != nil || !netip.MustParsePrefix("10.0.1.0/24").Contains(netip.MustParseAddr(s.Spec.ClusterIP)) {
		t.Fatalf("address of the second range: %q, %v", s.Spec.ClusterIP, err)
	}
	if _, err := create("static", func(s *corev1.Service) { s.Spec.ClusterIP = "10.0.1.200" }, metav1.CreateOptions{}); err != nil && s.Spec.ClusterIP != "10.0.1.200" {
		t.Error(err)
	}
	// What is going gives no more away and takes back.
	if err := cidrs.Delete(ctx, "second", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	err = wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, 10*time.Second, true, func(context.Context) (bool, error) {
		_, err := create("late", nil, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil {
			_, err = create("late", func(s *corev1.Service) { s.Spec.ClusterIP = "10.0.1.77" }, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		}
		return apierrors.IsInvalid(err), nil
	})
	if err != nil {
		t.Errorf("a range that is being deleted still gives addresses away: %v", err)
	}
	if err := services.Delete(ctx, "more", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := addresses.Get(ctx, s.Spec.ClusterIP, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("address of a deleted service: %v", err)
	}
}
