// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"minik8s.io/minik8s/pkg/network/cni"
)

// Step is a condition that a running cluster reaches on its way to Ready.
type Step struct {
	Name string
	// pending says what is missing, "" if nothing.
	pending func(ctx context.Context, c kubernetes.Interface) (string, error)
}

var apiStep = Step{"API server", apiReady}

// steps are the conditions in order, of a cluster whose process began at a time.
func steps(c Config, since time.Time) []Step {
	all := []Step{
		apiStep,
		{"default namespace and service account", defaultsExist},
	}
	if name := c.ownNode(); name != "" {
		all = append(all, networkStep(nodeStep(name, since), c))
	}
	if c.NodeCount() > 1 {
		all = append(all, Step{"nodes", func(ctx context.Context, client kubernetes.Interface) (string, error) {
			return nodesReady(ctx, client, c, since)
		}})
	}
	return all
}

func nodeStep(name string, since time.Time) Step {
	return Step{"node", func(ctx context.Context, c kubernetes.Interface) (string, error) {
		return nodeReady(ctx, c, name, since)
	}}
}

// networkStep is the step of the machine's node where a network by CNI may come later, even by pods: until it is there, a node that is
// registered is all there is to wait for.
func networkStep(ready Step, c Config) Step {
	dir := c.Networking.CNIConfDir
	if dir == "" {
		return ready
	}
	return Step{ready.Name, func(ctx context.Context, client kubernetes.Interface) (string, error) {
		missing, err := ready.pending(ctx, client)
		if err != nil || missing == "" || cni.Configured(dir) == nil {
			return missing, err
		}
		_, err = client.CoreV1().Nodes().Get(ctx, c.Kubelet.NodeName, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return missing, nil
		}
		return "", err
	}}
}

// waitReady waits for all steps and calls reached after each.
func waitReady(ctx context.Context, config *rest.Config, c Config, since time.Time, reached func(step string)) error {
	return waitSteps(ctx, config, steps(c, since), reached)
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

// nodeReady asks for one node and no other: machines that have joined say nothing about this one.
func nodeReady(ctx context.Context, c kubernetes.Interface, name string, since time.Time) (string, error) {
	n, err := c.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return fmt.Sprintf("node %s has not registered", name), nil
	}
	if err != nil {
		return "", err
	}
	cond := readyCondition(n)
	if cond == nil {
		return fmt.Sprintf("node %s has not reported", name), nil
	}
	if cond.Status != corev1.ConditionTrue {
		return fmt.Sprintf("node %s: %s", name, cond.Message), nil
	}
	lease, err := c.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		lease, err = nil, nil // it is made a little later than a new node
	}
	if err != nil {
		return "", err
	}
	heard := lastHeard(cond, lease, since)
	if heard.IsZero() {
		return fmt.Sprintf("node %s has not reported since the start", name), nil
	}
	if time.Since(heard) > silence {
		return fmt.Sprintf("node %s was last heard of at %s", name, heard.Format(time.RFC3339)), nil
	}
	return "", nil
}

// silence is how long a kubelet may be quiet: as long as its lease lasts.
const silence = 40 * time.Second

// lastHeard is when the kubelet of a process that began at a time has last told that it is well. The node stays when the
// process ends, and with it what the kubelet said last: zero means that nothing newer is known.
func lastHeard(ready *corev1.NodeCondition, lease *coordinationv1.Lease, since time.Time) time.Time {
	// Conditions know seconds only. A kubelet that was killed may have reported in the second in which this one began: its
	// lease tells.
	heard := ready.LastHeartbeatTime.Time
	if heard.Before(since.Truncate(time.Second)) {
		return time.Time{}
	}
	if lease == nil || lease.Spec.RenewTime == nil {
		return heard
	}
	renewed := lease.Spec.RenewTime.Time
	if renewed.Before(since) {
		return time.Time{}
	}
	if renewed.After(heard) {
		return renewed
	}
	return heard
}

func readyCondition(n *corev1.Node) *corev1.NodeCondition {
	for i := range n.Status.Conditions {
		if n.Status.Conditions[i].Type == corev1.NodeReady {
			return &n.Status.Conditions[i]
		}
	}
	return nil
}
