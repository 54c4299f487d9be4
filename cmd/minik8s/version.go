// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/component-base/version"
)

// productVersion is set by the linker.
var productVersion = "dev"

func gitVersion() string { return productVersion + "+" + version.Get().GitVersion }

func newVersionCommand() *cobra.Command {
	var out output
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version of minik8s and of the Kubernetes that it is",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := out.validate(); err != nil {
				return err
			}
			v := version.Get()
			if out == "json" {
				return writeJSON(cmd.OutOrStdout(), map[string]string{"minik8s": productVersion, "kubernetes": v.GitVersion, "go": v.GoVersion, "platform": v.Platform})
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "minik8s %s, Kubernetes %s, %s %s\n", productVersion, v.GitVersion, v.GoVersion, v.Platform)
			return err
		},
	}
	out.add(cmd)
	return cmd
}
