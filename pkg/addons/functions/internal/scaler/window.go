// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package scaler

import "time"

// slots is how many seconds a Window remembers.
const slots = int(StableWindow / time.Second)

// Window is how many requests there were at the same time in each second of the last minute. The zero value has seen none. Times that
// it is given do not go back.
type Window struct {
	area  [slots]float64 // requests × seconds of each second
	head  int64          // the second of last
	last  time.Time
	first time.Time
	now   float64
}

// Record says that from a time on there are so many requests.
func (w *Window) Record(at time.Time, requests int) {
	w.advance(at)
	w.now = float64(requests)
}

// advance accounts for the time since the last call.
func (w *Window) advance(at time.Time) {
	if w.first.IsZero() {
		w.first, w.last, w.head = at, at, at.Unix()
		return
	}
	if at.Sub(w.last) > StableWindow { // nothing of what was is left
		w.last = at.Add(-StableWindow)
		w.area, w.head = [slots]float64{}, w.last.Unix()
	}
	for w.last.Before(at) {
		second := w.last.Unix()
		for w.head < second {
			w.head++
			w.area[index(w.head)] = 0
		}
		end := time.Unix(second+1, 0)
		if end.After(at) {
			end = at
		}
		w.area[index(second)] += w.now * end.Sub(w.last).Seconds()
		w.last = end
	}
}

// Average is how many requests there were over the last window, or since the first if that is less long ago, but at least a second.
func (w *Window) Average(at time.Time, window time.Duration) float64 {
	if w.first.IsZero() {
		return 0
	}
	w.advance(at)
	seconds := int64(window / time.Second)
	sum := 0.0
	for s := range min(seconds, int64(slots)) {
		if w.head-s < w.first.Unix() {
			break
		}
		sum += w.area[index(w.head-s)]
	}
	// The newest second is not full yet.
	since := at.Sub(time.Unix(w.head-seconds+1, 0))
	since = min(since, at.Sub(w.first))
	return sum / max(since.Seconds(), 1)
}

func index(second int64) int { return int(second % int64(slots)) }
