// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"minik8s.io/minik8s/pkg/cluster/lifecycle"
	"minik8s.io/minik8s/pkg/kubelet/container"
	nodes "minik8s.io/minik8s/pkg/node"
)

// Change makes of the configuration that a cluster had, or of an empty one, the one that it is to have. What it does not
// touch stays as it was; what is then still open is settled.
type Change func(*Config) error

// operation is one that is under way: nobody else changes the cluster until it is released.
type operation struct {
	dir  lifecycle.Dir
	name string
	lock *lifecycle.Lock
	// agent says that it is on a node of a cluster elsewhere, as far as it starts one.
	agent bool
	// added names the nodes that the start which is under way makes.
	added []string
	// steps clear the machine.
	steps []clearStep
	// abandon says that an engine that does not answer keeps what the cluster has there.
	abandon bool
}

// begin waits until no other operation on the cluster is under way.
func begin(ctx context.Context, name, what string, waiting func(holder string)) (*operation, error) {
	if !namePattern.MatchString(name) {
		return nil, badName(name) // before it becomes that of a file
	}
	dir := entries()
	l, err := dir.Lock(ctx, name, what, waiting)
	if err != nil {
		return nil, explain(err, BaseDir())
	}
	return newOperation(dir, name, l), nil
}

func newOperation(dir lifecycle.Dir, name string, l *lifecycle.Lock) *operation {
	return &operation{dir: dir, name: name, lock: l, steps: clearSteps}
}

// look finds out what there is of the cluster, and which process runs it: nil if none does, else the caller closes it.
func (o *operation) look() (entry, *lifecycle.Process, error) {
	p, err := o.dir.Process(o.name)
	if err != nil {
		return entry{}, nil, err
	}
	e, err := read(o.dir, o.name)
	if err != nil && p != nil {
		p.Close()
	}
	return e, p, err
}

// repair does the steps that every operation may begin with: it finishes what one that was cut off has left.
func (o *operation) repair(ctx context.Context, step lifecycle.Step, e entry) error {
	switch step {
	case lifecycle.Undo:
		return o.undo(ctx, e, e.Before)
	case lifecycle.Erase:
		return o.erase(e)
	}
	return fmt.Errorf("cluster %q: do not know how to %s", o.name, step)
}

// UpOptions are what a caller of Up may want to know or change.
type UpOptions struct {
	// Wait until the cluster is Ready; else until its process has begun.
	Wait bool
	// Waiting is called if another operation is under way first.
	Waiting func(holder string)
	// Starting is called before a process is started.
	Starting func()
	// Progress is called after each step of the start.
	Progress func(step string)
}

// Up starts a cluster in the background, as a process of this program, which must understand `server --name NAME`. If it
// runs already, Up only waits. The result is what it runs with, and whether Up started it. What fails is undone.
func Up(ctx context.Context, name string, change Change, opts UpOptions) (c Config, started bool, err error) {
	o, err := begin(ctx, name, string(lifecycle.Up), opts.Waiting)
	if err != nil {
		return c, false, err
	}
	defer func() { err = errors.Join(err, o.lock.Release()) }()
	for {
		e, process, err := o.look()
		if err != nil {
			return c, false, err
		}
		switch step := lifecycle.Next(lifecycle.Up, e.State, process != nil); step {
		case lifecycle.Await:
			if err = o.checkKind(e); err == nil {
				err = await(ctx, process, e.Config, change, opts)
			}
			process.Close()
			if !errors.Is(err, errEnded) {
				return e.Config, false, err
			}
		case lifecycle.Start:
			c, err := o.start(ctx, e, change, opts)
			return c, true, err
		default:
			if err := o.repair(ctx, step, e); err != nil {
				return c, false, err
			}
		}
	}
}

// start makes the process of a cluster, and goes back to before if it does not get where it should.
func (o *operation) start(ctx context.Context, before entry, change Change, opts UpOptions) (Config, error) {
	opts.Starting()
	e, err := o.prepare(ctx, before, change)
	if err != nil {
		return Config{}, err
	}
	err = o.spawn(ctx, e.Config, opts)
	if err == nil {
		return e.Config, nil
	}
	return e.Config, o.fail(ctx, err, before)
}

