// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"minik8s.io/minik8s/pkg/apis/useragent"
	"minik8s.io/minik8s/pkg/dns"
	"minik8s.io/minik8s/pkg/network/namespace"
)

const dnsService = "kube-dns"

// DNSConfig are settings of cluster DNS, besides the Corefile.
type DNSConfig struct {
	// AllowFrom are ranges of addresses that may ask besides pods, nodes and the machine itself; default none.
	AllowFrom []string `json:"allowFrom,omitempty"`
}

func (c DNSConfig) allowed() ([]netip.Prefix, error) {
	var ranges []netip.Prefix
	for _, text := range c.AllowFrom {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("dns.allowFrom: %w", err)
		}
		ranges = append(ranges, p)
	}
	return ranges, nil
}

// serveDNS makes cluster DNS of a node. It answers on the first address of the node's pod range, which this machine and its
// pods reach, and other nodes.
func (n *node) serveDNS(client kubernetes.Interface, shared informers.SharedInformerFactory) (func(context.Context) error, error) {
	address, err := dnsAddress(n.config)
	if err != nil {
		return nil, err
	}
	if err := namespace.Do(n.apart.netNS, func() error { return addLoopback(address) }); err != nil {
		return nil, fmt.Errorf("adding the address of cluster DNS: %w", err)
	}
	listen := dns.ListenConfig{Addr: netip.AddrPortFrom(address, dnsPort), NetworkNamespace: n.apart.netNS}
	if n.names = n.apart.names; n.names != nil {
		return func(ctx context.Context) error {
			l, err := n.names.Listen(listen)
			if err != nil {
				return err
			}
			return l.Serve(ctx)
		}, nil
	}
	_, pods, err := nodePods(n.config)
	if err != nil {
		return nil, err
	}
	allowed, err := n.config.DNS.allowed()
	if err != nil {
		return nil, err
	}
	if machine, err := parseRanges(n.config.Networking.NodeSubnet); err == nil {
		allowed = append(allowed, machine...) // by an address of it the machine asks its further nodes
	}
	watcher := rest.CopyConfig(n.proxy)
	watcher.UserAgent = useragent.Of("coredns")
	names, err := dynamic.NewForConfig(watcher)
	if err != nil {
		return nil, fmt.Errorf("making a client of Dns objects: %w", err)
	}
	config := dns.Config{
		ClusterDomain: n.config.Networking.DNSDomain, ServiceIPs: []netip.Addr{n.dnsIP}, Client: client, Dynamic: names, Informers: shared,
		PodCIDRs: pods, AllowFrom: allowed, Metrics: n.metrics,
	}
	broadcaster := record.NewBroadcaster()
	if n.records {
		config.Recorder = broadcaster.NewRecorder(clientgoscheme.Scheme, corev1.EventSource{Component: "coredns"})
	}
	s, err := dns.New(config)
	if err != nil {
		return nil, fmt.Errorf("building cluster DNS: %w", err)
	}
	n.names = s
	return func(ctx context.Context) error {
		defer broadcaster.Shutdown()
		if n.records {
			broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")})
		}
		l, err := s.Listen(listen)
		if err != nil {
			return err
		}
		parts, ctx := errgroup.WithContext(ctx)
		parts.Go(func() error { return s.Start(ctx) })
		parts.Go(func() error { return l.Serve(ctx) })
		return parts.Wait()
	}, nil
}

// publishDNS makes the Service by which pods find cluster DNS and the Corefile, and keeps the endpoints of the Service.
func (r *runner) publishDNS(shared informers.SharedInformerFactory) (func(context.Context) error, error) {
	address, err := dnsAddress(r.config)
	if err != nil {
		return nil, err
	}
	admin, err := r.client("minik8s", "kubernetes-admin", "system:masters")
	if err != nil {
		return nil, err
	}
	p := &dnsPublisher{
		client: admin, clusterIP: r.dnsIP(), domain: r.config.Networking.DNSDomain,
		own: dnsNode{r.config.Kubelet.NodeName, address}, nodes: shared.Core().V1().Nodes(),
	}
	nodes := p.nodes.Informer()
	return func(ctx context.Context) error { return p.run(ctx, nodes) }, nil
}

