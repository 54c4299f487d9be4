// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package socket

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	registrationv1 "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// TestServe: a folder is made, what is left of an earlier process is no hindrance, and the end of ctx is no error.
func TestServe(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for range 2 {
		ctx, cancel := context.WithCancel(t.Context())
		server := grpc.NewServer()
		registrationv1.RegisterRegistrationServer(server, named{name: "kubelet"})
		done := make(chan error, 1)
		go func() { done <- Serve(ctx, root, "api", "s", server) }()
		conn, err := Client(filepath.Join(root, "api"), "s")
		if err != nil {
			t.Fatal(err)
		}
		patience, stop := context.WithTimeout(t.Context(), 10*time.Second)
		info, err := registrationv1.NewRegistrationClient(conn).GetInfo(patience, &registrationv1.InfoRequest{}, grpc.WaitForReady(true))
		if err != nil || info.GetName() != "kubelet" {
			t.Errorf("%v, %v", info, err)
		}
		stop()
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Serve(t.Context(), root, "file", "s", grpc.NewServer()); err == nil {
		t.Error("a file is no folder")
	}
}

func TestLimit(t *testing.T) {
	t.Parallel()
	intercept := Limit(rate.Every(time.Hour), 3)
	handle := func(context.Context, any) (any, error) { return "answer", nil }
	for range 3 {
		if got, err := intercept(t.Context(), nil, nil, handle); got != "answer" || err != nil {
			t.Errorf("got %v, %v", got, err)
		}
	}
	if got, err := intercept(t.Context(), nil, nil, handle); got != nil || status.Code(err) != codes.ResourceExhausted {
		t.Errorf("too many: %v, %v", got, err)
	}
}
