// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package pause is the program that holds a pod's namespaces, as an image that is built and never pulled; touch it to
// support another processor or to change what the program does.
//
// The program ignores SIGCHLD, so that the kernel reaps the orphans of a pod with a shared pid namespace (it is their
// pid 1), exits 0 on SIGTERM and SIGINT, and sleeps otherwise. With an argument it enters the network namespace of that
// path first, gives up all capabilities, and exits 1 if it can do either not. It is some 60 machine instructions, written
// out here, because a program of that size needs neither a compiler nor a download.
package pause

import (
	"archive/tar"
	"bytes"
	"encoding/binary"
	"fmt"
	"time"
)

const (
	// Image is the local reference of the image. Its number changes with the program.
	Image = "minik8s/pause:2"
	// Path is the program in the image.
	Path = "/pause"
	// User runs it; it needs no privilege.
	User = "65535:65535"
	// EntersUser is who it must be to enter a network namespace.
	EntersUser = "0:0"
	// EntersCapability is what it needs for that.
	EntersCapability = "SYS_ADMIN"
)

// Linux's numbers, the same on both processors.
const (
	sigint  = 2
	sigterm = 15
	sigchld = 17
	sigIgn  = 1 // SIG_IGN

	cloneNewNet        = 0x40000000
	capabilityVersion3 = 0x20080522
	headerSize         = 8 // of what capset takes beside the sets
)

// base is the address that the file is mapped to, headers included.
const base = 0x400000

const (
	elfHeaderSize  = 64
	progHeaderSize = 56
	codeOffset     = elfHeaderSize + progHeaderSize
)

// Program returns the executable for a processor in Go's spelling ("amd64", "arm64").
func Program(arch string) ([]byte, error) {
	var text []byte
	var machine uint16
	switch arch {
	case "amd64":
		machine, text = 62, amd64(base+codeOffset)
	case "arm64":
		machine, text = 183, arm64(base+codeOffset)
	default:
		return nil, fmt.Errorf("no pause program for processor %q", arch)
	}
	size := uint64(codeOffset + len(text))

	var b bytes.Buffer
	le := func(values ...any) {
		for _, v := range values {
			_ = binary.Write(&b, binary.LittleEndian, v) // a bytes.Buffer does not fail
		}
	}
	// ELF header: 64 bit, little endian, version 1, System V; an executable with one program header and no sections.
	b.WriteString("\x7fELF\x02\x01\x01")
	b.Write(make([]byte, 9))
	le(uint16(2), machine, uint32(1))               // ET_EXEC
	le(uint64(base + codeOffset))                   // entry point
	le(uint64(elfHeaderSize), uint64(0), uint32(0)) // program headers, sections, flags
	le(uint16(elfHeaderSize))                       // size of this header
	le(uint16(progHeaderSize), uint16(1))           // program headers
	le(uint16(0), uint16(0), uint16(0))             // section headers
	le(uint32(1), uint32(5))                        // PT_LOAD, readable and executable
	le(uint64(0), uint64(base), uint64(base))       // from the start of the file
	le(size, size, uint64(0x10000))                 // alignment: the largest page size of arm64
	b.Write(text)
	return b.Bytes(), nil
}

// sigaction is the kernel's struct: handler, flags, restorer, mask.
func sigaction(handler, flags, restorer uint64) []byte {
	var b []byte
	for _, v := range []uint64{handler, flags, restorer, 0} {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	return b
}

// noCapabilities are capset's structs: version and process (the caller), then three empty sets of 64 bits.
func noCapabilities() []byte {
	b := make([]byte, headerSize+24)
	binary.LittleEndian.PutUint32(b, capabilityVersion3)
	return b
}

// Tar returns the image's file system.
func Tar(arch string) ([]byte, error) {
	program, err := Program(arch)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	err = w.WriteHeader(&tar.Header{
		Name: Path[1:], Mode: 0o755, Size: int64(len(program)), Typeflag: tar.TypeReg, ModTime: time.Unix(0, 0), Format: tar.FormatUSTAR,
	})
	if err == nil {
		_, err = w.Write(program)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("packing the pause image: %w", err)
	}
	return b.Bytes(), nil
}
