// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Command minik8s is a whole Kubernetes in one binary, on the Docker you already have. Each verb is a file here; under
// the names kube-apiserver, etcd and kubectl the same binary is that program. Touch it to change what a user types.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"

	"minik8s.io/minik8s/pkg/heap"
)

func main() {
	switch filepath.Base(os.Args[0]) {
	case "kube-apiserver":
		os.Exit(run(newAPIServerCommand()))
	case "etcd":
		go heap.Manage(context.Background(), 0)
		etcdmain.Main(os.Args)
		return
	case "kubectl":
		os.Exit(kubectl(os.Args))
	case "kubectl-execute":
		os.Exit(run(newExecuteCommand("kubectl execute")))
	}
	if len(os.Args) > 1 && os.Args[1] == "kubectl" {
		// kubectl parses its own arguments: what follows is exactly what one would type after kubectl.
		os.Exit(ownKubectl(os.Args[1:]))
	}
	os.Exit(run(newCommand()))
}

// run executes a command until it is done or the process is asked to stop, and returns the exit code.
func run(cmd *cobra.Command) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	if err := cmd.ExecuteContext(ctx); err != nil {
		if silent, ok := errors.AsType[exitCode](err); ok {
			return int(silent)
		}
		fmt.Fprintf(os.Stderr, "error: %v\n", err)
		return 1
	}
	return 0
}

// exitCode is an error that has already been told; only the code is left to return.
type exitCode int

func (e exitCode) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

func newCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "minik8s",
		Short: "A whole Kubernetes in one binary, on the Docker you already have",
		Long: `minik8s runs a real Kubernetes cluster on this machine: API server, etcd, controllers,
scheduler and kubelet in one process, pods as containers of your Docker. Images that
"docker build" made can be used in pods at once.

  minik8s up                       start a cluster, or see that it runs
  minik8s kubectl get nodes        upstream's kubectl, of the same version
  minik8s down                     stop it; data stays
  minik8s down --purge             leave nothing behind`,
		Args: cobra.NoArgs,
	}
	cmd.AddCommand(
		newUpCommand(),
		newDownCommand(),
		newStatusCommand(),
		newListCommand(),
		newLogsCommand(),
		newKubeconfigCommand(),
		newServerCommand(),
		newAgentCommand(),
		newNodeCommand(),
		newTokenCommand(),
		newAddonsCommand(),
		newEnableCommand(),
		newDisableCommand(),
		newWorkflowCommand(),
		newExecuteCommand("minik8s execute"),
		newFunctionCommand(),
		newKubectlCommand(),
		newEnvtestAssetsCommand(),
		newVersionCommand(),
	)
	return cmd
}
