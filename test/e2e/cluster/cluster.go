// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package cluster runs bin/minik8s as a user would, as a program, and reads what it prints. The end-to-end tests and the
// benchmarks stand on it; touch it when the contract of the command line grows.
package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Root is the root of the repository, found from the working directory upwards.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("not within the repository: no go.mod above the working directory")
		}
		dir = parent
	}
}

// Result is how a program ended.
type Result struct {
	Stdout, Stderr string
	Code           int
	Took           time.Duration
}

// String is for messages.
func (r Result) String() string {
	return fmt.Sprintf("exit code %d after %s\nstdout: %s\nstderr: %s", r.Code, r.Took.Round(time.Millisecond), r.Stdout, r.Stderr)
}

// Run runs a command to its end. The error is about a program that could not be run, or was killed by ctx; one that ran
// and failed has a Code.
func Run(cmd *exec.Cmd) (Result, error) {
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	begin := time.Now()
	err := cmd.Run()
	r := Result{Stdout: stdout.String(), Stderr: stderr.String(), Took: time.Since(begin)}
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Exited() {
		r.Code, err = exit.ExitCode(), nil
	}
	if err != nil {
		return r, fmt.Errorf("running %v: %w\n%s", cmd.Args, err, r)
	}
	return r, nil
}

// Cluster is a cluster of a name, up or not.
type Cluster struct {
	// Binary is the program, bin/minik8s.
	Binary string
	// Name and DataDir are the flags of the same names; DataDir may be empty.
	Name, DataDir string
	// Env is added to the environment.
	Env []string
}

// Up is what `up -o json` prints.
type Up struct {
	Name       string  `json:"name"`
	Server     string  `json:"server"`
	Kubeconfig string  `json:"kubeconfig"`
	Log        string  `json:"log"`
	Seconds    float64 `json:"seconds"`
	Started    bool    `json:"started"`
}

// Status is what `status -o json` prints.
type Status struct {
	Name       string `json:"name"`
	Running    bool   `json:"running"`
	Ready      bool   `json:"ready"`
	Problem    string `json:"problem"`
	Pid        int    `json:"pid"`
	Server     string `json:"server"`
	Kubeconfig string `json:"kubeconfig"`
	DataDir    string `json:"dataDir"`
	Nodes      int    `json:"nodes"`
}

// Command is the program with a verb, the cluster's name and further arguments.
func (c Cluster) Command(ctx context.Context, verb string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, c.Binary, append([]string{verb, "--name", c.Name}, args...)...)
	cmd.Env = append(os.Environ(), c.Env...)
	return cmd
}

// Run runs a verb.
func (c Cluster) Run(ctx context.Context, verb string, args ...string) (Result, error) {
	if verb == "up" && c.DataDir != "" {
		args = append([]string{"--data-dir", c.DataDir}, args...)
	}
	return Run(c.Command(ctx, verb, args...))
}

// Up starts the cluster and waits until it is Ready.
func (c Cluster) Up(ctx context.Context, args ...string) (Up, error) {
	var up Up
	r, err := c.Run(ctx, "up", append([]string{"-o", "json"}, args...)...)
	if err == nil && r.Code != 0 {
		err = fmt.Errorf("up: %s", r)
	}
	if err != nil {
		return up, err
	}
	if err := json.Unmarshal([]byte(r.Stdout), &up); err != nil {
		return up, fmt.Errorf("reading what up printed: %w: %s", err, r)
	}
	return up, nil
}

// Status asks for it; the cluster need not run.
func (c Cluster) Status(ctx context.Context) (Status, error) {
	var s Status
	r, err := c.Run(ctx, "status", "-o", "json")
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal([]byte(r.Stdout), &s); err != nil {
		return s, fmt.Errorf("reading what status printed: %w: %s", err, r)
	}
	return s, nil
}

// Down stops the cluster, with --purge or other arguments.
func (c Cluster) Down(ctx context.Context, args ...string) error {
	r, err := c.Run(ctx, "down", args...)
	if err == nil && r.Code != 0 {
		err = fmt.Errorf("down: %s", r)
	}
	return err
}

// Client returns a client for a kubeconfig.
func Client(kubeconfig string) (*rest.Config, kubernetes.Interface, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, nil, err
	}
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	return config, client, err
}
