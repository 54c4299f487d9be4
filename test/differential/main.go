// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Command differential runs upstream's kube-apiserver and ours side by side, asks both the same thousands of things, and
// tells where the answers differ. Touch it for its flags. Run it with: make differential.
package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	"minik8s.io/minik8s/test/differential/report"
	"minik8s.io/minik8s/test/differential/run"
	"minik8s.io/minik8s/test/differential/servers"
	"minik8s.io/minik8s/test/program"
)

//go:embed explained.csv
var explained string

type flags struct {
	upstream, ours, dir, only, seed string
	perSeed, workers                int
	serve                           bool
}

func main() {
	var f flags
	flag.StringVar(&f.upstream, "upstream", "test/conformance/bin/kube-apiserver", "upstream's kube-apiserver")
	flag.StringVar(&f.ours, "minik8s", "bin/minik8s", "our binary, which is the etcd of both too")
	flag.StringVar(&f.dir, "dir", "bin/differential", "where logs and results are written")
	flag.StringVar(&f.only, "only", "", "regular expression: the resources to look at, such as ^pods$ or scenarios")
	flag.StringVar(&f.seed, "seed", "1", "chooses the mutations, when there are more than -per-seed")
	flag.IntVar(&f.perSeed, "per-seed", 100, "mutations of each object for creating, and again for updating; 0: all")
	flag.IntVar(&f.workers, "workers", 6, "requests under way")
	flag.BoolVar(&f.serve, "serve", false, "only start both, print their kubeconfigs, and wait")
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
	list, err := report.ReadExplanations(strings.NewReader(explained))
	if err != nil {
		return false, err
	}
	c := run.Config{PerSeed: f.perSeed, Seed: f.seed, Workers: f.workers, Log: func(format string, args ...any) { fmt.Printf(format+"\n", args...) }}
	if f.only != "" {
		if c.Only, err = regexp.Compile(f.only); err != nil {
			return false, err
		}
	}
	stop, err := f.start(ctx, &c)
	if err != nil {
		return false, err
	}
	defer stop()
	if f.serve {
		fmt.Printf("upstream: --kubeconfig %s\nours:     --kubeconfig %s\n", filepath.Join(f.dir, "upstream/kubeconfig"), filepath.Join(f.dir, "ours/kubeconfig"))
		<-ctx.Done()
		return true, nil
	}
	r, err := run.Run(ctx, c)
	if r == nil {
		return false, err
	}
	findings := r.Findings()
	unused := report.Explain(findings, list)
	if c.Only != nil || err != nil {
		unused = nil // not everything was looked at
	}
	fine, failed := f.result(r, findings, unused)
	return fine && err == nil, errors.Join(err, failed)
}

// start runs both servers, and returns what ends them.
func (f flags) start(ctx context.Context, c *run.Config) (stop func(), err error) {
	for _, p := range []*string{&f.upstream, &f.ours, &f.dir} {
		if *p, err = filepath.Abs(*p); err != nil {
			return nil, err
		}
	}
	// Only what this program made is removed.
	for _, name := range []string{"upstream", "ours", "identity"} {
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
	if c.Upstream, err = servers.Start(ctx, filepath.Join(f.dir, "upstream"), servers.UpstreamAddress, ports[0], servers.Programs{Etcd: f.ours, APIServer: f.upstream}, id); err != nil {
		return nil, fmt.Errorf("starting upstream's server: %w", err)
	}
	if c.Ours, err = servers.Start(ctx, filepath.Join(f.dir, "ours"), servers.OurAddress, ports[0], servers.Programs{Etcd: f.ours, APIServer: f.ours}, id); err != nil {
		c.Upstream.Stop()
		return nil, fmt.Errorf("starting our server: %w", err)
	}
	return func() { c.Upstream.Stop(); c.Ours.Stop() }, nil
}

// result writes and prints what was found, and tells whether it is fine.
func (f flags) result(r *report.Report, findings []report.Finding, unused []*report.Explanation) (bool, error) {
	open, excused := 0, 0
	for _, x := range findings {
		if x.Explained != "" {
			excused++
		} else {
			open++
		}
	}
	all, changed := r.Requests()
	head := fmt.Sprintf("%d requests, %d of them with a changed object: %d differences, %d more that explained.csv explains\n",
		all, changed, open, excused)
	if err := report.Write(f.dir, findings, head); err != nil {
		return false, err
	}
	fmt.Print(head)
	for _, e := range unused {
		fmt.Printf("explained.csv: nothing differs any more as in %s,%s,%s: delete the line\n", e.Kind, e.Check, e.Path)
	}
	fmt.Printf("see %s and findings.json there\n", filepath.Join(f.dir, "summary.txt"))
	if all == 0 {
		return false, errors.New("nothing was compared")
	}
	return open == 0 && len(unused) == 0, nil
}
