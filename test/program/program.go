// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package program runs the programs that benches and judges look at, in processes of their own. Touch it when several of
// them need something more of a process.
package program

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// Program is a process that was started.
type Program struct {
	// Name is what it was called, and Log the file with what it says.
	Name, Log string
	// Started is the time of its exec.
	Started time.Time

	cmd  *exec.Cmd
	done chan struct{}
}

// Start runs the program at path under a name, which a program of several names looks at, with its log in dir. It does not
// outlive this process.
func Start(dir, path, name string, args ...string) (*Program, error) {
	p := &Program{Name: name, Log: filepath.Join(dir, name+".log"), done: make(chan struct{})}
	log, err := os.Create(p.Log)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p.cmd = exec.Command(path, args...)
	p.cmd.Args[0] = name
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	p.Started = time.Now()
	if err := onStarter(p.cmd.Start); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	go func() {
		_ = p.cmd.Wait() // Alive tells how it ended
		close(p.done)
	}()
	return p, nil
}

// starter is the thread that starts all programs. They are killed when the thread that has started them ends, and threads that work
// in other network namespaces end before the process does.
var starter = sync.OnceValue(func() chan<- func() {
	work := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range work {
			f()
		}
	}()
	return work
})

func onStarter(f func() error) error {
	done := make(chan error, 1)
	starter() <- func() { done <- f() }
	return <-done
}

// Alive returns nil as long as the program runs, then how it ended and what it said last.
func (p *Program) Alive() error {
	select {
	case <-p.done:
		data, err := os.ReadFile(p.Log)
		return errors.Join(fmt.Errorf("%s ended: %s: %s ends with: %s", p.Name, p.cmd.ProcessState, p.Log, data[max(0, len(data)-1000):]), err)
	default:
		return nil
	}
}

// Await asks every so often until check returns nil, but not for more than two minutes and not after the program's end.
func (p *Program) Await(ctx context.Context, every time.Duration, check func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, every, 2*time.Minute, true, func(ctx context.Context) (bool, error) {
		if err := p.Alive(); err != nil {
			return false, err
		}
		last = check(ctx)
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for %s: %w", p.Name, errors.Join(err, last))
	}
	return nil
}

// Stop asks the program to end, and kills it if it does not. There may be none.
func (p *Program) Stop() {
	if p == nil {
		return
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	grace := time.NewTimer(20 * time.Second)
	defer grace.Stop()
	select {
	case <-p.done:
	case <-grace.C:
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// Pause waits, unless ctx ends before.
func Pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
