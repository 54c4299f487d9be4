// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package nodenet gives nodes that share a machine a network of their own each. Touch it when such nodes, or they and the machine, do
// not reach one another.
//
// A node is a network namespace without a process. It has one link, to a bridge in a namespace that all of them share (the fabric), out of
// reach of what Docker and others write for bridges of the machine. The machine has a link to it, too, and an address there, by which
// nodes have their default route. Between nodes, packets pass only the bridge; to elsewhere they go through the machine.
package nodenet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
	"k8s.io/klog/v2"

	"minik8s.io/minik8s/pkg/network/chain"
	"minik8s.io/minik8s/pkg/network/namespace"
	"minik8s.io/minik8s/pkg/network/ruleset"
	"minik8s.io/minik8s/pkg/network/uplink"
)

// resync is how often the machine's rules are put back that somebody removed, such as a Docker daemon that starts.
const resync = 30 * time.Second

// ethernetMTU is what nodes of a machine that leads nowhere have.
const ethernetMTU = 1500

// Config is what a Network is made from. All fields are required.
type Config struct {
	// Cluster is the cluster's name.
	Cluster string
	// Dir holds the files by which namespaces are found. Nothing else may be in it.
	Dir string
	// Subnets have the addresses of nodes and, as their first, that of the machine: one, or one of each IP family.
	Subnets []netip.Prefix
	// Pods hold the pod ranges of all nodes, in the order of the subnets: packets to them keep their source.
	Pods []netip.Prefix
	// Machine has the addresses by which others know the machine, and so the nodes, when it calls them. Default, and of a family of which
	// there is none, and where the machine has it no more: its address of the subnet.
	Machine []netip.Addr
}

// Network is that of the nodes of a cluster on this machine. Safe for concurrent use.
type Network struct {
	config Config
	names  names

	mu sync.Mutex // one change at a time
	// laid says that the fabric was found or made by this process; mu guards it.
	laid bool
	look ruleset.Look // guarded by mu
}

// New returns a Network. Nothing happens before Add.
func New(c Config) *Network { return &Network{config: c, names: namesOf(c.Cluster)} }

// Path is the network namespace of a node, which is there between Add and Remove.
func (n *Network) Path(node string) string { return filepath.Join(n.config.Dir, node) }

func (n *Network) fabric() string { return filepath.Join(n.config.Dir, "."+n.names.handle) }

// Add makes the network namespace of a node with its link and its addresses, one of each subnet, or completes and keeps what is there.
// It makes the fabric before, if there is none.
func (n *Network) Add(node string, ips []netip.Addr) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.laid {
		if err := n.lay(); err != nil {
			return fmt.Errorf("making the network of nodes: %w", err)
		}
		n.laid = true
	}
	if err := n.attach(node, ips); err != nil {
		return fmt.Errorf("making the network of node %q: %w", node, err)
	}
	return nil
}

// Remove removes the network namespace of a node; the kernel frees it when its last process has gone. Absence is success.
func (n *Network) Remove(node string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.remove(node)
}

func (n *Network) remove(node string) error {
	// The link is removed at once, so that the address can be given again.
	err := n.inFabric(func() error { return delLink(port(node)) })
	return errors.Join(err, namespace.Unpin(n.Path(node)))
}

// inFabric does something there, if it is there.
func (n *Network) inFabric(f func() error) error {
	if is, err := namespace.Pinned(n.fabric()); !is {
		return err
	}
	return namespace.Do(n.fabric(), f)
}

// Start puts back rules and the machine's link if they get lost, until ctx ends.
func (n *Network) Start(ctx context.Context) {
	ticker := time.NewTicker(resync)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if err := n.mend(); err != nil {
				klog.FromContext(ctx).Error(err, "Could not restore the rules for nodes of this machine")
			}
		}
	}
}

func (n *Network) mend() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.laid {
		return nil
	}
	err := n.routes()
	if isNoLink(err) { // somebody has taken the machine's link away
		err = n.lay()
	}
	return errors.Join(n.look.Mend(n.rules), err)
}

func (n *Network) rules() error { return n.families(chain.Ensure) }

// families does something with the rules of each IP family.
func (n *Network) families(do func(six bool, list []chain.Chain) error) error {
	var errs []error
	for i, s := range n.config.Subnets {
		errs = append(errs, do(s.Addr().Is6(), chains(n.config.Cluster, s, n.config.Pods[i])))
	}
	return errors.Join(errs...)
}

// Purge removes everything, of all nodes that there ever were. It can be repeated.
func (n *Network) Purge() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.laid = false
	files, err := os.ReadDir(n.config.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("listing network namespaces: %w", err)
	}
	var errs []error
	for _, f := range files {
		if !strings.HasPrefix(f.Name(), ".") {
			errs = append(errs, n.remove(f.Name()))
		}
	}
	errs = append(errs, delLink(n.names.link), n.families(chain.Remove), namespace.Unpin(n.fabric()))
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return os.Remove(n.config.Dir)
}

