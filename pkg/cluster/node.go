// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	kubeletconfigv1beta1 "k8s.io/kubelet/config/v1beta1"
	"k8s.io/utils/ptr"

	"minik8s.io/minik8s/pkg/apis/useragent"
	"minik8s.io/minik8s/pkg/apiserver/authorization/policy"
	"minik8s.io/minik8s/pkg/dns"
	"minik8s.io/minik8s/pkg/kubelet"
	"minik8s.io/minik8s/pkg/kubelet/configuration"
	"minik8s.io/minik8s/pkg/kubelet/container/docker"
	"minik8s.io/minik8s/pkg/network"
	"minik8s.io/minik8s/pkg/network/cni"
	"minik8s.io/minik8s/pkg/network/ptp"
	"minik8s.io/minik8s/pkg/network/routes"
	"minik8s.io/minik8s/pkg/pki"
	"minik8s.io/minik8s/pkg/proxy"
)

// kubeletClient is the API server's identity towards kubelets, which ask it back what that may. Its only rights are those towards kubelets.
var kubeletClient = pki.Request{CommonName: policy.KubeletClientUser}

// checkNode finds out before anything starts whether a node can run here.
func checkNode(ctx context.Context, c Config) error {
	if c.NodeCount() == 0 {
		return nil
	}
	if os.Geteuid() != 0 {
		return &Problem{Cause: "a node needs the rights of root for networks, mounts and cgroups", Remedy: "run as root, or use --nodes 0 for a control plane without pods"}
	}
	settings, err := configuration.Read(c.Kubelet.Config, c.Kubelet.ConfigDir)
	if err != nil {
		return err
	}
	if _, _, err := configuration.CredentialProviders(c.Kubelet.ImageCredentialProviderConfig, c.Kubelet.ImageCredentialProviderBinDir); err != nil {
		return err
	}
	if err := docker.Check(ctx, c.Kubelet.DockerHost, dockerTLS(c)); err != nil {
		return err
	}
	names, err := dnsAddress(c)
	if err != nil {
		return err
	}
	if err := checkDNSPort(ctx, netip.AddrPortFrom(names, dnsPort)); err != nil {
		return err
	}
	address := kubeletAddress(c, settings)
	l, err := net.Listen("tcp", address)
	if err != nil {
		return &Problem{Cause: fmt.Sprintf("the kubelet cannot listen at %s: another program may be using that port", address), Remedy: "stop that program, or set kubelet.port in a --config file, or port in the file that kubelet.config names", Err: err}
	}
	return l.Close()
}

// kubeletAddress is where the kubelet's API is served. The settings may say so, or else the cluster does.
func kubeletAddress(c Config, settings *kubeletconfigv1beta1.KubeletConfiguration) string {
	return net.JoinHostPort(settings.Address, strconv.Itoa(cmp.Or(int(settings.Port), c.Kubelet.Port)))
}

// kubeletDir is the kubelet's root directory.
func kubeletDir(c Config) string { return filepath.Join(c.DataDir, "kubelet") }

func networkDir(c Config) string { return filepath.Join(c.DataDir, "network") }

// cgroupRoot holds the cgroups of a cluster's pods.
func cgroupRoot(c Config) string { return "/" + contextName(c.Name) }

// cgroupRootOf holds those of the pods of one of several nodes. No name of a cluster has a dot.
func cgroupRootOf(c Config) string { return cgroupRoot(c) + "." + c.Kubelet.NodeName }

// nodePods are the ranges of the node's pods, by default the first /24 of the cluster's, of IPv6 the first /64.
func nodePods(c Config) (pods, cluster []netip.Prefix, err error) {
	if cluster, err = settledRanges("networking.podSubnet", c.Networking.PodSubnet); err != nil {
		return nil, nil, err
	}
	if c.Kubelet.PodCIDR != "" {
		pods, err = settledRanges("kubelet.podCIDR", c.Kubelet.PodCIDR)
		return pods, cluster, err
	}
	for _, p := range cluster {
		pods = append(pods, netip.PrefixFrom(p.Masked().Addr(), max(familyOf(p.Addr()).nodeBits(), p.Bits())))
	}
	return pods, cluster, nil
}

