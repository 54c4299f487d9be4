// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package workflows

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workflowsv1alpha1 "minik8s.io/minik8s/pkg/addons/apis/workflows/v1alpha1"
	"minik8s.io/minik8s/test/integration/framework"
)

const head = "document: {dsl: '1.0.3', namespace: default, name: test, version: 1.0.0}\n"

// callee counts calls by their path and key, and answers with what it was sent.
type callee struct {
	mu    sync.Mutex
	calls map[string]int // guarded by mu
	keys  map[string]int // guarded by mu
	// hold is waited for before an answer to /hold.
	hold chan struct{}
}

func newCallee() *callee {
	return &callee{calls: map[string]int{}, keys: map[string]int{}, hold: make(chan struct{})}
}

func (c *callee) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	c.mu.Lock()
	c.calls[r.URL.Path]++
	c.keys[r.URL.Path+" "+r.Header.Get("Idempotency-Key")]++
	attempts := 0
	for key := range c.keys {
		if strings.HasPrefix(key, r.URL.Path+" ") {
			attempts++
		}
	}
	c.mu.Unlock()
	switch {
	case r.URL.Path == "/fails-once" && attempts == 1:
		http.Error(w, "not yet", http.StatusServiceUnavailable)
		return
	case r.URL.Path == "/hold":
		select {
		case <-c.hold:
		case <-r.Context().Done():
			return
		}
	case r.URL.Path == "/large":
		w.Header().Set("Content-Type", "text/plain")
		_, _ = io.WriteString(w, strings.Repeat("0123456789", 10<<20/10))
		return
	case r.URL.Path == "/some":
		body, _ = json.Marshal(strings.Repeat("some text that goes on ", 20000))
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body)
}

func (c *callee) count(path string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls[path]
}

// The controller is ended after every write of a run, and the run comes to its end all the same: every task is done, with one key.
func TestRestartAtEveryStep(t *testing.T) {
	namespace := cluster.Namespace(t)
	callee := newCallee()
	transport := newLoopback(t, callee)
	w := create(t, namespace, head+`
do:
- first: {call: http, with: {method: post, endpoint: 'http://callee/first', body: {num: '${ .num }'}}}
- loop:
    for: {in: '[1, 2, 3]', each: i}
    do: [{one: {call: http, with: {method: post, endpoint: 'http://callee/loop', body: {num: '${ .num + $i }'}}}}]
- pause: {wait: {milliseconds: 300}}
- again:
    try: [{fails: {call: http, with: {method: post, endpoint: 'http://callee/fails-once', body: '${ . }'}}}]
    catch: {retry: {delay: {milliseconds: 100}, limit: {attempt: {count: 3}}}}
- both:
    fork:
      branches:
      - left: {call: http, with: {method: post, endpoint: 'http://callee/left', body: {left: '${ .num }'}}}
      - right: {do: [{a: {wait: {milliseconds: 50}}}, {b: {call: fn, with: {right: '${ .num }'}}}]}
- last: {set: {sum: '${ .[0].left + .[1].right }', context: '${ $context.num }'}}
`, "num: 1")
	restarts, seen := 0, int64(-1)
	for {
		stop, err := start(transport)
		if err != nil {
			t.Fatal(err)
		}
		got := await(t, w, "the next write", func(w *workflowsv1alpha1.WorkflowRun) bool {
			return finished(w) || revision(t, w) > seen
		})
		stop()
		if finished(got) {
			w = got
			break
		}
		seen = revision(t, got)
		restarts++
	}
	if restarts < 8 {
		t.Errorf("%d restarts: the run has more steps", restarts)
	}
	if got := string(w.Status.Output.Raw); w.Status.Phase != workflowsv1alpha1.PhaseCompleted || !equalJSON(t, got, `{"sum": 14, "context": 1}`) {
		t.Errorf("%s: %s, %+v", w.Status.Phase, got, w.Status.Error)
	}
	keys := map[string]int{}
	for key := range callee.keys {
		path, _, _ := strings.Cut(key, " ")
		keys[path]++
	}
	if diff := cmp.Diff(map[string]int{"/first": 1, "/loop": 3, "/fails-once": 2, "/left": 1, "/": 1}, keys); diff != "" {
		t.Errorf("keys of calls: %s", diff)
	}
	t.Logf("%d restarts; calls %v", restarts, callee.calls)
}

