// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"minik8s.io/minik8s/pkg/addons/functions/client"
)

// newExecuteCommand makes the verb execute, which is also the plugin kubectl-execute.
func newExecuteCommand(program string) *cobra.Command {
	flags := genericclioptions.NewConfigFlags(true)
	var timeout time.Duration
	var async bool
	var result string
	cmd := &cobra.Command{
		Use:   "execute [NAMESPACE/]NAME [JSON]",
		Short: "Call a function and print what it answers",
		Long: `Call a Function with JSON and print what it answers; - reads the JSON from standard input.
The same binary under the name kubectl-execute is a plugin of kubectl's.`,
		Example: `  ` + program + ` default/hello '{"name": "you"}'`,
		Args:    cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			r := client.Request{Payload: "{}", Async: async, Result: result}
			if len(args) > 1 {
				r.Payload = args[1]
			}
			if r.Payload == "-" {
				data, err := io.ReadAll(cmd.InOrStdin())
				if err != nil {
					return err
				}
				r.Payload = string(data)
			}
			c, namespace, err := functionsClient(cmd, flags)
			if err != nil {
				return err
			}
			if r.Namespace, r.Name = namespace, args[0]; strings.Contains(args[0], "/") {
				r.Namespace, r.Name, _ = strings.Cut(args[0], "/")
			}
			ctx, cancel := withTimeout(cmd, timeout)
			defer cancel()
			answer, err := c.Call(ctx, r)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), strings.TrimSuffix(string(answer), "\n"))
			return err
		},
	}
	fs := cmd.Flags()
	fs.DurationVar(&timeout, "timeout", 2*time.Minute, "how long to wait for the answer")
	fs.BoolVar(&async, "async", false, "do not wait for the answer but print the id under which it is kept for 10 minutes")
	fs.StringVar(&result, "result", "", "call nothing, but print the answer of this id")
	addKubeconfig(cmd, flags)
	return cmd
}

// functionsClient is for the cluster that flags or KUBECONFIG name, else for the one of this machine.
func functionsClient(cmd *cobra.Command, flags *genericclioptions.ConfigFlags) (c *client.Client, namespace string, err error) {
	if !cmd.Flags().Changed("kubeconfig") && os.Getenv("KUBECONFIG") == "" {
		if err := useOwnCluster(os.Args[1:]); err != nil {
			return nil, "", err
		}
	}
	loader := flags.ToRawKubeConfigLoader()
	if namespace, _, err = loader.Namespace(); err != nil {
		return nil, "", err
	}
	config, err := loader.ClientConfig()
	if err != nil {
		return nil, "", fmt.Errorf("finding the cluster: %w", err)
	}
	c, err = client.New(config)
	if err != nil {
		err = errors.Join(err, errors.New("is the add-on there? minik8s enable functions"))
	}
	return c, namespace, err
}

func addKubeconfig(cmd *cobra.Command, flags *genericclioptions.ConfigFlags) {
	fs := cmd.Flags()
	fs.StringVar(flags.KubeConfig, "kubeconfig", "", "file that says how to reach the cluster (default $KUBECONFIG, else a cluster of this machine)")
	fs.StringVar(flags.Context, "context", "", "context in it")
	fs.StringVarP(flags.Namespace, "namespace", "n", "", "namespace")
}
