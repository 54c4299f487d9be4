// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/component-base/cli"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/plugin"

	"minik8s.io/minik8s/pkg/cluster"
)

// kubectl runs upstream's kubectl; args[0] is its name. Without any kubeconfig it talks to the default cluster.
func kubectl(args []string) int {
	useOwnKubeconfig()
	streams := genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}
	root := cmd.NewDefaultKubectlCommandWithArgs(cmd.KubectlOptions{
		PluginHandler: cmd.NewDefaultPluginHandler(plugin.ValidPluginFilenamePrefixes),
		Arguments:     args,
		ConfigFlags:   genericclioptions.NewConfigFlags(true).WithDeprecatedPasswordFlag().WithDiscoveryBurst(300).WithDiscoveryQPS(50.0),
		IOStreams:     streams,
	})
	root.SetArgs(args[1:])
	return cli.Run(root)
}

// useOwnKubeconfig points kubectl to the default cluster if the user has configured no other.
func useOwnKubeconfig() {
	if os.Getenv("KUBECONFIG") != "" {
		return
	}
	if home, err := os.UserHomeDir(); err == nil {
		if _, err := os.Stat(filepath.Join(home, ".kube", "config")); !errors.Is(err, os.ErrNotExist) {
			return
		}
	}
	if c, err := cluster.Load(cluster.DefaultName); err == nil {
		os.Setenv("KUBECONFIG", cluster.KubeconfigPath(c))
	}
}

// newKubectlCommand exists for help and completion: main hands over to kubectl before cobra parses anything.
func newKubectlCommand() *cobra.Command {
	return &cobra.Command{
		Use:                "kubectl",
		Short:              "Upstream's kubectl, of the same version",
		DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, args []string) error {
			if code := kubectl(append([]string{"kubectl"}, args...)); code != 0 {
				return exitCode(code)
			}
			return nil
		},
	}
}
