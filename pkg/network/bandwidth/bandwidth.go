// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package bandwidth limits what a pod may receive and send per second, as its annotations say; touch it to limit otherwise.
//
// What a pod receives leaves the node by the node's end of the pod's link, where it waits in a token bucket. What it sends comes in
// there, where nothing can wait: it is led through a device of its own (ifb), and waits in that one's bucket. Both are out of the
// pod's reach. It is how upstream's CNI plugin of this name does it.
package bandwidth

import (
	"errors"
	"fmt"
	"math"
	"os"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Annotations of a pod, with quantities of bits per second as values.
// https://kubernetes.io/docs/concepts/extend-kubernetes/compute-storage-net/network-plugins/#support-traffic-shaping
const (
	IngressAnnotation = "kubernetes.io/ingress-bandwidth"
	EgressAnnotation  = "kubernetes.io/egress-bandwidth"
)

// Limits are what a pod may receive (ingress) and send (egress), in bits per second; 0 is no limit.
type Limits struct{ Ingress, Egress uint64 }

// Upstream takes nothing below and nothing above.
var (
	least = resource.MustParse("1k")
	most  = resource.MustParse("1P")
)

// Of returns the limits that annotations ask for. The error names the annotation.
func Of(annotations map[string]string) (Limits, error) {
	var l Limits
	for _, a := range []struct {
		name string
		rate *uint64
	}{{IngressAnnotation, &l.Ingress}, {EgressAnnotation, &l.Egress}} {
		text, is := annotations[a.name]
		if !is {
			continue
		}
		q, err := resource.ParseQuantity(text)
		if err != nil {
			return Limits{}, fmt.Errorf("annotation %s: %q is no quantity of bits per second: %w", a.name, text, err)
		}
		if q.Cmp(least) < 0 || q.Cmp(most) > 0 {
			return Limits{}, fmt.Errorf("annotation %s: %s is not within %s and %s bits per second", a.name, text, &least, &most)
		}
		*a.rate = uint64(q.Value())
	}
	return l, nil
}

// Shape makes the limits those of the pod whose link's end on the node is link, with device as the name of what its sent packets
// wait at. Both are of the network namespace of the calling thread. It can be repeated, with other limits too.
func Shape(link, device string, l Limits) error {
	host, err := netlink.LinkByName(link)
	if err != nil {
		return fmt.Errorf("finding link %s: %w", link, err)
	}
	if err := limit(host, l.Ingress); err != nil {
		return fmt.Errorf("limiting what link %s sends: %w", link, err)
	}
	if l.Egress == 0 {
		return errors.Join(removeIngress(host), Remove(device))
	}
	via, err := ensureDevice(device, host.Attrs().MTU)
	if err != nil {
		return err
	}
	// The bucket first: nothing passes unlimited once it is led here.
	if err := limit(via, l.Egress); err != nil {
		return fmt.Errorf("limiting what link %s receives: %w", link, err)
	}
	if err := lead(host, via); err != nil {
		return fmt.Errorf("leading packets of link %s to %s: %w", link, device, err)
	}
	return nil
}

// Remove removes the device of a pod that is gone. Absence is success.
func Remove(device string) error {
	d, err := netlink.LinkByName(device)
	if err == nil {
		err = netlink.LinkDel(d)
	}
	var none netlink.LinkNotFoundError
	if err == nil || errors.As(err, &none) || errors.Is(err, unix.ENODEV) || errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return fmt.Errorf("removing link %s: %w", device, err)
}

// ensureDevice returns the device of a name, which is up.
func ensureDevice(name string, mtu int) (netlink.Link, error) {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = name, mtu
	if err := netlink.LinkAdd(&netlink.Ifb{LinkAttrs: attrs}); err != nil && !errors.Is(err, unix.EEXIST) {
		return nil, fmt.Errorf("adding link %s: %w", name, err)
	}
	d, err := netlink.LinkByName(name)
	if err != nil {
		return nil, fmt.Errorf("finding link %s: %w", name, err)
	}
	if d.Type() != "ifb" {
		return nil, fmt.Errorf("link %s is a %s of somebody else", name, d.Type())
	}
	if err := netlink.LinkSetUp(d); err != nil {
		return nil, fmt.Errorf("setting up link %s: %w", name, err)
	}
	return d, nil
}

// latency is how long a packet waits at most before it is dropped.
const latency = 0.025

// bucket is how a rate in bits per second becomes a token bucket: its rate, and what it holds and lets wait, in bytes. It holds a tenth
// of a second, and never less than the largest packet that the kernel builds: a larger one would never pass.
func bucket(rate uint64) (perSecond uint64, holds, waits uint32) {
	perSecond = max(rate/8, 1)
	const packet = 64 << 10
	held := min(max(perSecond/10, 2*packet), math.MaxUint32/4)
	waiting := min(uint64(float64(perSecond)*latency)+held, math.MaxUint32)
	return perSecond, uint32(held), uint32(waiting)
}

// limit makes the rate that of what a link sends.
func limit(link netlink.Link, rate uint64) error {
	attrs := netlink.QdiscAttrs{LinkIndex: link.Attrs().Index, Handle: netlink.MakeHandle(1, 0), Parent: netlink.HANDLE_ROOT}
	if rate == 0 {
		return absent(netlink.QdiscDel(&netlink.Tbf{QdiscAttrs: attrs}))
	}
	perSecond, holds, waits := bucket(rate)
	return netlink.QdiscReplace(&netlink.Tbf{QdiscAttrs: attrs, Rate: perSecond, Limit: waits, Buffer: netlink.Xmittime(perSecond, holds)})
}

func ingressOf(link netlink.Link) *netlink.Ingress {
	return &netlink.Ingress{QdiscAttrs: netlink.QdiscAttrs{LinkIndex: link.Attrs().Index, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_INGRESS}}
}

// lead sends all that comes in at a link through a device.
func lead(link, via netlink.Link) error {
	if err := netlink.QdiscAdd(ingressOf(link)); err != nil && !errors.Is(err, unix.EEXIST) {
		return err
	}
	return netlink.FilterReplace(&netlink.U32{
		FilterAttrs: netlink.FilterAttrs{
			LinkIndex: link.Attrs().Index, Parent: netlink.MakeHandle(0xffff, 0), Priority: 1, Protocol: unix.ETH_P_ALL,
			Handle: firstFilter,
		},
		ClassId: netlink.MakeHandle(1, 1),
		Actions: []netlink.Action{netlink.NewMirredAction(via.Attrs().Index)},
	})
}

// firstFilter is what the kernel calls the first filter of a priority; with it a second one takes its place.
const firstFilter = 0x80000800

func removeIngress(link netlink.Link) error { return absent(netlink.QdiscDel(ingressOf(link))) }

// absent takes what says that there was nothing to remove as success: a link without a bucket has one of the kernel's own.
func absent(err error) error {
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENODEV) {
		return nil
	}
	return err
}
