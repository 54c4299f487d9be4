// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package nftables

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// Attr is an encoded netlink attribute; its parts are its content.
func Attr(kind int, parts ...[]byte) []byte {
	n := unix.SizeofNlAttr
	for _, p := range parts {
		n += len(p)
	}
	b := make([]byte, unix.SizeofNlAttr, (n+unix.NLA_ALIGNTO-1)&^(unix.NLA_ALIGNTO-1))
	binary.NativeEndian.PutUint16(b, uint16(n))
	binary.NativeEndian.PutUint16(b[2:], uint16(kind))
	for _, p := range parts {
		b = append(b, p...)
	}
	return b[:cap(b)]
}

// Nest is an attribute that has others as its content.
func Nest(kind int, parts ...[]byte) []byte { return Attr(unix.NLA_F_NESTED|kind, parts...) }

// Number is an attribute of four bytes, in network order as nearly all of nf_tables.
func Number(kind int, v uint32) []byte { return Attr(kind, binary.BigEndian.AppendUint32(nil, v)) }

// Text is an attribute that ends with a zero.
func Text(kind int, s string) []byte { return Attr(kind, append([]byte(s), 0)) }

// Value is what a register or an element of a set has.
func Value(kind int, v []byte) []byte { return Nest(kind, Attr(unix.NFTA_DATA_VALUE, v)) }

// verdict is what becomes of a packet: a code, and a chain for those that lead to one.
func verdict(code int, chain string) []byte {
	parts := [][]byte{Number(unix.NFTA_VERDICT_CODE, uint32(int32(code)))}
	if chain != "" {
		parts = append(parts, Text(unix.NFTA_VERDICT_CHAIN, chain))
	}
	return Nest(unix.NFTA_DATA_VERDICT, parts...)
}