// revision returns the latest revision of a run's journal, in its status or ahead of it.
func revision(t *testing.T, w *workflowsv1alpha1.WorkflowRun) int64 {
	t.Helper()
	latest := int64(-1)
	if w.Status.Journal != nil {
		latest = w.Status.Journal.Revision
	}
	var parts corev1.ConfigMapList
	if err := admin.List(t.Context(), &parts, client.InNamespace(w.Namespace), client.MatchingLabels{"workflows.minik8s.io/run-uid": string(w.UID)}); err != nil {
		t.Fatal(err)
	}
	for _, m := range parts.Items {
		var ahead struct{ Revision int64 }
		if err := json.Unmarshal([]byte(m.Data["ahead.json"]), &ahead); err != nil {
			t.Fatal(err)
		}
		latest = max(latest, ahead.Revision)
	}
	return latest
}

func equalJSON(t *testing.T, a, b string) bool {
	t.Helper()
	var x, y any
	if err := errors.Join(json.Unmarshal([]byte(a), &x), json.Unmarshal([]byte(b), &y)); err != nil {
		t.Fatal(err)
	}
	return cmp.Equal(x, y)
}

// A run has the Secrets of its namespace once somebody who may read them allows it, and none of another namespace.
func TestSecrets(t *testing.T) {
	namespace, other := cluster.Namespace(t), cluster.Namespace(t)
	run(t, newLoopback(t, newCallee()))
	for _, in := range []string{namespace, other} {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: in, Name: "login"}, StringData: map[string]string{"user": in}}
		if err := admin.Create(t.Context(), secret); err != nil {
			t.Fatal(err)
		}
	}
	const document = head + "use: {secrets: [login]}\ndo: [{a: {set: {user: '${ $secrets.login.user }'}}}]"
	w, elsewhere := create(t, namespace, document, ""), create(t, other, document, "")
	waits := func(w *workflowsv1alpha1.WorkflowRun) bool {
		return w.Status.Phase == workflowsv1alpha1.PhasePending && condition(w).Reason == "SecretForbidden"
	}
	await(t, w, "the run to wait for the right", waits)
	await(t, elsewhere, "the other run to wait for the right", waits)
	allowSecrets(t, namespace)
	w = await(t, w, "the end of the run", finished)
	if w.Status.Output == nil || !strings.Contains(string(w.Status.Output.Raw), namespace) {
		t.Errorf("%+v", w.Status)
	}
	await(t, elsewhere, "the other run to wait still", waits)
}

// condition returns the condition Succeeded of a run.
func condition(w *workflowsv1alpha1.WorkflowRun) metav1.Condition {
	c := meta.FindStatusCondition(w.Status.Conditions, workflowsv1alpha1.ConditionSucceeded)
	if c == nil {
		return metav1.Condition{}
	}
	return *c
}

