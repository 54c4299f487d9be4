// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/duration"

	"minik8s.io/minik8s/pkg/cluster"
)

func newTokenCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Tokens by which other machines join the cluster",
		Args:  cobra.NoArgs,
	}
	cmd.AddCommand(newTokenCreateCommand(), newTokenListCommand(), newTokenDeleteCommand())
	return cmd
}

func newTokenCreateCommand() *cobra.Command {
	var name, description string
	var ttl time.Duration
	var out output
	cmd := &cobra.Command{
		Use:   "create",
		Short: "Make a token, and print the command by which a machine joins",
		Long: `Make a token, and print the command by which a machine joins the cluster as a node.

Whoever has it can add nodes until it ends, and so see what pods on these nodes see. It does
not let anybody take the place of a node that is there.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := out.validate(); err != nil {
				return err
			}
			c, err := cluster.Load(name)
			if err != nil {
				return err
			}
			t, err := cluster.CreateToken(cmd.Context(), c, ttl, description)
			if err != nil {
				return err
			}
			if out == "json" {
				return writeJSON(cmd.OutOrStdout(), t)
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), t.Command)
			return err
		},
	}
	addName(cmd, &name)
	cmd.Flags().DurationVar(&ttl, "ttl", 24*time.Hour, "how long machines can join by it; 0: for ever")
	cmd.Flags().StringVar(&description, "description", "", "what it is for")
	out.add(cmd)
	return cmd
}

func newTokenListCommand() *cobra.Command {
	var name string
	var out output
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the tokens of a cluster",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := out.validate(); err != nil {
				return err
			}
			c, err := cluster.Load(name)
			if err != nil {
				return err
			}
			all, err := cluster.Tokens(cmd.Context(), c)
			if err != nil {
				return err
			}
			if out == "json" {
				return writeJSON(cmd.OutOrStdout(), all)
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 10, 4, 3, ' ', 0)
			fmt.Fprintln(w, "TOKEN\tTTL\tEXPIRES\tUSAGES\tDESCRIPTION\tEXTRA GROUPS")
			for _, t := range all {
				ttl, expires := remaining(t, time.Now())
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", t.Token, ttl, expires,
					cmp.Or(strings.Join(t.Usages, ","), "<none>"), cmp.Or(t.Description, "<none>"), cmp.Or(strings.Join(t.Groups, ","), "<none>"))
			}
			return w.Flush()
		},
	}
	addName(cmd, &name)
	out.add(cmd)
	return cmd
}

// remaining is how long a token still lasts, and when it ends, in kubeadm's words.
func remaining(t cluster.Token, now time.Time) (ttl, expires string) {
	if t.Expires == nil {
		return "<forever>", "<never>"
	}
	ttl = "<invalid>"
	if left := t.Expires.Sub(now); left > 0 {
		ttl = duration.ShortHumanDuration(left)
	}
	return ttl, t.Expires.UTC().Format(time.RFC3339)
}

func newTokenDeleteCommand() *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use:   "delete TOKEN-OR-ID...",
		Short: "Make tokens worthless; machines that have joined by them stay",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := cluster.Load(name)
			if err != nil {
				return err
			}
			for _, token := range args {
				id, err := cluster.DeleteToken(cmd.Context(), c, token)
				if err != nil {
					return err
				}
				if _, err := fmt.Fprintf(cmd.OutOrStdout(), "bootstrap token %q deleted\n", id); err != nil {
					return err
				}
			}
			return nil
		},
	}
	addName(cmd, &name)
	return cmd
}
