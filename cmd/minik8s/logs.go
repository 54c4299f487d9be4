// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/spf13/cobra"

	"minik8s.io/minik8s/pkg/cluster"
)

func newLogsCommand() *cobra.Command {
	var name string
	var follow bool
	cmd := &cobra.Command{
		Use:   "logs",
		Short: "Print the log of a cluster's process",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			e, err := cluster.Find(name)
			if err != nil {
				return err
			}
			f, err := os.Open(cluster.LogPath(e.Config))
			if errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("cluster %q has no log yet: it has never run in the background", name)
			}
			if err != nil {
				return err
			}
			defer f.Close()
			if _, err := io.Copy(cmd.OutOrStdout(), f); err != nil || !follow {
				return err
			}
			return followLog(cmd.Context(), cmd.OutOrStdout(), f)
		},
	}
	addName(cmd, &name)
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on printing what is added")
	return cmd
}

// followLog copies what is appended to f until ctx ends, and goes on with the new file when the log is rotated.
func followLog(ctx context.Context, w io.Writer, f *os.File) error {
	path := f.Name()
	current := f
	defer func() {
		if current != f {
			_ = current.Close()
		}
	}()
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		if _, err := io.Copy(w, current); err != nil {
			return err
		}
		next, err := os.Open(path)
		if err != nil {
			continue // between rename and re-creation
		}
		a, aerr := current.Stat()
		b, berr := next.Stat()
		if aerr != nil || berr != nil || os.SameFile(a, b) {
			_ = next.Close()
			continue
		}
		if current != f {
			_ = current.Close()
		}
		current = next
	}
}
