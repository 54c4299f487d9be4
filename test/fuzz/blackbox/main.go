// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Command blackbox starts an API server, sends it malformed requests, and tells which it takes badly. Touch it for its flags.
// Run it with: make fuzz-api.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"minik8s.io/minik8s/test/differential/corpus"
	"minik8s.io/minik8s/test/differential/servers"
	"minik8s.io/minik8s/test/fuzz/attack"
	"minik8s.io/minik8s/test/fuzz/identity"
	"minik8s.io/minik8s/test/fuzz/oracle"
	"minik8s.io/minik8s/test/fuzz/request"
	"minik8s.io/minik8s/test/fuzz/surface"
	"minik8s.io/minik8s/test/program"
)

type flags struct {
	etcd, server, dir             string
	seed, requests, single, round uint64
	wide                          bool
}

func main() {
	var f flags
	flag.StringVar(&f.server, "server", "bin/minik8s", "the kube-apiserver to attack; upstream's shows what that one answers")
	flag.StringVar(&f.etcd, "minik8s", "bin/minik8s", "our binary, which is the server's etcd")
	flag.StringVar(&f.dir, "dir", "bin/fuzz", "where logs are written")
	flag.Uint64Var(&f.requests, "requests", 200_000, "requests of users with few rights; administrators send a quarter as many in between")
	flag.Uint64Var(&f.round, "round", 10_000, "requests after which everything that is stored is looked at")
	flag.Uint64Var(&f.seed, "seed", 1, "chooses the requests")
	flag.Uint64Var(&f.single, "single", 0, "only send the request of this number, and print the answer's judgement")
	flag.BoolVar(&f.wide, "wide", false, "with -single: the request is an administrator's")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	fine, err := f.main(ctx)
	if err != nil {
		fmt.Fprintf(os.Stderr, "error: %v\n", err)
		os.Exit(2)
	}
	if !fine {
		os.Exit(1)
	}
}

func (f flags) main(ctx context.Context) (fine bool, err error) {
	id, s, err := f.start(ctx)
	if err != nil {
		return false, err
	}
	defer s.Stop()
	b, err := f.prepare(ctx, id, s)
	if err != nil {
		return false, err
	}
	if f.single > 0 {
		return b.one(ctx, f.single, f.wide), nil
	}
	began := time.Now()
	before, err := b.kept.Level(ctx)
	if err != nil {
		return false, err
	}
	for from := uint64(0); from < f.requests && ctx.Err() == nil; from += f.round {
		to := min(from+f.round, f.requests)
		if err := b.round(ctx, from, to); err != nil {
			return b.tell(), errors.Join(err, s.Alive())
		}
		now, err := b.kept.Level(ctx)
		if err != nil {
			return b.tell(), err
		}
		if from == 0 {
			before = now // caches are filled, once
		}
		fmt.Printf("%d of %d, %.0f s, %d findings, the server holds %+v\n", to, f.requests, time.Since(began).Seconds(), b.findings(), now)
	}
	fine = b.tell()
	return fine, errors.Join(f.after(ctx, s, b.kept, b.operations, before), ctx.Err())
}

// prepare makes users, objects and what sends requests.
func (f flags) prepare(ctx context.Context, id *program.Identity, s *servers.Server) (*battle, error) {
	b := &battle{server: s, kept: attack.Reach(s.Client, s.URL)}
	if err := surface.Define(ctx, s.Client, s.URL, b.kept.Ask); err != nil {
		return nil, err
	}
	var err error
	if b.operations, err = surface.Read(s.Client, s.URL); err != nil {
		return nil, err
	}
	seeds, err := objects()
	if err != nil {
		return nil, err
	}
	wide, err := request.NewMaker(request.Wide, b.operations, seeds, f.seed)
	if err != nil {
		return nil, err
	}
	narrow, err := request.NewMaker(request.Narrow, b.operations, seeds, f.seed)
	if err != nil {
		return nil, err
	}
	if err := b.kept.Keep(ctx); err != nil {
		return nil, err
	}
	if err := b.prepare(ctx); err != nil {
		return nil, err
	}
	users, err := identity.All(ctx, id, b.kept.Ask)
	if err != nil {
		return nil, err
	}
	b.wide = &attack.Attack{Base: s.URL, Clients: attack.Administrators(id.TLS(), id.Nobody()), Make: wide.Make}
	b.narrow = &attack.Attack{Base: s.URL, Clients: attack.Users(users), Make: narrow.Make, Oracle: &oracle.Oracle{Ask: b.kept.Ask, Operations: b.operations, Users: users}}
	return b, nil
}

// objects are the seeds of all kinds.
func objects() ([]map[string]any, error) {
	seeds, err := corpus.Seeds()
	if err != nil {
		return nil, err
	}
	var all []map[string]any
	for _, s := range seeds {
		all = append(all, s.Object)
	}
	for _, text := range surface.Instances {
		var o map[string]any
		if err := json.Unmarshal([]byte(text), &o); err != nil {
			return nil, err
		}
		all = append(all, o)
	}
	return all, nil
}

// after looks at what must be as before.
func (f flags) after(ctx context.Context, s *servers.Server, k *attack.Kept, operations []surface.Operation, before attack.Level) error {
	errs := []error{k.Changed(ctx), k.Clear(ctx, operations)}
	now, err := k.Settle(ctx, before, 3*time.Minute)
	fmt.Printf("before, the server held %+v, at the end %+v\n", before, now)
	panics, read := s.Panics()
	for _, line := range panics {
		errs = append(errs, fmt.Errorf("panic: %s", line))
	}
	return errors.Join(append(errs, err, read, s.Alive())...)
}

// start runs the server.
func (f flags) start(ctx context.Context) (*program.Identity, *servers.Server, error) {
	for _, p := range []*string{&f.etcd, &f.server, &f.dir} {
		var err error
		if *p, err = filepath.Abs(*p); err != nil {
			return nil, nil, err
		}
	}
	// Only what this program made is removed.
	for _, name := range []string{"server", "identity"} {
		if err := os.RemoveAll(filepath.Join(f.dir, name)); err != nil {
			return nil, nil, err
		}
	}
	id, err := servers.NewIdentity(filepath.Join(f.dir, "identity"))
	if err != nil {
		return nil, nil, err
	}
	ports, err := program.FreePorts(1)
	if err != nil {
		return nil, nil, err
	}
	s, err := servers.Start(ctx, filepath.Join(f.dir, "server"), servers.OurAddress, ports[0], servers.Programs{Etcd: f.etcd, APIServer: f.server}, id)
	return id, s, err
}
