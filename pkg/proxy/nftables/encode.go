// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package nftables

import (
	"encoding/binary"
	"net/netip"

	"golang.org/x/sys/unix"

	nft "minik8s.io/minik8s/pkg/network/nftables"
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
)

// all makes a rule of what its parts do, one after the other. A rule ends where a comparison fails.
func all(parts ...[]byte) nft.Rule {
	var r nft.Rule
	for _, p := range parts {
		r = append(r, p...)
	}
	return r
}

func ct(key int) []byte { return nft.Ct(key, 0) }

func ctState(states uint32) []byte  { return append(ct(unix.NFT_CT_STATE), nft.AnyBit(states)...) }
func ctStatus(status uint32) []byte { return append(ct(unix.NFT_CT_STATUS), nft.AnyBit(status)...) }

func mark() []byte { return nft.Meta(unix.NFT_META_MARK, 0) }

// setMark gives the packet the first word as its mark.
func setMark() []byte {
	return nft.Expression("meta", nft.Number(unix.NFTA_META_SREG, nft.Word(0)), nft.Number(unix.NFTA_META_KEY, unix.NFT_META_MARK))
}

// service loads protocol and port to which the packet goes.
func service(word int) []byte {
	return append(nft.Meta(unix.NFT_META_L4PROTO, word), nft.Payload(unix.NFT_PAYLOAD_TRANSPORT_HEADER, 2, 2, word+1)...)
}

// addressOfNode goes on if the address that fib's flag names is one of this node.
func addressOfNode(flag uint32) []byte {
	return append(nft.Expression("fib", nft.Number(unix.NFTA_FIB_DREG, nft.Word(0)), nft.Number(unix.NFTA_FIB_RESULT, unix.NFT_FIB_RESULT_ADDRTYPE),
		nft.Number(unix.NFTA_FIB_FLAGS, flag)), nft.Compare(unix.NFT_CMP_EQ, nft.Native(unix.RTN_LOCAL))...)
}

// pick loads one of n numbers into a word.
func pick(word, n int, s backend.Scheduler) []byte {
	kind := uint32(unix.NFT_NG_RANDOM)
	if s == backend.RoundRobin {
		kind = unix.NFT_NG_INCREMENTAL
	}
	return nft.Expression("numgen", nft.Number(unix.NFTA_NG_DREG, nft.Word(word)), nft.Number(unix.NFTA_NG_MODULUS, uint32(n)), nft.Number(unix.NFTA_NG_TYPE, kind))
}

// remember puts the source address, which is loaded, into a set, or begins its time anew.
func remember(set string) []byte {
	return nft.Expression("dynset", nft.Text(unix.NFTA_DYNSET_SET_NAME, set), nft.Number(unix.NFTA_DYNSET_OP, unix.NFT_DYNSET_OP_UPDATE),
		nft.Number(unix.NFTA_DYNSET_SREG_KEY, nft.Word(0)))
}

func back() []byte { return nft.Do(unix.NFT_RETURN, "") }

func masquerade() []byte {
	return nft.Expression("masq", nft.Number(unix.NFTA_MASQ_FLAGS, fullyRandom))
}
func immediate(word int, v []byte) []byte {
	return nft.Expression("immediate", nft.Number(unix.NFTA_IMMEDIATE_DREG, nft.Word(word)), nft.Value(unix.NFTA_IMMEDIATE_DATA, v))
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
		return language{family: unix.NFPROTO_IPV6, source: 8, destination: 24, length: 16, words: 4, kind: nft.TypeIP6, unreachable: 4}
	}
	return language{family: unix.NFPROTO_IPV4, source: 12, destination: 16, length: 4, words: 1, kind: nft.TypeIP4, unreachable: 3}
}

func (l language) saddr() []byte {
	return nft.Payload(unix.NFT_PAYLOAD_NETWORK_HEADER, l.source, l.length, 0)
}

func (l language) daddr(word int) []byte {
	return nft.Payload(unix.NFT_PAYLOAD_NETWORK_HEADER, l.destination, l.length, word)
}

// in goes on if the address that is loaded is of the range, or if it is not.
func (l language) in(op int, p netip.Prefix) []byte {
	if p.IsSingleIP() {
		return nft.Compare(op, p.Addr().AsSlice())
	}
	mask := make([]byte, l.length)
	for i := range p.Bits() {
		mask[i/8] |= 0x80 >> (i % 8)
	}
	return append(nft.Bits(mask, make([]byte, l.length)), nft.Compare(op, p.Masked().Addr().AsSlice())...)
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
	return nft.Expression("reject", nft.Number(unix.NFTA_REJECT_TYPE, unix.NFT_REJECT_ICMP_UNREACH), nft.Attr(unix.NFTA_REJECT_ICMP_CODE, []byte{l.unreachable}))
}

// dnat sends the connection to the address in the words from word on, and the port behind it.
func (l language) dnat(word int) []byte {
	return nft.Expression("nat", nft.Number(unix.NFTA_NAT_TYPE, unix.NFT_NAT_DNAT), nft.Number(unix.NFTA_NAT_FAMILY, uint32(l.family)),
		nft.Number(unix.NFTA_NAT_REG_ADDR_MIN, nft.Word(word)), nft.Number(unix.NFTA_NAT_REG_PROTO_MIN, nft.Word(word+l.words)))
}

// load loads what a map has for the words from the first on into those from word on.
func load(set string, word int) []byte {
	return nft.Lookup(set, nft.Number(unix.NFTA_LOOKUP_DREG, nft.Word(word)))
}

func portKey(port uint16) []byte { return append(binary.BigEndian.AppendUint16(nil, port), 0, 0) }
