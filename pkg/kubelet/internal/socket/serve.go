// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package socket

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Serve serves other programs of the node by a socket in a folder of the kubelet's directory, which is made, until ctx ends.
func Serve(ctx context.Context, rootDir, folder, name string, server *grpc.Server) error {
	dir := filepath.Join(rootDir, folder)
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return fmt.Errorf("making the directory of an API: %w", err)
	}
	l, err := Listen(dir, name)
	if err != nil {
		return fmt.Errorf("listening in %s: %w", dir, err)
	}
	defer context.AfterFunc(ctx, server.Stop)()
	if err := server.Serve(l); err != nil && ctx.Err() == nil {
		return fmt.Errorf("serving in %s: %w", dir, err)
	}
	return nil
}

// Limit refuses requests that come too often, with the code ResourceExhausted.
func Limit(qps rate.Limit, burst int) grpc.UnaryServerInterceptor {
	limiter := rate.NewLimiter(qps, burst)
	return func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		if !limiter.Allow() {
			return nil, status.Error(codes.ResourceExhausted, "rejected by rate limit")
		}
		return handle(ctx, request)
	}
}
