// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/kubernetes"

	"minik8s.io/minik8s/test/bench/figure"
	"minik8s.io/minik8s/test/program"
)

// programs are paths.
type programs struct{ ours, upstream string }

// server is an API server that runs, and its etcd.
type server struct {
	*program.Server
	side figure.Side
	// ready is the time from the exec of the API server until /readyz, readyUsage what it had taken by then.
	ready      time.Duration
	readyUsage program.Usage
}

// start runs etcd, with its data synced to the disk, and when that serves, the API server.
func (b *bench) start(ctx context.Context, side figure.Side) (*server, error) {
	setup := program.Setup{
		Identity: b.identity, Dir: filepath.Join(b.dir, side.String()), Minik8s: b.ours, APIServer: b.upstream,
		Flags: []string{"--enable-admission-plugins=NodeRestriction"},
	}
	if side == figure.Ours {
		setup.APIServer = b.ours
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

// clients are n clients of a connection each.
func (s *server) clients(n int) ([]kubernetes.Interface, error) {
	all := make([]kubernetes.Interface, n)
	for i := range all {
		c, err := kubernetes.NewForConfigAndClient(s.Config(), s.HTTP())
		if err != nil {
			return nil, err
		}
		all[i] = c
	}
	return all, nil
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
