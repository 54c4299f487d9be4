// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package machinetest

import (
	"time"
	"unsafe"
)

// ClockSet is t, which comes from time.Now, as a process would read it after somebody has set the machine's clock, by whole seconds
// forward or back: another time on the wall, and the same for what a process measures. See "Monotonic Clocks" of package time.
func ClockSet(t time.Time, by time.Duration) time.Time {
	// Go has no way to say it: the first word is a bit that there is a monotonic reading, 33 bits of seconds, 30 bits of nanoseconds.
	wall := (*uint64)(unsafe.Pointer(&t)) //nolint:gosec // the layout is checked by a test
	*wall += uint64(int64(by/time.Second)) << 30
	return t
}
