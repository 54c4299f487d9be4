// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"hash/fnv"
	"strconv"
	"time"
)

// MaxDelay is the longest time between two attempts, however long the backoff has grown.
const MaxDelay = 24 * time.Hour

// Delay returns how long to wait before another attempt, when failed have failed before this one. What is random about it comes from
// the seed, so that it is the same whenever it is computed again.
func Delay(backoff string, delay time.Duration, failed int, jitterFrom, jitterTo time.Duration, seed string) time.Duration {
	switch backoff {
	case "linear":
		if delay > 0 && failed >= int(MaxDelay/delay) {
			delay = MaxDelay
		} else {
			delay *= time.Duration(failed + 1)
		}
	case "exponential":
		for range failed {
			if delay = delay * 2; delay <= 0 || delay > MaxDelay {
				break
			}
		}
	}
	delay = min(delay, MaxDelay)
	if jitterTo > jitterFrom {
		hash := fnv.New64a()
		_, _ = hash.Write([]byte(seed + "/" + strconv.Itoa(failed)))
		delay += time.Duration(hash.Sum64() % uint64(jitterTo-jitterFrom))
	}
	return delay + jitterFrom
}