// lay makes the fabric and the machine's link to it.
func (n *Network) lay() error {
	if err := os.MkdirAll(n.config.Dir, 0o700); err != nil {
		return err
	}
	if err := namespace.Pin(n.fabric()); err != nil {
		return err
	}
	if err := namespace.Do(n.fabric(), n.bridge); err != nil {
		return err
	}
	mtu, err := uplink.MTU()
	if err != nil {
		return err
	}
	mtu = cmp.Or(mtu, ethernetMTU)
	at, err := netns.GetFromPath(n.fabric())
	if err != nil {
		return err
	}
	defer at.Close()
	err = n.plug(veth{near: n.names.link, far: n.names.uplink, at: at, mtu: mtu, hardware: hardware(n.config.Cluster, Gateway(n.config.Subnets[0]))}, func() error { return n.toBridge(n.names.uplink) })
	if err != nil {
		return err
	}
	for _, s := range n.config.Subnets {
		if err := address(n.names.link, Gateway(s), s.Bits(), unix.IFA_F_NOPREFIXROUTE); err != nil {
			return err
		}
	}
	return errors.Join(n.routes(), n.rules())
}

// routes lead from the machine to the nodes. The kernel removes a route with an address that the machine has no more, and then takes the one behind.
func (n *Network) routes() error {
	link, err := netlink.LinkByName(n.names.link)
	if err != nil {
		return fmt.Errorf("finding the machine's link to the fabric: %w", err)
	}
	var errs []error
	for _, s := range n.config.Subnets {
		route := netlink.Route{
			LinkIndex: link.Attrs().Index, Scope: netlink.SCOPE_LINK, Priority: behind, Src: Gateway(s).AsSlice(),
			Dst: &net.IPNet{IP: s.Masked().Addr().AsSlice(), Mask: net.CIDRMask(s.Bits(), s.Addr().BitLen())},
		}
		if err := netlink.RouteReplace(&route); err != nil {
			errs = append(errs, fmt.Errorf("adding the route to nodes: %w", err))
		}
		from, has := sameFamily(n.config.Machine, s)
		if !has {
			continue
		}
		route.Priority, route.Src = 0, from.AsSlice()
		// Invalid is a source that the machine has not.
		if err := netlink.RouteReplace(&route); err != nil && !errors.Is(err, unix.EINVAL) {
			errs = append(errs, fmt.Errorf("adding the route to nodes from %s: %w", from, err))
		}
	}
	return errors.Join(errs...)
}

// behind is the priority of a route behind those that have none, which is 0 for IPv4 and 1024 for IPv6.
const behind = 2048

// sameFamily is the first address that is of the family of a subnet.
func sameFamily(list []netip.Addr, s netip.Prefix) (netip.Addr, bool) {
	i := slices.IndexFunc(list, func(a netip.Addr) bool { return a.Is4() == s.Addr().Is4() })
	if i < 0 {
		return netip.Addr{}, false
	}
	return list[i], true
}

// bridge makes the fabric's bridge. Rules for bridged packets are switched on in a new namespace, and would be asked for each packet.
func (n *Network) bridge() error {
	for _, name := range []string{"iptables", "ip6tables"} {
		err := os.WriteFile("/proc/sys/net/bridge/bridge-nf-call-"+name, []byte("0"), 0o644)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name = n.names.fabric
	if err := netlink.LinkAdd(&netlink.Bridge{LinkAttrs: attrs}); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("adding the bridge: %w", err)
	}
	return errors.Join(up("lo"), up(n.names.fabric))
}

// toBridge makes a link a port of the bridge. It is called in the fabric.
func (n *Network) toBridge(name string) error {
	bridge, err := netlink.LinkByName(n.names.fabric)
	if err != nil {
		return fmt.Errorf("finding the bridge: %w", err)
	}
	link, err := netlink.LinkByName(name)
	if err != nil {
		return fmt.Errorf("finding link %s: %w", name, err)
	}
	if err := netlink.LinkSetMaster(link, bridge); err != nil {
		return fmt.Errorf("adding link %s to the bridge: %w", name, err)
	}
	return up(name)
}

// attach makes a node's namespace and links it to the fabric.
func (n *Network) attach(node string, ips []netip.Addr) error {
	if err := namespace.Pin(n.Path(node)); err != nil {
		return err
	}
	at, err := netns.GetFromPath(n.fabric())
	if err != nil {
		return err
	}
	defer at.Close()
	link, err := netlink.LinkByName(n.names.link)
	if err != nil {
		return fmt.Errorf("finding the machine's link to the fabric: %w", err)
	}
	return namespace.Do(n.Path(node), func() error {
		if err := up("lo"); err != nil {
			return err
		}
		v := veth{near: n.names.nodeLink, far: port(node), at: at, mtu: link.Attrs().MTU, hardware: hardware(n.config.Cluster, ips[0])}
		if err := n.plug(v, func() error { return n.toBridge(v.far) }); err != nil {
			return err
		}
		for i, ip := range ips {
			s := n.config.Subnets[i]
			if err := address(v.near, ip, s.Bits(), 0); err != nil {
				return err
			}
			if err := defaultRoute(v.near, Gateway(s)); err != nil {
				return err
			}
		}
		return nil
	})
}

