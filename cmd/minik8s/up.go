// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

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
and the default namespace has its ServiceAccount. If the cluster already runs, only waits;
settings that it does not run with are an error then, for they need a start. Of a cluster
that has been up before, what is not said stays as it was.
If it cannot be started, everything that was begun is undone.`,
		Example: `  minik8s up
  minik8s up --name ci --nodes 0      # a control plane with all controllers, without pods
  export KUBECONFIG=$(minik8s kubeconfig --path)`,
		Args: cobra.NoArgs,
		RunE: u.run,
	}
	u.flags.add(cmd)
	fs := cmd.Flags()
	fs.StringVar(&u.kubeconfig, "kubeconfig", "", "add the cluster to this kubeconfig too; what it has of others stays")
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
	// Started says that this call started it, Ready that it has waited until the cluster was Ready.
	Started bool `json:"started"`
	Ready   bool `json:"ready"`
}

func (u *upCommand) run(cmd *cobra.Command, _ []string) error {
	if err := u.output.validate(); err != nil {
		return err
	}
	begin := time.Now()
	progress := func(step string) {
		cmd.PrintErrf("  %-40s %6.2fs\n", step, time.Since(begin).Seconds())
	}
	ctx, cancel := context.WithTimeoutCause(cmd.Context(), u.timeout, fmt.Errorf("--timeout %s is over", u.timeout))
	defer cancel()

	name, change, err := u.flags.request(cmd)
	if err != nil {
		return err
	}
	c, started, err := cluster.Up(ctx, name, change, cluster.UpOptions{
		Wait: u.wait, Waiting: waiting(cmd), Progress: progress,
		Starting: func() { cmd.PrintErrf("Starting cluster %q\n", name) },
	})
	if failed := (*cluster.StartError)(nil); errors.As(err, &failed) && failed.Log != "" {
		cmd.PrintErrf("The end of its log:\n  %s\n", strings.ReplaceAll(failed.Log, "\n", "\n  "))
	}
	if err != nil {
		return err
	}
	if host := os.Getenv("DOCKER_HOST"); host != "" && c.NodeCount() > 0 && host != c.Kubelet.DockerHost {
		cmd.PrintErrf("warning: DOCKER_HOST is %s, and cluster %q stays with %s, where it was made\n", host, c.Name, c.Kubelet.DockerHost)
	}
	return u.report(ctx, cmd, c, started, begin)
}

func (u *upCommand) report(ctx context.Context, cmd *cobra.Command, c cluster.Config, started bool, begin time.Time) error {
	path := cluster.KubeconfigPath(c)
	if u.kubeconfig != "" {
		if err := cluster.CopyKubeconfig(ctx, c, u.kubeconfig); err != nil {
			return err
		}
		path = u.kubeconfig
	}
	r := upResult{
		Name: c.Name, Server: cluster.Server(c), Kubeconfig: path, Log: cluster.LogPath(c), Seconds: time.Since(begin).Seconds(), Started: started, Ready: u.wait,
	}
	if u.output == "json" {
		return writeJSON(cmd.OutOrStdout(), r)
	}
	return printNext(cmd.OutOrStdout(), r, u.kubeconfig == "" && os.Getenv("SUDO_UID") != "")
}

// printNext tells what to do with the cluster. A user who became root only for this command cannot read root's files.
func printNext(w io.Writer, r upResult, sudo bool) error {
	name, by, use, merge := "", "", "export KUBECONFIG="+r.Kubeconfig, "add it to your ~/.kube/config instead"
	if r.Name != cluster.DefaultName {
		name = " --name " + r.Name
	}
	if sudo {
		by, merge = "sudo ", "add it to root's ~/.kube/config"
		use = fmt.Sprintf("sudo minik8s kubeconfig%s > %s.kubeconfig && export KUBECONFIG=$PWD/%[2]s.kubeconfig", name, r.Name)
	}
	verb := "is running"
	switch {
	case r.Started && r.Ready:
		verb = fmt.Sprintf("is Ready after %.2fs", r.Seconds)
	case r.Started:
		verb = "is starting"
	}
	_, err := fmt.Fprintf(w, `Cluster %q %s at %s

  %s
  kubectl get nodes                        any kubectl, or: minik8s kubectl get nodes

  %[5]sminik8s kubeconfig --merge%[6]s    %[7]s
  %[5]sminik8s logs -f%[6]s               what it is doing
  %[5]sminik8s down%[6]s                  stop it; with --purge nothing is left
`, r.Name, verb, r.Server, use, by, name, merge)
	return err
}