// dnsNode is a node, and where it answers.
type dnsNode struct {
	name    string
	address netip.Addr
}

// dnsPublisher tells the cluster where DNS is.
type dnsPublisher struct {
	client    kubernetes.Interface
	clusterIP netip.Addr
	domain    string
	own       dnsNode
	nodes     coreinformers.NodeInformer
}

const (
	// dnsRetry is how soon what failed is tried again, dnsCheck how often other nodes are asked whether they answer, and dnsUpkeep how often
	// it is made again what somebody has deleted, where there are none.
	dnsRetry  = 200 * time.Millisecond
	dnsCheck  = 5 * time.Second
	dnsUpkeep = time.Minute
	// dnsPatience is how long a node may take to answer.
	dnsPatience = time.Second
)

// run publishes until ctx ends. As long as there are no other nodes, it waits for them, and looks from time to time.
func (p *dnsPublisher) run(ctx context.Context, informer cache.SharedIndexInformer) error {
	changed := make(chan struct{}, 1)
	poke := func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	reg, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { poke() },
		UpdateFunc: func(before, now any) {
			if b, ok := before.(*corev1.Node); ok && b.Spec.PodCIDR != now.(*corev1.Node).Spec.PodCIDR {
				poke()
			}
		},
		DeleteFunc: func(any) { poke() },
	})
	if err != nil {
		if ctx.Err() != nil {
			return nil // the cluster ends
		}
		return fmt.Errorf("watching nodes for cluster DNS: %w", err)
	}
	defer func() { _ = informer.RemoveEventHandler(reg) }()
	for ctx.Err() == nil {
		nodes, err := p.publish(ctx)
		wait := dnsUpkeep
		switch {
		case err != nil:
			klog.FromContext(ctx).V(2).Info("Publishing cluster DNS failed, and is tried again", "err", err)
			wait = dnsRetry
		case len(nodes) > 1:
			wait = dnsCheck
		}
		select {
		case <-time.After(wait):
		case <-changed:
		case <-ctx.Done():
		}
	}
	return nil
}

func (p *dnsPublisher) publish(ctx context.Context) ([]dnsNode, error) {
	all, err := p.nodes.Lister().List(labels.Everything())
	if err != nil {
		return nil, err
	}
	nodes := dnsNodes(p.own, all)
	answers := make([]bool, len(nodes))
	var asked sync.WaitGroup
	for i, n := range nodes {
		if n == p.own {
			answers[i] = true // without it nobody would be here to ask
			continue
		}
		asked.Go(func() { answers[i] = p.answers(ctx, n.address) })
	}
	asked.Wait()
	return nodes, errors.Join(
		ensureDNSService(ctx, p.client, p.clusterIP), ensureCorefile(ctx, p.client, p.domain), ensureDNSSlice(ctx, p.client, familyOf(p.own.address), dnsEndpoints(nodes, answers)),
	)
}

// answers tells whether DNS of another node knows the cluster.
func (p *dnsPublisher) answers(ctx context.Context, address netip.Addr) bool {
	ctx, cancel := context.WithTimeout(ctx, dnsPatience)
	defer cancel()
	r := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, network, netip.AddrPortFrom(address, dnsPort).String())
	}}
	_, err := r.LookupHost(ctx, "kubernetes.default.svc."+strings.Trim(p.domain, ".")+".")
	return err == nil
}

