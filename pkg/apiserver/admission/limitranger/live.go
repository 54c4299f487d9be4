// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package limitranger

import (
	"context"
	"time"

	"golang.org/x/sync/singleflight"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"
)

const (
	// remembered is how long an answer holds, and maxRemembered of how many namespaces one is kept (upstream's numbers).
	remembered    = 30 * time.Second
	maxRemembered = 10000
	// lookupTimeout bounds a look-up. It is shared, so it does not end with the request that began it.
	lookupTimeout = 10 * time.Second
)

// live reads the limit ranges of a namespace from the API where the cache knows none: who makes a namespace, a limit range
// and a pod in one go must not get a pod without limits. All methods are safe for concurrent use.
type live struct {
	client coreclient.LimitRangesGetter
	clock  clock.PassiveClock
	known  *lru.Cache
	asking singleflight.Group
}

// answer is what was found, and until when it holds.
type answer struct {
	ranges  []*corev1.LimitRange
	expires time.Time
}

func newLive(client coreclient.LimitRangesGetter) *live {
	return &live{client: client, clock: clock.RealClock{}, known: lru.New(maxRemembered)}
}

// list fails with the error of the API.
func (l *live) list(ctx context.Context, namespace string) ([]*corev1.LimitRange, error) {
	if found, ok := l.known.Get(namespace); ok && l.clock.Now().Before(found.(answer).expires) {
		return found.(answer).ranges, nil
	}
	found, err, _ := l.asking.Do(namespace, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookupTimeout)
		defer cancel()
		expires := l.clock.Now().Add(remembered)
		list, err := l.client.LimitRanges(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		a := answer{expires: expires}
		for i := range list.Items {
			a.ranges = append(a.ranges, &list.Items[i])
		}
		l.known.Add(namespace, a)
		return a, nil
	})
	if err != nil {
		return nil, err
	}
	return found.(answer).ranges, nil
}
