// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"minik8s.io/minik8s/pkg/addons"
	"minik8s.io/minik8s/pkg/addons/addon"
	"minik8s.io/minik8s/pkg/apis/useragent"
	"minik8s.io/minik8s/pkg/cluster"
)

// addonResult is what -o json prints of an add-on.
type addonResult struct {
	Name    string `json:"name"`
	Title   string `json:"title"`
	Enabled bool   `json:"enabled"`
}

func newEnableCommand() *cobra.Command {
	return newAddonCommand(cluster.Enable, "enabled", &cobra.Command{
		Use:   "enable ADDON...",
		Short: "Add kinds of minik8s's own to a running cluster",
		Long: `Enable add-ons: kinds of minik8s's own with the controllers that bring them about. They are
custom resources as those of any operator, and stay enabled when the cluster is started anew.
"minik8s addons" says which there are.`,
		Example: "  minik8s enable dns functions",
	})
}

func newDisableCommand() *cobra.Command {
	return newAddonCommand(cluster.Disable, "disabled", &cobra.Command{
		Use:   "disable ADDON...",
		Short: "Take such kinds away again, with all objects of them",
		Long: `Disable add-ons. All objects of their kinds are deleted, and all that these have brought about;
nothing of the add-on stays.`,
		Example: "  minik8s disable functions",
	})
}

// newAddonCommand makes a command that does something with each add-on that its arguments name.
func newAddonCommand(do func(context.Context, cluster.Config, addon.Addon) error, done string, cmd *cobra.Command) *cobra.Command {
	var name string
	var timeout time.Duration
	cmd.Args = cobra.MinimumNArgs(1)
	cmd.ValidArgsFunction = func(_ *cobra.Command, given []string, _ string) ([]string, cobra.ShellCompDirective) {
		var names []string
		for _, a := range addons.List() {
			if !slices.Contains(given, a.Name) {
				names = append(names, a.Name+"\t"+a.Title)
			}
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := cluster.Load(name)
		if err != nil {
			return notThere(err, name)
		}
		all := make([]addon.Addon, len(args))
		for i, arg := range args { // before anything is done
			if all[i], err = addons.Find(arg); err != nil {
				return err
			}
		}
		ctx, cancel := context.WithTimeoutCause(cmd.Context(), timeout, fmt.Errorf("--timeout %s is over", timeout))
		defer cancel()
		for _, a := range all {
			begin := time.Now()
			if err := do(ctx, c, a); err != nil {
				return err
			}
			if _, err := fmt.Fprintf(cmd.OutOrStdout(), "Add-on %q is %s after %.2fs\n", a.Name, done, time.Since(begin).Seconds()); err != nil {
				return err
			}
		}
		return nil
	}
	addName(cmd, &name)
	cmd.Flags().DurationVar(&timeout, "timeout", 2*time.Minute, "how long to wait")
	return cmd
}

func newAddonsCommand() *cobra.Command {
	var name string
	var out output
	cmd := &cobra.Command{
		Use:   "addons",
		Short: "List the add-ons, and which of them are enabled in a cluster",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := out.validate(); err != nil {
				return err
			}
			c, err := cluster.Load(name)
			if err != nil {
				return notThere(err, name)
			}
			const limit = 10 * time.Second
			ctx, cancel := context.WithTimeoutCause(cmd.Context(), limit, fmt.Errorf("the API server has not answered for %s", limit))
			defer cancel()
			enabled, err := cluster.EnabledAddons(ctx, c)
			if err != nil {
				return err
			}
			list := []addonResult{}
			for _, a := range addons.List() {
				list = append(list, addonResult{Name: a.Name, Title: a.Title, Enabled: slices.Contains(enabled, a.Name)})
			}
			if out == "json" {
				return writeJSON(cmd.OutOrStdout(), list)
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, strings.Join([]string{"ADDON", "ENABLED", "WHAT IT IS"}, "\t"))
			for _, a := range list {
				fmt.Fprintf(w, "%s\t%t\t%s\n", a.Name, a.Enabled, a.Title)
			}
			return w.Flush()
		},
	}
	addName(cmd, &name)
	out.add(cmd)
	cmd.AddCommand(newAddonsRunCommand(), newAddonsManifestCommand())
	return cmd
}

func newAddonsRunCommand() *cobra.Command {
	var kubeconfig string
	cmd := &cobra.Command{
		Use:   "run ADDON...",
		Short: "Run add-ons in the foreground, for any Kubernetes",
		Long: `Run add-ons in the foreground, for a cluster of any kind: that of --kubeconfig or KUBECONFIG, or
the one in which this runs as a pod. They do something from when their kinds are defined there, which
"minik8s addons manifest" does. What needs the machine of a cluster, they go without.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var all []addon.Addon
			for _, arg := range args {
				a, err := addons.Find(arg)
				if err != nil {
					return err
				}
				all = append(all, a)
			}
			if kubeconfig == "" {
				kubeconfig = os.Getenv("KUBECONFIG")
			}
			config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
			if err != nil {
				return fmt.Errorf("finding the cluster: %w", err)
			}
			identity := os.Getenv("POD_NAME")
			if identity == "" {
				if identity, err = os.Hostname(); err != nil {
					return err
				}
			}
			config.UserAgent = useragent.Of("minik8s-addons")
			ctrllog.SetLogger(klog.Background())
			runner, err := addons.NewRunner(addons.Config{
				Watch: config, Identity: identity, Addons: all,
				ClientFor: func(addon.Addon) (*rest.Config, error) { return config, nil },
			})
			if err != nil {
				return err
			}
			return runner.Start(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&kubeconfig, "kubeconfig", "", "file that says how to reach the cluster")
	return cmd
}

func newAddonsManifestCommand() *cobra.Command {
	var image string
	cmd := &cobra.Command{
		Use:     "manifest ADDON",
		Short:   "Print what runs an add-on as a Deployment, for kubectl apply on any Kubernetes",
		Example: "  minik8s addons manifest workflows --image registry.example.com/minik8s:1 | kubectl apply --server-side -f -",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := addons.Find(args[0])
			if err != nil {
				return err
			}
			objects, err := addons.Manifest(a, image)
			if err != nil {
				return err
			}
			return addons.WriteManifest(cmd.OutOrStdout(), objects)
		},
	}
	cmd.Flags().StringVar(&image, "image", "minik8s.io/minik8s:1", "image that has this program as /minik8s")
	return cmd
}
