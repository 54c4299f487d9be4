// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package extender

import (
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"minik8s.io/minik8s/pkg/scheduler/framework"
)

// serve plays an extender: an answer for each verb. It hangs at a verb that has
// none, until the test ends.
func serve(t *testing.T, answers map[string]func(question json.RawMessage) any) string {
	t.Helper()
	over := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var question json.RawMessage
		if err := json.NewDecoder(r.Body).Decode(&question); err != nil || r.Method != http.MethodPost {
			t.Errorf("%s %s: %v", r.Method, r.URL, err)
		}
		answer, ok := answers[strings.TrimPrefix(r.URL.Path, "/scheduler/")]
		if !ok {
			select {
			case <-over:
			case <-r.Context().Done():
			}
			return
		}
		said := answer(question)
		if code, ok := said.(int); ok {
			http.Error(w, "no", code)
			return
		}
		if err := json.NewEncoder(w).Encode(said); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(func() {
		close(over)
		server.Close()
	})
	return server.URL + "/scheduler/"
}

// one returns the only extender of a configuration.
func one(t *testing.T, cfg configv1.Extender) fwk.Extender {
	t.Helper()
	list, err := New([]configv1.Extender{cfg})
	if err != nil || len(list) != 1 {
		t.Fatalf("%d extenders, %v", len(list), err)
	}
	return list[0]
}

func question[T any](t *testing.T, raw json.RawMessage) (q T) {
	t.Helper()
	if err := json.Unmarshal(raw, &q); err != nil {
		t.Error(err)
	}
	return q
}

