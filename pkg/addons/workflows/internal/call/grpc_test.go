// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package call

import (
	"net"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"

	"minik8s.io/minik8s/pkg/addons/workflows/internal/engine"
)

func TestGRPC(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	checks := health.NewServer()
	checks.SetServingStatus("shop", healthv1.HealthCheckResponse_NOT_SERVING)
	healthv1.RegisterHealthServer(server, checks)
	reflection.Register(server)
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		<-done
	})
	c := &Caller{Dial: (&net.Dialer{}).DialContext}
	for _, tt := range []struct {
		name, service, method string
		arguments             any
		want                  any
		wantErr               string
		status                int
	}{
		{name: "an answer", service: "grpc.health.v1.Health", method: "Check", arguments: map[string]any{"service": "shop"}, want: map[string]any{"status": "NOT_SERVING"}},
		{name: "an error", service: "grpc.health.v1.Health", method: "Check", arguments: map[string]any{"service": "x"}, wantErr: "unknown service", status: 404},
		{name: "no such method", service: "grpc.health.v1.Health", method: "X", wantErr: `no method "X"`, status: 400},
		{name: "no such service", service: "Nope", method: "X", wantErr: "Nope", status: 404},
		{name: "a stream", service: "grpc.health.v1.Health", method: "Watch", wantErr: "streams", status: 400},
		{name: "other arguments", service: "grpc.health.v1.Health", method: "Check", arguments: map[string]any{"servce": "x"}, wantErr: "not a grpc.health.v1.HealthCheckRequest", status: 400},
	} {
		t.Run(tt.name, func(t *testing.T) {
			arguments := map[string]any{
				"service": map[string]any{"name": tt.service, "host": "127.0.0.1", "port": listener.Addr().(*net.TCPAddr).Port}, "method": tt.method,
			}
			if tt.arguments != nil {
				arguments["arguments"] = tt.arguments
			}
			got := c.Do(t.Context(), engine.Action{Kind: engine.ActionCall, Name: "grpc", Key: "k", Arguments: arguments})
			if tt.wantErr != "" {
				if got.Error == nil || got.Error.Status != tt.status || !strings.Contains(got.Error.Detail, tt.wantErr) {
					t.Errorf("error %v", got.Error)
				}
				return
			}
			if got.Error != nil {
				t.Fatal(got.Error)
			}
			if diff := cmp.Diff(tt.want, got.Output); diff != "" {
				t.Error(diff)
			}
		})
	}
}
