// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package horizontalpodautoscaler

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
)

// Kinds tells resources by their kinds, as the API server was found to serve them. Safe for concurrent use.
type Kinds struct {
	meta.ResettableRESTMapper

	mu sync.Mutex
	// refreshed is when what is known was last forgotten; it is guarded by mu.
	refreshed time.Time
}

// kindsLifetime is for how long the API server is not asked again. Upstream forgets what it knows as often, whatever happens.
const kindsLifetime = 30 * time.Second

// refresh has the next one who needs to know ask anew. To call after something was not found: what is known may be old.
func (k *Kinds) refresh(now time.Time) {
	if k.isDue(now) {
		k.Reset()
	}
}

func (k *Kinds) isDue(now time.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if now.Sub(k.refreshed) < kindsLifetime {
		return false
	}
	k.refreshed = now
	return true
}