// dnsNodes are the node of this process and those that have joined, by name. Each answers on the first address of its range.
func dnsNodes(own dnsNode, nodes []*corev1.Node) []dnsNode {
	list := []dnsNode{own}
	for _, n := range nodes {
		pods, err := netip.ParsePrefix(n.Spec.PodCIDR)
		if err != nil || n.Name == own.name || pods.Addr().Is4() != own.address.Is4() {
			continue
		}
		list = append(list, dnsNode{n.Name, pods.Masked().Addr().Next()})
	}
	slices.SortFunc(list, func(a, b dnsNode) int { return strings.Compare(a.name, b.name) })
	return list
}

// dnsEndpoints says that each node asks its own, and any other if that does not answer.
func dnsEndpoints(nodes []dnsNode, answers []bool) []discoveryv1.Endpoint {
	list := make([]discoveryv1.Endpoint, 0, len(nodes))
	for i, n := range nodes {
		list = append(list, discoveryv1.Endpoint{
			Addresses: []string{n.address.String()}, Conditions: discoveryv1.EndpointConditions{Ready: &answers[i]}, NodeName: &nodes[i].name,
			Hints: &discoveryv1.EndpointHints{ForNodes: []discoveryv1.ForNode{{Name: n.name}}},
		})
	}
	return list
}

// ensureCorefile makes the ConfigMap as kubeadm does. What users have changed in it stays.
func ensureCorefile(ctx context.Context, client kubernetes.Interface, domain string) error {
	all := client.CoreV1().ConfigMaps(dns.ConfigNamespace)
	if _, err := all.Get(ctx, dns.ConfigName, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		return err
	}
	_, err := all.Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: dns.ConfigName, Namespace: dns.ConfigNamespace},
		Data:       map[string]string{dns.ConfigKey: dns.DefaultCorefile(domain)},
	}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

func ensureDNSService(ctx context.Context, client kubernetes.Interface, ip netip.Addr) error {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Name: dnsService, Namespace: metav1.NamespaceSystem,
			Labels: map[string]string{"k8s-app": "kube-dns", "kubernetes.io/cluster-service": "true", "kubernetes.io/name": "CoreDNS"},
		},
		Spec: corev1.ServiceSpec{
			ClusterIP: ip.String(),
			Ports: []corev1.ServicePort{
				{Name: "dns", Protocol: corev1.ProtocolUDP, Port: 53, TargetPort: intstr.FromInt32(53)},
				{Name: "dns-tcp", Protocol: corev1.ProtocolTCP, Port: 53, TargetPort: intstr.FromInt32(53)},
			},
		},
	}
	services := client.CoreV1().Services(metav1.NamespaceSystem)
	if _, err := services.Get(ctx, dnsService, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		return err
	}
	if _, err := services.Create(ctx, s, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	return nil
}

func ensureDNSSlice(ctx context.Context, client kubernetes.Interface, f family, endpoints []discoveryv1.Endpoint) error {
	port := int32(53)
	udp, tcp := corev1.ProtocolUDP, corev1.ProtocolTCP
	udpName, tcpName := "dns", "dns-tcp"
	want := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Name: dnsService, Namespace: metav1.NamespaceSystem,
			Labels: map[string]string{discoveryv1.LabelServiceName: dnsService, discoveryv1.LabelManagedBy: "minik8s"},
		},
		AddressType: discoveryv1.AddressType(f.String()),
		Endpoints:   endpoints,
		Ports:       []discoveryv1.EndpointPort{{Name: &udpName, Protocol: &udp, Port: &port}, {Name: &tcpName, Protocol: &tcp, Port: &port}},
	}
	all := client.DiscoveryV1().EndpointSlices(metav1.NamespaceSystem)
	have, err := all.Get(ctx, dnsService, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = all.Create(ctx, want, metav1.CreateOptions{})
		return err
	}
	if err != nil || apiequality.Semantic.DeepEqual(have.Endpoints, want.Endpoints) {
		return err
	}
	have.Endpoints, have.Ports = want.Endpoints, want.Ports
	_, err = all.Update(ctx, have, metav1.UpdateOptions{})
	return err
}
