// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	v1alpha1 "minik8s.io/minik8s/pkg/addons/apis/functions/v1alpha1"
)

func newFunctionCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "function", Short: "Make functions of folders", Args: cobra.NoArgs}
	cmd.AddCommand(newFunctionCreateCommand())
	return cmd
}

func newFunctionCreateCommand() *cobra.Command {
	flags := genericclioptions.NewConfigFlags(true)
	var from, runtime, handler string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Make a function of a folder, or bring one up to date",
		Long: `Make a Function of the files in a folder, which go to a ConfigMap: 1000 KiB at most. If there is one
of the name already it gets the files as a new revision. "minik8s execute" calls it.`,
		Example: "  minik8s function create hello --runtime python --from ./hello",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, namespace, err := functionsClient(cmd, flags)
			if err != nil {
				return err
			}
			ctx, cancel := withTimeout(cmd, timeout)
			defer cancel()
			spec := v1alpha1.FunctionSpec{Runtime: v1alpha1.Runtime(runtime), Handler: handler}
			if err := c.Create(ctx, namespace, args[0], spec, from); err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "Function \"%s/%s\" has the files of %s.\n", namespace, args[0], from)
			return err
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&runtime, "runtime", string(v1alpha1.Python), "language: python or node")
	fs.StringVar(&from, "from", ".", "folder with the code")
	fs.StringVar(&handler, "handler", "func.main", "module and function that is called")
	fs.DurationVar(&timeout, "timeout", time.Minute, "how long to wait")
	addKubeconfig(cmd, flags)
	return cmd
}

// withTimeout is the context of a command that ends after a while.
func withTimeout(cmd *cobra.Command, timeout time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(cmd.Context(), timeout, fmt.Errorf("--timeout %s is over", timeout))
}
