// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package loopback

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// free is a port on the loopback address that nobody uses.
func free(t *testing.T, network string) netip.AddrPort {
	t.Helper()
	if network == "udp" {
		c, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		return c.LocalAddr().(*net.UDPAddr).AddrPort()
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).AddrPort()
}

// upper answers a whole stream at its end with the text in capitals, which takes half-closed connections.
func upper(t *testing.T) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				text, err := io.ReadAll(c)
				if err == nil {
					_, _ = io.WriteString(c, strings.ToUpper(string(text)))
				}
			}()
		}
	}()
	return l.Addr().(*net.TCPAddr).AddrPort()
}

func ask(t *testing.T, p Port, text string) (string, error) {
	t.Helper()
	c, err := net.Dial("tcp", p.Listen.String())
	if err != nil {
		return "", err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, text); err != nil {
		return "", err
	}
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(c)
	return string(answer), err
}

func apply(t *testing.T, s *Server, ports ...Port) {
	t.Helper()
	if err := s.Sync(ports); err != nil {
		t.Fatal(err)
	}
}

func TestTCP(t *testing.T) {
	t.Parallel()
	s := New("")
	t.Cleanup(s.Close)
	p := Port{corev1.ProtocolTCP, free(t, "tcp"), upper(t)}
	apply(t, s, p, Port{Protocol: corev1.ProtocolSCTP})
	long := strings.Repeat("abcdefgh", 1<<17)
	for _, text := range []string{"", "text", long} {
		if got, err := ask(t, p, text); err != nil || got != strings.ToUpper(text) {
			t.Errorf("%d bytes in, %d out, %v", len(text), len(got), err)
		}
	}
	open, err := net.Dial("tcp", p.Listen.String())
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	if _, err := io.WriteString(open, "be"); err != nil {
		t.Fatal(err)
	}
	// The endpoints may change, the port may go: who is connected stays so.
	moved := Port{corev1.ProtocolTCP, p.Listen, upper(t)}
	apply(t, s, moved)
	if got, err := ask(t, moved, "new"); err != nil || got != "NEW" {
		t.Errorf("moved: %q, %v", got, err)
	}
	apply(t, s)
	if _, err := ask(t, p, ""); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("a port that is closed: %v", err)
	}
	if _, err := io.WriteString(open, "fore"); err != nil {
		t.Fatal(err)
	}
	if err := open.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(open); err != nil || string(got) != "BEFORE" {
		t.Errorf("a connection from before: %q, %v", got, err)
	}
}

func TestTCP_EndpointRefuses(t *testing.T) {
	t.Parallel()
	s := New("")
	t.Cleanup(s.Close)
	p := Port{corev1.ProtocolTCP, free(t, "tcp"), free(t, "tcp")}
	apply(t, s, p)
	if got, err := ask(t, p, "x"); got != "" {
		t.Errorf("got %q, %v", got, err)
	}
}

// Close ends connections that nobody else would end, and waits for them.
func TestClose(t *testing.T) {
	t.Parallel()
	s := New("")
	p := Port{corev1.ProtocolTCP, free(t, "tcp"), upper(t)}
	u := Port{corev1.ProtocolUDP, free(t, "udp"), echo(t)}
	apply(t, s, p, u)
	c, err := net.Dial("tcp", p.Listen.String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, "x"); err != nil {
		t.Fatal(err)
	}
	if got := exchange(t, dialUDP(t, u), "x"); got != "x" {
		t.Fatalf("got %q", got)
	}
	s.Close()
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the connection is open: %v", err)
	}
}

// A port that another program has is reported, does not keep others from being opened, and is tried again.
func TestSync_PortInUse(t *testing.T) {
	t.Parallel()
	s := New("")
	t.Cleanup(s.Close)
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	taken := Port{corev1.ProtocolTCP, other.Addr().(*net.TCPAddr).AddrPort(), upper(t)}
	fine := Port{corev1.ProtocolTCP, free(t, "tcp"), upper(t)}
	if err := s.Sync([]Port{taken, fine}); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("error is %v", err)
	}
	if got, err := ask(t, fine, "a"); err != nil || got != "A" {
		t.Errorf("the other port: %q, %v", got, err)
	}
	_ = other.Close()
	apply(t, s, taken, fine)
	if got, err := ask(t, taken, "a"); err != nil || got != "A" {
		t.Errorf("after the other program has ended: %q, %v", got, err)
	}
}