// newNetwork makes the pod network of a node. netNS is the path of its network namespace, "" for the process's own.
func newNetwork(c Config, netNS string) (network.Plugin, error) {
	if n := c.Networking; n.CNIConfDir != "" {
		return cni.New(cni.Config{ConfDir: n.CNIConfDir, BinDirs: []string{cmp.Or(n.CNIBinDir, "/opt/cni/bin")}, StateDir: networkDir(c)})
	}
	pods, all, err := nodePods(c)
	if err != nil {
		return nil, err
	}
	return ptp.New(ptp.Config{Name: c.Name, PodCIDRs: pods, ClusterCIDRs: all, StateDir: networkDir(c), NetNS: netNS})
}

// node is what the parts of a node are made from, whoever hands it out: the control plane of the same process, or a file
// that came from another machine.
type node struct {
	config Config
	ips    []netip.Addr // the primary first
	dnsIP  netip.Addr
	// kubelet is the node's identity, proxy that of what watches Services, policy that of what watches NetworkPolicies.
	kubelet, proxy, policy *rest.Config
	// statuses is the identity of what writes statuses of ClusterNetworkPolicies; one node does that for all.
	statuses *rest.Config
	// serving is the kubelet's certificate at the time, client the one by which it asks over TLS.
	serving, client func() (*tls.Certificate, error)
	ca              []byte
	// metrics count what cluster DNS does, and records has events written about its configuration: one node does that for all.
	metrics *dns.Metrics
	records bool
	// transform is what is done with the objects that proxy, routes and DNS watch, as they come; may be nil.
	transform cache.TransformFunc
	// names is cluster DNS, once it is built.
	names *dns.Server
	// made takes the kubelet when there is one, and images has some that no registry may have; either may be nil.
	made   func(*kubelet.Kubelet)
	images kubelet.ImageSource
	// pulls tell what was pulled, where several nodes have one engine.
	pulls *kubelet.ImagePulls
	// apart is what is its own where several nodes share the machine; zero for the first, which is the machine.
	apart apart
}

// apart is what a node has that is not the machine.
type apart struct {
	netNS    string         // the path of its network namespace
	segments []netip.Prefix // have the addresses of the nodes that it reaches without a router
	size     kubelet.Size
	// shared is started by somebody else.
	shared informers.SharedInformerFactory
	// names is cluster DNS of the first node, which answers on this one, too.
	names *dns.Server
}

// buildNode makes kubelet, service proxy, routes, the enforcer of network policies, the keeper of volumes and DNS.
func (r *runner) buildNode() (func(context.Context) error, error) {
	c := r.config
	if c.NodeCount() == 0 {
		return func(context.Context) error { return nil }, nil
	}
	n := &node{config: c, ips: r.nodeIPs, dnsIP: r.dnsIP(), ca: r.credentials.ca.Cert, transform: r.objects.Transform}
	var err error
	if n.kubelet, err = r.credentials.Client(nodeUser(c.Kubelet.NodeName), nodeGroup); err != nil {
		return nil, err
	}
	if n.proxy, err = r.credentials.Client(policy.ServicesUser); err != nil {
		return nil, err
	}
	if n.statuses, err = r.credentials.Client(policy.NetworkPolicyStatusUser); err != nil {
		return nil, err
	}
	if n.policy, err = r.credentials.Client(policy.NetworkPolicyUser); err != nil {
		return nil, err
	}
	n.serving = r.credentials.ca.Leaf(nodeRequest(c.Kubelet.NodeName, r.nodeIPs)).Certificate
	asking, err := r.credentials.Leaf(nodeUser(c.Kubelet.NodeName), nodeGroup)
	if err != nil {
		return nil, err
	}
	n.client = asking.Certificate
	n.metrics, n.records = r.dnsMetrics, true
	n.made = r.machine.Store
	if n.pulls, err = kubelet.OpenImagePulls(kubeletDir(c), func() ([]string, error) { return kubeletDirs(c) }); err != nil {
		return nil, err
	}
	return n.build(r.publishDNS, r.holdAddresses, func(shared informers.SharedInformerFactory) (func(context.Context) error, error) {
		return r.moreNodes(shared, n.names, n.pulls)
	})
}

