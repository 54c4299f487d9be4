// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package horizontalpodautoscaler

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
	resourceclient "k8s.io/metrics/pkg/client/clientset/versioned/typed/metrics/v1beta1"
)

// TestCircuit: with five workers and twenty autoscalers whose API hangs, another one waits for a worker at the beginning only.
func TestCircuit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &Metrics{Resource: hanging{}}
		work := make(chan func())
		for range 5 {
			go func() {
				for job := range work {
					job()
				}
			}()
		}
		defer close(work)
		ask := func() { _, _ = m.ofResource(t.Context(), "ns", labels.Everything(), "cpu", "") }
		start := time.Now()
		for round := range 4 {
			for range 20 {
				work <- ask
			}
			healthy := make(chan time.Duration)
			asked := time.Now()
			work <- func() { healthy <- time.Since(asked) }
			if waited := <-healthy; round > 0 && waited > time.Second {
				t.Errorf("round %d: a healthy autoscaler waited %s", round, waited)
			}
			time.Sleep(period) //nolint:forbidigo // in a bubble, where it costs nothing
		}
		if took := time.Since(start); took > 4*period+3*callTimeout {
			t.Errorf("four rounds took %s", took)
		}
	})
}

// hanging is an API that does not answer.
type hanging struct {
	resourceclient.PodMetricsInterface
}

func (h hanging) PodMetricses(string) resourceclient.PodMetricsInterface { return h }

func (hanging) List(ctx context.Context, _ metav1.ListOptions) (*metricsv1beta1.PodMetricsList, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestCircuit_Closes(t *testing.T) {
	var c circuit
	late := fmt.Errorf("asking: %w", context.DeadlineExceeded)
	if err := c.do(func() error { return late }); !errors.Is(err, late) {
		t.Fatal(err)
	}
	err := c.do(func() error {
		if err := c.do(func() error { t.Error("a second call is made while one finds out"); return nil }); !errors.Is(err, late) {
			t.Errorf("the reason is not told: %v", err)
		}
		return errors.New("not there")
	})
	if err == nil {
		t.Error("an error is lost")
	}
	called := false
	if err := c.do(func() error {
		return c.do(func() error { called = true; return nil })
	}); err != nil || !called {
		t.Errorf("after an answer, even a bad one, calls are not made: %v", err)
	}
}

func TestIsLate(t *testing.T) {
	for _, err := range []error{context.DeadlineExceeded, apierrors.NewTimeoutError("t", 1), apierrors.NewServerTimeout(metricsv1beta1.Resource("pods"), "list", 1)} {
		if !isLate(err) {
			t.Errorf("%v is late", err)
		}
	}
	for _, err := range []error{nil, context.Canceled, errors.New("x"), apierrors.NewNotFound(metricsv1beta1.Resource("pods"), "x"), apierrors.NewServiceUnavailable("x")} {
		if isLate(err) {
			t.Errorf("%v is not late", err)
		}
	}
}
