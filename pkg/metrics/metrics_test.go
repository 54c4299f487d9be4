// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clocktesting "k8s.io/utils/clock/testing"
)

// kubelets answers in place of those of nodes, by their address.
type kubelets struct {
	mu    sync.Mutex
	asked map[string]int
	// answers are how a node answers; without one the connection is refused.
	answers map[string]func(*http.Request) (int, string, error)
}

func (k *kubelets) RoundTrip(r *http.Request) (*http.Response, error) {
	k.mu.Lock()
	k.asked[r.URL.Host]++
	answer := k.answers[r.URL.Host]
	k.mu.Unlock()
	if r.URL.Scheme != "https" || r.URL.Path != "/metrics/resource" {
		return nil, fmt.Errorf("asked for %s", r.URL)
	}
	if answer == nil {
		return nil, errors.New("connection refused")
	}
	code, body, err := answer(r)
	if err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: code, Status: http.StatusText(code), Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

func (k *kubelets) count(host string) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.asked[host]
}

func node(name, address string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{
		Addresses:       []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: name}, {Type: corev1.NodeInternalIP, Address: address}},
		DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: 10250}},
	}}
}

// world is a Collector that runs, and what it sees.
type world struct {
	*Collector
	clock    *clocktesting.FakeClock
	kubelets *kubelets
}

func start(t *testing.T, answers map[string]func(*http.Request) (int, string, error), nodes ...runtime.Object) *world {
	t.Helper()
	w := &world{clock: clocktesting.NewFakeClock(epoch), kubelets: &kubelets{asked: map[string]int{}, answers: answers}}
	w.Collector = New(Config{Client: fake.NewClientset(nodes...), Kubelets: w.kubelets, Clock: w.clock})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("ended with %v", err)
		}
	})
	return w
}

// busy answers for a node with one pod, of which each uses half a core.
func (w *world) busy(pod string) func(*http.Request) (int, string, error) {
	return func(*http.Request) (int, string, error) {
		at := w.clock.Now()
		cpu := at.Sub(epoch).Seconds()/2 + 100
		labels := fmt.Sprintf(`{container="c",namespace="n",pod=%q}`, pod)
		return http.StatusOK, fmt.Sprintf("node_cpu_usage_seconds_total %g %d\nnode_memory_working_set_bytes 5\n"+
			"container_cpu_usage_seconds_total%s %g %d\ncontainer_memory_working_set_bytes%s 3\n",
			cpu, at.UnixMilli(), labels, cpu, at.UnixMilli(), labels), nil
	}
}

func TestCollector(t *testing.T) {
	answers := map[string]func(*http.Request) (int, string, error){}
	w := start(t, answers, node("good", "192.0.2.1"), node("refused", "192.0.2.2"), node("forbidden", "192.0.2.3"))
	w.kubelets.mu.Lock()
	answers["192.0.2.1:10250"] = w.busy("p")
	answers["192.0.2.3:10250"] = func(*http.Request) (int, string, error) { return http.StatusForbidden, "Forbidden", nil }
	w.kubelets.mu.Unlock()

	w.Measure(t.Context())
	w.clock.Step(fresh)
	w.Measure(t.Context())
	w.clock.Step(window)
	w.Measure(t.Context())
	asked := w.kubelets.count("192.0.2.1:10250")
	w.clock.Step(time.Second)
	w.Measure(t.Context()) // too soon
	if again := w.kubelets.count("192.0.2.1:10250"); again != asked {
		t.Errorf("a node that was asked %d times is asked again after a second", asked)
	}

	n, ok := w.Node("good")
	if !ok || n.Usage.Cpu().MilliValue() != 500 || n.Usage.Memory().Value() != 5 || n.Window.Duration != window || !n.Timestamp.Time.Equal(epoch.Add(fresh+window)) {
		t.Errorf("the node uses %+v, %t", n, ok)
	}
	for _, name := range []string{"refused", "forbidden", "unknown"} {
		if n, ok := w.Node(name); ok {
			t.Errorf("of node %s something is known: %+v", name, n)
		}
	}
	pod := types.NamespacedName{Namespace: "n", Name: "p"}
	p, ok := w.Pod("good", pod)
	if !ok || len(p.Containers) != 1 || p.Containers[0].Name != "c" || p.Containers[0].Usage.Cpu().MilliValue() != 500 || p.Window.Duration != window {
		t.Errorf("the pod uses %+v, %t", p, ok)
	}
	if p, ok := w.Pod("refused", pod); ok {
		t.Errorf("a pod of another node is told of: %+v", p)
	}

	w.kubelets.mu.Lock()
	delete(answers, "192.0.2.1:10250")
	w.kubelets.mu.Unlock()
	w.clock.Step(stale)
	w.Measure(t.Context())
	if n, ok := w.Node("good"); ok {
		t.Errorf("figures of a node that does not answer any more are told: %+v", n)
	}
	if err := w.cfg.Client.CoreV1().Nodes().Delete(t.Context(), "good", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.clock.Step(fresh)
	w.Measure(t.Context())
	w.settle() // nobody waits for those that did not answer the last time
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.history) != 0 || len(w.asked) != 0 || w.failing.Has("good") {
		t.Errorf("a deleted node is remembered: %v, %v, %v", w.history, w.asked, w.failing)
	}
}

