// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Command envtest runs controller-runtime's own test suite, unmodified and of the version in go.mod, on the programs that
// "minik8s envtest-assets" makes, and if asked on upstream's kube-apiserver too. Touch it when that suite needs something
// else. Run it with: make envtest.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"minik8s.io/minik8s/test/envtest/outcome"
)

const module = "sigs.k8s.io/controller-runtime"

func main() {
	minik8s := flag.String("minik8s", "bin/minik8s", "the binary to test")
	upstream := flag.String("upstream", "", "directory with upstream's kube-apiserver and kubectl, to compare")
	only := flag.String("only", "./...", "packages of controller-runtime to test")
	logs := flag.String("logs", "", "directory for what the tests say; default: a temporary one, which is kept if a test fails")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *minik8s, *upstream, *only, *logs); err != nil {
		fmt.Fprintf(os.Stderr, "error: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, minik8s, upstream, only, logs string) error {
	dir, err := os.MkdirTemp("", "envtest-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if logs == "" {
		if logs, err = os.MkdirTemp("", "envtest-logs-"); err != nil {
			return err
		}
	}
	source := filepath.Join(dir, "controller-runtime")
	version, err := copySource(ctx, source)
	if err != nil {
		return err
	}
	fmt.Printf("controller-runtime %s\n", version)

	ours := filepath.Join(dir, "ours")
	if out, err := exec.CommandContext(ctx, minik8s, "envtest-assets", ours).CombinedOutput(); err != nil {
		return fmt.Errorf("making the assets: %w\n%s", err, out)
	}
	servers := []server{{"minik8s", ours}}
	if upstream != "" {
		assets := filepath.Join(dir, "upstream")
		if err := mixAssets(assets, upstream, ours); err != nil {
			return err
		}
		servers = append(servers, server{"upstream", assets})
	}
	var runs []outcome.Run
	for _, s := range servers {
		r, err := s.test(ctx, source, only, filepath.Join(logs, s.name+".json"))
		if err != nil {
			return err
		}
		runs = append(runs, r)
	}
	for _, line := range outcome.Table(runs) {
		fmt.Println(line)
	}
	unexpected := runs[0].Failures()
	if len(runs) > 1 {
		unexpected = outcome.Missing(runs[1], runs[0])
	}
	if len(unexpected) > 0 {
		for _, name := range unexpected {
			fmt.Printf("FAILED %s\n", name)
		}
		return fmt.Errorf("%d tests failed, see %s", len(unexpected), logs)
	}
	return nil
}

// copySource copies the module out of the cache, which is read-only, and returns its version. A module's archive has no
// executable files: the programs that the tests start are made so again.
func copySource(ctx context.Context, to string) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "mod", "download", "-json", module).Output()
	if err != nil {
		return "", fmt.Errorf("downloading %s: %w", module, err)
	}
	var found struct{ Dir, Version string }
	if err := json.Unmarshal(out, &found); err != nil {
		return "", fmt.Errorf("downloading %s: %w", module, err)
	}
	err = filepath.WalkDir(found.Dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(found.Dir, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, rel)
		if d.IsDir() {
			return os.MkdirAll(target, 0o755)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		mode := fs.FileMode(0o644)
		if filepath.Ext(path) == ".sh" {
			mode = 0o755
		}
		return os.WriteFile(target, data, mode)
	})
	return found.Version, err
}

// mixAssets makes a directory of upstream's programs and our etcd, which is upstream's too.
func mixAssets(dir, upstream, ours string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	upstream, err := filepath.Abs(upstream)
	if err != nil {
		return err
	}
	for name, from := range map[string]string{"etcd": ours, "kube-apiserver": upstream, "kubectl": upstream} {
		path := filepath.Join(from, name)
		if _, err := os.Stat(path); err != nil {
			return err
		}
		if err := os.Symlink(path, filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// server is what the tests run on.
type server struct{ name, assets string }

// test runs the suite and keeps what it says in log.
func (s server) test(ctx context.Context, source, only, log string) (outcome.Run, error) {
	f, err := os.Create(log)
	if err != nil {
		return outcome.Run{}, err
	}
	defer f.Close()
	cmd := exec.CommandContext(ctx, "go", "test", "-json", "-count=1", "-timeout=20m", "-pgo=off", "-ldflags=-s -w", only)
	cmd.Dir = source
	cmd.Env = append(slices.DeleteFunc(os.Environ(), isAsset), "KUBEBUILDER_ASSETS="+s.assets, "TMPDIR="+filepath.Dir(s.assets))
	defer s.stop()
	cmd.Stderr = os.Stderr
	// Interrupted tests stop what they have started.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = time.Minute
	out, err := cmd.StdoutPipe()
	if err != nil {
		return outcome.Run{}, err
	}
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		return outcome.Run{}, err
	}
	r, err := outcome.Read(s.name, io.TeeReader(out, f))
	waited := cmd.Wait()
	r.Elapsed = time.Since(begin)
	var failed *exec.ExitError
	switch {
	case err != nil:
		return r, fmt.Errorf("reading what the tests say: %w", err)
	case ctx.Err() != nil:
		return r, ctx.Err()
	case waited != nil && !errors.As(waited, &failed):
		return r, waited
	case len(r.Packages) == 0:
		return r, fmt.Errorf("no package was tested: %w", waited)
	}
	return r, nil
}

// stop ends the programs that the tests have left running, which some do: those that were started out of assets.
func (s server) stop() {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline") // the pattern is fine
	for _, file := range files {
		line, err := os.ReadFile(file)
		if err != nil || !bytes.HasPrefix(line, []byte(s.assets+"/")) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
		}
	}
}

// isAsset tells whether a variable says where programs are.
func isAsset(variable string) bool {
	return strings.HasPrefix(variable, "TEST_ASSET_") || strings.HasPrefix(variable, "KUBEBUILDER_ASSETS=")
}