const nodeGroup = "system:nodes"

// ownNode is the name of the node that runs in the cluster's process, "" if there is none.
func (c Config) ownNode() string {
	if c.NodeCount() == 0 {
		return ""
	}
	return c.Kubelet.NodeName
}

func nodeUser(name string) string { return "system:node:" + name }

// nodeRequest is for the certificate by which a kubelet serves, and by which it speaks to the API server.
func nodeRequest(name string, ips []netip.Addr) pki.Request {
	r := pki.Request{CommonName: nodeUser(name), Organizations: []string{nodeGroup}, Hosts: []string{name}, Client: true}
	for _, ip := range ips {
		r.Hosts = append(r.Hosts, ip.String())
	}
	r.Hosts = append(r.Hosts, "127.0.0.1")
	return r
}

// part is something more that runs on a node and watches Services like the proxy.
type part func(shared informers.SharedInformerFactory) (run func(context.Context) error, err error)

// build makes the parts of a node, which run until ctx ends.
func (n *node) build(more ...part) (func(context.Context) error, error) {
	// From here on there may be something to clear.
	if err := os.MkdirAll(kubeletDir(n.config), 0o700); err != nil {
		return nil, fmt.Errorf("making the kubelet's directory: %w", err)
	}
	k, err := n.newKubelet()
	if err != nil {
		return nil, err
	}
	// The proxy, routes and DNS watch the same objects: one cache serves all.
	client, err := clientOf(n.proxy, "kube-proxy")
	if err != nil {
		return nil, err
	}
	shared := n.apart.shared
	if shared == nil {
		shared = informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(n.transform))
	}
	config, err := proxyConfig(n.config, n.ips, shared)
	if err != nil {
		return nil, err
	}
	config.NetNS = n.apart.netNS
	p, err := proxy.New(config)
	if err != nil {
		return nil, fmt.Errorf("building service proxy: %w", err)
	}
	volumes, err := buildKeeper(n.config, n.kubelet)
	if err != nil {
		return nil, err
	}
	names, err := n.serveDNS(client, shared)
	if err != nil {
		return nil, err
	}
	runs := []func(context.Context) error{k.Start, p.Start, volumes, names}
	if n.config.Networking.CNIConfDir == "" { // else routes and policies are the network's own
		more = append(more, n.leadToPods, n.enforcePolicies)
	}
	for _, m := range more {
		run, err := m(shared)
		if err != nil {
			return nil, err
		}
		runs = append(runs, run)
	}
	return func(ctx context.Context) error {
		parts, ctx := errgroup.WithContext(ctx)
		for _, run := range runs {
			parts.Go(func() error { return run(ctx) })
		}
		if n.apart.shared == nil {
			shared.Start(ctx.Done())
		}
		return parts.Wait()
	}, nil
}

// leadToPods builds what routes packets for pods on other nodes there.
func (n *node) leadToPods(shared informers.SharedInformerFactory) (func(context.Context) error, error) {
	_, all, err := nodePods(n.config)
	if err != nil {
		return nil, err
	}
	ways, err := routes.New(routes.Config{NodeName: n.config.Kubelet.NodeName, ClusterCIDRs: all, Nodes: shared.Core().V1().Nodes(),
		NetNS: n.apart.netNS, Segments: n.apart.segments})
	if err != nil {
		return nil, fmt.Errorf("building routes: %w", err)
	}
	return ways.Start, nil
}

// kubeletSettings are those of the files that a configuration names, with what the cluster gives where they are silent.
func kubeletSettings(c Config, dnsIP netip.Addr) (*kubeletconfigv1beta1.KubeletConfiguration, error) {
	s, err := configuration.Read(c.Kubelet.Config, c.Kubelet.ConfigDir)
	if err != nil {
		return nil, err
	}
	if len(s.ClusterDNS) == 0 {
		s.ClusterDNS = []string{dnsIP.String()}
	}
	if s.ClusterDomain == "" {
		s.ClusterDomain = c.Networking.DNSDomain
	}
	if c.Kubelet.MaxPods != 0 {
		s.MaxPods = int32(c.Kubelet.MaxPods)
	}
	return s, nil
}

