// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package nftables

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"net/netip"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"minik8s.io/minik8s/pkg/policy/rules"
)

// What golang.org/x/sys/unix does not have of linux/netfilter/nf_tables.h.
const (
	ctDirOriginal = 0 // IP_CT_DIR_ORIGINAL
	ctDirReply    = 1 // IP_CT_DIR_REPLY

	stateInvalid   = 1      // NF_CT_STATE_INVALID_BIT
	stateUntracked = 1 << 6 // NF_CT_STATE_UNTRACKED_BIT

	typeVerdict     = 0xffffff00 // NFT_DATA_VERDICT
	elemIntervalEnd = 1          // NFT_SET_ELEM_INTERVAL_END

	// The numbers by which the nft program knows types of keys; several make one by 6 bits each.
	typeIP4, typeIP6, typeProto, typePort = 7, 8, 12, 13
)

// register is where the words of a key are put, four bytes each.
const register = unix.NFT_REG32_00

// expressions are the machine code of a rule.
type expressions struct{ list *nl.RtAttr }

func newExpressions() *expressions {
	return &expressions{nested(unix.NFTA_RULE_EXPRESSIONS)}
}

func (e *expressions) add(name string, attributes ...*nl.RtAttr) {
	elem := e.list.AddRtAttr(unix.NLA_F_NESTED|unix.NFTA_LIST_ELEM, nil)
	elem.AddRtAttr(unix.NFTA_EXPR_NAME, nl.ZeroTerminated(name))
	data := elem.AddRtAttr(unix.NLA_F_NESTED|unix.NFTA_EXPR_DATA, nil)
	for _, a := range attributes {
		data.AddChild(a)
	}
}

// compile translates a rule.
func compile(r rules.Rule) *nl.RtAttr {
	e := newExpressions()
	for i, m := range r.Matches {
		e.load(m)
		if r.Verdict == rules.Goto && i == len(r.Matches)-1 {
			e.lookup(r.Target, be32(unix.NFTA_LOOKUP_DREG, unix.NFT_REG_VERDICT))
			return e.list
		}
		e.compare(m)
	}
	switch r.Verdict {
	case rules.Accept:
		e.verdict(1, "") // NF_ACCEPT
	case rules.Jump:
		e.verdict(unix.NFT_JUMP, r.Target)
	default:
		e.add("counter")
		e.verdict(0, "") // NF_DROP
	}
	return e.list
}

// load puts a field into the registers.
func (e *expressions) load(m rules.Match) {
	source, destination, words := unix.NFT_CT_SRC_IP, unix.NFT_CT_DST_IP, 1
	if m.Six {
		source, destination, words = unix.NFT_CT_SRC_IP6, unix.NFT_CT_DST_IP6, 4
	}
	switch m.Field {
	case rules.Client:
		e.ct(source, ctDirOriginal, 0)
	case rules.Server:
		e.ct(source, ctDirReply, 0)
	case rules.Asked:
		e.ct(destination, ctDirOriginal, 0)
	case rules.Self:
		e.ct(source, ctDirOriginal, 0)
		e.ct(source, ctDirReply, words)
	case rules.Protocol:
		e.ct(unix.NFT_CT_PROTOCOL, ctDirOriginal, 0)
	case rules.Port:
		e.ct(unix.NFT_CT_PROTO_SRC, ctDirReply, 0)
	case rules.Called:
		e.ct(source, ctDirReply, 0)
		e.ct(unix.NFT_CT_PROTOCOL, ctDirOriginal, words)
		e.ct(unix.NFT_CT_PROTO_SRC, ctDirReply, words+1)
	case rules.Source:
		e.header(m.Six, false)
	case rules.Destination:
		e.header(m.Six, true)
	case rules.Untracked:
		e.add("ct", be32(unix.NFTA_CT_DREG, register), be32(unix.NFTA_CT_KEY, unix.NFT_CT_STATE))
	}
}

func (e *expressions) ct(key int, direction byte, word int) {
	e.add("ct", be32(unix.NFTA_CT_DREG, uint32(register+word)), be32(unix.NFTA_CT_KEY, uint32(key)),
		nl.NewRtAttr(unix.NFTA_CT_DIRECTION, []byte{direction}))
}

// header reads an address of the packet, which must be of the family.
func (e *expressions) header(six, destination bool) {
	family, offset, length := byte(unix.NFPROTO_IPV4), uint32(12), uint32(4)
	if six {
		family, offset, length = unix.NFPROTO_IPV6, 8, 16
	}
	if destination {
		offset += length
	}
	e.add("meta", be32(unix.NFTA_META_DREG, register), be32(unix.NFTA_META_KEY, unix.NFT_META_NFPROTO))
	e.equal([]byte{family})
	e.add("payload", be32(unix.NFTA_PAYLOAD_DREG, register), be32(unix.NFTA_PAYLOAD_BASE, unix.NFT_PAYLOAD_NETWORK_HEADER),
		be32(unix.NFTA_PAYLOAD_OFFSET, offset), be32(unix.NFTA_PAYLOAD_LEN, length))
}

