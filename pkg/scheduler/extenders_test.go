// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	pt "minik8s.io/minik8s/pkg/scheduler/plugintest"
)

// extended is a configuration with extenders.
func extended(list ...configv1.Extender) Config {
	return Config{Configuration: &configv1.KubeSchedulerConfiguration{Extenders: list}}
}

// hangs plays an extender that never answers.
func hangs(t *testing.T) string {
	t.Helper()
	over := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-over:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(func() {
		close(over)
		server.Close()
	})
	return server.URL
}

// An extender over HTTP has the last word on nodes, and binds.
func TestExtenders_ChooseAndBind(t *testing.T) {
	client := newClient(pt.Node("a"), pt.Node("b"), pt.Node("c"), pt.Pod("p"))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var answer any
		switch r.URL.Path {
		case "/filter":
			answer = extenderv1.ExtenderFilterResult{NodeNames: &[]string{"b", "c"}, FailedNodes: extenderv1.FailedNodesMap{"a": "too far"}}
		case "/prioritize":
			answer = extenderv1.HostPriorityList{{Host: "b", Score: 1}, {Host: "c", Score: 10}}
		case "/bind":
			var q extenderv1.ExtenderBindingArgs
			if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
				t.Error(err)
			}
			b := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Namespace: q.PodNamespace, Name: q.PodName, UID: q.PodUID}, Target: corev1.ObjectReference{Name: q.Node}}
			if err := bindInTracker(client, b); err != nil {
				t.Error(err)
			}
			answer = extenderv1.ExtenderBindingResult{}
		}
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	c := startOn(t, client, extended(configv1.Extender{
		URLPrefix: server.URL, FilterVerb: "filter", PrioritizeVerb: "prioritize", BindVerb: "bind", Weight: 100, NodeCacheCapable: true,
	}))
	c.awaitNode("p", "c")
	c.awaitEvent("Scheduled", "Successfully assigned default/p to c")
	for _, a := range client.Actions() {
		if a.GetVerb() == "create" && a.GetSubresource() == "binding" {
			t.Error("the scheduler has bound the pod beside the extender")
		}
	}
}

// An extender may leave nodes out without a word. It declares no events, so that any may help, also one that is of no use to the plugins
// that refused the other nodes.
func TestExtenders_AnyEventHelps(t *testing.T) {
	var ready atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		left := []string{}
		if ready.Load() {
			left = append(left, "b")
		}
		if err := json.NewEncoder(w).Encode(extenderv1.ExtenderFilterResult{NodeNames: &left}); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	c := start(t, extended(configv1.Extender{URLPrefix: server.URL, FilterVerb: "filter", NodeCacheCapable: true}),
		pt.Node("a"), pt.Node("b", pt.NodeLabels("k", "v")), pt.Pod("other", pt.On("a")),
		pt.Pod("p", func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"k": "v"} }))
	c.await("the condition", func() bool { return c.condition("p").Reason == corev1.PodReasonUnschedulable })
	ready.Store(true)
	if err := c.client.CoreV1().Pods("default").Delete(c.Context(), "other", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	c.awaitNode("p", "b")
}

func TestExtenders_Hang(t *testing.T) {
	short := metav1.Duration{Duration: 20 * time.Millisecond}
	t.Run("one that can be ignored", func(t *testing.T) {
		c := start(t, extended(configv1.Extender{URLPrefix: hangs(t), FilterVerb: "filter", HTTPTimeout: short, Ignorable: true}), pt.Node("n"), pt.Pod("p"))
		c.awaitNode("p", "n")
	})
	t.Run("one that only has preferences", func(t *testing.T) {
		c := start(t, extended(configv1.Extender{URLPrefix: hangs(t), PrioritizeVerb: "prioritize", Weight: 1, HTTPTimeout: short}), pt.Node("n"), pt.Node("m"), pt.Pod("p"))
		c.await("a node", func() bool { return c.pod("p").Spec.NodeName != "" })
	})
	t.Run("one that is needed", func(t *testing.T) {
		c := start(t, extended(configv1.Extender{URLPrefix: hangs(t), FilterVerb: "filter", HTTPTimeout: short}), pt.Node("n"), pt.Pod("p"))
		c.await("the condition", func() bool { return c.condition("p").Reason == corev1.PodReasonSchedulerError })
		if message := c.condition("p").Message; !strings.HasPrefix(message, "asking extender ") || !strings.Contains(message, "Client.Timeout") && !strings.Contains(message, "deadline exceeded") {
			t.Errorf("the condition says %q", message)
		}
	})
}