// limited bounds a client as the settings of the kubelet say, if they do.
func limited(config *rest.Config, settings *kubeletconfigv1beta1.KubeletConfiguration) *rest.Config {
	qps := ptr.Deref(settings.KubeAPIQPS, 0)
	if qps == 0 {
		return config
	}
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = float32(qps), int(settings.KubeAPIBurst)
	return config
}

// heartbeats is for the client by which a node tells that it lives, as upstream's: nothing limits it, and it gives up a call before the next
// is due and the lease ends.
func heartbeats(config *rest.Config, settings *kubeletconfigv1beta1.KubeletConfiguration) *rest.Config {
	config = rest.CopyConfig(config)
	config.QPS = -1
	config.Timeout = min(settings.NodeStatusUpdateFrequency.Duration, time.Duration(settings.NodeLeaseDurationSeconds)*time.Second)
	return config
}

func (n *node) newKubelet() (*kubelet.Kubelet, error) {
	c := n.config
	settings, err := kubeletSettings(c, n.dnsIP)
	if err != nil {
		return nil, err
	}
	providers, hash, err := configuration.CredentialProviders(c.Kubelet.ImageCredentialProviderConfig, c.Kubelet.ImageCredentialProviderBinDir)
	if err != nil {
		return nil, err
	}
	runtime, err := newRuntime(c, settings, n.apart.netNS)
	if err != nil {
		return nil, err
	}
	connector, err := newNetwork(c, n.apart.netNS)
	if err != nil {
		return nil, fmt.Errorf("building pod network: %w", err)
	}
	pods, _, err := nodePods(c)
	if err != nil {
		return nil, err
	}
	client, err := clientOf(limited(n.kubelet, settings), "kubelet")
	if err != nil {
		return nil, err
	}
	alive, err := clientOf(heartbeats(n.kubelet, settings), "kubelet")
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(n.ca)
	standard, groups := kubelet.StandardDir, cgroupRoot(c)
	if n.apart.netNS != "" {
		standard, groups = "", cgroupRootOf(c)
	}
	k, err := kubelet.New(kubelet.Config{
		NodeName: c.Kubelet.NodeName, Cluster: c.Name, Client: client, Heartbeats: alive, Runtime: runtime, Network: connector,
		RootDir: kubeletDir(c), StandardDir: standard, NetNS: n.apart.netNS, Size: n.apart.size,
		NodeIPs: n.ips, PodCIDRs: strings.Split(pairText(pods), ","),
		ListenAddr: kubeletAddress(c, settings), Certificate: n.serving, ClientCertificate: n.client,
		ClientCAs:     func() (*x509.CertPool, error) { return roots, nil },
		Configuration: settings, CgroupRoot: groups,
		ImageSource: n.images, ImagePulls: n.pulls,
		CredentialProviders: providers, CredentialProviderDir: c.Kubelet.ImageCredentialProviderBinDir, CredentialProvidersHash: hash,
	})
	if err != nil {
		return nil, fmt.Errorf("building kubelet: %w", err)
	}
	if n.made != nil {
		n.made(k)
	}
	return k, nil
}

func (r *runner) dnsIP() netip.Addr { return dnsIP(r.services) }

// dnsIP is the cluster IP of kube-dns, the tenth of the primary service range as everywhere.
func dnsIP(services []netip.Prefix) netip.Addr {
	ip := services[0].Masked().Addr()
	for range 10 {
		ip = ip.Next()
	}
	return ip
}

// dnsAddress is where cluster DNS of a node answers: the first address of its range of pods. All pods have addresses of the primary family,
// by which they ask.
func dnsAddress(c Config) (netip.Addr, error) {
	pods, _, err := nodePods(c)
	if err != nil {
		return netip.Addr{}, err
	}
	return pods[0].Addr().Next(), nil
}

// client returns a client of a component for a user.
func (r *runner) client(component, user string, groups ...string) (kubernetes.Interface, error) {
	config, err := r.credentials.Client(user, groups...)
	if err != nil {
		return nil, err
	}
	return clientOf(config, component)
}