func TestFaults(t *testing.T) {
	namespace := cluster.Namespace(t)
	allowSecrets(t, namespace)
	run(t, newLoopback(t, newCallee()))
	for _, tt := range []struct {
		name, document, input string
		reason, message       string
	}{
		{name: "a loop without an end", document: head + "do: [{a: {set: {x: 1}, then: a}}]", reason: "StepLimit", message: "a loop without an end"},
		{name: "a document that is none", document: head + "do: [{a: {set: {x: '${ .x + }'}}}]", reason: "Misconfigured", message: "spec.definition.do[0].a.set.x"},
		{name: "an input that is too large", document: head + "do: []", input: strings.Repeat("x", 600<<10), reason: "Invalid", message: "the limit is 524288"},
		{name: "an answer of 10 MB", document: head + "do: [{a: {call: http, with: {method: get, endpoint: 'http://callee/large'}}}]", reason: "Faulted", message: "longer than 1048576 bytes"},
		{name: "data that grows", document: head + "do: [{a: {set: '${ . + . }', then: a}}]", input: "abcdefgh", reason: "Faulted", message: "more than 8388608 bytes"},
		{name: "an output that is too large", document: head + "do: [{a: {set: '${ . * 100000 }'}}]", input: "abcdefgh", reason: "Faulted", message: "the output has"},
		{name: "a timeout", document: head + "timeout: {after: {milliseconds: 200}}\ndo: [{a: {call: http, with: {method: get, endpoint: 'http://callee/hold'}}}]", reason: "Timeout", message: "did not end in time"},
		{name: "no such secret", document: head + "use: {secrets: [nope]}\ndo: []", reason: "Faulted", message: `no Secret "nope"`},
		{name: "no such Workflow in it", document: head + "do: [{a: {timeout: {after: PT0.3S}, run: {workflow: {namespace: default, name: nope, version: latest}}}}]", reason: "Timeout", message: "/do/0/a"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := await(t, create(t, namespace, tt.document, tt.input), "the end of the run", finished)
			c := condition(w)
			if w.Status.Phase != workflowsv1alpha1.PhaseFaulted || c.Reason != tt.reason || !strings.Contains(c.Message, tt.message) {
				t.Errorf("%s, %s: %s", w.Status.Phase, c.Reason, c.Message)
			}
			framework.Eventually(t, "an event", func() error {
				events, err := cluster.Client.EventsV1().Events(namespace).List(t.Context(), metav1.ListOptions{})
				if err != nil {
					return err
				}
				for _, e := range events.Items {
					if e.Regarding.Name == w.Name && e.Reason == tt.reason && e.Type == corev1.EventTypeWarning {
						return nil
					}
				}
				return fmt.Errorf("there are %d events, none of the run's", len(events.Items))
			})
		})
	}
	t.Run("an input of 10 MB", func(t *testing.T) {
		w := &workflowsv1alpha1.WorkflowRun{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "large"}}
		w.Spec.Workflow = "x"
		w.Spec.Input = &apiextensionsv1.JSON{Raw: []byte(`"` + strings.Repeat("x", 10<<20) + `"`)}
		if err := admin.Create(t.Context(), w); !apierrors.IsRequestEntityTooLargeError(err) {
			t.Errorf("error %v", err)
		}
	})
}

func TestWorkflow(t *testing.T) {
	namespace := cluster.Namespace(t)
	run(t, newLoopback(t, newCallee()))
	r := &workflowsv1alpha1.WorkflowRun{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "parent"}}
	r.Spec.Workflow, r.Spec.Input = "parent", jsonOf(t, "{num: 20}")
	if err := admin.Create(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	await(t, r, "the run to be pending", func(w *workflowsv1alpha1.WorkflowRun) bool { return condition(w).Reason == "NoWorkflow" })
	for _, d := range []struct{ name, spec string }{ // the parent last, whose run begins as soon as it is there
		{"child", "definition: |\n  " + strings.TrimSpace(head) + "\n  do: [{a: {set: {double: '${ . * 2 }'}}}]"},
		{"broken", head + "do: [{a: {set: {x: 1}, then: nowhere}}]"},
		{"parent", head + "do: [{a: {run: {workflow: {namespace: default, name: child, version: 1.0.0, input: '${ .num }'}}}}]"},
	} {
		w := &workflowsv1alpha1.Workflow{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: d.name}, Spec: *jsonOf(t, d.spec)}
		if err := admin.Create(t.Context(), w); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]struct{ status, message string }{
		"parent": {"True", "valid"}, "child": {"True", "valid"}, "broken": {"False", "spec.do[0].a.then"},
	} {
		framework.Eventually(t, "the condition of "+name, func() error {
			var w workflowsv1alpha1.Workflow
			if err := admin.Get(t.Context(), types.NamespacedName{Namespace: namespace, Name: name}, &w); err != nil {
				return err
			}
			c := meta.FindStatusCondition(w.Status.Conditions, workflowsv1alpha1.ConditionReady)
			if c == nil || string(c.Status) != want.status || !strings.Contains(c.Message, want.message) {
				return fmt.Errorf("it is %+v", c)
			}
			return nil
		})
	}
	got := await(t, r, "the end of the run", finished)
	if got.Status.Phase != workflowsv1alpha1.PhaseCompleted || !equalJSON(t, string(got.Status.Output.Raw), `{"double": 40}`) {
		t.Errorf("%s: %+v", got.Status.Phase, got.Status.Error)
	}
}

