// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package bandwidth

import (
	"fmt"
	"io"
	"math"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"minik8s.io/minik8s/pkg/network/namespacetest"
)

func TestOf(t *testing.T) {
	for _, test := range []struct {
		name        string
		annotations map[string]string
		want        Limits
		err         string
	}{
		{name: "none", annotations: map[string]string{"a": "b"}},
		{name: "both", annotations: map[string]string{IngressAnnotation: "10M", EgressAnnotation: "1k"}, want: Limits{10_000_000, 1000}},
		{name: "binary", annotations: map[string]string{EgressAnnotation: "1Ki"}, want: Limits{Egress: 1024}},
		{name: "most", annotations: map[string]string{EgressAnnotation: "1P"}, want: Limits{Egress: 1_000_000_000_000_000}},
		{name: "no quantity", annotations: map[string]string{IngressAnnotation: "fast"}, err: `annotation kubernetes.io/ingress-bandwidth: "fast" is no quantity`},
		{name: "too little", annotations: map[string]string{EgressAnnotation: "999"}, err: "annotation kubernetes.io/egress-bandwidth: 999 is not within 1k and 1P bits per second"},
		{name: "too much", annotations: map[string]string{EgressAnnotation: "2P"}, err: "2P is not within"},
		{name: "negative", annotations: map[string]string{IngressAnnotation: "-1M"}, err: "-1M is not within"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := Of(test.annotations)
			if got != test.want || (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("got %v, %v; want %v, %q", got, err, test.want, test.err)
			}
		})
	}
}

func TestBucket(t *testing.T) {
	for _, test := range []struct {
		rate, perSecond uint64
		holds, waits    uint32
	}{
		{1000, 125, 128 << 10, 128<<10 + 3},
		{8_000_000, 1_000_000, 128 << 10, 128<<10 + 25_000},
		{8_000_000_000, 1_000_000_000, 100_000_000, 125_000_000},
		{1_000_000_000_000_000, 125_000_000_000_000, math.MaxUint32 / 4, math.MaxUint32},
	} {
		perSecond, holds, waits := bucket(test.rate)
		if perSecond != test.perSecond || holds != test.holds || waits != test.waits {
			t.Errorf("%d: got %d, %d, %d; want %+v", test.rate, perSecond, holds, waits, test)
		}
	}
}

const (
	link, device  = "mktest", "mbtest"
	atNode, atPod = "10.1.2.1", "10.1.2.2"
	megabyte      = 1 << 20
)

func TestTraffic(t *testing.T) {
	node, pod := namespacetest.New(t), namespacetest.New(t)
	namespacetest.Link(t, 1500, namespacetest.End{At: node, Name: link, Address: atNode + "/24"}, namespacetest.End{At: pod, Name: "eth0", Address: atPod + "/24"})
	shape := func(l Limits) error { return node.Do(func() error { return Shape(link, device, l) }) }
	// At 8 Mbit/s a megabyte takes a second, less what the bucket holds at first.
	const rate, atLeast = 8_000_000, 800 * time.Millisecond
	for _, test := range []struct {
		name             string
		limits           Limits
		receives, sends  bool // slowly
		devices, buckets int
	}{
		{name: "no limit"},
		{name: "both", limits: Limits{rate, rate}, receives: true, sends: true, devices: 1, buckets: 2},
		{name: "both again", limits: Limits{rate, rate}, receives: true, sends: true, devices: 1, buckets: 2},
		{name: "ingress only", limits: Limits{Ingress: rate}, receives: true, buckets: 1},
		{name: "egress only", limits: Limits{Egress: rate}, sends: true, devices: 1, buckets: 1},
		{name: "much", limits: Limits{100_000_000_000, 100_000_000_000}, devices: 1, buckets: 2},
		{name: "no limit any more"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if err := shape(test.limits); err != nil {
				t.Fatal(err)
			}
			if got := ours(t, node); got != [2]int{test.devices, test.buckets} {
				t.Errorf("devices and buckets: %v, want %d and %d", got, test.devices, test.buckets)
			}
			for _, way := range []struct {
				name string
				take func() (time.Duration, error)
				slow bool
			}{
				{"receives", func() (time.Duration, error) { return transfer(pod, node, atPod) }, test.receives},
				{"sends", func() (time.Duration, error) { return transfer(node, pod, atNode) }, test.sends},
			} {
				took, err := way.take()
				if err != nil {
					t.Fatal(err)
				}
				if slow := took > atLeast; slow != way.slow {
					t.Errorf("the pod %s a megabyte in %v; slowly: %v, want %v", way.name, took, slow, way.slow)
				}
			}
		})
	}
	if err := shape(Limits{rate, rate}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := node.Do(func() error { return Remove(device) }); err != nil {
			t.Fatal(err)
		}
	}
	if got := ours(t, node)[0]; got != 0 {
		t.Errorf("%d devices are left", got)
	}
	if err := node.Do(func() error { return Shape("absent", device, Limits{rate, rate}) }); err == nil {
		t.Error("a link that is not there is shaped")
	}
}

// transfer sends a megabyte from one namespace to an address of another, and tells how long it takes until all is there.
func transfer(to, from *namespacetest.Namespace, address string) (time.Duration, error) {
	var l net.Listener
	if err := to.Do(func() (err error) {
		l, err = net.Listen("tcp", net.JoinHostPort(address, "0"))
		return err
	}); err != nil {
		return 0, err
	}
	defer l.Close()
	received := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			received <- err
			return
		}
		defer c.Close()
		n, err := io.Copy(io.Discard, c)
		if err == nil && n != megabyte {
			err = fmt.Errorf("%d bytes were received", n)
		}
		received <- err
	}()
	var c *net.TCPConn
	if err := from.Do(func() error {
		a, err := net.ResolveTCPAddr("tcp", l.Addr().String())
		if err != nil {
			return err
		}
		c, err = net.DialTCP("tcp", nil, a)
		return err
	}); err != nil {
		return 0, err
	}
	defer c.Close()
	begin := time.Now()
	if err := c.SetDeadline(begin.Add(20 * time.Second)); err != nil {
		return 0, err
	}
	if _, err := c.Write(make([]byte, megabyte)); err != nil {
		return 0, err
	}
	if err := c.CloseWrite(); err != nil {
		return 0, err
	}
	err := <-received
	return time.Since(begin), err
}

// ours counts the devices, and the buckets at all links.
func ours(t *testing.T, node *namespacetest.Namespace) (got [2]int) {
	t.Helper()
	err := node.Do(func() error {
		links, err := netlink.LinkList()
		if err != nil {
			return err
		}
		for _, l := range links {
			if l.Type() == "ifb" && l.Attrs().Name == device {
				got[0]++
			}
			qdiscs, err := netlink.QdiscList(l)
			if err != nil {
				return err
			}
			for _, q := range qdiscs {
				if q.Type() == "tbf" {
					got[1]++
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}
