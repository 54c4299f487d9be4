// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package pause

import "encoding/binary"

// amd64 returns the program and its data for an x86-64 processor, to be loaded at address.
//
// A system call takes its number in eax and its arguments in edi, esi, edx, r10d. Writing a 32 bit register clears the
// upper half of the 64 bit one, and all addresses are below 2^32, so 32 bit moves are enough.
func amd64(address uint32) []byte {
	const (
		callOpen        = 2
		callRtSigaction = 13
		callPause       = 34
		callCapset      = 126
		callExitGroup   = 231
		callSetns       = 308
		saRestorer      = 0x04000000 // the kernel delivers no signal without it
	)
	imm := func(opcode []byte, v uint32) []byte { return binary.LittleEndian.AppendUint32(opcode, v) }
	handle := func(signal, action uint32) []byte {
		var c []byte
		c = append(c, imm([]byte{0xb8}, callRtSigaction)...) // mov eax, rt_sigaction
		c = append(c, imm([]byte{0xbf}, signal)...)          // mov edi, signal
		c = append(c, imm([]byte{0xbe}, action)...)          // mov esi, &action
		c = append(c, 0x31, 0xd2)                            // xor edx, edx: no old action wanted
		c = append(c, imm([]byte{0x41, 0xba}, 8)...)         // mov r10d, size of a signal mask
		return append(c, 0x0f, 0x05)                         // syscall
	}
	orLeave := func() []byte {
		leave := imm([]byte{0xb8}, callExitGroup)                           // mov eax, exit_group
		leave = append(imm(append(leave, 0xbf), 1), 0x0f, 0x05)             // mov edi, exit code 1; syscall
		return append([]byte{0x85, 0xc0, 0x74, byte(len(leave))}, leave...) // test eax, eax; jz over it
	}
	// enter is skipped without an argument. The stack begins with their number.
	enter := func(capabilities uint32) []byte {
		c := []byte{0x48, 0x8b, 0x7c, 0x24, 0x10}               // mov rdi, the first argument
		c = append(c, 0x31, 0xf6)                               // xor esi, esi: to be read
		c = append(imm(append(c, 0xb8), callOpen), 0x0f, 0x05)  // mov eax, open; syscall
		c = append(c, 0x89, 0xc7)                               // mov edi, eax: a descriptor that setns refuses if there is none
		c = imm(append(c, 0xbe), cloneNewNet)                   // mov esi, CLONE_NEWNET
		c = append(imm(append(c, 0xb8), callSetns), 0x0f, 0x05) // mov eax, setns; syscall
		c = append(c, orLeave()...)
		c = imm(append(c, 0xbf), capabilities)                   // mov edi, &header
		c = imm(append(c, 0xbe), capabilities+headerSize)        // mov esi, &sets
		c = append(imm(append(c, 0xb8), callCapset), 0x0f, 0x05) // mov eax, capset; syscall
		c = append(c, orLeave()...)
		return append([]byte{
			0x48, 0x8b, 0x04, 0x24, // mov rax, [rsp]
			0x83, 0xf8, 0x02, // cmp eax, 2
			0x7c, byte(len(c)), // jl over it
		}, c...)
	}
	// The addresses of the parts that follow the code are known only when the code is laid out, and the code has the
	// same length whatever they are: lay it out twice.
	layout := func(ignore, exit, capabilities uint32) (code []byte, exitLabel uint32) {
		code = append(code, enter(capabilities)...)
		code = append(code, handle(sigchld, ignore)...)
		code = append(code, handle(sigterm, exit)...)
		code = append(code, handle(sigint, exit)...)
		code = append(code, imm([]byte{0xb8}, callPause)...) // sleep: mov eax, pause
		code = append(code, 0x0f, 0x05)                      // syscall
		code = append(code, 0xeb, 0xf7)                      // jmp sleep (9 bytes back)
		exitLabel = address + uint32(len(code))
		code = append(code, imm([]byte{0xb8}, callExitGroup)...) // exit: mov eax, exit_group
		code = append(code, 0x31, 0xff)                          // xor edi, edi: exit code 0
		return append(code, 0x0f, 0x05), exitLabel               // syscall
	}
	code, exitLabel := layout(0, 0, 0)
	ignore := (address + uint32(len(code)) + 7) &^ 7
	code, _ = layout(ignore, ignore+32, ignore+64)
	code = append(code, make([]byte, ignore-address-uint32(len(code)))...)
	code = append(code, sigaction(sigIgn, saRestorer, uint64(exitLabel))...)
	code = append(code, sigaction(uint64(exitLabel), saRestorer, uint64(exitLabel))...)
	return append(code, noCapabilities()...)
}
