// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestWorkflow runs examples/workflow, and kills the process of the cluster while the order is packed: it is paid once, and comes to its
// end. Then the add-on is disabled, and nothing of it is left. Last, docs/workflows.md.
func TestWorkflow(t *testing.T) {
	c := newCluster(t, "workflow")
	k := up(t, c)
	k.verb(t, "enable", "workflows")
	k.applyWorkflows(t, "shop.yaml", "order.yaml", "watcher.yaml")
	eventually(t, time.Minute, "the shop", k.ready("default", "app=shop", 1))
	k.kubectl(t, "wait", "workflow/order", "--for=condition=Ready", "--timeout=30s")
	contains(t, k.kubectl(t, "get", "wf", "order"), "True", "1.0.0")
	contains(t, k.kubectl(t, "explain", "workflowrun.spec.events"), "CloudEvents")

	k.applyWorkflows(t, "run.yaml")
	eventually(t, 30*time.Second, "the order to be packed", func(ctx context.Context) error {
		r, err := k.run(ctx, "get", "workflowrun", "tea", "-o", "jsonpath={.status.phase} {.status.task}")
		if err != nil || r.Stdout != "Waiting /do/5/packing" {
			return fmt.Errorf("it is %q, %w", r.Stdout, err)
		}
		return nil
	})
	status, err := c.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(status.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	k = up(t, c)
	for _, run := range []string{"tea", "watcher"} {
		k.kubectl(t, "wait", "workflowrun/"+run, "--for=condition=Succeeded", "--timeout=60s")
	}
	contains(t, k.kubectl(t, "get", "workflowrun", "tea"), "PHASE", "TASK", "AGE", "Completed")
	contains(t, k.kubectl(t, "get", "workflowrun", "tea", "-o", "jsonpath={.status.output}"), `"receipt":"receipt-0"`, `"parcel":"tea in parcel 0"`, "Thank you for 39.")
	contains(t, k.kubectl(t, "get", "workflowrun", "watcher", "-o", "jsonpath={.status.output}"), `{"parcel":"tea in parcel 0"}`)
	contains(t, k.kubectl(t, "get", "events", "--field-selector", "involvedObject.name=tea"), "The run completed")

	output := k.verb(t, "workflow", "run", "order", "--input", `{"items": [{"item": "cup", "amount": 4, "price": 3}]}`, "--wait")
	var value map[string]any
	if err := json.Unmarshal([]byte(output), &value); err != nil || value["receipt"] != "receipt-1" {
		t.Errorf("the second order came to %s, %v", output, err)
	}
	contains(t, k.verbFails(t, "workflow", "run", "order", "--input", `{"items": [{"item": "ship", "amount": 1, "price": 5000}]}`, "--wait"),
		"Too large", "/do/2/tooLarge", "We do not sell for 5000.")
	contains(t, k.verbFails(t, "workflow", "run", "order", "--input", "{}", "--wait"), "the input of the workflow", "items")
	contains(t, k.verb(t, "workflow", "graph", "order"), "<svg ", ">reserve<", ">wait 3s<")

	k.verb(t, "disable", "workflows")
	for _, kind := range []string{"crd", "clusterrole", "clusterrolebinding"} {
		if left := k.kubectl(t, "get", kind, "-l", "minik8s.io/addon=workflows", "-o", "name"); left != "" {
			t.Errorf("what is left: %s", left)
		}
	}
	k.runPage(t, filepath.Join(suite.root, "docs", "workflows.md"))
}

// applyWorkflows applies files of the example.
func (k *kube) applyWorkflows(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		path := filepath.Join(suite.root, "examples", "workflow", name)
		if _, err := os.Stat(path); err != nil {
			t.Fatal(err)
		}
		k.kubectl(t, "apply", "-f", path)
	}
}

// verb runs a verb of minik8s, which must succeed, and returns its standard output.
func (k *kube) verb(t *testing.T, verb string, args ...string) string {
	t.Helper()
	r, err := k.Run(t.Context(), verb, args...)
	if err != nil {
		t.Fatal(err)
	}
	if r.Code != 0 {
		t.Fatalf("minik8s %s %s: %s", verb, strings.Join(args, " "), r)
	}
	return r.Stdout
}

// verbFails runs a verb of minik8s, which must fail, and returns its standard error.
func (k *kube) verbFails(t *testing.T, verb string, args ...string) string {
	t.Helper()
	r, err := k.Run(t.Context(), verb, args...)
	if err != nil {
		t.Fatal(err)
	}
	if r.Code == 0 {
		t.Fatalf("minik8s %s %s should fail: %s", verb, strings.Join(args, " "), r)
	}
	return r.Stderr
}
