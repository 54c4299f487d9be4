// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package horizontalpodautoscaler

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
)

// counted counts how often it forgets.
type counted struct {
	meta.RESTMapper
	resets int
}

func (c *counted) Reset() { c.resets++ }

func TestKinds_Refresh(t *testing.T) {
	mapper := &counted{}
	k := &Kinds{ResettableRESTMapper: mapper}
	for range 10 {
		k.refresh(now)
	}
	k.refresh(now.Add(kindsLifetime - time.Second))
	if mapper.resets != 1 {
		t.Errorf("in half a minute what is known was forgotten %d times", mapper.resets)
	}
	k.refresh(now.Add(kindsLifetime))
	if mapper.resets != 2 {
		t.Errorf("after half a minute what is known was forgotten %d times", mapper.resets)
	}
}
