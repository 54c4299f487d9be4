// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"minik8s.io/minik8s/test/bench/figure"
	"minik8s.io/minik8s/test/program"
)

// programs are paths; plain is ours without a profile for the compiler.
type programs struct{ ours, upstream, plain string }

// of returns the API server of a side.
func (p programs) of(side figure.Side) string {
	return map[figure.Side]string{figure.Upstream: p.upstream, figure.Ours: p.ours, figure.Plain: p.plain}[side]
}

// server is an API server that runs, and its etcd.
type server struct {
	*program.Server
	side figure.Side
	// ready is the time from the exec of the API server until /readyz, readyUsage what it had taken by then.
	ready      time.Duration
	readyUsage program.Usage
	// accounts are those of its clients, nil before there is one.
	accounts []program.Account
}

// start runs etcd, with its data synced to the disk, and when that serves, the API server.
func (b *bench) start(ctx context.Context, side figure.Side) (*server, error) {
	setup := program.Setup{
		Identity: b.identity, Dir: filepath.Join(b.dir, side.String()), Minik8s: b.ours, APIServer: b.of(side),
		Flags: []string{"--enable-admission-plugins=NodeRestriction"},
	}
	started, err := setup.Start(ctx)
	if err != nil {
		return nil, err
	}
	s := &server{Server: started, side: side, ready: time.Since(started.APIServer.Started)}
	if s.readyUsage, err = s.APIServer.Usage(); err != nil {
		return nil, errors.Join(err, s.stop())
	}
	return s, nil
}

// usage of the API server and of its etcd.
func (s *server) usage() (apiserver, etcd program.Usage, err error) {
	if apiserver, err = s.APIServer.Usage(); err != nil {
		return program.Usage{}, program.Usage{}, err
	}
	etcd, err = s.Etcd.Usage()
	return apiserver, etcd, err
}

// stop ends both programs and removes their data.
func (s *server) stop() error {
	s.Stop()
	return os.RemoveAll(s.Dir)
}
