// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// childEnv makes this test program another process that shares locks: its value is what it does, its first argument the
// folder.
const childEnv = "LIFECYCLE_TEST_CHILD"

func TestMain(m *testing.M) {
	what := os.Getenv(childEnv)
	if what == "" {
		os.Exit(m.Run())
	}
	if err := child(what, Dir(os.Args[1])); err != nil {
		_, _ = fmt.Fprintln(os.Stdout, err) // start reads it
		os.Exit(1)
	}
}

// child holds what it was asked to until its standard input ends.
func child(what string, d Dir) error {
	l, err := d.Inherited("x")
	if l == nil && err == nil {
		l, err = d.Lock(context.Background(), "x", "child", func(string) {})
	}
	if err != nil {
		return err
	}
	if what == "run" {
		release, err := l.Run()
		if err != nil {
			return err
		}
		defer release()
		l.Close()
	}
	if _, err := fmt.Fprintln(os.Stdout, "held"); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// start starts a child, and returns when it holds what it should. It ends with stop, or is killed with the test.
func start(t *testing.T, d Dir, what string, handed *Lock) (cmd *exec.Cmd, stop func()) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd = exec.CommandContext(t.Context(), self, string(d))
	cmd.Env = append(os.Environ(), childEnv+"="+what)
	if handed != nil {
		file, env := handed.Hand(3)
		cmd.ExtraFiles, cmd.Env = []*os.File{file}, append(cmd.Env, env)
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "held\n" {
		t.Fatalf("the child says %q, %v", line, err)
	}
	return cmd, func() {
		_ = in.Close() // the child may have ended
		_ = cmd.Wait() // how it ends is seen by what it leaves
	}
}

func newDir(t *testing.T) Dir {
	t.Helper()
	return Dir(filepath.Join(t.TempDir(), "base", "clusters"))
}

// now is a context for those that would not wait.
func now(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("no time"))
	return ctx
}

