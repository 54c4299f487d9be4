// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Agnhost stands for upstream's program of this name as far as the suites of network policies call it: it serves its hostname by TCP and
// UDP, and connects. SCTP is spoken as far as the beginning of an association, on a raw socket, for which the kernel needs no module.
// Touch it when a suite calls it in another way.
package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"
)

func main() {
	args := os.Args[1:]
	if len(args) == 2 && args[0] == "-c" { // called as a shell
		args = strings.Fields(args[1])[1:]
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := run(ctx, args); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		args = []string{"pause"}
	}
	flags := pflag.NewFlagSet(args[0], pflag.ContinueOnError)
	tcp, udp, _ := flags.Bool("tcp", false, ""), flags.Bool("udp", false, ""), flags.Bool("http", true, "")
	port, httpPort, udpPort := flags.Int("port", 0, ""), flags.Int("http-port", 0, ""), flags.Int("udp-port", 0, "")
	address := flags.String("udp-listen-addresses", "", "")
	timeout, protocol := flags.Duration("timeout", 0, ""), flags.String("protocol", "tcp", "")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	switch args[0] {
	case "pause":
	case "serve-hostname":
		if *tcp {
			if err := serveTCP(*port); err != nil {
				return err
			}
		}
		if *udp {
			if err := serveUDP("", *port); err != nil {
				return err
			}
		}
	case "netexec":
		if err := errors.Join(serveTCP(*httpPort), serveUDP(*address, *udpPort)); err != nil {
			return err
		}
	case "porter":
		for _, variable := range os.Environ() {
			name, _, _ := strings.Cut(variable, "=")
			if number, is := strings.CutPrefix(name, "SERVE_SCTP_PORT_"); is {
				if err := serveSCTP(number); err != nil {
					return err
				}
			}
		}
	case "connect":
		return connect(*protocol, flags.Arg(0), *timeout)
	default:
		return fmt.Errorf("command %q is not known", args[0])
	}
	<-ctx.Done()
	return nil
}

func hostname() []byte {
	name, err := os.Hostname()
	if err != nil {
		return []byte("?")
	}
	return []byte(name + "\n")
}

func serveTCP(port int) error {
	l, err := net.Listen("tcp", ":"+strconv.Itoa(port))
	if err != nil {
		return err
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write(hostname()) // the client hears it, or fails
			_ = c.Close()
		}
	}()
	return nil
}

func serveUDP(address string, port int) error {
	p, err := net.ListenPacket("udp", net.JoinHostPort(address, strconv.Itoa(port)))
	if err != nil {
		return err
	}
	go func() {
		buffer := make([]byte, 2048)
		for {
			_, from, err := p.ReadFrom(buffer)
			if err != nil {
				return
			}
			_, _ = p.WriteTo(hostname(), from) // the client hears it, or fails
		}
	}()
	return nil
}

// connect fails with the words of upstream's program.
func connect(protocol, address string, timeout time.Duration) error {
	deadline := time.Now().Add(timeout)
	err := func() error {
		switch protocol {
		case "sctp":
			return associate(address, deadline)
		case "udp":
			c, err := net.DialTimeout("udp", address, timeout)
			if err != nil {
				return err
			}
			defer c.Close()
			_ = c.SetDeadline(deadline)
			if _, err := c.Write([]byte("hostname\n")); err != nil {
				return err
			}
			_, err = c.Read(make([]byte, 1024))
			return err
		default:
			c, err := net.DialTimeout("tcp", address, timeout)
			if err != nil {
				return err
			}
			return c.Close()
		}
	}()
	var dns *net.DNSError
	var slow net.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &dns):
		return fmt.Errorf("DNS: %w", err)
	case errors.As(err, &slow) && slow.Timeout():
		return errors.New("TIMEOUT")
	case errors.Is(err, syscall.ECONNREFUSED):
		return errors.New("REFUSED")
	default:
		return fmt.Errorf("OTHER: %w", err)
	}
}

// The chunks that begin an association (RFC 9260, section 3.3).
const chunkInit, chunkInitAck = 1, 2

// segment is a packet with one chunk, which has a tag for the other side, a window, and streams of 1.
func segment(from, to uint16, tag uint32, chunk byte) []byte {
	b := binary.BigEndian.AppendUint16(nil, from)
	b = binary.BigEndian.AppendUint16(b, to)
	b = binary.BigEndian.AppendUint32(b, tag)
	b = append(b, 0, 0, 0, 0) // checksum
	body := []byte{0, 0, 0, 1, 0, 1, 0, 0, 0, 1, 0, 1, 0, 0, 0, 1}
	if chunk == chunkInitAck {
		body = append(body, 0, 7, 0, 8, 1, 2, 3, 4) // a state cookie
	}
	b = append(b, chunk, 0, 0, byte(4+len(body)))
	b = append(b, body...)
	binary.LittleEndian.PutUint32(b[8:], crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)))
	return b
}

// each calls f for the packets of a socket with a chunk of a kind to a port, until f or the socket has enough.
func each(p net.PacketConn, chunk byte, port uint16, f func(from net.Addr, peer uint16) (enough bool)) error {
	buffer := make([]byte, 2048)
	for {
		n, from, err := p.ReadFrom(buffer)
		if err != nil {
			return err
		}
		if n >= 16 && binary.BigEndian.Uint16(buffer[2:]) == port && buffer[12] == chunk && f(from, binary.BigEndian.Uint16(buffer)) {
			return nil
		}
	}
}

func serveSCTP(number string) error {
	port, err := strconv.ParseUint(number, 10, 16)
	if err != nil {
		return err
	}
	p, err := net.ListenPacket("ip4:132", "")
	if err != nil {
		return err
	}
	go func() {
		_ = each(p, chunkInit, uint16(port), func(from net.Addr, peer uint16) bool {
			_, _ = p.WriteTo(segment(uint16(port), peer, 1, chunkInitAck), from)
			return false
		})
	}()
	return nil
}

// associate begins an association and waits for the answer.
func associate(address string, deadline time.Time) error {
	host, number, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	to, err := net.ResolveIPAddr("ip4", host)
	if err != nil {
		return err
	}
	port, err := strconv.ParseUint(number, 10, 16)
	if err != nil {
		return err
	}
	p, err := net.ListenPacket("ip4:132", "")
	if err != nil {
		return err
	}
	defer p.Close()
	_ = p.SetDeadline(deadline)
	own := uint16(1024 + os.Getpid()*7919%60000)
	if _, err := p.WriteTo(segment(own, uint16(port), 0, chunkInit), to); err != nil {
		return err
	}
	err = each(p, chunkInitAck, own, func(_ net.Addr, peer uint16) bool { return peer == uint16(port) })
	if errors.Is(err, io.EOF) {
		return os.ErrDeadlineExceeded
	}
	return err
}