// A node that hangs holds up who wants to know once, and not for long; when it answers after all, that counts.
func TestCollector_Hanging(t *testing.T) {
	hung := make(chan struct{})
	answers := map[string]func(*http.Request) (int, string, error){}
	w := start(t, answers, node("good", "192.0.2.1"), node("hung", "192.0.2.2"))
	w.kubelets.mu.Lock()
	answers["192.0.2.1:10250"] = w.busy("p")
	answers["192.0.2.2:10250"] = func(r *http.Request) (int, string, error) {
		if _, ok := r.Context().Deadline(); !ok {
			return 0, "", errors.New("there is no deadline")
		}
		select {
		case <-hung:
			return w.busy("q")(r)
		case <-r.Context().Done():
			return 0, "", r.Context().Err()
		}
	}
	w.kubelets.mu.Unlock()
	w.Measure(t.Context())
	w.clock.Step(fresh)
	begin := time.Now()
	w.Measure(t.Context())
	if _, ok := w.Node("good"); !ok {
		t.Error("a node that hangs hides another one")
	}
	if took := time.Since(begin); took > timeout/2 {
		t.Errorf("a node that hangs held up for %s", took)
	}
	if n := w.kubelets.count("192.0.2.2:10250"); n > 1 {
		t.Errorf("a node that has not answered is asked %d times at once", n)
	}
	close(hung)
	for deadline := time.Now().Add(10 * time.Second); ; w.clock.Step(fresh) {
		w.Measure(t.Context())
		if _, ok := w.Node("hung"); ok {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("what a node answered late is lost")
		}
	}
}

// Before it runs, and when its caller goes, nobody waits for ever.
func TestCollector_NotRunning(t *testing.T) {
	c := New(Config{Client: fake.NewClientset(), Kubelets: &kubelets{}})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c.Measure(ctx)
	if _, ok := c.Node("n"); ok {
		t.Error("something is known")
	}
}

// At rest nodes are asked less and less often.
func TestCollector_Rest(t *testing.T) {
	answers := map[string]func(*http.Request) (int, string, error){}
	w := start(t, answers, node("good", "192.0.2.1"))
	var gaps []time.Duration
	asked := func() int { return w.kubelets.count("192.0.2.1:10250") }
	for n := 1; n <= 9; n++ {
		var gap time.Duration
		for deadline := time.Now().Add(10 * time.Second); ; {
			waits := w.clock.HasWaiters() // seen before it is known whom it has asked: it waits only afterwards
			w.settle()
			if asked() >= n {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("the node is not asked for the %d. time after %s", n, gap)
			}
			if waits {
				w.clock.Step(time.Second)
				gap += time.Second
			}
		}
		gaps = append(gaps, gap)
	}
	if last := gaps[len(gaps)-1]; last < longestRest || last > longestRest+5*time.Second {
		t.Errorf("at rest the node is asked every %s: %v", last, gaps)
	}
}

// settle returns when the collector is not asking anybody.
func (w *world) settle() {
	for {
		w.mu.Lock()
		n := len(w.asked)
		w.mu.Unlock()
		if n == 0 {
			return
		}
	}
}
