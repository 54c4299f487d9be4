// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Step is a condition that a running cluster reaches on its way to Ready.
type Step struct {
	Name string
	// pending says what is missing, "" if nothing.
	pending func(ctx context.Context, c kubernetes.Interface) (string, error)
}

var apiStep = Step{"API server", apiReady}

// Steps are the conditions in order.
func Steps(nodes int) []Step {
	steps := []Step{
		apiStep,
		{"default namespace and service account", defaultsExist},
	}
	if nodes > 0 {
		steps = append(steps, Step{"node", func(ctx context.Context, c kubernetes.Interface) (string, error) { return nodesReady(ctx, c, nodes) }})
	}
	return steps
}

// WaitReady waits for all steps and calls reached after each.
func WaitReady(ctx context.Context, config *rest.Config, nodes int, reached func(step string)) error {
	return waitSteps(ctx, config, Steps(nodes), reached)
}

func waitSteps(ctx context.Context, config *rest.Config, steps []Step, reached func(step string)) error {
	c := rest.CopyConfig(config)
	c.Timeout = 5 * time.Second
	client, err := kubernetes.NewForConfig(c)
	if err != nil {
		return err
	}
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for _, s := range steps {
		for {
			missing, err := s.pending(ctx, client)
			if err == nil && missing == "" {
				break
			}
			select {
			case <-ctx.Done():
				if err != nil {
					missing = err.Error()
				}
				return fmt.Errorf("%s is not ready: %s: %w", s.Name, missing, context.Cause(ctx))
			case <-ticker.C:
			}
		}
		reached(s.Name)
	}
	return nil
}

func apiReady(ctx context.Context, c kubernetes.Interface) (string, error) {
	var code int
	body, err := c.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).StatusCode(&code).Raw()
	if code == http.StatusOK {
		return "", nil
	}
	if code == 0 && err != nil {
		return "", err
	}
	var failed []string
	for line := range strings.SplitSeq(string(body), "\n") {
		if check, ok := strings.CutPrefix(line, "[-]"); ok {
			failed = append(failed, check)
		}
	}
	return strings.Join(append(failed, fmt.Sprintf("/readyz answers %d", code)), "; "), nil
}

func defaultsExist(ctx context.Context, c kubernetes.Interface) (string, error) {
	_, err := c.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
	return "", err
}

func nodesReady(ctx context.Context, c kubernetes.Interface, want int) (string, error) {
	list, err := c.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	ready, why := 0, errors.New("no node has registered")
	for _, n := range list.Items {
		cond := readyCondition(&n)
		if cond == nil {
			why = fmt.Errorf("node %s has not reported", n.Name)
		} else if cond.Status == corev1.ConditionTrue {
			ready++
		} else {
			why = fmt.Errorf("node %s: %s", n.Name, cond.Message)
		}
	}
	if ready >= want {
		return "", nil
	}
	return why.Error(), nil
}

func readyCondition(n *corev1.Node) *corev1.NodeCondition {
	for i := range n.Status.Conditions {
		if n.Status.Conditions[i].Type == corev1.NodeReady {
			return &n.Status.Conditions[i]
		}
	}
	return nil
}