// echo answers datagrams with themselves.
func echo(t *testing.T) netip.AddrPort {
	t.Helper()
	return answering(t, func(text []byte, _ netip.AddrPort) []byte { return text })
}

func answering(t *testing.T, answer func(text []byte, from netip.AddrPort) []byte) netip.AddrPort {
	t.Helper()
	c, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	go func() {
		buffer := make([]byte, 1<<16)
		for {
			n, from, err := c.ReadFromUDPAddrPort(buffer)
			if err != nil {
				return
			}
			_, _ = c.WriteToUDPAddrPort(answer(buffer[:n], from), from)
		}
	}()
	return c.LocalAddr().(*net.UDPAddr).AddrPort()
}

func dialUDP(t *testing.T, p Port) net.Conn {
	t.Helper()
	c, err := net.Dial("udp", p.Listen.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func exchange(t *testing.T, c net.Conn, text string) string {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	if err := c.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	buffer := make([]byte, 1<<16)
	n, err := c.Read(buffer)
	if err != nil {
		t.Fatal(err)
	}
	return string(buffer[:n])
}

func TestUDP(t *testing.T) {
	t.Parallel()
	s := New("")
	s.idle = 500 * time.Millisecond // an answer that takes as long on a busy machine is lost
	t.Cleanup(s.Close)
	p := Port{corev1.ProtocolUDP, free(t, "udp"), echo(t)}
	apply(t, s, p)
	a, b := dialUDP(t, p), dialUDP(t, p)
	// Several clients at a time, and one that comes back after it was forgotten.
	idle := time.NewTimer(0)
	for range 3 {
		<-idle.C
		for c, text := range map[net.Conn]string{a: "a", b: "b"} {
			if got := exchange(t, c, text); got != text {
				t.Errorf("%q came back as %q", text, got)
			}
		}
		idle.Reset(3 * s.idle)
	}
}

// TestUDP_ManyPeers: who comes after as many peers as are remembered is answered, and one that has asked all the time keeps its
// socket.
func TestUDP_ManyPeers(t *testing.T) {
	t.Parallel()
	s := New("")
	s.maxFlows = 3
	t.Cleanup(s.Close)
	p := Port{corev1.ProtocolUDP, free(t, "udp"), answering(t, func(_ []byte, from netip.AddrPort) []byte { return []byte(from.String()) })}
	apply(t, s, p)
	steady := dialUDP(t, p)
	before := exchange(t, steady, "x")
	seen := map[string]bool{}
	for range 2 * s.maxFlows {
		seen[exchange(t, dialUDP(t, p), "x")] = true
		if now := exchange(t, steady, "x"); now != before {
			t.Errorf("the steady one came from %s, and comes from %s", before, now)
		}
	}
	if seen[before] || len(seen) < 2 {
		t.Errorf("others came from %v, the steady one from %s", seen, before)
	}
}

// broken is a socket of which nothing can be read.
type broken struct {
	socket
	reads []time.Time
}

func (b *broken) ReadFromUDPAddrPort([]byte) (int, netip.AddrPort, error) {
	if b.reads = append(b.reads, time.Now()); len(b.reads) > 2 {
		return 0, netip.AddrPort{}, net.ErrClosed
	}
	return 0, netip.AddrPort{}, syscall.ENOMEM
}

// TestUDP_CannotRead: what fails all the time does not take all the time.
func TestUDP_CannotRead(t *testing.T) {
	t.Parallel()
	s := New("")
	t.Cleanup(s.Close)
	b := &broken{}
	(&relay{Server: s, clients: b}).run()
	if took := b.reads[2].Sub(b.reads[0]); took < pause {
		t.Errorf("three tries within %v", took)
	}
}

// TestSync_ToItself: a port whose connections would come back to it is refused.
func TestSync_ToItself(t *testing.T) {
	t.Parallel()
	s := New("")
	t.Cleanup(s.Close)
	at := free(t, "tcp")
	p := Port{corev1.ProtocolTCP, at, at}
	if err := s.Sync([]Port{p}); err == nil || !strings.Contains(err.Error(), "kubelet.nodeIP") {
		t.Errorf("error is %v", err)
	}
	if _, err := ask(t, p, ""); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("it is open: %v", err)
	}
}
