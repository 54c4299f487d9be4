// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Command scheduler measures our scheduler and upstream's kube-scheduler side by side, in turns, each against the same API server, by
// the workloads of upstream's scheduler_perf, which it reads from upstream's module, by what they decide when nothing is bound, and in
// a cluster full of pods. It prints the ratio of each figure with what is aimed at and what upstream's CI wants, and fails if that is
// missed. Touch it when upstream's workloads have operations that it does
// not know. Run it with: make bench-scheduler.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/restmapper"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"minik8s.io/minik8s/test/bench/figure"
	"minik8s.io/minik8s/test/e2e/cluster"
	"minik8s.io/minik8s/test/program"
)

// podGroups is the gate by which pods are scheduled as groups, on.
const podGroups = "GenericWorkload=true"

// quick is the label of workloads that are for a short look.
const quick = "short"

// patience is how long a workload may take.
const patience = 20 * time.Minute

// options are the flags.
type options struct {
	minik8s, apiserver, upstream, unbind, plain, workloads string

	runs  int
	scale float64
	label string
	only  *regexp.Regexp
	// profiles is a folder, or empty.
	profiles string
	output   figure.Format
	sides    figure.Sides
	// printOnly makes a missed aim no error.
	printOnly bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	do := compare
	if len(os.Args) > 1 && os.Args[1] == schedulerCommand {
		do = schedule
	}
	if err := do(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "error: %v\n", err)
		stop()
		os.Exit(1)
	}
}

// flags are those of the command line.
func flags(ctx context.Context) (options, error) {
	root, err := cluster.Root()
	if err != nil {
		return options{}, err
	}
	judges := filepath.Join(root, "test", "conformance")
	built := filepath.Join(judges, "bin")
	o := options{output: figure.Text, sides: figure.Sides{figure.Upstream, figure.Ours, figure.Plain}}
	flag.StringVar(&o.minik8s, "minik8s", filepath.Join(root, "bin", "minik8s"), "our binary; it is the etcd of both")
	flag.StringVar(&o.apiserver, "apiserver", filepath.Join(built, "kube-apiserver"), "the API server of both")
	flag.StringVar(&o.upstream, "upstream", filepath.Join(built, "kube-scheduler"), "upstream's kube-scheduler")
	flag.StringVar(&o.unbind, "unbind", filepath.Join(built, "unbind"), "the same with a plugin that binds nothing")
	flag.StringVar(&o.plain, "plain", filepath.Join(root, "bin", "bench-scheduler-plain"), "this program, built without a profile")
	flag.StringVar(&o.workloads, "workloads", "", "folder with files "+configName+" (default: upstream's module)")
	flag.BoolVar(&o.printOnly, "print-only", false, "exit with 0 also if an aim is missed")
	flag.IntVar(&o.runs, "runs", 1, "how often everything is measured, of each scheduler in turn")
	flag.Float64Var(&o.scale, "scale", 1, "part of the objects of each workload; thresholds are for all of them")
	flag.StringVar(&o.label, "label", "performance", "only workloads with this label of upstream's")
	flag.StringVar(&o.profiles, "profiles", "", "folder for profiles of our scheduler (go tool pprof), two a workload: of the CPU and of the heap")
	flag.Var(&o.output, "o", "`format`: table or json")
	flag.Var(&o.sides, "sides", "whose programs are measured")
	only := flag.String("only", "", "regular expression: the workloads to measure, by case/workload")
	short := flag.Bool("quick", false, "a short look: the smallest workload of each case, whose figures say little")
	flag.Parse()
	if *short {
		o.label = quick
	}
	if o.only, err = regexp.Compile(*only); err != nil {
		return o, fmt.Errorf("-only: %w", err)
	}
	if o.workloads == "" {
		list := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes")
		list.Dir = judges
		dir, err := list.Output()
		if err != nil {
			return o, fmt.Errorf("looking for upstream's module: %w", err)
		}
		o.workloads = filepath.Join(strings.TrimSpace(string(dir)), "test", "integration", "scheduler_perf")
	}
	return o, nil
}