// fail undoes a start of which no process is left, and returns why it failed.
func (o *operation) fail(ctx context.Context, cause error, before entry) error {
	now, err := read(o.dir, o.name)
	if err == nil && now.State != lifecycle.Absent {
		err = o.undo(context.WithoutCancel(ctx), now, &before)
	}
	if err != nil {
		return fmt.Errorf("%w; undoing the start: %w", cause, err)
	}
	return cause
}

// errEnded says that a process that was awaited is not there any more.
var errEnded = errors.New("the cluster's process has ended")

// await waits until a cluster that runs is Ready, unless something else is asked for than runs.
func await(ctx context.Context, process *lifecycle.Process, c Config, change Change, opts UpOptions) error {
	if err := unchanged(c, change); err != nil || !opts.Wait {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if process.Wait(ctx) == nil {
			cancel(errEnded)
		}
	}()
	defer func() {
		cancel(nil)
		<-ended
	}()
	if err := awaitRunning(ctx, entries(), c.Name); err != nil {
		return err
	}
	config, err := Admin(c)
	if err != nil {
		return err
	}
	since, err := entries().Since(c.Name)
	if err != nil {
		return err
	}
	return waitReady(ctx, config, c, since, opts.Progress)
}

// awaitRunning waits until the process of a cluster has noted that it serves, which a crash does not undo any more.
func awaitRunning(ctx context.Context, dir lifecycle.Dir, name string) error {
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for {
		e, err := read(dir, name)
		if err != nil || e.State == lifecycle.Running {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("cluster %q is %s: %w", name, e.State, context.Cause(ctx))
		case <-ticker.C:
		}
	}
}

// awaitAdmin waits for the kubeconfig, which a process writes when it begins.
func awaitAdmin(ctx context.Context, c Config) (*rest.Config, error) {
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for {
		config, err := Admin(c)
		if err == nil || !errors.Is(err, fs.ErrNotExist) {
			return config, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", err, context.Cause(ctx))
		case <-ticker.C:
		}
	}
}

// Admin is how the administrator reaches a cluster that runs.
func Admin(c Config) (*rest.Config, error) {
	rules := &clientcmd.ClientConfigLoadingRules{ExplicitPath: KubeconfigPath(c)}
	own := &clientcmd.ConfigOverrides{CurrentContext: Context(c)} // whichever its user has made the current one
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, own).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("reading the cluster's kubeconfig: %w", err)
	}
	config.Host = Server(c) // the file may be that of an earlier start, with another port
	return config, nil
}

// DownOptions are what a caller of Down may want to know or change.
type DownOptions struct {
	// Purge deletes all of the cluster.
	Purge bool
	// Abandon goes on without an engine that does not answer, where the cluster's containers then stay.
	Abandon bool
	// Waiting is called if another operation is under way first.
	Waiting func(holder string)
}

// Down stops a cluster and, to purge it, deletes all of it. It returns what was there before and what is there now.
func Down(ctx context.Context, name string, opts DownOptions) (before, now Entry, err error) {
	before, now = Entry{Name: name, State: lifecycle.Absent}, Entry{Name: name, State: lifecycle.Absent}
	if !namePattern.MatchString(name) {
		return before, now, badName(name)
	}
	if !entries().Traces(name) {
		if other := unknown(name); isProblem(other) {
			return before, now, other
		}
		return before, now, nil
	}
	op := lifecycle.Down
	if opts.Purge {
		op = lifecycle.Purge
	}
	o, err := begin(ctx, name, string(op), opts.Waiting)
	if err != nil {
		return before, now, err
	}
	o.abandon = opts.Abandon
	defer func() { err = errors.Join(err, o.lock.Release()) }()
	for first := true; ; first = false {
		e, process, err := o.look()
		if err != nil {
			return before, now, err
		}
		now.State, now.Config = e.State, e.Config
		if first {
			before = now
		}
		step := lifecycle.Next(op, e.State, process != nil)
		if step == lifecycle.Nothing {
			return before, now, nil
		}
		err = o.goDown(ctx, step, e, process)
		if process != nil {
			process.Close()
		}
		if errors.Is(err, container.ErrUnavailable) {
			return before, now, engineAway(e.Config, err)
		}
		if err != nil {
			return before, now, err
		}
	}
}

