// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/fake"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	networkpolicy "sigs.k8s.io/network-policy-api/pkg/client/clientset/versioned/fake"

	"minik8s.io/minik8s/pkg/machinetest"
	"minik8s.io/minik8s/pkg/network"
	"minik8s.io/minik8s/pkg/network/namespace"
	"minik8s.io/minik8s/pkg/network/namespacetest"
	"minik8s.io/minik8s/pkg/network/ptp"
)

// onNode runs f in a child of which all threads are in a network namespace of its own, which stands for the node.
func onNode(t *testing.T, f func(*testing.T)) {
	t.Helper()
	machinetest.Root(t, "for network namespaces")
	machinetest.Mounts(t)
	machinetest.Programs(t, "iptables")
	if os.Getenv("POLICY_TEST_ROLE") == "node" {
		f(t)
		return
	}
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), "POLICY_TEST_ROLE=node")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	} else if testing.Verbose() {
		t.Logf("%s", out)
	}
}

// end is who talks: a pod by NAMESPACE/NAME, "outside" or "node".
type end struct {
	name  string
	space string
	addrs []netip.Addr // IPv4, IPv6
	// heard are the SCTP ports at which packets have come, by source and port.
	heard sync.Map
}

// world is a node with pods of three namespaces on it, and somebody outside.
type world struct {
	client      *fake.Clientset
	definitions *apiextensions.Clientset
	cluster     *networkpolicy.Clientset
	plugin      *ptp.Plugin
	ends        map[string]*end
	names       []string // of ends, in order
	dir         string
}

var (
	nodeAddrs    = []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")}
	outsideAddrs = []netip.Addr{netip.MustParseAddr("192.0.2.77"), netip.MustParseAddr("2001:db8::77")}
	podRanges    = []netip.Prefix{netip.MustParsePrefix("10.244.0.0/24"), netip.MustParsePrefix("fd00:244::/64")}
	podsOf       = []string{"x/a", "x/b", "x/c", "y/a", "y/b", "y/c", "z/a", "z/b", "z/c"}
)

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{client: fake.NewClientset(), definitions: apiextensions.NewClientset(), cluster: networkpolicy.NewSimpleClientset(), ends: map[string]*end{}, dir: t.TempDir()}
	must(t, up("lo"))
	for _, command := range []string{"iptables", "ip6tables"} { // as Docker arranges it
		run(t, command, "-P", "FORWARD", "DROP")
	}
	var err error
	w.plugin, err = ptp.New(ptp.Config{Name: "policy-test", StateDir: w.dir, PodCIDRs: podRanges})
	must(t, err)
	must(t, w.plugin.Start(t.Context()))
	w.outside(t)
	w.ends["node"] = &end{name: "node", space: "/proc/self/ns/net", addrs: nodeAddrs}
	w.listen(t, w.ends["node"])
	for _, n := range []string{"x", "y", "z"} {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: n, Labels: map[string]string{corev1.LabelMetadataName: n}}}
		_, err := w.client.CoreV1().Namespaces().Create(t.Context(), ns, metav1.CreateOptions{})
		must(t, err)
	}
	for _, name := range podsOf {
		w.plumb(t, name)
		w.setPod(t, podObject(name, w.ends[name].addrs), true)
	}
	w.names = slices.Sorted(maps.Keys(w.ends))
	return w
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func run(t *testing.T, program string, args ...string) {
	t.Helper()
	out, err := exec.Command(program, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v: %s", program, args, err, out)
	}
}

func up(link string, addrs ...netip.Addr) error {
	l, err := netlink.LinkByName(link)
	if err != nil {
		return err
	}
	for _, a := range addrs {
		bits := 24
		if a.Is6() {
			bits = 64
		}
		err := netlink.AddrAdd(l, &netlink.Addr{IPNet: &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(bits, a.BitLen())}, Flags: unix.IFA_F_NODAD})
		if err != nil {
			return err
		}
	}
	return netlink.LinkSetUp(l)
}

// outside connects another machine.
func (w *world) outside(t *testing.T) {
	t.Helper()
	e := &end{name: "outside", space: namespacetest.New(t).Path(), addrs: outsideAddrs}
	w.ends[e.name] = e
	f, err := os.Open(e.space)
	must(t, err)
	defer f.Close()
	must(t, netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "uplink"}, PeerName: "eth0", PeerNamespace: netlink.NsFd(int(f.Fd()))}))
	must(t, up("uplink", nodeAddrs...))
	must(t, namespace.Do(e.space, func() error {
		if err := up("lo"); err != nil {
			return err
		}
		if err := up("eth0", outsideAddrs...); err != nil {
			return err
		}
		for _, gateway := range nodeAddrs {
			if err := netlink.RouteAdd(&netlink.Route{Gw: gateway.AsSlice()}); err != nil {
				return err
			}
		}
		return nil
	}))
	w.listen(t, e)
}