func nodes(names ...string) (out []fwk.NodeInfo) {
	for _, name := range names {
		out = append(out, framework.NewNodeInfo(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	}
	return out
}

func names(list []fwk.NodeInfo) (out []string) {
	for _, n := range list {
		out = append(out, n.Node().Name)
	}
	return out
}

var pod = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default", UID: "u"}}

func TestFilter(t *testing.T) {
	for _, tc := range []struct {
		name   string
		cached bool
		answer any
		left   []string
		failed extenderv1.FailedNodesMap
		err    string
	}{
		{name: "by names", cached: true, answer: extenderv1.ExtenderFilterResult{NodeNames: &[]string{"b"}, FailedNodes: extenderv1.FailedNodesMap{"a": "too far"}},
			left: []string{"b"}, failed: extenderv1.FailedNodesMap{"a": "too far"}},
		{name: "by nodes", answer: extenderv1.ExtenderFilterResult{Nodes: &corev1.NodeList{Items: []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "a"}}}}}, left: []string{"a"}},
		{name: "nothing is left", cached: true, answer: extenderv1.ExtenderFilterResult{NodeNames: &[]string{}}},
		{name: "an error", answer: extenderv1.ExtenderFilterResult{Error: "I am lost"}, err: "I am lost"},
		{name: "a node that was not asked about", cached: true, answer: extenderv1.ExtenderFilterResult{NodeNames: &[]string{"c"}}, err: `claims a filtered node "c" which is not found in the input node list`},
		{name: "a code", answer: http.StatusTeapot, err: "failed filter with extender at URL"},
		{name: "no JSON", answer: "text", err: "decoding the answer of"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			url := serve(t, map[string]func(json.RawMessage) any{"filter": func(raw json.RawMessage) any {
				q := question[extenderv1.ExtenderArgs](t, raw)
				if (q.NodeNames != nil) != tc.cached || (q.Nodes != nil) == tc.cached || q.Pod == nil || q.Pod.UID != pod.UID {
					t.Errorf("asked %s", raw)
				}
				return tc.answer
			}})
			e := one(t, configv1.Extender{URLPrefix: url, FilterVerb: "filter", NodeCacheCapable: tc.cached})
			left, failed, _, err := e.Filter(pod, nodes("a", "b"))
			if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Fatalf("got %v, want %q", err, tc.err)
			}
			if diff := cmp.Diff(tc.left, names(left)); diff != "" {
				t.Errorf("left (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.failed, failed); diff != "" {
				t.Errorf("failed (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPrioritize(t *testing.T) {
	want := extenderv1.HostPriorityList{{Host: "a", Score: 3}, {Host: "b", Score: 10}}
	url := serve(t, map[string]func(json.RawMessage) any{"prioritize": func(json.RawMessage) any { return want }})
	got, weight, err := one(t, configv1.Extender{URLPrefix: url, PrioritizeVerb: "prioritize", Weight: 5}).Prioritize(pod, nodes("a", "b"))
	if err != nil || weight != 5 {
		t.Fatalf("weight %d, %v", weight, err)
	}
	if diff := cmp.Diff(want, *got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestBind(t *testing.T) {
	for _, tc := range []struct{ name, says string }{{"it does", ""}, {"it does not", "no room"}} {
		t.Run(tc.name, func(t *testing.T) {
			var got extenderv1.ExtenderBindingArgs
			url := serve(t, map[string]func(json.RawMessage) any{"bind": func(raw json.RawMessage) any {
				got = question[extenderv1.ExtenderBindingArgs](t, raw)
				return extenderv1.ExtenderBindingResult{Error: tc.says}
			}})
			err := one(t, configv1.Extender{URLPrefix: url, BindVerb: "bind"}).Bind(&corev1.Binding{ObjectMeta: pod.ObjectMeta, Target: corev1.ObjectReference{Name: "a"}})
			if (err == nil) != (tc.says == "") || err != nil && err.Error() != tc.says {
				t.Errorf("got %v, want %q", err, tc.says)
			}
			if diff := cmp.Diff(extenderv1.ExtenderBindingArgs{PodName: "p", PodNamespace: "default", PodUID: "u", Node: "a"}, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// One that hangs holds up a pod for its time-out, whatever it is asked.
func TestHangs(t *testing.T) {
	e := one(t, configv1.Extender{URLPrefix: serve(t, nil), FilterVerb: "filter", PrioritizeVerb: "prioritize", BindVerb: "bind", Weight: 1,
		HTTPTimeout: metav1.Duration{Duration: 50 * time.Millisecond}})
	for name, call := range map[string]func() error{
		"filter":     func() error { _, _, _, err := e.Filter(pod, nodes("a")); return err },
		"prioritize": func() error { _, _, err := e.Prioritize(pod, nodes("a")); return err },
		"bind":       func() error { return e.Bind(&corev1.Binding{}) },
	} {
		t.Run(name, func(t *testing.T) {
			var timeout net.Error
			if err := call(); !errors.As(err, &timeout) || !timeout.Timeout() {
				t.Errorf("got %v, want a time-out", err)
			}
		})
	}
}

func TestProcessPreemption(t *testing.T) {
	low := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "low", Namespace: "default", UID: "low"}}
	asked := map[string]*extenderv1.Victims{"a": {Pods: []*corev1.Pod{low}, NumPDBViolations: 1}}
	for _, tc := range []struct {
		name, answer string
		want         map[string]*extenderv1.Victims
		err          string
	}{
		{name: "a victim", answer: `{"a":{"Pods":[{"UID":"low"}],"NumPDBViolations":2}}`, want: map[string]*extenderv1.Victims{"a": {Pods: []*corev1.Pod{low}, NumPDBViolations: 2}}},
		{name: "no node", answer: `{}`, want: map[string]*extenderv1.Victims{}},
		{name: "null for a node", answer: `{"a":null}`, want: map[string]*extenderv1.Victims{"a": {}}},
		{name: "null for a victim", answer: `{"a":{"Pods":[null]}}`, err: `on node "a", but the pod is not found on that node`},
		{name: "a victim of elsewhere", answer: `{"a":{"Pods":[{"UID":"other"}]}}`, err: `(UID: other) on node "a", but the pod is not found on that node`},
		{name: "a node that is not there", answer: `{"x":{}}`, err: "not found"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			url := serve(t, map[string]func(json.RawMessage) any{"preempt": func(raw json.RawMessage) any {
				if q := question[extenderv1.ExtenderPreemptionArgs](t, raw); len(q.NodeNameToMetaVictims["a"].Pods) != 1 {
					t.Errorf("asked %s", raw)
				}
				return json.RawMessage(`{"NodeNameToMetaVictims":` + tc.answer + `}`)
			}})
			node := framework.NewNodeInfo(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}})
			node.AddPodInfo(framework.NewPodInfo(low))
			e := one(t, configv1.Extender{URLPrefix: url, PreemptVerb: "preempt", NodeCacheCapable: true})
			got, err := e.ProcessPreemption(pod, asked, framework.NewSnapshot(node))
			if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Fatalf("got %v, want %q", err, tc.err)
			}
			if diff := cmp.Diff(tc.want, got); err == nil && diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestNew_IgnorableLast(t *testing.T) {
	list, err := New([]configv1.Extender{{URLPrefix: "http://a", Ignorable: true}, {URLPrefix: "http://b"}, {URLPrefix: "http://c", Ignorable: true}, {URLPrefix: "http://d"}})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range list {
		got = append(got, e.Name())
	}
	if diff := cmp.Diff([]string{"http://b", "http://d", "http://a", "http://c"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestIsInterested(t *testing.T) {
	asks := func(change func(*corev1.PodSpec, corev1.ResourceList)) *corev1.Pod {
		p := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{}}, InitContainers: []corev1.Container{{}}}}
		change(&p.Spec, corev1.ResourceList{"example.com/gpu": resource.MustParse("1")})
		return p
	}
	managed := []configv1.ExtenderManagedResource{{Name: "example.com/gpu"}}
	for _, tc := range []struct {
		name    string
		managed []configv1.ExtenderManagedResource
		pod     *corev1.Pod
		want    bool
	}{
		{"it manages nothing", nil, pod, true},
		{"asked for nothing of it", managed, pod, false},
		{"request", managed, asks(func(s *corev1.PodSpec, l corev1.ResourceList) { s.Containers[0].Resources.Requests = l }), true},
		{"limit", managed, asks(func(s *corev1.PodSpec, l corev1.ResourceList) { s.Containers[0].Resources.Limits = l }), true},
		{"of an init container", managed, asks(func(s *corev1.PodSpec, l corev1.ResourceList) { s.InitContainers[0].Resources.Requests = l }), true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := one(t, configv1.Extender{URLPrefix: "http://a", ManagedResources: tc.managed}).IsInterested(tc.pod); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}
