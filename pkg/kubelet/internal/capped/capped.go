// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package capped keeps the beginning of what a container says, however much that is. Touch it when the end matters more.
package capped

import "bytes"

// Buffer keeps the first Max bytes that are written, and takes the others as if it did.
type Buffer struct {
	Max  int
	kept bytes.Buffer
}

// Write implements io.Writer. It never fails.
func (b *Buffer) Write(p []byte) (int, error) {
	if room := b.Max - b.kept.Len(); room > 0 {
		b.kept.Write(p[:min(len(p), room)])
	}
	return len(p), nil
}

// String is what was kept.
func (b *Buffer) String() string { return b.kept.String() }
