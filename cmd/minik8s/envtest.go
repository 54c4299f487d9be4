// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
)

// envtestAssets are the programs that controller-runtime's envtest starts.
var envtestAssets = []string{"etcd", "kube-apiserver", "kubectl"}

func newEnvtestAssetsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "envtest-assets DIR",
		Short: "Make a directory that controller-runtime's envtest takes its programs from",
		Long: `Makes DIR with etcd, kube-apiserver and kubectl in it, which are links to this binary.
Tests of operators that use controller-runtime's envtest run on it unchanged:

  export KUBEBUILDER_ASSETS=$(minik8s envtest-assets /tmp/envtest)
  go test ./...

Unlike upstream's, this kube-apiserver can run the controllers too, so that namespaces end,
garbage is collected and Deployments make pods. In the test:

  env.ControlPlane.GetAPIServer().Configure().Append("controllers", "*")`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, err := filepath.Abs(args[0])
			if err != nil {
				return err
			}
			if err := linkAssets(dir); err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), dir)
			return err
		},
	}
}

// linkAssets replaces links to this program, wherever it was before, and nothing else.
func linkAssets(dir string) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program: %w", err)
	}
	if self, err = filepath.EvalSymlinks(self); err != nil {
		return fmt.Errorf("finding this program: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, name := range envtestAssets {
		path := filepath.Join(dir, name)
		old, err := os.Readlink(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return fmt.Errorf("%s exists and is not a link: choose another directory", path)
		case !isMinik8s(old, self):
			return fmt.Errorf("%s is a link to %s, and not to minik8s: choose another directory", path, old)
		default:
			if err := os.Remove(path); err != nil {
				return err
			}
		}
		if err := os.Symlink(self, path); err != nil {
			return err
		}
	}
	return nil
}

// isMinik8s tells whether a link was made to this program, or to an earlier version of it, which may be gone.
func isMinik8s(target, self string) bool {
	name := filepath.Base(target)
	return name == filepath.Base(self) || strings.HasPrefix(name, "minik8s")
}