// compare goes on if what is loaded is as the match says.
func (e *expressions) compare(m rules.Match) {
	switch {
	case m.Set != "" && m.Not:
		e.lookup(m.Set, be32(unix.NFTA_LOOKUP_FLAGS, unix.NFT_LOOKUP_F_INV))
	case m.Set != "":
		e.lookup(m.Set)
	case m.Addr.IsValid():
		e.equal(m.Addr.AsSlice())
	case m.Field == rules.Protocol:
		e.equal([]byte{rules.Number(m.Is)})
	case m.Field == rules.Port:
		e.add("range", be32(unix.NFTA_RANGE_SREG, register), be32(unix.NFTA_RANGE_OP, unix.NFT_RANGE_EQ),
			value(unix.NFTA_RANGE_FROM_DATA, nl.BEUint16Attr(m.First)), value(unix.NFTA_RANGE_TO_DATA, nl.BEUint16Attr(m.Last)))
	case m.Field == rules.Untracked:
		mask := binary.NativeEndian.AppendUint32(nil, stateInvalid|stateUntracked)
		e.add("bitwise", be32(unix.NFTA_BITWISE_SREG, register), be32(unix.NFTA_BITWISE_DREG, register), be32(unix.NFTA_BITWISE_LEN, 4),
			value(unix.NFTA_BITWISE_MASK, mask), value(unix.NFTA_BITWISE_XOR, make([]byte, 4)))
		e.add("cmp", be32(unix.NFTA_CMP_SREG, register), be32(unix.NFTA_CMP_OP, unix.NFT_CMP_NEQ), value(unix.NFTA_CMP_DATA, make([]byte, 4)))
	}
}

func (e *expressions) equal(v []byte) {
	e.add("cmp", be32(unix.NFTA_CMP_SREG, register), be32(unix.NFTA_CMP_OP, unix.NFT_CMP_EQ), value(unix.NFTA_CMP_DATA, v))
}

func (e *expressions) lookup(set string, more ...*nl.RtAttr) {
	e.add("lookup", append([]*nl.RtAttr{nl.NewRtAttr(unix.NFTA_LOOKUP_SET, nl.ZeroTerminated(set)), be32(unix.NFTA_LOOKUP_SREG, register)}, more...)...)
}

func (e *expressions) verdict(code int, chain string) {
	data := nested(unix.NFTA_IMMEDIATE_DATA)
	data.AddChild(verdict(code, chain))
	e.add("immediate", be32(unix.NFTA_IMMEDIATE_DREG, unix.NFT_REG_VERDICT), data)
}

func verdict(code int, chain string) *nl.RtAttr {
	v := nested(unix.NFTA_DATA_VERDICT)
	v.AddChild(be32(unix.NFTA_VERDICT_CODE, uint32(int32(code))))
	if chain != "" {
		v.AddRtAttr(unix.NFTA_VERDICT_CHAIN, nl.ZeroTerminated(chain))
	}
	return v
}

func nested(kind int) *nl.RtAttr { return nl.NewRtAttr(unix.NLA_F_NESTED|kind, nil) }

func be32(kind int, v uint32) *nl.RtAttr { return nl.NewRtAttr(kind, nl.BEUint32Attr(v)) }

func value(kind int, v []byte) *nl.RtAttr {
	a := nested(kind)
	a.AddRtAttr(unix.NFTA_DATA_VALUE, v)
	return a
}

// element is an element of a set as the kernel has it.
type element struct {
	key string
	// end tells that no range goes on at key.
	end bool
	// chain is where a map leads.
	chain string
}

// wire returns the elements of a set as the kernel has them.
func wire(s rules.Set) map[element]bool {
	out := make(map[element]bool, len(s.Elements))
	for _, e := range s.Elements {
		key := e.Addr.AsSlice()
		switch s.Kind {
		case rules.Pairs:
			key = append(key, key...)
		case rules.Endpoints:
			key = append(key, rules.Number(e.Protocol), 0, 0, 0)
			key = append(binary.BigEndian.AppendUint16(key, e.Port), 0, 0)
		case rules.Ranges:
			// What follows the last address has no range; nothing follows the last one of all.
			if next := e.Last.Next(); next.IsValid() && next.BitLen() == e.Last.BitLen() {
				out[element{key: string(next.AsSlice()), end: true}] = true
			}
		}
		out[element{key: string(key), chain: e.Chain}] = true
	}
	return out
}

// keyOf returns the length of a set's keys in bytes, and their type for the nft program.
func keyOf(s rules.Set) (length, kind uint32) {
	var addr netip.Addr
	length, kind = 4, typeIP4
	if s.Six {
		addr = netip.IPv6Unspecified()
		length, kind = uint32(len(addr.AsSlice())), typeIP6
	}
	switch s.Kind {
	case rules.Pairs:
		return 2 * length, kind<<6 | kind
	case rules.Endpoints:
		return length + 8, kind<<12 | typeProto<<6 | typePort
	}
	return length, kind
}

// fingerprint is what is written to a rule by which it is known again.
func fingerprint(r rules.Rule) string {
	sum := sha256.Sum256([]byte(r.String()))
	return base32.StdEncoding.EncodeToString(sum[:])[:16]
}

// comment is a rule's comment as the nft program writes it: type 0, length, text with its zero.
func comment(text string) []byte {
	return append([]byte{0, byte(len(text) + 1)}, nl.ZeroTerminated(text)...)
}
