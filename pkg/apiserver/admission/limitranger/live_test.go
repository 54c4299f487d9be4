// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package limitranger

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clientgotesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"

	"minik8s.io/minik8s/pkg/apiserver/admission/admissiontest"
)

// api is a server that counts who asks, may fail, and may let wait.
type api struct {
	*fake.Clientset
	mu    sync.Mutex
	asked int
	fails error
	wait  chan struct{}
}

func newAPI(objects ...runtime.Object) *api {
	a := &api{Clientset: fake.NewClientset(objects...)}
	a.PrependReactor("list", "limitranges", func(clientgotesting.Action) (bool, runtime.Object, error) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.asked++
		if a.wait != nil {
			<-a.wait
		}
		return a.fails != nil, nil, a.fails
	})
	return a
}

// The cache of the plugin knows nothing, the API has a limit.
func TestLiveLookup(t *testing.T) {
	behind := newAPI(limits("ns", corev1.LimitRangeItem{Type: corev1.LimitTypeContainer, Max: list("1", "")}))
	plugin := New().(*Plugin)
	admissiontest.Initialize(t, plugin)
	plugin.live = newLive(behind.CoreV1())
	clock := clocktesting.NewFakePassiveClock(time.Now())
	plugin.live.clock = clock
	run := func(namespace string) error {
		return admissiontest.Run(plugin, admissiontest.Request{Resource: "pods", Namespace: namespace, Object: pod(list("2", ""), list("2", ""))}.Attributes())
	}
	if err := run("ns"); err == nil || !strings.Contains(err.Error(), "maximum cpu usage per Container is 1, but limit is 2") {
		t.Errorf("the pod is judged with %v, want the limit of the API", err)
	}
	if behind.asked != 1 {
		t.Errorf("the API was asked %d times for one pod, want once", behind.asked)
	}
	if err := run("other"); err != nil {
		t.Errorf("a namespace without limits: %v", err)
	}
	behind.fails = errors.New("no leader")
	if err := run("ns"); err == nil || strings.Contains(err.Error(), "no leader") {
		t.Errorf("what was looked up just now is looked up again: %v", err)
	}
	clock.SetTime(clock.Now().Add(remembered))
	if err := run("ns"); err == nil || !strings.Contains(err.Error(), "no leader") {
		t.Errorf("the pod gets %v although its limits cannot be known", err)
	}
	behind.fails = nil
	if err := run("ns"); err == nil || !strings.Contains(err.Error(), "but limit is 2") {
		t.Errorf("a failure is remembered: %v", err)
	}
}

func TestLiveLookup_Together(t *testing.T) {
	behind := newAPI()
	behind.wait = make(chan struct{})
	l := newLive(behind.CoreV1())
	gone, cancel := context.WithCancel(t.Context())
	cancel() // the client of one request goes away: the others must not mind
	results := make(chan error, 20)
	for i := range cap(results) {
		ctx := t.Context()
		if i == 0 {
			ctx = gone
		}
		go func() {
			_, err := l.list(ctx, "ns")
			results <- err
		}()
	}
	close(behind.wait)
	for range cap(results) {
		if err := <-results; err != nil {
			t.Errorf("a look-up fails with %v", err)
		}
	}
	if behind.asked > 1 {
		t.Errorf("the API was asked %d times", behind.asked)
	}
}
