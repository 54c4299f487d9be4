// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
)

// A cluster is Ready when the kubelet of its process says so: not by what an earlier one has said, nor by another machine.
func TestNodeReady(t *testing.T) {
	t.Parallel()
	// The process began in the middle of a second, as conditions know only whole ones.
	second := time.Now().Truncate(time.Second).Add(-10 * time.Second)
	since := second.Add(500 * time.Millisecond)
	long := time.Now().Add(-time.Hour)
	node := func(name string, status corev1.ConditionStatus, heartbeat time.Time) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
			{Type: corev1.NodeReady, Status: status, LastHeartbeatTime: metav1.NewTime(heartbeat), Message: "why"},
		}}}
	}
	lease := func(renewed time.Time) *coordinationv1.Lease {
		at := metav1.NewMicroTime(renewed)
		return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "own", Namespace: corev1.NamespaceNodeLease}, Spec: coordinationv1.LeaseSpec{RenewTime: &at}}
	}
	for _, tc := range []struct {
		name    string
		since   time.Time
		objects []runtime.Object
		want    string // "" is Ready
	}{
		{"none", since, nil, "node own has not registered"},
		{"another machine", since, []runtime.Object{node("worker", corev1.ConditionTrue, time.Now())}, "node own has not registered"},
		{"registered", since, []runtime.Object{&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "own"}}}, "node own has not reported"},
		{"not ready", since, []runtime.Object{node("own", corev1.ConditionFalse, time.Now())}, "node own: why"},
		{"new", since, []runtime.Object{node("own", corev1.ConditionTrue, second)}, ""},
		{"started anew", since, []runtime.Object{node("own", corev1.ConditionTrue, second), lease(since.Add(time.Millisecond))}, ""},
		{"the word of before", since, []runtime.Object{node("own", corev1.ConditionTrue, second.Add(-time.Second)), lease(since.Add(-time.Second))}, "node own has not reported since the start"},
		{"the word of before, renewed", since, []runtime.Object{node("own", corev1.ConditionTrue, second.Add(-time.Second)), lease(time.Now())}, "node own has not reported since the start"},
		{"the word of before, in the same second", since, []runtime.Object{node("own", corev1.ConditionTrue, second), lease(since.Add(-time.Millisecond))}, "node own has not reported since the start"},
		{"for long, by its lease", long, []runtime.Object{node("own", corev1.ConditionTrue, long.Add(time.Second)), lease(time.Now())}, ""},
		{"for long, silent", long, []runtime.Object{node("own", corev1.ConditionTrue, long.Add(time.Second)), lease(time.Now().Add(-time.Minute))}, "node own was last heard of"},
	} {
		// Not in parallel: who waits for a turn too long is silent.
		t.Run(tc.name, func(t *testing.T) {
			got, err := nodeReady(t.Context(), fake.NewClientset(tc.objects...), "own", tc.since)
			if err != nil || (got == "") != (tc.want == "") || !strings.HasPrefix(got, tc.want) {
				t.Errorf("got %q, %v, want %q", got, err, tc.want)
			}
		})
	}
}

// A node that waits for its network by CNI is waited for until it is registered, and until it is Ready once the network is there.
func TestNetworkStep(t *testing.T) {
	t.Parallel()
	missing := ""
	ready := Step{"node", func(context.Context, kubernetes.Interface) (string, error) { return missing, nil }}
	dir := t.TempDir()
	c := Config{Kubelet: KubeletConfig{NodeName: "own"}}
	check := func(what string, step Step, client kubernetes.Interface, want string) {
		t.Helper()
		if got, err := step.pending(t.Context(), client); err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", what, got, err, want)
		}
	}
	none, one := fake.NewClientset(), fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "own"}})
	missing = "node own: no network"
	check("our own network", networkStep(ready, c), one, missing)
	c.Networking.CNIConfDir = dir
	step := networkStep(ready, c)
	check("not registered", step, none, missing)
	check("registered", step, one, "")
	if err := os.WriteFile(filepath.Join(dir, "n.conf"), []byte(`{"cniVersion": "1.0.0", "name": "n", "type": "p"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	check("configured", step, one, missing)
	missing = ""
	check("ready", step, one, "")
}
