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

// kindsLifetime is for how long a kind that was not found is not looked for again. Upstream forgets what it knows as often.
const kindsLifetime = 30 * time.Second

// refreshAfter has the next pass ask anew if err is about a kind that nobody serves: it may have come since.
func (k *Kinds) refreshAfter(err error, now time.Time) {
	if !meta.IsNoMatchError(err) || !k.isDue(now) {
		return
	}
	k.Reset()
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