// veth is a pair of links between the namespace of the calling thread and another.
type veth struct {
	near, far string
	at        netns.NsHandle
	mtu       int
	hardware  net.HardwareAddr // of the near end
}

// plug makes the pair unless it is there, and calls join in the fabric. A link whose other end is not there is replaced.
func (n *Network) plug(v veth, join func() error) error {
	far, err := netlink.NewHandleAt(v.at, unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("entering the fabric: %w", err)
	}
	defer far.Close()
	whole, err := paired(v, far)
	if err != nil {
		return err
	}
	if !whole {
		if err := errors.Join(delLink(v.near), delLinkAt(far, v.far)); err != nil {
			return err
		}
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.MTU, attrs.HardwareAddr = v.near, v.mtu, v.hardware
		pair := &netlink.Veth{LinkAttrs: attrs, PeerName: v.far, PeerNamespace: netlink.NsFd(v.at), PeerMTU: uint32(v.mtu)}
		if err := netlink.LinkAdd(pair); err != nil {
			return fmt.Errorf("adding link %s: %w", v.near, err)
		}
	}
	if err := namespace.Do(n.fabric(), join); err != nil {
		return err
	}
	if err := n.prepareIPv6(v.near); err != nil {
		return err
	}
	return up(v.near)
}

// prepareIPv6 prepares a link for IPv6, if the nodes have it, before it is up. Without the search for others that have its address, which lasts
// a second or two, the address that the kernel gives each link could not be asked from yet: the first packets that are forwarded there
// would find no neighbour. Nor are there routers that tell of themselves.
func (n *Network) prepareIPv6(link string) error {
	if !slices.ContainsFunc(n.config.Subnets, func(s netip.Prefix) bool { return s.Addr().Is6() }) {
		return nil
	}
	for _, s := range []struct{ name, value string }{{"disable_ipv6", "0"}, {"accept_dad", "0"}, {"accept_ra", "0"}} {
		if err := os.WriteFile(filepath.Join("/proc/sys/net/ipv6/conf", link, s.name), []byte(s.value), 0o644); err != nil {
			return fmt.Errorf("preparing link %s for IPv6: %w", link, err)
		}
	}
	return nil
}

// paired tells whether both ends are there and belong together.
func paired(v veth, at *netlink.Handle) (bool, error) {
	near, err := netlink.LinkByName(v.near)
	if isNoLink(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("finding link %s: %w", v.near, err)
	}
	far, err := at.LinkByName(v.far)
	if isNoLink(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("finding link %s: %w", v.far, err)
	}
	return near.Attrs().ParentIndex == far.Attrs().Index && far.Attrs().ParentIndex == near.Attrs().Index, nil
}

func up(name string) error {
	link, err := netlink.LinkByName(name)
	if err == nil {
		err = netlink.LinkSetUp(link)
	}
	if err != nil {
		return fmt.Errorf("setting up link %s: %w", name, err)
	}
	return nil
}

func address(name string, a netip.Addr, bits, flags int) error {
	link, err := netlink.LinkByName(name)
	if err == nil {
		addr := &netlink.Addr{IPNet: &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(bits, a.BitLen())}, Flags: flags}
		if a.Is6() {
			addr.Flags |= unix.IFA_F_NODAD
		}
		err = netlink.AddrReplace(link, addr)
	}
	if err != nil {
		return fmt.Errorf("adding address %s to link %s: %w", a, name, err)
	}
	return nil
}

func defaultRoute(name string, via netip.Addr) error {
	link, err := netlink.LinkByName(name)
	if err == nil {
		all := &net.IPNet{IP: make(net.IP, via.BitLen()/8), Mask: net.CIDRMask(0, via.BitLen())}
		err = netlink.RouteReplace(&netlink.Route{LinkIndex: link.Attrs().Index, Dst: all, Gw: via.AsSlice()})
	}
	if err != nil {
		return fmt.Errorf("adding the default route: %w", err)
	}
	return nil
}

// delLink removes a link from the namespace of the calling thread, and its other end. Absence is success.
func delLink(name string) error {
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer h.Close()
	return delLinkAt(h, name)
}

func delLinkAt(h *netlink.Handle, name string) error {
	link, err := h.LinkByName(name)
	if err == nil {
		err = h.LinkDel(link)
	}
	if err != nil && !isNoLink(err) && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("removing link %s: %w", name, err)
	}
	return nil
}

func isNoLink(err error) bool {
	var none netlink.LinkNotFoundError
	return errors.As(err, &none)
}
