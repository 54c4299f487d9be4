// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package heap

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

func TestPercent(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	for _, tc := range []struct {
		room, live uint64
		want       int
	}{
		{192 * mib, 64 * mib, 300},
		{192 * mib, 192 * mib, 100},
		{192 * mib, 4096 * mib, 100},
		{0, 64 * mib, 100},
		{192 * mib, 0, 1<<31 - 1},
	} {
		if got := percent(tc.room, tc.live); got != tc.want {
			t.Errorf("percent of %d for %d = %d, want %d", tc.room, tc.live, got, tc.want)
		}
	}
}

func TestRoomOf(t *testing.T) {
	t.Parallel()
	const gib = 1 << 30
	for memory, want := range map[uint64]uint64{0: 64 << 20, gib: 64 << 20, 24 * gib: 192 << 20, 768 * gib: gib} {
		if got := roomOf(memory); got != want {
			t.Errorf("room of %d bytes of memory is %d, want %d", memory, got, want)
		}
	}
	if room := ServerRoom(); room < 64<<20 || room > gib {
		t.Errorf("the room here is %d", room)
	}
}

// The percentage follows what lives, collection by collection.
func TestRoomFollows(t *testing.T) {
	t.Setenv("GOGC", "") // who sets it is given no room
	const room = 1 << 30
	giveRoom(room)
	now := func() int {
		p := debug.SetGCPercent(usual)
		debug.SetGCPercent(p)
		return p
	}
	small := now()
	held := make([]byte, 256<<20)
	deadline := time.Now().Add(10 * time.Second)
	for now() > room*100/len(held) {
		if time.Now().After(deadline) {
			t.Fatalf("still at %d percent with %d bytes alive, was at %d", now(), len(held), small)
		}
		runtime.GC()
	}
	runtime.KeepAlive(held)
}