func compare(ctx context.Context) error {
	klog.SetLogger(logr.Discard()) // at the end of a cluster its watches are cut
	log.SetLogger(logr.Discard())
	o, err := flags(ctx)
	if err != nil {
		return err
	}
	cases, unknown, err := readCases(o.workloads)
	if err != nil {
		return err
	}
	for _, why := range unknown {
		fmt.Fprintln(os.Stderr, "not measured:", why)
	}
	dir, err := os.MkdirTemp("", "minik8s-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	id, err := program.NewIdentity(dir, "127.0.0.1")
	if err != nil {
		return err
	}
	b := &bench{options: o, identity: id, dir: dir, table: figure.Table{PrintOnly: o.printOnly}}
	for i := range o.runs {
		for c := range cases {
			for w := range cases[c].Workloads {
				if err := b.compare(ctx, i, &cases[c], &cases[c].Workloads[w]); err != nil {
					return err
				}
			}
		}
		if err := b.ourOwn(ctx, i); err != nil {
			return err
		}
	}
	return errors.Join(b.table.Print(os.Stdout, b.output), b.failed)
}

// bench collects figures.
type bench struct {
	options
	identity *program.Identity
	dir      string
	table    figure.Table
	failed   error
}

// compare measures a workload with the scheduler of each side. One that fails is told of at the end: others are measured all the same.
func (b *bench) compare(ctx context.Context, number int, c *testCase, w *workload) error {
	name := c.Name + "/" + w.Name
	if !c.has(w, b.label) || !b.only.MatchString(name) {
		return nil
	}
	operations, err := c.operations(w, b.scale)
	if err != nil {
		fmt.Fprintf(os.Stderr, "not measured: %s: %v\n", name, err)
		b.failed = errors.Join(b.failed, fmt.Errorf("%s: %w", name, err))
		return nil
	}
	for _, o := range operations {
		if _, ok := operators[o.Opcode]; !ok {
			fmt.Fprintf(os.Stderr, "not measured: %s: %s is not known here\n", name, o.Opcode)
			return nil
		}
	}
	for _, side := range b.sides.InRun(number) {
		begin := time.Now()
		if err := b.measure(ctx, side, c, w, operations); err != nil {
			err = fmt.Errorf("%s, %s: %w", name, side, err)
			if ctx.Err() != nil {
				return err
			}
			fmt.Fprintln(os.Stderr, err)
			b.failed = errors.Join(b.failed, err)
			continue
		}
		fmt.Fprintf(os.Stderr, "%s, run %d, %s: %.0f s\n", name, number+1, side, time.Since(begin).Seconds())
	}
	return nil
}

// measure runs one workload with one scheduler and an empty cluster.
func (b *bench) measure(ctx context.Context, side figure.Side, c *testCase, w *workload, operations []operation) (err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	setup := b.setup(side.String())
	gates := c.gates(w)
	groups := strings.Contains(gates, podGroups)
	if gates != "" && b.apiserver != b.minik8s {
		setup.Flags = append(setup.Flags, "--feature-gates="+gates)
	} else if groups { // of the others ours knows one side only
		setup.Flags = append(setup.Flags, "--feature-gates="+podGroups)
	}
	server, err := setup.Start(ctx)
	if err != nil {
		return err
	}
	defer func() {
		server.Stop()
		err = errors.Join(err, os.RemoveAll(server.Dir))
	}()
	name := c.Name + "/" + w.Name
	settings, err := c.configuration()
	if err != nil {
		return err
	}
	process, err := b.startScheduler(launch{side: side, upstream: b.upstream, settings: settings, gates: gates, name: strings.ReplaceAll(name, "/", "-")}, server)
	if err != nil {
		return err
	}
	defer process.Stop()
	peak := process.Sample(50 * time.Millisecond)
	defer peak()
	r, err := newRun(ctx, server, c)
	if err != nil {
		return err
	}
	if c.hasClaims() {
		stop, err := makeClaims(ctx, server)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, stop()) }()
	}
	r.cost = func() (time.Duration, error) {
		u, err := process.Usage()
		return u.Processor, err
	}
	if err := r.do(ctx, operations); err != nil {
		return errors.Join(err, server.Alive(), process.Alive())
	}
	for _, m := range r.results {
		what := name
		if len(r.results) > 1 {
			what += " (" + m.name + ")"
		}
		threshold, err := c.threshold(w)
		if err != nil {
			return err
		}
		if b.scale != 1 {
			threshold = 0 // it is for all of the objects
		}
		b.table.Add(side, figure.Figure{Name: what, Unit: "pods/s", AtLeast: 1.5, NotBelow: threshold}, m.perSecond)
		b.table.Add(side, figure.Figure{Name: what + ": CPU of the scheduler per 1,000 pods", Unit: "s", AtMost: 0.5}, m.cost.Seconds()*1000/float64(m.pods))
	}
	b.table.Add(side, figure.Figure{Name: name + ": memory of the scheduler at its peak, anonymous", Unit: "MiB", AtMost: 0.5}, float64(peak())/(1<<20))
	return nil
}

