// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package nftables

import (
	"encoding/binary"

	"golang.org/x/sys/unix"

	nft "minik8s.io/minik8s/pkg/network/nftables"
	"minik8s.io/minik8s/pkg/policy/rules"
)

// What golang.org/x/sys/unix does not have of linux/netfilter/nf_tables.h.
const (
	ctDirOriginal = 0 // IP_CT_DIR_ORIGINAL
	ctDirReply    = 1 // IP_CT_DIR_REPLY

	stateInvalid   = 1      // NF_CT_STATE_INVALID_BIT
	stateUntracked = 1 << 6 // NF_CT_STATE_UNTRACKED_BIT
)

// priority of the base chains is before that of iptables' filter table: what is dropped needs not be looked at there.
const priority = -10

// stateOf is what the kernel has when it has a table.
func stateOf(t *rules.Table) *nft.State {
	s := nft.NewState()
	for _, set := range t.Sets {
		addSet(s, set)
	}
	for _, c := range t.Chains {
		var hook *nft.Hook
		switch c.Hook {
		case rules.Forward:
			hook = &nft.Hook{Kind: "filter", Number: unix.NF_INET_FORWARD, Priority: priority}
		case rules.Input:
			hook = &nft.Hook{Kind: "filter", Number: unix.NF_INET_LOCAL_IN, Priority: priority}
		}
		code := make([]nft.Rule, len(c.Rules))
		for i, r := range c.Rules {
			code[i] = compile(r)
		}
		s.AddChain(c.Name, hook, code...)
	}
	return s
}

// compile translates a rule.
func compile(r rules.Rule) nft.Rule {
	var code nft.Rule
	for i, m := range r.Matches {
		code = append(code, load(m)...)
		if r.Verdict == rules.Goto && i == len(r.Matches)-1 {
			return append(code, nft.Lead(r.Target)...)
		}
		code = append(code, compare(m)...)
	}
	switch r.Verdict {
	case rules.Accept:
		return append(code, nft.Do(1, "")...) // NF_ACCEPT
	case rules.Jump:
		return append(code, nft.Jump(r.Target)...)
	default:
		return append(append(code, nft.Expression("counter")...), nft.Drop()...)
	}
}

// load puts a field into the registers.
func load(m rules.Match) []byte {
	source, destination, words := unix.NFT_CT_SRC_IP, unix.NFT_CT_DST_IP, 1
	if m.Six {
		source, destination, words = unix.NFT_CT_SRC_IP6, unix.NFT_CT_DST_IP6, 4
	}
	switch m.Field {
	case rules.Client:
		return ct(source, ctDirOriginal, 0)
	case rules.Server:
		return ct(source, ctDirReply, 0)
	case rules.Asked:
		return ct(destination, ctDirOriginal, 0)
	case rules.Self:
		return append(ct(source, ctDirOriginal, 0), ct(source, ctDirReply, words)...)
	case rules.Protocol:
		return ct(unix.NFT_CT_PROTOCOL, ctDirOriginal, 0)
	case rules.Port:
		return ct(unix.NFT_CT_PROTO_SRC, ctDirReply, 0)
	case rules.Called:
		return append(append(ct(source, ctDirReply, 0), ct(unix.NFT_CT_PROTOCOL, ctDirOriginal, words)...), ct(unix.NFT_CT_PROTO_SRC, ctDirReply, words+1)...)
	case rules.Source:
		return header(m.Six, false)
	case rules.Destination:
		return header(m.Six, true)
	case rules.Untracked:
		return nft.Ct(unix.NFT_CT_STATE, 0)
	}
	return nil
}

func ct(key int, direction byte, word int) []byte {
	return nft.Ct(key, word, nft.Attr(unix.NFTA_CT_DIRECTION, []byte{direction}))
}

// header reads an address of the packet, which must be of the family.
func header(six, destination bool) []byte {
	family, offset, length := byte(unix.NFPROTO_IPV4), 12, 4
	if six {
		family, offset, length = unix.NFPROTO_IPV6, 8, 16
	}
	if destination {
		offset += length
	}
	code := append(nft.Meta(unix.NFT_META_NFPROTO, 0), nft.Compare(unix.NFT_CMP_EQ, []byte{family})...)
	return append(code, nft.Payload(unix.NFT_PAYLOAD_NETWORK_HEADER, offset, length, 0)...)
}

// compare goes on if what is loaded is as the match says.
func compare(m rules.Match) []byte {
	switch {
	case m.Set != "" && m.Not:
		return nft.Lookup(m.Set, nft.Number(unix.NFTA_LOOKUP_FLAGS, unix.NFT_LOOKUP_F_INV))
	case m.Set != "":
		return nft.Lookup(m.Set)
	case m.Addr.IsValid():
		return nft.Compare(unix.NFT_CMP_EQ, m.Addr.AsSlice())
	case m.Field == rules.Protocol:
		return nft.Compare(unix.NFT_CMP_EQ, []byte{rules.Number(m.Is)})
	case m.Field == rules.Port:
		return nft.Expression("range", nft.Number(unix.NFTA_RANGE_SREG, nft.Word(0)), nft.Number(unix.NFTA_RANGE_OP, unix.NFT_RANGE_EQ),
			nft.Value(unix.NFTA_RANGE_FROM_DATA, port(m.First)), nft.Value(unix.NFTA_RANGE_TO_DATA, port(m.Last)))
	case m.Field == rules.Untracked:
		return nft.AnyBit(stateInvalid | stateUntracked)
	}
	return nil
}

func port(p uint16) []byte { return binary.BigEndian.AppendUint16(nil, p) }

// addSet adds a set with its elements.
func addSet(s *nft.State, of rules.Set) {
	length, kind := uint32(4), uint32(nft.TypeIP4)
	if of.Six {
		length, kind = 16, nft.TypeIP6
	}
	set := nft.Set{Name: of.Name, KeyType: kind, KeyLength: length}
	switch of.Kind {
	case rules.Pairs:
		set.KeyType, set.KeyLength = kind<<6|kind, 2*length
	case rules.Endpoints:
		set.KeyType, set.KeyLength = kind<<12|nft.TypeProto<<6|nft.TypePort, length+8
	case rules.Ranges:
		set.Interval = true
	case rules.Chains:
		set.DataType = nft.TypeVerdict
	}
	s.AddSet(set)
	for _, e := range of.Elements {
		key := e.Addr.AsSlice()
		switch of.Kind {
		case rules.Pairs:
			key = append(key, key...)
		case rules.Endpoints:
			key = append(key, rules.Number(e.Protocol), 0, 0, 0)
			key = append(append(key, port(e.Port)...), 0, 0)
		case rules.Ranges:
			// What follows the last address has no range; nothing follows the last one of all.
			if next := e.Last.Next(); next.IsValid() && next.BitLen() == e.Last.BitLen() {
				s.AddElement(of.Name, nft.Key{Bytes: string(next.AsSlice()), End: true}, nft.Data{})
			}
		}
		s.AddElement(of.Name, nft.Key{Bytes: string(key)}, nft.Data{Chain: e.Chain})
	}
}