// plumb makes a pod, as the kubelet does, without telling anybody.
func (w *world) plumb(t *testing.T, name string) *end {
	t.Helper()
	e := &end{name: name, space: namespacetest.New(t).Path()}
	var err error
	e.addrs, err = w.plugin.SetUp(t.Context(), network.Pod{SandboxID: name}, e.space)
	must(t, err)
	w.ends[name] = e
	w.listen(t, e)
	return e
}

func podObject(name string, addrs []netip.Addr) *corev1.Pod {
	ns, short, _ := strings.Cut(name, "/")
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: short, Labels: map[string]string{"pod": short}},
		Spec:       corev1.PodSpec{NodeName: "here"},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning},
	}
	c := corev1.Container{Name: "c"}
	for _, port := range []int32{80, 81} {
		for _, protocol := range []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP} {
			c.Ports = append(c.Ports, corev1.ContainerPort{
				Name: fmt.Sprintf("serve-%d-%s", port, strings.ToLower(string(protocol))), ContainerPort: port, Protocol: protocol,
			})
		}
	}
	p.Spec.Containers = []corev1.Container{c}
	for _, a := range addrs {
		p.Status.PodIPs = append(p.Status.PodIPs, corev1.PodIP{IP: a.String()})
	}
	return p
}

func (w *world) setPod(t *testing.T, p *corev1.Pod, create bool) {
	t.Helper()
	pods := w.client.CoreV1().Pods(p.Namespace)
	var err error
	if create {
		_, err = pods.Create(t.Context(), p, metav1.CreateOptions{})
	} else {
		_, err = pods.Update(t.Context(), p, metav1.UpdateOptions{})
	}
	must(t, err)
}

// enforce starts an Enforcer, which the returned function stops.
func (w *world) enforce(t *testing.T, change func(*Config)) (stop func()) {
	t.Helper()
	config := Config{
		Cluster: "policy-test", NodeName: "here", Client: w.client, Definitions: w.definitions, ClusterPolicies: w.cluster, Statuses: w.cluster,
		PodCIDRs: podRanges, NetNS: "/proc/self/ns/net",
	}
	if change != nil {
		change(&config)
	}
	e, err := New(config)
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- e.Start(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Start: %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// listen answers at ports 80 and 81 by TCP and UDP, and notes what comes by SCTP.
func (w *world) listen(t *testing.T, e *end) {
	t.Helper()
	must(t, namespace.Do(e.space, func() error {
		for _, port := range []string{":80", ":81"} {
			l, err := net.Listen("tcp", port)
			if err != nil {
				return err
			}
			t.Cleanup(func() { _ = l.Close() })
			go func() { // echoes
				for {
					c, err := l.Accept()
					if err != nil {
						return
					}
					go func() {
						_, _ = io.Copy(c, c) // until the client has enough
						_ = c.Close()
					}()
				}
			}()
			p, err := net.ListenPacket("udp", port)
			if err != nil {
				return err
			}
			t.Cleanup(func() { _ = p.Close() })
			go func() {
				buffer := make([]byte, 64)
				for {
					n, from, err := p.ReadFrom(buffer)
					if err != nil {
						return
					}
					_, _ = p.WriteTo(buffer[:n], from) // the client hears it, or fails
				}
			}()
		}
		for _, network := range []string{"ip4:132", "ip6:132"} {
			p, err := net.ListenPacket(network, "")
			if err != nil {
				return err
			}
			t.Cleanup(func() { _ = p.Close() })
			go func() {
				buffer := make([]byte, 2048)
				for {
					n, from, err := p.ReadFrom(buffer)
					if err != nil {
						return
					}
					if n >= 8 {
						e.heard.Store(fmt.Sprint(from, " ", binary.BigEndian.Uint16(buffer[2:]), " ", binary.BigEndian.Uint16(buffer)), true)
					}
				}
			}()
		}
		return nil
	}))
}

// probe is a connection that is tried.
type probe struct {
	from, to *end
	six      bool
	protocol corev1.Protocol
	port     uint16
	// address is asked instead of that of to, if it is valid.
	address netip.Addr
}

func (p probe) String() string {
	family := "IPv4"
	if p.six {
		family = "IPv6"
	}
	return fmt.Sprintf("%s → %s %s:%d %s", p.from.name, p.to.name, p.protocol, p.port, family)
}

func (p probe) target() netip.Addr {
	switch {
	case p.address.IsValid():
		return p.address
	case p.six:
		return p.to.addrs[1]
	default:
		return p.to.addrs[0]
	}
}

func (p probe) sockaddr(port uint16) unix.Sockaddr {
	if a := p.target(); a.Is4() {
		return &unix.SockaddrInet4{Port: int(port), Addr: a.As4()}
	}
	return &unix.SockaddrInet6{Port: int(port), Addr: p.target().As16()}
}

// sctpPort numbers SCTP probes by their source port, so that each is a connection of its own.
var sctpPort uint16 = 1024

// begin sends what begins the connection, and returns a file descriptor of it that becomes readable (UDP) or writable (TCP) when
// it is answered. Of SCTP there is none, but what to look for at the other end.
func (p probe) begin() (fd int, heard string, err error) {
	family, kind, protocol := unix.AF_INET, unix.SOCK_STREAM, 0
	if p.six {
		family = unix.AF_INET6
	}
	switch p.protocol {
	case corev1.ProtocolUDP:
		kind = unix.SOCK_DGRAM
	case corev1.ProtocolSCTP:
		kind, protocol = unix.SOCK_RAW, unix.IPPROTO_SCTP
	}
	if fd, err = unix.Socket(family, kind|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, protocol); err != nil {
		return 0, "", err
	}
	switch p.protocol {
	case corev1.ProtocolTCP:
		if err = unix.Connect(fd, p.sockaddr(p.port)); errors.Is(err, unix.EINPROGRESS) {
			err = nil
		}
	case corev1.ProtocolUDP:
		if err = unix.Connect(fd, p.sockaddr(p.port)); err == nil {
			_, err = unix.Write(fd, []byte("?"))
		}
	default:
		sctpPort++
		packet := sctpInit(sctpPort, p.port)
		err = unix.Sendto(fd, packet, 0, p.sockaddr(0))
		source := p.from.addrs[0]
		if p.six {
			source = p.from.addrs[1]
		}
		heard = fmt.Sprint(source, " ", p.port, " ", sctpPort)
	}
	return fd, heard, err
}

// sctpInit is the first packet of an association, which conntrack takes for one.
func sctpInit(from, to uint16) []byte {
	b := binary.BigEndian.AppendUint16(nil, from)
	b = binary.BigEndian.AppendUint16(b, to)
	b = append(b, make([]byte, 8)...) // no tag, checksum
	b = append(b, 1, 0, 0, 20)        // INIT
	b = append(b, 0, 0, 0, 1, 0, 1, 0, 0, 0, 1, 0, 1, 0, 0, 0, 1)
	binary.LittleEndian.PutUint32(b[8:], crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)))
	return b
}

