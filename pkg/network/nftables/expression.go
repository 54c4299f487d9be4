// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package nftables

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// What golang.org/x/sys/unix does not have of linux/netfilter/nf_tables.h.
const (
	// TypeVerdict is the type of what a map has that leads to chains (NFT_DATA_VERDICT).
	TypeVerdict = 0xffffff00
)

// The numbers by which the nft program knows types of keys and values; several make one by 6 bits each.
const (
	TypeIP4   = 7
	TypeIP6   = 8
	TypeProto = 12
	TypePort  = 13
	TypeMark  = 19
)

// Rule is the machine code of a rule: its expressions.
type Rule []byte

// Word is a register of four bytes; 0 to 15.
func Word(n int) uint32 { return uint32(unix.NFT_REG32_00 + n) }

// Expression is one step of a rule.
func Expression(name string, parts ...[]byte) []byte {
	return Nest(unix.NFTA_LIST_ELEM, Text(unix.NFTA_EXPR_NAME, name), Nest(unix.NFTA_EXPR_DATA, parts...))
}

// Compare goes on if the first words are as given, or if they are not, as the operator says.
func Compare(op int, v []byte) []byte {
	return Expression("cmp", Number(unix.NFTA_CMP_SREG, Word(0)), Number(unix.NFTA_CMP_OP, uint32(op)), Value(unix.NFTA_CMP_DATA, v))
}

// Bits changes the first words: their bits of mask stay, those of xor are turned over.
func Bits(mask, xor []byte) []byte {
	return Expression("bitwise", Number(unix.NFTA_BITWISE_SREG, Word(0)), Number(unix.NFTA_BITWISE_DREG, Word(0)),
		Number(unix.NFTA_BITWISE_LEN, uint32(len(mask))), Value(unix.NFTA_BITWISE_MASK, mask), Value(unix.NFTA_BITWISE_XOR, xor))
}

// Native is a number as registers have it that no packet brought.
func Native(v uint32) []byte { return binary.NativeEndian.AppendUint32(nil, v) }

// AnyBit goes on if the first word has one of the bits.
func AnyBit(v uint32) []byte {
	return append(Bits(Native(v), make([]byte, 4)), Compare(unix.NFT_CMP_NEQ, make([]byte, 4))...)
}

// Ct loads what conntrack has of the packet's connection into words from word on.
func Ct(key, word int, more ...[]byte) []byte {
	return Expression("ct", append([][]byte{Number(unix.NFTA_CT_DREG, Word(word)), Number(unix.NFTA_CT_KEY, uint32(key))}, more...)...)
}

// Meta loads what is known of a packet besides its bytes into a word.
func Meta(key, word int) []byte {
	return Expression("meta", Number(unix.NFTA_META_DREG, Word(word)), Number(unix.NFTA_META_KEY, uint32(key)))
}

// Payload loads bytes of the packet into words from word on.
func Payload(base, offset, length, word int) []byte {
	return Expression("payload", Number(unix.NFTA_PAYLOAD_DREG, Word(word)), Number(unix.NFTA_PAYLOAD_BASE, uint32(base)),
		Number(unix.NFTA_PAYLOAD_OFFSET, uint32(offset)), Number(unix.NFTA_PAYLOAD_LEN, uint32(length)))
}

// Lookup goes on if the set has the words from the first on; with more it is that of a map.
func Lookup(set string, more ...[]byte) []byte {
	return Expression("lookup", append([][]byte{Text(unix.NFTA_LOOKUP_SET, set), Number(unix.NFTA_LOOKUP_SREG, Word(0))}, more...)...)
}

// Lead goes where a map of verdicts leads for the words from the first on, and on if it has nothing for them.
func Lead(set string) []byte {
	return Lookup(set, Number(unix.NFTA_LOOKUP_DREG, unix.NFT_REG_VERDICT))
}

// Do ends a rule with a verdict.
func Do(code int, chain string) []byte {
	return Expression("immediate", Number(unix.NFTA_IMMEDIATE_DREG, unix.NFT_REG_VERDICT), Nest(unix.NFTA_IMMEDIATE_DATA, verdict(code, chain)))
}

// Drop ends the packet.
func Drop() []byte { return Do(0, "") } // NF_DROP

// Jump goes to a chain, and on behind the rule when that has no verdict.
func Jump(chain string) []byte { return Do(unix.NFT_JUMP, chain) }

// Goto goes to a chain for good.
func Goto(chain string) []byte { return Do(unix.NFT_GOTO, chain) }
