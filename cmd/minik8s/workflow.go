// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	workflowsv1alpha1 "minik8s.io/minik8s/pkg/addons/apis/workflows/v1alpha1"
	"minik8s.io/minik8s/pkg/addons/workflows/graph"
	"minik8s.io/minik8s/pkg/cluster"
)

// runLook is how often it is looked whether a run has ended.
const runLook = 50 * time.Millisecond

func newWorkflowCommand() *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use:   "workflow",
		Short: "Draw and run workflows",
		Long: `Draw and run Workflows, which the add-on "workflows" brings: minik8s enable workflows.
All else is done by kubectl: kubectl get workflows, kubectl get workflowruns -w.`,
		Args: cobra.NoArgs,
	}
	addName(cmd, &name)
	cmd.PersistentFlags().AddFlag(cmd.Flags().Lookup("name"))
	cmd.AddCommand(newWorkflowGraphCommand(&name), newWorkflowRunCommand(&name))
	return cmd
}

func newWorkflowGraphCommand(name *string) *cobra.Command {
	var namespace, file string
	cmd := &cobra.Command{
		Use:     "graph NAME",
		Short:   "Draw a Workflow as SVG",
		Example: "  minik8s workflow graph order >order.svg",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := workflowClient(*name)
			if err != nil {
				return err
			}
			var w workflowsv1alpha1.Workflow
			if err := c.Get(cmd.Context(), types.NamespacedName{Namespace: namespace, Name: args[0]}, &w); err != nil {
				return workflowProblem(err)
			}
			svg, err := graph.SVG(w.Spec.Raw)
			if err != nil {
				return fmt.Errorf("drawing the Workflow %q: %w", args[0], err)
			}
			if file != "" {
				return os.WriteFile(file, []byte(svg), 0o644) //nolint:gosec // a picture, for everybody
			}
			_, err = io.WriteString(cmd.OutOrStdout(), svg)
			return err
		},
	}
	cmd.Flags().StringVarP(&namespace, "namespace", "n", metav1.NamespaceDefault, "namespace of the Workflow")
	cmd.Flags().StringVarP(&file, "file", "f", "", "file to write instead of the standard output")
	return cmd
}

func newWorkflowRunCommand(name *string) *cobra.Command {
	var namespace, input string
	var waits bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "run NAME",
		Short: "Run a Workflow",
		Long: `Make a WorkflowRun of a Workflow, and print its name; with --wait, wait until its end, and print
its output instead, as JSON. A run that faults is an error.`,
		Example: `  minik8s workflow run order --input '{"item": "tea"}' --wait`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := workflowClient(*name)
			if err != nil {
				return err
			}
			r := &workflowsv1alpha1.WorkflowRun{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: args[0] + "-"},
				Spec:       workflowsv1alpha1.WorkflowRunSpec{Workflow: args[0]},
			}
			if input != "" {
				encoded, err := yaml.YAMLToJSON([]byte(input))
				if err != nil {
					return fmt.Errorf("--input is not JSON: %w", err)
				}
				r.Spec.Input = &apiextensionsv1.JSON{Raw: encoded}
			}
			ctx, cancel := context.WithTimeoutCause(cmd.Context(), timeout, fmt.Errorf("--timeout %s is over", timeout))
			defer cancel()
			var w workflowsv1alpha1.Workflow
			if err := c.Get(ctx, types.NamespacedName{Namespace: namespace, Name: args[0]}, &w); err != nil {
				return workflowProblem(err)
			}
			if err := c.Create(ctx, r); err != nil {
				return workflowProblem(err)
			}
			if !waits {
				_, err := fmt.Fprintln(cmd.OutOrStdout(), r.Name)
				return err
			}
			if err := awaitRun(ctx, c, r); err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), string(r.Status.Output.Raw))
			return err
		},
	}
	cmd.Flags().StringVarP(&namespace, "namespace", "n", metav1.NamespaceDefault, "namespace of the Workflow")
	cmd.Flags().StringVarP(&input, "input", "i", "", "input of the run, as JSON")
	cmd.Flags().BoolVar(&waits, "wait", false, "wait for the end, and print the output")
	cmd.Flags().DurationVar(&timeout, "timeout", 10*time.Minute, "how long to wait")
	return cmd
}

// awaitRun waits for the end of a run, and returns its error if that is how it ends.
func awaitRun(ctx context.Context, c client.Client, r *workflowsv1alpha1.WorkflowRun) error {
	key := client.ObjectKeyFromObject(r)
	err := wait.PollUntilContextCancel(ctx, runLook, true, func(ctx context.Context) (bool, error) {
		err := c.Get(ctx, key, r)
		return err == nil && r.Status.Phase.Finished(), err
	})
	if err != nil {
		return fmt.Errorf("waiting for the run %q, which goes on: kubectl get workflowrun %s: %w", key.Name, key.Name, errors.Join(context.Cause(ctx), err))
	}
	if r.Status.Phase == workflowsv1alpha1.PhaseFaulted {
		message := ""
		if condition := meta.FindStatusCondition(r.Status.Conditions, workflowsv1alpha1.ConditionSucceeded); condition != nil {
			message = condition.Message
		}
		return fmt.Errorf("the run %q faulted: %s", key.Name, message)
	}
	return nil
}

// workflowClient returns a client of a cluster that knows Workflows.
func workflowClient(name string) (client.Client, error) {
	c, err := cluster.Load(name)
	if err != nil {
		return nil, notThere(err, name)
	}
	config, err := cluster.Admin(c)
	if err != nil {
		return nil, err
	}
	scheme := runtime.NewScheme()
	if err := workflowsv1alpha1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	return client.New(config, client.Options{Scheme: scheme})
}

// workflowProblem says what to do if there is no such kind.
func workflowProblem(err error) error {
	if meta.IsNoMatchError(err) {
		return fmt.Errorf("there are no Workflows in the cluster: minik8s enable workflows: %w", err)
	}
	return err
}
