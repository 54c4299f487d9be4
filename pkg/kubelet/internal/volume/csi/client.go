// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package csi

import (
	"context"
	"fmt"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"minik8s.io/minik8s/pkg/kubelet/internal/socket"
)

// patience bounds each call of a driver, as upstream's csiTimeout.
const patience = 2 * time.Minute

// capabilities are what a driver can do on a node.
type capabilities map[csipb.NodeServiceCapability_RPC_Type]bool

// call connects to a driver for one call of f, which is bounded. A connection for each call costs little on one machine, and none is
// left to a driver that has gone or has been replaced.
func call[T any](ctx context.Context, d driver, f func(context.Context, csipb.NodeClient) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var none T
	s, err := socket.Open(d.dir, d.socket)
	if err != nil {
		return none, fmt.Errorf("finding the socket of driver %s: %w", d.name, err)
	}
	defer s.Close()
	conn, err := s.Client(grpc.WithUnaryInterceptor(d.timed))
	if err != nil {
		return none, fmt.Errorf("connecting to driver %s: %w", d.name, err)
	}
	defer conn.Close()
	return f(ctx, csipb.NewNodeClient(conn))
}

// Calls is told of each call of a driver: what it was, as gRPC names it, how long it took and what came of it. It does not block.
type Calls interface {
	CSICall(driver, method string, took time.Duration, err error)
}

// timed is a grpc.UnaryClientInterceptor.
func (d driver) timed(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, next grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	began := time.Now()
	err := next(ctx, method, req, reply, conn, opts...)
	if d.calls != nil {
		d.calls.CSICall(d.name, method, time.Since(began), err)
	}
	return err
}

// capabilitiesOf asks a driver what it can do.
func capabilitiesOf(ctx context.Context, d driver) (capabilities, error) {
	answer, err := call(ctx, d, func(ctx context.Context, c csipb.NodeClient) (*csipb.NodeGetCapabilitiesResponse, error) {
		return c.NodeGetCapabilities(ctx, &csipb.NodeGetCapabilitiesRequest{})
	})
	if err != nil {
		return nil, fmt.Errorf("kubernetes.io/csi: failed to get capabilities of the driver: %w", err)
	}
	out := capabilities{}
	for _, c := range answer.GetCapabilities() {
		out[c.GetRpc().GetType()] = true
	}
	return out, nil
}

// isFinal says whether a call has failed for good, so that the driver does nothing about it any more. After any other error it may
// be at work still, or have done it.
func isFinal(err error) bool {
	s, ok := status.FromError(err)
	if !ok {
		return false
	}
	switch s.Code() {
	case codes.OK, codes.Canceled, codes.DeadlineExceeded, codes.Unavailable, codes.ResourceExhausted, codes.Aborted:
		return false
	}
	return true
}