// deafness is how long what must not succeed is listened for.
const deafness = 150 * time.Millisecond

// try makes all probes at a time and returns which succeeded. It waits for those that should, but not longer than patience.
func try(t *testing.T, probes []probe, patience time.Duration, expected func(int) bool) []bool {
	t.Helper()
	fds, heard := make([]int, len(probes)), make([]string, len(probes))
	defer func() {
		for _, fd := range fds {
			_ = unix.Close(fd)
		}
	}()
	byClient := map[string][]int{}
	for i, p := range probes {
		byClient[p.from.space] = append(byClient[p.from.space], i)
	}
	for space, list := range byClient {
		must(t, namespace.Do(space, func() error {
			for _, i := range list {
				var err error
				if fds[i], heard[i], err = probes[i].begin(); err != nil && !errors.Is(err, unix.ENETUNREACH) && !errors.Is(err, unix.ECONNREFUSED) {
					return fmt.Errorf("%v: %w", probes[i], err)
				}
			}
			return nil
		}))
	}
	got := make([]bool, len(probes))
	for start := time.Now(); time.Since(start) < patience; {
		var poll []unix.PollFd
		var of []int
		waiting := false
		for i, p := range probes {
			switch {
			case got[i]:
				continue
			case heard[i] != "":
				_, got[i] = p.to.heard.Load(heard[i])
			case p.protocol == corev1.ProtocolTCP:
				poll, of = append(poll, unix.PollFd{Fd: int32(fds[i]), Events: unix.POLLOUT}), append(of, i)
			default:
				poll, of = append(poll, unix.PollFd{Fd: int32(fds[i]), Events: unix.POLLIN}), append(of, i)
			}
			waiting = waiting || !got[i] && expected(i)
		}
		if !waiting && time.Since(start) > deafness {
			break
		}
		if _, err := unix.Poll(poll, 10); err != nil && !errors.Is(err, unix.EINTR) {
			t.Fatal(err)
		}
		for k, p := range poll {
			if p.Revents&(unix.POLLERR|unix.POLLHUP) == 0 && p.Revents != 0 {
				got[of[k]] = true
			}
		}
	}
	return got
}
