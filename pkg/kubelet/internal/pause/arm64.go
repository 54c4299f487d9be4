// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package pause

import "encoding/binary"

// arm64 returns the program and its data for a 64 bit ARM processor, to be loaded at address.
//
// A system call takes its number in x8 and its arguments in x0 to x4. There is no pause on this processor; ppoll of
// nothing without a timeout is the same.
func arm64(address uint32) []byte {
	const (
		callOpenat      = 56
		callPpoll       = 73
		callCapset      = 91
		callExitGroup   = 94
		callRtSigaction = 134
		callSetns       = 268
		svc             = 0xd4000001
	)
	mov := func(register, v uint32) uint32 { return 0xd2800000 | v<<5 | register }                   // movz x, #v
	movHigh := func(register, v uint32) uint32 { return 0xf2a00000 | v<<5 | register }               // movk x, #v, lsl 16
	back := func(instructions int32) uint32 { return 0x14000000 | uint32(-instructions)&0x03ffffff } // b
	handle := func(signal, action uint32) []uint32 {
		return []uint32{
			mov(8, callRtSigaction),
			mov(0, signal),
			mov(1, action&0xffff), movHigh(1, action>>16),
			mov(2, 0), // no old action wanted
			mov(3, 8), // size of a signal mask
			svc,
		}
	}
	orLeave := []uint32{
		0xb4000000 | 4<<5, // cbz x0, over it
		mov(0, 1), mov(8, callExitGroup), svc,
	}
	// enter is skipped without an argument. The stack begins with their number.
	enter := func(capabilities uint32) []uint32 {
		sets := capabilities + headerSize
		c := []uint32{
			0x92800000 | 99<<5,                 // mov x0, AT_FDCWD
			0xf9400be1,                         // ldr x1, [sp, 16]: the first argument
			mov(2, 0), mov(8, callOpenat), svc, // to be read
			mov(1, 0), movHigh(1, cloneNewNet>>16), mov(8, callSetns), svc, // of a descriptor that it refuses if there is none
		}
		c = append(c, orLeave...)
		c = append(c,
			mov(0, capabilities&0xffff), movHigh(0, capabilities>>16),
			mov(1, sets&0xffff), movHigh(1, sets>>16),
			mov(8, callCapset), svc,
		)
		c = append(c, orLeave...)
		return append([]uint32{
			0xf94003e9,                       // ldr x9, [sp]
			0xf100093f,                       // cmp x9, 2
			0x5400000b | uint32(len(c)+1)<<5, // b.lt over it
		}, c...)
	}
	// Laid out twice for the same reason as on amd64.
	layout := func(ignore, exit, capabilities uint32) (code []uint32, exitLabel uint32) {
		code = append(code, enter(capabilities)...)
		code = append(code, handle(sigchld, ignore)...)
		code = append(code, handle(sigterm, exit)...)
		code = append(code, handle(sigint, exit)...)
		code = append(code,
			mov(8, callPpoll), // sleep:
			mov(0, 0), mov(1, 0), mov(2, 0), mov(3, 0), mov(4, 0),
			svc,
			back(7), // to sleep
		)
		exitLabel = address + uint32(4*len(code))
		return append(code, mov(8, callExitGroup), mov(0, 0), svc), exitLabel
	}
	code, exitLabel := layout(0, 0, 0)
	ignore := (address + uint32(4*len(code)) + 7) &^ 7
	code, _ = layout(ignore, ignore+32, ignore+64)
	var b []byte
	for _, instruction := range code {
		b = binary.LittleEndian.AppendUint32(b, instruction)
	}
	b = append(b, make([]byte, ignore-address-uint32(len(b)))...)
	b = append(b, sigaction(sigIgn, 0, 0)...)
	b = append(b, sigaction(uint64(exitLabel), 0, 0)...)
	return append(b, noCapabilities()...)
}
