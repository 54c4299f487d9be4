// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package nodeipam

import (
	"context"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

// ending is a context that ends when it is asked for that, and notes what the metric says then.
type ending struct {
	context.Context

	seen float64
}

func (e *ending) Done() <-chan struct{} {
	e.seen = told()
	ended := make(chan struct{})
	close(ended)
	return ended
}

func told() float64 {
	return testutil.ToFloat64(running.WithLabelValues("nodeipam", "kube-controller-manager"))
}

func TestBeRunning(t *testing.T) {
	ctx := &ending{Context: t.Context()}
	if err := beRunning(ctx); err != nil {
		t.Fatal(err)
	}
	if after := told(); ctx.seen != 1 || after != 0 {
		t.Errorf("%v while the controller ran and %v afterwards, want 1 and 0", ctx.seen, after)
	}
}