// engineAway says what can be done about a cluster whose engine does not answer.
func engineAway(c Config, err error) error {
	return &Problem{
		Cause: fmt.Sprintf("cluster %q has its containers on the Docker engine at %s, which does not answer (%s)", c.Name, c.Kubelet.DockerHost,
			strings.ReplaceAll(err.Error(), "\n", "; ")),
		Remedy: "start that engine and repeat; if it is gone for good, --force removes all that is not in it",
		Err:    err,
	}
}

// grace is how long a cluster's process may take to end before it is killed.
const grace = 20 * time.Second

func (o *operation) goDown(ctx context.Context, step lifecycle.Step, e entry, process *lifecycle.Process) error {
	switch step {
	case lifecycle.Stop:
		return explain(process.Stop(ctx, grace), "")
	case lifecycle.Clear:
		if err := o.clear(ctx, e.Config, true); err != nil {
			return err
		}
		e.State, e.Before = lifecycle.Stopped, nil
		return write(o.dir, e)
	}
	return o.repair(ctx, step, e)
}

// undo removes what a start has begun, and nothing that was there before it.
func (o *operation) undo(ctx context.Context, now entry, before *entry) error {
	served := now.State == lifecycle.Running
	if before == nil || before.State == lifecycle.Absent {
		// The data directory tells what is left; with it gone nobody could try again.
		if err := o.clear(ctx, now.Config, served); err != nil {
			return err
		}
		if now.Adopted {
			if err := o.takeBack(now.Config); err != nil {
				return err
			}
			return o.dir.Remove(o.name)
		}
		if served {
			now.State = lifecycle.Purging // half of the data must not be taken for all
			if err := write(o.dir, now); err != nil {
				return err
			}
		}
		if err := removeData(now); err != nil {
			return err
		}
		return o.dir.Remove(o.name)
	}
	// The pods of a cluster that was running may still run, and the next start takes them over.
	if !now.asking() && (before.State == lifecycle.Stopped || !samePlace(now.Config, before.Config)) {
		if err := o.clear(ctx, now.Config, served); err != nil {
			return err
		}
	}
	if err := o.takeBack(now.Config); err != nil {
		return err
	}
	return write(o.dir, *before)
}

// takeBack notes that the nodes go which a start has made that failed: the next one removes what there is of them in the API, too. Those
// that somebody else has added stay.
func (o *operation) takeBack(c Config) error {
	list, err := nodesDir(c).List()
	for _, n := range list {
		if slices.Contains(o.added, n.Name) {
			n.State = nodes.Removing
			err = errors.Join(err, nodesDir(c).Write(n))
		}
	}
	return err
}

// erase deletes the data of a stopped cluster and forgets it, also if the user's kubeconfig cannot be changed: that needs nothing of it.
func (o *operation) erase(e entry) error {
	if e.State != lifecycle.Purging {
		e.State = lifecycle.Purging
		if err := write(o.dir, e); err != nil {
			return err
		}
	}
	ca := ownCA(e.Config)
	if err := removeData(e); err != nil {
		return err
	}
	_, err := unmerge(o.name, ca)
	if err != nil {
		err = &Problem{
			Cause:  fmt.Sprintf("cluster %q is gone, but not what it has in your kubeconfig (%v)", o.name, err),
			Remedy: "when that can be changed, run minik8s kubeconfig --unmerge --name " + o.name, Err: err,
		}
	}
	return errors.Join(o.dir.Remove(o.name), err)
}