// A run listens, and another one emits; and somebody else adds an event to the run.
func TestEvents(t *testing.T) {
	namespace := cluster.Namespace(t)
	run(t, newLoopback(t, newCallee()))
	w := create(t, namespace, head+`
do:
- a: {listen: {to: {all: [{with: {type: order.paid, data: '${ .amount > 10 }'}}, {with: {type: order.packed}}]}}}
`, "")
	await(t, w, "the run to listen", func(w *workflowsv1alpha1.WorkflowRun) bool { return w.Status.Phase == workflowsv1alpha1.PhaseWaiting })
	for _, amount := range []string{"5", "50"} {
		e := create(t, namespace, head+"do: [{a: {emit: {event: {with: {source: 'http://shop', type: order.paid, data: {amount: '${ . }'}}}}}}]", amount)
		await(t, e, "the end of the run that emits", finished)
	}
	patch := []byte(`[{"op": "add", "path": "/spec/events/-", "value": {"specversion": "1.0", "id": "7", "source": "me", "type": "order.packed", "data": "box"}}]`)
	if err := admin.Patch(t.Context(), w, client.RawPatch(types.JSONPatchType, patch)); err != nil {
		t.Fatal(err)
	}
	got := await(t, w, "the end of the run that listens", finished)
	if !equalJSON(t, string(got.Status.Output.Raw), `[{"amount": 50}, "box"]`) {
		t.Errorf("output %s", got.Status.Output.Raw)
	}
}

// What a deleted run waits for is given up; a journal that is large is in ConfigMaps, and they go.
func TestDeletionAndLargeJournals(t *testing.T) {
	namespace := cluster.Namespace(t)
	callee := newCallee()
	transport := newLoopback(t, callee)
	stop, err := start(transport)
	if err != nil {
		t.Fatal(err)
	}
	w := create(t, namespace, head+`
do:
- some: {call: http, with: {method: get, endpoint: 'http://callee/some'}}
- hold: {call: http, with: {method: post, endpoint: 'http://callee/hold', body: 1}, output: {as: '$input | length'}}
`, "")
	framework.Eventually(t, "the call that is held", func() error {
		if n := callee.count("/hold"); n == 0 {
			return errors.New("it was not made")
		}
		return nil
	})
	parts := func() int {
		var list corev1.ConfigMapList
		if err := admin.List(t.Context(), &list, client.InNamespace(namespace), client.HasLabels{"workflows.minik8s.io/run-uid"}); err != nil {
			t.Fatal(err)
		}
		return len(list.Items)
	}
	if parts() == 0 {
		t.Error("there is no ConfigMap with a journal")
	}
	stop()
	run(t, transport)
	other := create(t, namespace, head+"do: [{hold: {call: http, with: {method: get, endpoint: 'http://callee/hold'}}}]", "")
	framework.Eventually(t, "both calls", func() error {
		if n := callee.count("/hold"); n < 3 {
			return fmt.Errorf("%d calls", n)
		}
		return nil
	})
	if err := admin.Delete(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	close(callee.hold)
	got := await(t, w, "the end of the run", finished)
	if string(got.Status.Output.Raw) != "460000" {
		t.Errorf("output %s, error %+v", got.Status.Output.Raw, got.Status.Error)
	}
	framework.Eventually(t, "no journal", func() error {
		if n := parts(); n > 0 {
			return fmt.Errorf("there are %d parts", n)
		}
		return nil
	})
}

// A step of the benchmark is a call, its answer and the write of both; the target is 5 ms.
func BenchmarkStep(b *testing.B) {
	namespace, callee := cluster.Namespace(b), newCallee()
	run(b, newLoopback(b, callee))
	const steps = 100
	document := head + fmt.Sprintf(
		"do: [{a: {for: {in: '[range(%d)]'}, do: [{b: {call: http, with: {method: post, endpoint: 'http://callee/x', body: '${ $index }'}}}]}}]", steps)
	var took time.Duration
	for called := steps; b.Loop(); called += steps {
		w := create(b, namespace, document, "")
		// The API server has enough to do without being asked.
		framework.Eventually(b, "the calls", func() error {
			if n := callee.count("/x"); n < called {
				return fmt.Errorf("%d calls", n)
			}
			return nil
		})
		got := await(b, w, "the end of the run", finished)
		if got.Status.Phase != workflowsv1alpha1.PhaseCompleted {
			b.Fatalf("%+v", got.Status.Error)
		}
		took += got.Status.EndTime.Sub(got.Status.StartTime.Time)
	}
	b.ReportMetric(float64(took.Microseconds())/1000/float64(b.N*steps), "ms/step")
}