// setup is of an API server as upstream's harness starts it: there are no controllers, and priorities are in the templates.
func (b *bench) setup(dir string) program.Setup {
	return program.Setup{
		Identity: b.identity, Dir: filepath.Join(b.dir, dir), Minik8s: b.minik8s, APIServer: b.apiserver,
		Flags: []string{
			"--max-requests-inflight=2000", "--max-mutating-requests-inflight=1000",
			"--disable-admission-plugins=ServiceAccount,TaintNodesByCondition,Priority",
			"--runtime-config=api/beta=true", // templates name such versions
		},
	}
}

// ourOwn measures what upstream has no workloads for.
func (b *bench) ourOwn(ctx context.Context, number int) error {
	if b.label == quick {
		return nil
	}
	for _, size := range decisionNodes {
		if err := b.decisions(ctx, number, size.nodes, size.pods); err != nil {
			return err
		}
	}
	return b.crowd(ctx, number)
}

// cluster does something, unless it is not to be measured, with an empty cluster that all sides share. What fails is told of at the end.
func (b *bench) cluster(ctx context.Context, name string, do func(context.Context, *run, *program.Server) error) error {
	if !b.only.MatchString(name) {
		return nil
	}
	begin := time.Now()
	err := func() (err error) {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		server, err := b.setup("shared").Start(ctx)
		if err != nil {
			return err
		}
		defer func() {
			server.Stop()
			err = errors.Join(err, os.RemoveAll(server.Dir))
		}()
		r, err := newRun(ctx, server, &testCase{})
		if err != nil {
			return err
		}
		return do(ctx, r, server)
	}()
	if err != nil {
		err = fmt.Errorf("%s: %w", name, err)
		fmt.Fprintln(os.Stderr, err)
		b.failed = errors.Join(b.failed, err)
		return ctx.Err()
	}
	fmt.Fprintf(os.Stderr, "%s: %.0f s\n", name, time.Since(begin).Seconds())
	return nil
}

func newRun(ctx context.Context, server *program.Server, c *testCase) (*run, error) {
	client, err := kubernetes.NewForConfig(server.Config())
	if err != nil {
		return nil, err
	}
	config := server.Config()
	config.ContentType, config.AcceptContentTypes = "", "" // objects of any kind are JSON
	others, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	p, err := watchPods(ctx, client)
	if err != nil {
		return nil, err
	}
	return &run{
		client: client, dynamic: others, mapper: restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client.Discovery())),
		templates: templates{}, progress: p, folder: c.folder, podTemplate: c.DefaultPodTemplatePath,
		expected: map[string]int{}, namespaces: map[string]bool{}, failed: make(chan error, 1),
	}, nil
}