// clientOf returns a client that writes as the field manager component.
func clientOf(config *rest.Config, component string) (kubernetes.Interface, error) {
	config = rest.CopyConfig(config)
	config.UserAgent = useragent.Of(component)
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return client, nil
}

func dockerTLS(c Config) docker.TLS {
	return docker.TLS{CertPath: c.Kubelet.DockerCertPath, Verify: c.Kubelet.DockerTLSVerify}
}

// newRuntime connects to the engine. The settings and the path of the node's network namespace only a kubelet needs.
func newRuntime(c Config, settings *kubeletconfigv1beta1.KubeletConfiguration, netNS string) (*docker.Runtime, error) {
	config := docker.Config{
		Host: c.Kubelet.DockerHost, TLS: dockerTLS(c), Cluster: c.Name, Node: c.Kubelet.NodeName, NetNS: netNS, KubeletDir: kubeletDir(c),
	}
	if settings != nil {
		size, err := resource.ParseQuantity(settings.ContainerLogMaxSize)
		if err != nil {
			return nil, fmt.Errorf("containerLogMaxSize: %w", err)
		}
		config.LogMaxSize, config.LogMaxFiles = strconv.FormatInt(size.Value(), 10), int(*settings.ContainerLogMaxFiles)
	}
	r, err := docker.New(config)
	if err != nil {
		return nil, fmt.Errorf("connecting to Docker: %w", err)
	}
	return r, nil
}

func withRuntime(c Config, f func(*docker.Runtime) error) error {
	r, err := newRuntime(c, nil, "")
	if err != nil {
		return err
	}
	defer r.Close()
	return f(r)
}

// clearStep removes one kind of thing from the machine.
type clearStep struct {
	name string
	// limit is how long it may take; 0: it knows itself when nothing more happens.
	limit time.Duration
	run   func(context.Context, Config) error
	// engine says that it is the engine that does it, which may not answer, and nothing else of the step can fail so.
	engine bool
}

// stepLimit is plenty: steps that use the engine ask it a question, the others ask the kernel.
const stepLimit = time.Minute

// clearSteps are in the order of removal: containers first, for they use all the rest.
var clearSteps = []clearStep{
	{"containers", 0, func(ctx context.Context, c Config) error {
		return withRuntime(c, func(r *docker.Runtime) error { return r.Purge(ctx) })
	}, true},
	{"service rules", stepLimit, func(ctx context.Context, c Config) error {
		config, err := proxyConfig(c, nil, nil)
		if err != nil {
			return err
		}
		return proxy.Purge(ctx, config)
	}, false},
	{"load balancers' addresses", stepLimit, func(_ context.Context, c Config) error { return purgeAddresses(c) }, false},
	{"network policies", stepLimit, func(_ context.Context, c Config) error { return purgePolicies(c) }, false},
	{"cgroups", stepLimit, clearGroups, true},
	{"kubelet's rules", stepLimit, func(_ context.Context, c Config) error { return kubelet.Clear(c.Name, kubeletDir(c)) }, false},
	{"nodes", stepLimit, clearNodes, false},
	{"pod network", stepLimit, func(ctx context.Context, c Config) error {
		n, err := newNetwork(c, "")
		if err != nil {
			return err
		}
		return n.Purge(ctx)
	}, false},
	{"routes", stepLimit, func(_ context.Context, c Config) error {
		_, all, err := nodePods(c)
		if err != nil {
			return err
		}
		return routes.Purge(all)
	}, false},
	{"DNS address", stepLimit, func(_ context.Context, c Config) error {
		a, err := dnsAddress(c)
		if err != nil {
			return err
		}
		return removeLoopback(a)
	}, false},
	{"addresses of Gateways", stepLimit, func(_ context.Context, c Config) error {
		subnets, err := gatewaySubnets(c)
		if err != nil || len(subnets) == 0 {
			return err
		}
		return setLoopback(subnets, nil)
	}, false},
	{"mounts", stepLimit, func(_ context.Context, c Config) error {
		err := unmountAll(kubeletDir(c)) // the data directory may be a mount itself
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		return err
	}, false},
}
