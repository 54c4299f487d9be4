// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package nftables

import (
	"encoding/binary"
	"net/netip"

	"golang.org/x/sys/unix"

	"minik8s.io/minik8s/pkg/proxy/backend"
	"minik8s.io/minik8s/pkg/proxy/model"
)

// What golang.org/x/sys/unix does not have of linux/netfilter/nf_tables.h and its neighbours.
const (
	stateInvalid     = 1 << 0
	stateEstablished = 1 << 1
	stateRelated     = 1 << 2
	stateNew         = 1 << 3

	statusDestinationNAT = 1 << 5 // IPS_DST_NAT
	fullyRandom          = 1 << 4 // NF_NAT_RANGE_PROTO_RANDOM_FULLY

	typeVerdict = 0xffffff00 // NFT_DATA_VERDICT

	// The numbers by which the nft program knows types; several make one by 6 bits each.
	typeIP4, typeIP6, typeProto, typePort, typeMark = 7, 8, 12, 13, 19
)

// register is the first of those of four bytes.
const register = unix.NFT_REG32_00

// attr is a netlink attribute; its parts are its content.
func attr(kind int, parts ...[]byte) []byte {
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

func nest(kind int, parts ...[]byte) []byte { return attr(unix.NLA_F_NESTED|kind, parts...) }

func number(kind int, v uint32) []byte { return attr(kind, binary.BigEndian.AppendUint32(nil, v)) }

func text(kind int, s string) []byte { return attr(kind, append([]byte(s), 0)) }

func value(kind int, v []byte) []byte { return nest(kind, attr(unix.NFTA_DATA_VALUE, v)) }

func verdict(code int, chain string) []byte {
	parts := [][]byte{number(unix.NFTA_VERDICT_CODE, uint32(int32(code)))}
	if chain != "" {
		parts = append(parts, text(unix.NFTA_VERDICT_CHAIN, chain))
	}
	return nest(unix.NFTA_DATA_VERDICT, parts...)
}

// rule is the machine code of a rule: its expressions.
type rule []byte

// expression is one step of a rule.
func expression(name string, parts ...[]byte) []byte {
	return nest(unix.NFTA_LIST_ELEM, text(unix.NFTA_EXPR_NAME, name), nest(unix.NFTA_EXPR_DATA, parts...))
}

// all makes a rule of what its parts do, one after the other. A rule ends where a comparison fails.
func all(parts ...[]byte) rule {
	var r rule
	for _, p := range parts {
		r = append(r, p...)
	}
	return r
}

// compare goes on if the first words are as given, or if they are not.
func compare(op int, v []byte) []byte {
	return expression("cmp", number(unix.NFTA_CMP_SREG, register), number(unix.NFTA_CMP_OP, uint32(op)), value(unix.NFTA_CMP_DATA, v))
}

// bits changes the first word: its bits of mask stay, those of xor are turned over.
func bits(mask, xor []byte) []byte {
	return expression("bitwise", number(unix.NFTA_BITWISE_SREG, register), number(unix.NFTA_BITWISE_DREG, register),
		number(unix.NFTA_BITWISE_LEN, uint32(len(mask))), value(unix.NFTA_BITWISE_MASK, mask), value(unix.NFTA_BITWISE_XOR, xor))
}

func native(v uint32) []byte { return binary.NativeEndian.AppendUint32(nil, v) }

// anyBit goes on if the first word has one of the bits.
func anyBit(v uint32) []byte {
	return append(bits(native(v), make([]byte, 4)), compare(unix.NFT_CMP_NEQ, make([]byte, 4))...)
}

func ct(key int) []byte {
	return expression("ct", number(unix.NFTA_CT_DREG, register), number(unix.NFTA_CT_KEY, uint32(key)))
}

func ctState(states uint32) []byte  { return append(ct(unix.NFT_CT_STATE), anyBit(states)...) }
func ctStatus(status uint32) []byte { return append(ct(unix.NFT_CT_STATUS), anyBit(status)...) }

func mark() []byte {
	return expression("meta", number(unix.NFTA_META_DREG, register), number(unix.NFTA_META_KEY, unix.NFT_META_MARK))
}

// setMark gives the packet the first word as its mark.
func setMark() []byte {
	return expression("meta", number(unix.NFTA_META_SREG, register), number(unix.NFTA_META_KEY, unix.NFT_META_MARK))
}

// service loads protocol and port to which the packet goes.
func service(word int) []byte {
	return append(expression("meta", number(unix.NFTA_META_DREG, uint32(register+word)), number(unix.NFTA_META_KEY, unix.NFT_META_L4PROTO)),
		payload(unix.NFT_PAYLOAD_TRANSPORT_HEADER, 2, 2, word+1)...)
}

func payload(base, offset, length, word int) []byte {
	return expression("payload", number(unix.NFTA_PAYLOAD_DREG, uint32(register+word)), number(unix.NFTA_PAYLOAD_BASE, uint32(base)),
		number(unix.NFTA_PAYLOAD_OFFSET, uint32(offset)), number(unix.NFTA_PAYLOAD_LEN, uint32(length)))
}

// addressOfNode goes on if the address that fib's flag names is one of this node.
func addressOfNode(flag uint32) []byte {
	return append(expression("fib", number(unix.NFTA_FIB_DREG, register), number(unix.NFTA_FIB_RESULT, unix.NFT_FIB_RESULT_ADDRTYPE),
		number(unix.NFTA_FIB_FLAGS, flag)), compare(unix.NFT_CMP_EQ, native(unix.RTN_LOCAL))...)
}

// lookup goes on if the set has the words from the first on, or does what a map of verdicts has for them.
func lookup(set string, more ...[]byte) []byte {
	return expression("lookup", append([][]byte{text(unix.NFTA_LOOKUP_SET, set), number(unix.NFTA_LOOKUP_SREG, register)}, more...)...)
}

func vmap(set string) []byte { return lookup(set, number(unix.NFTA_LOOKUP_DREG, unix.NFT_REG_VERDICT)) }

// pick loads one of n numbers into a word.
func pick(word, n int, s backend.Scheduler) []byte {
	kind := uint32(unix.NFT_NG_RANDOM)
	if s == backend.RoundRobin {
		kind = unix.NFT_NG_INCREMENTAL
	}
	return expression("numgen", number(unix.NFTA_NG_DREG, uint32(register+word)), number(unix.NFTA_NG_MODULUS, uint32(n)), number(unix.NFTA_NG_TYPE, kind))
}

// remember puts the source address, which is loaded, into a set, or begins its time anew.
func remember(set string) []byte {
	return expression("dynset", text(unix.NFTA_DYNSET_SET_NAME, set), number(unix.NFTA_DYNSET_OP, unix.NFT_DYNSET_OP_UPDATE),
		number(unix.NFTA_DYNSET_SREG_KEY, register))
}

func do(code int, chain string) []byte {
	return expression("immediate", number(unix.NFTA_IMMEDIATE_DREG, unix.NFT_REG_VERDICT), nest(unix.NFTA_IMMEDIATE_DATA, verdict(code, chain)))
}

func jump(chain string) []byte { return do(unix.NFT_JUMP, chain) }
func goTo(chain string) []byte { return do(unix.NFT_GOTO, chain) }
func back() []byte             { return do(unix.NFT_RETURN, "") }
func drop() []byte             { return do(0, "") } // NF_DROP
func masquerade() []byte       { return expression("masq", number(unix.NFTA_MASQ_FLAGS, fullyRandom)) }
func immediate(word int, v []byte) []byte {
	return expression("immediate", number(unix.NFTA_IMMEDIATE_DREG, uint32(register+word)), value(unix.NFTA_IMMEDIATE_DATA, v))
}

// language is what differs between the IP families.
type language struct {
	family              byte
	source, destination int // offsets of the addresses
	length              int // of an address in bytes
	words               int // that it takes
	kind                uint32
	unreachable         byte // the code of ICMP for a port
}

func languageOf(f model.Family) language {
	if f == model.IPv6 {
		return language{family: unix.NFPROTO_IPV6, source: 8, destination: 24, length: 16, words: 4, kind: typeIP6, unreachable: 4}
	}
	return language{family: unix.NFPROTO_IPV4, source: 12, destination: 16, length: 4, words: 1, kind: typeIP4, unreachable: 3}
}

func (l language) saddr() []byte {
	return payload(unix.NFT_PAYLOAD_NETWORK_HEADER, l.source, l.length, 0)
}

func (l language) daddr(word int) []byte {
	return payload(unix.NFT_PAYLOAD_NETWORK_HEADER, l.destination, l.length, word)
}

// in goes on if the address that is loaded is of the range, or if it is not.
func (l language) in(op int, p netip.Prefix) []byte {
	if p.IsSingleIP() {
		return compare(op, p.Addr().AsSlice())
	}
	mask := make([]byte, l.length)
	for i := range p.Bits() {
		mask[i/8] |= 0x80 >> (i % 8)
	}
	return append(bits(mask, make([]byte, l.length)), compare(op, p.Masked().Addr().AsSlice())...)
}

func (l language) from(p netip.Prefix) []byte { return append(l.saddr(), l.in(unix.NFT_CMP_EQ, p)...) }
func (l language) notFrom(p netip.Prefix) []byte {
	return append(l.saddr(), l.in(unix.NFT_CMP_NEQ, p)...)
}
func (l language) to(p netip.Prefix) []byte { return append(l.daddr(0), l.in(unix.NFT_CMP_EQ, p)...) }
func (l language) notTo(p netip.Prefix) []byte {
	return append(l.daddr(0), l.in(unix.NFT_CMP_NEQ, p)...)
}

func (l language) reject() []byte {
	return expression("reject", number(unix.NFTA_REJECT_TYPE, unix.NFT_REJECT_ICMP_UNREACH), attr(unix.NFTA_REJECT_ICMP_CODE, []byte{l.unreachable}))
}

// dnat sends the connection to the address in the words from word on, and the port behind it.
func (l language) dnat(word int) []byte {
	return expression("nat", number(unix.NFTA_NAT_TYPE, unix.NFT_NAT_DNAT), number(unix.NFTA_NAT_FAMILY, uint32(l.family)),
		number(unix.NFTA_NAT_REG_ADDR_MIN, uint32(register+word)), number(unix.NFTA_NAT_REG_PROTO_MIN, uint32(register+word+l.words)))
}

// load loads what a map has for the words from the first on into those from word on.
func load(set string, word int) []byte {
	return lookup(set, number(unix.NFTA_LOOKUP_DREG, uint32(register+word)))
}

func portKey(port uint16) []byte { return append(binary.BigEndian.AppendUint16(nil, port), 0, 0) }
