// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Command blackbox starts an API server, sends it malformed requests, and tells which it takes badly. Touch it for its flags.
// Run it with: make fuzz-api.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"minik8s.io/minik8s/test/differential/corpus"
	"minik8s.io/minik8s/test/differential/servers"
	"minik8s.io/minik8s/test/fuzz/attack"
	"minik8s.io/minik8s/test/fuzz/request"
	"minik8s.io/minik8s/test/fuzz/surface"
	"minik8s.io/minik8s/test/program"
)

type flags struct {
	etcd, server, dir   string
	seed, count, single uint64
}

func main() {
	var f flags
	flag.StringVar(&f.server, "server", "bin/minik8s", "the kube-apiserver to attack; upstream's shows what that one answers")
	flag.StringVar(&f.etcd, "minik8s", "bin/minik8s", "our binary, which is the server's etcd")
	flag.StringVar(&f.dir, "dir", "bin/fuzz", "where logs are written")
	flag.Uint64Var(&f.count, "count", 200_000, "requests to send")
	flag.Uint64Var(&f.seed, "seed", 1, "chooses the requests")
	flag.Uint64Var(&f.single, "single", 0, "only send the request of this number, and print the answer's judgement")
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
	s, err := f.start(ctx)
	if err != nil {
		return false, err
	}
	defer s.Stop()
	operations, err := surface.Read(s.Client, s.URL)
	if err != nil {
		return false, err
	}
	maker, err := newMaker(operations, f.seed)
	if err != nil {
		return false, err
	}
	k, err := attack.Keep(ctx, s.Client, s.URL)
	if err != nil {
		return false, err
	}
	transport, ok := s.Client.Transport.(*http.Transport)
	if !ok {
		return false, errors.New("the server's client has no TLS configuration")
	}
	a := &attack.Attack{Base: s.URL, Clients: attack.Clients(transport.TLSClientConfig), Make: maker.Make}
	if f.single > 0 {
		fmt.Println(maker.Make(f.single))
		a.Run(ctx, f.single, f.single+1)
		return tell(a), nil
	}
	warm := min(f.count/10, 2000)
	a.Run(ctx, 0, warm)
	before, err := k.Level(ctx)
	if err != nil {
		return false, err
	}
	for from := warm; from < f.count && ctx.Err() == nil; from += 10_000 {
		a.Run(ctx, from, min(from+10_000, f.count))
		if err := s.Alive(); err != nil {
			return tell(a), err
		}
		now, err := k.Level(ctx)
		fmt.Printf("%d of %d, %d findings, the server holds %+v\n", min(from+10_000, f.count), f.count, len(a.Findings()), now)
		if err != nil {
			return tell(a), err
		}
	}
	fine = tell(a)
	return fine, errors.Join(f.after(ctx, s, k, operations, before), ctx.Err())
}

func newMaker(operations []surface.Operation, seed uint64) (*request.Maker, error) {
	seeds, err := corpus.Seeds()
	if err != nil {
		return nil, err
	}
	var objects []map[string]any
	for _, s := range seeds {
		objects = append(objects, s.Object)
	}
	return request.NewMaker(operations, objects, seed)
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

// tell prints what was found.
func tell(a *attack.Attack) (fine bool) {
	all := a.Findings()
	for _, x := range all {
		fmt.Printf("\nrequest %d, and %d more like it: %s\n    %s\n    reproduce: -single %d\n", x.Number, x.Count-1, x.What, x.Request, x.Number)
	}
	fmt.Printf("\n%s\n%d findings\n", a.Summary(), len(all))
	return len(all) == 0
}

// start runs the server.
func (f flags) start(ctx context.Context) (*servers.Server, error) {
	for _, p := range []*string{&f.etcd, &f.server, &f.dir} {
		var err error
		if *p, err = filepath.Abs(*p); err != nil {
			return nil, err
		}
	}
	// Only what this program made is removed.
	for _, name := range []string{"server", "identity"} {
		if err := os.RemoveAll(filepath.Join(f.dir, name)); err != nil {
			return nil, err
		}
	}
	id, err := servers.NewIdentity(filepath.Join(f.dir, "identity"))
	if err != nil {
		return nil, err
	}
	ports, err := program.FreePorts(1)
	if err != nil {
		return nil, err
	}
	return servers.Start(ctx, filepath.Join(f.dir, "server"), servers.OurAddress, ports[0], servers.Programs{Etcd: f.etcd, APIServer: f.server}, id)
}
