// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package nftables reads and writes tables of nf_tables by netlink, without running a program: it leads the kernel from one state of a table
// to another in one transaction. Touch it for how rules reach the kernel; what they say is for those to say that have a table
// (pkg/proxy/nftables, pkg/policy/nftables).
//
// Rules carry a fingerprint of what they say as their comment, so that what is there is compared without decoding it.
package nftables

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"minik8s.io/minik8s/pkg/network/dump"
)

// Attributes are those of a netlink message, by kind (linux/netfilter/nf_tables.h).
type Attributes map[uint16][]byte

// Dump calls f with the attributes of each object that an operation (NFT_MSG_GET…) shows of a family in the network namespace of the
// calling thread; encoded attributes, of, narrow the question down. What was read while somebody changed it is read again.
func Dump(family byte, operation int, of []byte, f func(Attributes)) error {
	answers, err := dump.Whole(func() ([][]byte, error) {
		request := nl.NewNetlinkRequest(unix.NFNL_SUBSYS_NFTABLES<<8|operation, unix.NLM_F_DUMP)
		request.AddData(&nl.Nfgenmsg{NfgenFamily: family, Version: unix.NFNETLINK_V0})
		request.AddRawData(of)
		return request.Execute(unix.NETLINK_NETFILTER, 0)
	})
	if err != nil {
		return fmt.Errorf("reading nftables: %w", err)
	}
	for _, a := range answers {
		if len(a) >= nl.SizeofNfgenmsg {
			f(Parse(a[nl.SizeofNfgenmsg:]))
		}
	}
	return nil
}

// ForEach walks through attributes, up to the first that is cut off.
func ForEach(b []byte, f func(kind uint16, value []byte)) {
	for len(b) >= unix.SizeofNlAttr {
		length := int(binary.NativeEndian.Uint16(b))
		kind := binary.NativeEndian.Uint16(b[2:]) &^ (unix.NLA_F_NESTED | unix.NLA_F_NET_BYTEORDER)
		if length < unix.SizeofNlAttr || length > len(b) {
			return
		}
		f(kind, b[unix.SizeofNlAttr:length])
		b = b[min(len(b), (length+unix.NLA_ALIGNTO-1)&^(unix.NLA_ALIGNTO-1)):]
	}
}

// Parse returns attributes by kind; of several of a kind the last counts.
func Parse(b []byte) Attributes {
	out := Attributes{}
	ForEach(b, func(kind uint16, value []byte) { out[kind] = value })
	return out
}

// String is a text that ends with a zero.
func String(b []byte) string { return string(bytes.TrimRight(b, "\x00")) }

// Comment reads the comment in the user data of a rule, in the form of the nft program (type 0, length, text with its zero); "" if there
// is none.
func Comment(userData []byte) string {
	if len(userData) < 2 || userData[0] != 0 || int(userData[1]) > len(userData)-2 {
		return ""
	}
	return String(userData[2 : 2+int(userData[1])])
}