func mustLock(t *testing.T, d Dir) *Lock {
	t.Helper()
	l, err := d.Lock(t.Context(), "x", "test", func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestLock_OneAtATime(t *testing.T) {
	t.Parallel()
	d := newDir(t)
	var inside, most atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 20 {
				l, err := d.Lock(t.Context(), "x", "test", func(string) {})
				if err != nil {
					t.Error(err)
					return
				}
				most.Store(max(most.Load(), inside.Add(1)))
				inside.Add(-1)
				if err := l.Release(); err != nil { // removes the file, for there is no cluster
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if most.Load() != 1 {
		t.Errorf("%d held one lock", most.Load())
	}
	if _, err := os.Stat(filepath.Dir(string(d))); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder is left: %v", err)
	}
}

func TestLock_TellsWhoHasIt(t *testing.T) {
	t.Parallel()
	d := newDir(t)
	l := mustLock(t, d)
	var told []string
	_, err := d.Lock(now(t), "x", "test", func(holder string) { told = append(told, holder) })
	want := fmt.Sprintf("%q (process %d)", "minik8s test", os.Getpid())
	if len(told) != 1 || told[0] != want {
		t.Errorf("told %q, want %q", told, want)
	}
	if err == nil || !strings.Contains(err.Error(), "no time") || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want the holder and the cause", err)
	}
	if err := l.Release(); err != nil {
		t.Fatal(err)
	}
	again, err := d.Lock(t.Context(), "x", "test", func(string) { t.Error("had to wait") })
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Release(); err != nil {
		t.Error(err)
	}
}

// The lock goes with the entry, and stays while there is one.
func TestRelease(t *testing.T) {
	t.Parallel()
	d := newDir(t)
	l := mustLock(t, d)
	if err := d.Write("x", []byte("{}")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(partial(d.Entry("x")), nil, 0o600); err != nil { // as a crash leaves it
		t.Fatal(err)
	}
	if err := l.Release(); err != nil {
		t.Fatal(err)
	}
	if names, err := d.Names(); err != nil || len(names) != 1 || names[0] != "x" || !d.Traces("x") {
		t.Errorf("names %q, %v", names, err)
	}
	l = mustLock(t, d)
	if err := d.Remove("x"); err != nil {
		t.Fatal(err)
	}
	if err := l.Release(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Dir(string(d))); !errors.Is(err, os.ErrNotExist) || d.Traces("x") {
		t.Errorf("the folder is left: %v", err)
	}
}

// While the child lives nobody else can take what its parent has handed to it and let go of.
func TestHand(t *testing.T) {
	t.Parallel()
	d := newDir(t)
	l := mustLock(t, d)
	_, stop := start(t, d, "hold", l)
	l.Close()
	if _, err := d.Lock(now(t), "x", "test", func(string) {}); err == nil {
		t.Error("a lock that a child holds was given away")
	}
	stop()
	if err := mustLock(t, d).Release(); err != nil {
		t.Error(err)
	}
}

// The kernel tells who runs a cluster, without the one who asks being in anybody's way, and forgets it with the process.
func TestRun(t *testing.T) {
	t.Parallel()
	d := newDir(t)
	if pid, err := d.Pid("x"); pid != 0 || err != nil {
		t.Errorf("nobody: %d, %v", pid, err)
	}
	l := mustLock(t, d)
	// That of an earlier process may be there.
	long := time.Now().Add(-time.Hour)
	if err := errors.Join(os.WriteFile(d.run("x"), nil, 0o600), os.Chtimes(d.run("x"), long, long)); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	cmd, _ := start(t, d, "run", l)
	if since, err := d.Since("x"); since.Before(began) || since.After(time.Now()) || err != nil {
		t.Errorf("it runs since %v, %v, and began after %v", since, err, began)
	}
	// The clock was an hour ahead when it began.
	ahead := time.Now().Add(time.Hour)
	if err := os.Chtimes(d.run("x"), ahead, ahead); err != nil {
		t.Fatal(err)
	}
	if since, err := d.Since("x"); since.Before(began.Add(-3*time.Second)) || since.After(time.Now()) || err != nil {
		t.Errorf("with a clock that was set back it runs since %v, %v, and began after %v", since, err, began)
	}
	if pid, err := d.Pid("x"); pid != cmd.Process.Pid || err != nil {
		t.Errorf("got %d, %v, want %d", pid, err, cmd.Process.Pid)
	}
	if _, err := l.Run(); !errors.Is(err, ErrRunning) {
		t.Errorf("a second one: %v", err)
	}
	p, err := d.Process("x")
	if err != nil || p == nil {
		t.Fatalf("got %v, %v", p, err)
	}
	defer p.Close()
	if err := p.Wait(now(t)); err == nil || err.Error() != "no time" {
		t.Errorf("waiting for a process that lives: %v", err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(t.Context()); err != nil {
		t.Error(err)
	}
	if pid, err := d.Pid("x"); pid != 0 || err != nil {
		t.Errorf("after its death: %d, %v", pid, err)
	}
	// What is written in the file does not matter: a number there may be anybody's by now.
	if err := os.WriteFile(d.run("x"), fmt.Append(nil, os.Getpid()), 0o600); err != nil {
		t.Fatal(err)
	}
	if p, err := d.Process("x"); p != nil || err != nil {
		t.Errorf("of an old file: %v, %v", p, err)
	}
	if err := l.Release(); err != nil {
		t.Error(err)
	}
}

func TestStop(t *testing.T) {
	t.Parallel()
	d := newDir(t)
	cmd, _ := start(t, d, "run", nil)
	p, err := d.Process("x")
	if err != nil || p == nil {
		t.Fatalf("got %v, %v", p, err)
	}
	defer p.Close()
	if err := p.Stop(t.Context(), 10*time.Second); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // by a signal
	for range 2 {  // it has ended: no harm
		if err := p.Stop(t.Context(), time.Second); err != nil {
			t.Error(err)
		}
	}
}

func TestInherited_RefusesAnotherFile(t *testing.T) {
	d := newDir(t)
	if err := mustLock(t, d).Release(); err != nil {
		t.Fatal(err)
	}
	other, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	fd, err := unix.Dup(int(other.Fd())) // Inherited closes what it refuses
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(inheritedEnv, strconv.Itoa(fd))
	if l, err := d.Inherited("x"); err == nil {
		t.Errorf("got %v", l)
	}
	if l, err := d.Inherited("x"); l != nil || err != nil {
		t.Errorf("asked again: %v, %v", l, err)
	}
}

func TestWhole(t *testing.T) {
	t.Parallel()
	d := newDir(t)
	l := mustLock(t, d)
	release, err := d.Whole(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Whole(now(t)); err == nil {
		t.Error("two have the whole folder")
	}
	release()
	if release, err = d.Whole(t.Context()); err != nil {
		t.Fatal(err)
	}
	release()
	if err := l.Release(); err != nil {
		t.Error(err)
	}
}

// TestLock_NoFolder: where the folder cannot be made, an operation fails, and ends before that when its context does.
func TestLock_NoFolder(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, link string }{
		{"the folder is a link to nothing", "clusters"},
		{"the one above is", "."},
		{"one further up is", ".."},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			d := Dir(filepath.Join(root, "lib", "minik8s", "clusters"))
			link := filepath.Join(filepath.Dir(string(d)), tc.link)
			if err := os.MkdirAll(filepath.Dir(link), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(filepath.Join(root, "not", "mounted"), link); err != nil {
				t.Fatal(err)
			}
			lock := func(ctx context.Context) error { _, err := d.Lock(ctx, "x", "up", func(string) {}); return err }
			whole := func(ctx context.Context) error { _, err := d.Whole(ctx); return err }
			for name, try := range map[string]func(context.Context) error{"Lock": lock, "Whole": whole} {
				if within(t, func() error { return try(t.Context()) }) == nil {
					t.Errorf("%s: no error", name)
				}
			}
			stop := errors.New("interrupted")
			ctx, cancel := context.WithCancelCause(t.Context())
			cancel(stop)
			if err := within(t, func() error { return lock(ctx) }); !errors.Is(err, stop) {
				t.Errorf("interrupted, it says %v", err)
			}
		})
	}
}

// within fails if a call takes much longer than any should.
func within(t *testing.T, call func() error) error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- call() }()
	select {
	case err := <-done:
		return err
	case <-time.After(20 * time.Second):
		t.Fatal("it does not return")
		return nil
	}
}
