// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"

	"minik8s.io/minik8s/pkg/cluster"
)

type upCommand struct {
	flags      clusterFlags
	kubeconfig string
	wait       bool
	timeout    time.Duration
	output     output
}

func newUpCommand() *cobra.Command {
	u := &upCommand{}
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start a cluster in the background, and wait until it is Ready",
		Long: `Start a cluster in the background. Returns when the control plane and its nodes are Ready
and the default namespace has its ServiceAccount. If the cluster already runs, only waits.
If it cannot be started, everything that was begun is undone.`,
		Example: `  minik8s up
  minik8s up --name ci --nodes 0      # a control plane with all controllers, without pods
  export KUBECONFIG=$(minik8s kubeconfig --path)`,
		Args: cobra.NoArgs,
		RunE: u.run,
	}
	u.flags.add(cmd)
	fs := cmd.Flags()
	fs.StringVar(&u.kubeconfig, "kubeconfig", "", "write the cluster's kubeconfig to this file too")
	fs.BoolVar(&u.wait, "wait", true, "wait until the cluster is Ready")
	fs.DurationVar(&u.timeout, "timeout", 2*time.Minute, "how long to wait")
	u.output.add(cmd)
	return cmd
}

// upResult is what -o json prints.
type upResult struct {
	Name       string  `json:"name"`
	Server     string  `json:"server"`
	Kubeconfig string  `json:"kubeconfig"`
	Log        string  `json:"log"`
	Seconds    float64 `json:"seconds"`
	Started    bool    `json:"started"`
}

func (u *upCommand) run(cmd *cobra.Command, _ []string) error {
	if err := u.output.validate(); err != nil {
		return err
	}
	begin := time.Now()
	progress := func(step string) {
		fmt.Fprintf(cmd.ErrOrStderr(), "  %-40s %6.2fs\n", step, time.Since(begin).Seconds())
	}
	ctx, cancel := context.WithTimeoutCause(cmd.Context(), u.timeout, fmt.Errorf("--timeout %s is over", u.timeout))
	defer cancel()

	c, known, err := u.flags.settle(cmd)
	if err != nil {
		return err
	}
	running := cluster.Pid(c.Name) != 0
	switch {
	case running && u.wait:
		err = waitRunning(ctx, c, progress)
	case running:
	default:
		err = u.start(ctx, cmd, c, known, progress)
	}
	if err != nil {
		return err
	}
	return u.report(cmd, c, !running, time.Since(begin))
}

func (u *upCommand) start(ctx context.Context, cmd *cobra.Command, c cluster.Config, known bool, progress func(string)) error {
	fmt.Fprintf(cmd.ErrOrStderr(), "Starting cluster %q\n", c.Name)
	fresh := cluster.IsNew(c.DataDir)
	err := cluster.Spawn(ctx, c, u.wait, progress)
	if err == nil {
		return nil
	}
	if uerr := undo(context.WithoutCancel(ctx), c, known, fresh); uerr != nil {
		err = errors.Join(err, fmt.Errorf("undoing the start: %w", uerr))
	}
	return err
}

// undo removes what a failed start has begun: all of a cluster that is new, but no data that was there before.
func undo(ctx context.Context, c cluster.Config, known, fresh bool) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	switch {
	case known:
		return nil // its pods may still run, and the next start takes them over
	case fresh:
		return cluster.Purge(ctx, c)
	}
	return errors.Join(cluster.Clear(ctx, c), cluster.Forget(c.Name))
}

func waitRunning(ctx context.Context, c cluster.Config, progress func(string)) error {
	config, err := clientcmd.BuildConfigFromFlags("", cluster.KubeconfigPath(c))
	if err != nil {
		return fmt.Errorf("reading the cluster's kubeconfig: %w", err)
	}
	return cluster.WaitReady(ctx, config, c.NodeCount(), progress)
}

func (u *upCommand) report(cmd *cobra.Command, c cluster.Config, started bool, took time.Duration) error {
	path := cluster.KubeconfigPath(c)
	if u.kubeconfig != "" {
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := os.WriteFile(u.kubeconfig, data, 0o600); err != nil {
			return fmt.Errorf("writing kubeconfig: %w", err)
		}
		path = u.kubeconfig
	}
	r := upResult{Name: c.Name, Server: cluster.Server(c), Kubeconfig: path, Log: cluster.LogPath(c), Seconds: took.Seconds(), Started: started}
	if u.output == "json" {
		return writeJSON(cmd.OutOrStdout(), r)
	}
	printNext(cmd.OutOrStdout(), r)
	return nil
}

// printNext tells what to do with the cluster.
func printNext(w io.Writer, r upResult) {
	name := ""
	if r.Name != cluster.DefaultName {
		name = " --name " + r.Name
	}
	verb := "is running"
	if r.Started {
		verb = fmt.Sprintf("is Ready after %.2fs", r.Seconds)
	}
	fmt.Fprintf(w, `Cluster %q %s at %s

  export KUBECONFIG=%s
  kubectl get nodes                        any kubectl, or: minik8s kubectl get nodes

  minik8s kubeconfig --merge%s    add it to your ~/.kube/config instead
  minik8s logs -f%s               what it is doing
  minik8s down%s                  stop it; with --purge nothing is left
`, r.Name, verb, r.Server, r.Kubeconfig, name, name, name)
}
