// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package heap

import (
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"k8s.io/klog/v2"
)

// ServerRoom is the room for the heap of an API server, whose burst of writes takes some hundred MiB a second: a small part of the memory
// that the process may have, which is the machine's or less, if its cgroup has a limit. Where there is room, collecting is not worth its time.
func ServerRoom() uint64 {
	memory, err := memlimit.FromSystem()
	if err != nil {
		klog.ErrorS(err, "Finding out how much memory there is")
	}
	if limit, err := memlimit.FromCgroup(); err == nil { // else there is none
		memory = min(memory, limit)
	}
	return roomOf(memory)
}

const (
	roomPart            = 128 // of the memory
	leastRoom, mostRoom = 64 << 20, 1 << 30
)

func roomOf(memory uint64) uint64 { return min(max(memory/roomPart, leastRoom), mostRoom) }

// usual is the runtime's own default: a heap may grow to twice of what lives in it before it is collected.
const usual = 100

// giveRoom lets the heap grow by at least so many bytes between two collections, for good. What a collection costs depends on
// what lives and not on what is thrown away, so that a server with a small heap and many requests would spend a fifth of its
// time on collecting it again and again. Who starts the program with GOGC has decided by himself.
func giveRoom(bytes uint64) {
	if bytes == 0 || os.Getenv("GOGC") != "" {
		return
	}
	debug.SetGCPercent(percent(bytes, live()))
	after(func() { giveRoom(bytes) })
}

// percent is how much a heap of which so much lives may grow, so that it has the room.
func percent(room, live uint64) int {
	return int(min(max(usual, room*100/max(live, 1)), math.MaxInt32))
}

// after calls f, once, after the next collection.
func after(f func()) {
	type sentinel struct{ _ [64]byte } // of its own: tiny objects share a block, and live as long as the last of them
	runtime.AddCleanup(new(sentinel), func(f func()) { f() }, f)
}

// live is how many bytes the last collection has found alive.
func live() uint64 {
	samples := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(samples)
	return samples[0].Value.Uint64()
}
