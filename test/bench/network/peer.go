// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"minik8s.io/minik8s/test/bench/figure"
)

// The first arguments of the two programs that talk to each other in pods and containers. The second argument of the one that
// sends is the address of the other.
const (
	peerCommand = "peer"
	sendCommand = "send"
)

const (
	sinkPort = 5001
	echoPort = 5002
)

// flow is what goes between two of them, as the sender prints it.
type flow struct {
	// Gigabits in a second on one connection, and times of one byte there and back.
	Gigabits float64
	Median   time.Duration
	Most     time.Duration
}

// servePeer takes what is sent to one port, and sends back what comes to the other.
func servePeer(ctx context.Context) error {
	var listen net.ListenConfig
	sink, err := listen.Listen(ctx, "tcp", fmt.Sprintf(":%d", sinkPort))
	if err != nil {
		return err
	}
	echo, err := listen.Listen(ctx, "tcp", fmt.Sprintf(":%d", echoPort))
	if err != nil {
		return err
	}
	go accept(sink, func(c net.Conn) {
		defer c.Close()
		buffer := make([]byte, 1<<18)
		for {
			if _, err := c.Read(buffer); err != nil {
				return
			}
		}
	})
	go accept(echo, func(c net.Conn) {
		defer c.Close()
		_, _ = io.CopyBuffer(struct{ io.Writer }{c}, struct{ io.Reader }{c}, make([]byte, 1)) // until the other goes
	})
	<-ctx.Done()
	return nil
}

// sendToPeer measures and prints a flow.
func sendToPeer(ctx context.Context) error {
	const long = 5 * time.Second
	host := os.Args[2]
	var f flow
	sent, err := pour(ctx, host, long)
	if err != nil {
		return err
	}
	f.Gigabits = float64(sent) * 8 / long.Seconds() / 1e9
	took, err := bounce(ctx, host, long)
	if err != nil {
		return err
	}
	f.Median, f.Most = figure.Percentile(took, 0.5), figure.Percentile(took, 0.99)
	return json.NewEncoder(os.Stdout).Encode(f)
}

// pour sends as much as goes through, and returns how many bytes it was.
func pour(ctx context.Context, host string, long time.Duration) (sent int64, err error) {
	c, err := dialPeer(ctx, host, sinkPort)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	buffer := make([]byte, 1<<18)
	for end := time.Now().Add(long); time.Now().Before(end); {
		n, err := c.Write(buffer)
		if err != nil {
			return 0, err
		}
		sent += int64(n)
	}
	return sent, nil
}

// bounce sends a byte again and again, and returns how long each took there and back.
func bounce(ctx context.Context, host string, long time.Duration) (took []time.Duration, err error) {
	c, err := dialPeer(ctx, host, echoPort)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	buffer := make([]byte, 1)
	for end := time.Now().Add(long); time.Now().Before(end); {
		begun := time.Now()
		if _, err := c.Write(buffer); err != nil {
			return nil, err
		}
		if _, err := io.ReadFull(c, buffer); err != nil {
			return nil, err
		}
		took = append(took, time.Since(begun))
	}
	return took, nil
}

func dialPeer(ctx context.Context, host string, port int) (net.Conn, error) {
	d := net.Dialer{Timeout: 10 * time.Second}
	return d.DialContext(ctx, "tcp", net.JoinHostPort(host, fmt.Sprint(port)))
}
