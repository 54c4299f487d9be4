// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	"k8s.io/client-go/rest"

	"minik8s.io/minik8s/pkg/controllers"
	"minik8s.io/minik8s/test/program"
)

// makeClaims runs what makes the resource claims of pods, for both schedulers the same, until it is stopped: upstream's harness runs
// upstream's in the same way.
func makeClaims(ctx context.Context, server *program.Server) (stop func() error, err error) {
	loops, err := controllers.New(controllers.Config{
		RESTConfig: server.Config(), Enabled: []string{"resourceclaim"},
		ClientFor: func(string) (*rest.Config, error) { return server.Config(), nil },
	})
	if err != nil {
		return nil, fmt.Errorf("preparing to make resource claims: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- loops.Start(ctx) }()
	return func() error {
		cancel()
		return <-done
	}, nil
}
