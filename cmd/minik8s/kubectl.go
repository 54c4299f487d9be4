// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/plugin"
	"k8s.io/kubectl/pkg/cmd/util"

	"minik8s.io/minik8s/pkg/cluster"
)

// kubectl runs upstream's kubectl; args[0] is its name. They become those of the process: kubectl changes what it has read by itself, if
// the user's preferences (kuberc) say so, and must not be told again.
func kubectl(args []string) int {
	os.Args = args
	_, _ = logs.GlogSetter(cmd.GetLogVerbosity(args)) // what is said while the command is made; what is no number is told later
	streams := genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}
	root := cmd.NewDefaultKubectlCommandWithArgs(cmd.KubectlOptions{
		PluginHandler: plugins{cmd.NewDefaultPluginHandler(plugin.ValidPluginFilenamePrefixes)},
		Arguments:     args,
		IOStreams:     streams,
	})
	if err := cli.RunNoErrOutput(root); err != nil {
		util.CheckErr(err) // prints as kubectl does, and exits
	}
	return 0
}

// plugins are those of kubectl, which are told where kubectl is: not this program, under which name it is something else.
type plugins struct{ *cmd.DefaultPluginHandler }

// Execute implements cmd.PluginHandler.
func (p plugins) Execute(path string, args, environment []string) error {
	return p.DefaultPluginHandler.Execute(path, args, withKubectl(environment, os.Args[0]))
}

// withKubectl has KUBECTL_PATH name the kubectl that was called by name, or else one that is found, and nothing if there is none.
func withKubectl(environment []string, name string) []string {
	const variable = "KUBECTL_PATH="
	environment = slices.DeleteFunc(environment, func(v string) bool { return strings.HasPrefix(v, variable) })
	if filepath.Base(name) != "kubectl" {
		name = "kubectl"
	}
	path, err := exec.LookPath(name)
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return environment
	}
	return append(environment, variable+path)
}

// ownKubectl is kubectl for the clusters of this machine: without a word on where to go it goes to them, and never to what
// else the user has in ~/.kube/config.
func ownKubectl(args []string) int {
	if os.Getenv("KUBECONFIG") == "" {
		if err := useOwnCluster(args); err != nil {
			fmt.Fprintf(os.Stderr, "error: %v\n", err)
			return 1
		}
	}
	return kubectl(args)
}

// useOwnCluster sets KUBECONFIG to that of the cluster of this machine which arguments as kubectl's mean, if they mean one.
func useOwnCluster(args []string) error {
	all, err := cluster.List()
	path, elsewhere := destination(args, all)
	if err == nil && path == "" && !elsewhere {
		path, err = rootsOwn()
	}
	if err == nil && path != "" {
		err = os.Setenv("KUBECONFIG", path)
	}
	return err
}

// destination is the kubeconfig that kubectl is to use, "" if it is told another way or there is none: of the cluster whose
// context is asked for, else of the default cluster, else of the only one.
func destination(args []string, all []cluster.Entry) (path string, elsewhere bool) {
	context, told := asked(args)
	if told {
		return "", true
	}
	for _, e := range all {
		is := e.Name == cluster.DefaultName || len(all) == 1
		if context != "" {
			is = e.Err == nil && cluster.Context(e.Config) == context
		}
		if is && e.Err == nil {
			return cluster.KubeconfigPath(e.Config), false
		}
	}
	return "", context != ""
}

// asked returns the value of --context, and whether another flag says which cluster is meant. --user and --cluster name entries
// of a kubeconfig, and no kubeconfig; and --user is also who gets a role (create rolebinding, set subject).
func asked(args []string) (context string, told bool) {
	for i, arg := range args {
		name, value, joined := strings.Cut(arg, "=")
		switch name {
		case "--":
			return context, false
		case "--context":
			context = value
			if !joined && i+1 < len(args) {
				context = args[i+1]
			}
		case "--kubeconfig", "--server", "-s":
			return "", true
		}
	}
	return context, false
}

// rootsOwn is the kubeconfig when this user has no cluster: one that is not there, unless the cluster is somebody else's.
func rootsOwn() (string, error) {
	_, err := cluster.Load(cluster.DefaultName)
	if p := (*cluster.Problem)(nil); errors.As(err, &p) {
		return "", p
	}
	return cluster.KubeconfigPath(cluster.Config{DataDir: filepath.Join(cluster.BaseDir(), cluster.DefaultName)}), nil
}

// newKubectlCommand exists for help and completion: main hands over to kubectl before cobra parses anything.
func newKubectlCommand() *cobra.Command {
	return &cobra.Command{
		Use:                "kubectl",
		Short:              "Upstream's kubectl, of the same version",
		DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, args []string) error {
			if code := ownKubectl(append([]string{"kubectl"}, args...)); code != 0 {
				return exitCode(code)
			}
			return nil
		},
	}
}
