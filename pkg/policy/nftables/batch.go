// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package nftables

import (
	"encoding/binary"
	"errors"
	"fmt"
	"syscall"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"minik8s.io/minik8s/pkg/policy/rules"
)

// batch is a transaction: all of it is done, in an instant, or nothing.
type batch struct {
	table    string
	messages []*nl.NetlinkRequest
}

// elementsPerMessage keeps a list of elements below the 64 KiB of a netlink attribute: one takes less than 64 bytes and the
// name of a chain, which is short for pods.
const elementsPerMessage = 250

// header begins a message about a table for both IP families. resource is in network order.
func header(messageType, flags, resource int) *nl.NetlinkRequest {
	r := nl.NewNetlinkRequest(messageType, flags)
	r.AddData(&nl.Nfgenmsg{NfgenFamily: unix.NFPROTO_INET, Version: unix.NFNETLINK_V0, ResId: uint16(resource)})
	return r
}

func message(operation, flags int) *nl.NetlinkRequest {
	return header(unix.NFNL_SUBSYS_NFTABLES<<8|operation, flags, 0)
}

func (b *batch) add(operation, flags int, attributes ...*nl.RtAttr) {
	m := message(operation, flags)
	for _, a := range attributes {
		m.AddData(a)
	}
	b.messages = append(b.messages, m)
}

func text(kind int, s string) *nl.RtAttr { return nl.NewRtAttr(kind, nl.ZeroTerminated(s)) }

func (b *batch) addTable() {
	b.add(unix.NFT_MSG_NEWTABLE, unix.NLM_F_CREATE, text(unix.NFTA_TABLE_NAME, b.table))
}

func (b *batch) deleteTable() {
	b.add(unix.NFT_MSG_DELTABLE, 0, text(unix.NFTA_TABLE_NAME, b.table))
}

// priority of the base chains is before that of iptables' filter table: what is dropped needs not be looked at there.
const priority = -10

func (b *batch) addChain(c rules.Chain) {
	attributes := []*nl.RtAttr{text(unix.NFTA_CHAIN_TABLE, b.table), text(unix.NFTA_CHAIN_NAME, c.Name)}
	if c.Base {
		hook := nested(unix.NFTA_CHAIN_HOOK)
		hook.AddChild(be32(unix.NFTA_HOOK_HOOKNUM, unix.NF_INET_FORWARD))
		order := int32(priority)
		hook.AddChild(be32(unix.NFTA_HOOK_PRIORITY, uint32(order)))
		attributes = append(attributes, hook, be32(unix.NFTA_CHAIN_POLICY, 1), text(unix.NFTA_CHAIN_TYPE, "filter"))
	}
	b.add(unix.NFT_MSG_NEWCHAIN, unix.NLM_F_CREATE, attributes...)
}

func (b *batch) deleteChain(name string) {
	b.add(unix.NFT_MSG_DELCHAIN, 0, text(unix.NFTA_CHAIN_TABLE, b.table), text(unix.NFTA_CHAIN_NAME, name))
}

// flush removes the rules of a chain.
func (b *batch) flush(chain string) {
	b.add(unix.NFT_MSG_DELRULE, 0, text(unix.NFTA_RULE_TABLE, b.table), text(unix.NFTA_RULE_CHAIN, chain))
}

func (b *batch) addRule(chain string, r rules.Rule) {
	b.add(unix.NFT_MSG_NEWRULE, unix.NLM_F_CREATE|unix.NLM_F_APPEND, text(unix.NFTA_RULE_TABLE, b.table), text(unix.NFTA_RULE_CHAIN, chain),
		compile(r), nl.NewRtAttr(unix.NFTA_RULE_USERDATA, comment(fingerprint(r))))
}

func (b *batch) addSet(s rules.Set) {
	length, kind := keyOf(s)
	flags := uint32(0)
	attributes := []*nl.RtAttr{
		text(unix.NFTA_SET_TABLE, b.table), text(unix.NFTA_SET_NAME, s.Name),
		be32(unix.NFTA_SET_KEY_TYPE, kind), be32(unix.NFTA_SET_KEY_LEN, length),
		be32(unix.NFTA_SET_ID, uint32(len(b.messages)+1)), // any number of its own
	}
	switch s.Kind {
	case rules.Ranges:
		flags |= unix.NFT_SET_INTERVAL
	case rules.Chains:
		flags |= unix.NFT_SET_MAP
		attributes = append(attributes, be32(unix.NFTA_SET_DATA_TYPE, typeVerdict))
	}
	b.add(unix.NFT_MSG_NEWSET, unix.NLM_F_CREATE, append(attributes, be32(unix.NFTA_SET_FLAGS, flags))...)
}

func (b *batch) deleteSet(name string) {
	b.add(unix.NFT_MSG_DELSET, 0, text(unix.NFTA_SET_TABLE, b.table), text(unix.NFTA_SET_NAME, name))
}

func (b *batch) addElements(set string, list []element) {
	b.elements(unix.NFT_MSG_NEWSETELEM, unix.NLM_F_CREATE, set, list)
}

func (b *batch) deleteElements(set string, list []element) {
	b.elements(unix.NFT_MSG_DELSETELEM, 0, set, list)
}

func (b *batch) elements(operation, flags int, set string, list []element) {
	for len(list) > 0 {
		part := list[:min(len(list), elementsPerMessage)]
		list = list[len(part):]
		all := nested(unix.NFTA_SET_ELEM_LIST_ELEMENTS)
		for _, e := range part {
			item := all.AddRtAttr(unix.NLA_F_NESTED|unix.NFTA_LIST_ELEM, nil)
			item.AddChild(value(unix.NFTA_SET_ELEM_KEY, []byte(e.key)))
			if e.end {
				item.AddChild(be32(unix.NFTA_SET_ELEM_FLAGS, elemIntervalEnd))
			}
			if e.chain != "" {
				data := item.AddRtAttr(unix.NLA_F_NESTED|unix.NFTA_SET_ELEM_DATA, nil)
				data.AddChild(verdict(unix.NFT_GOTO, e.chain))
			}
		}
		b.add(operation, flags, text(unix.NFTA_SET_ELEM_LIST_TABLE, b.table), text(unix.NFTA_SET_ELEM_LIST_SET, set), all)
	}
}

// commit sends the transaction from the calling thread's network namespace.
func (b *batch) commit() error {
	if len(b.messages) == 0 {
		return nil
	}
	var data []byte
	last := uint32(len(b.messages))
	resource := int(binary.NativeEndian.Uint16([]byte{0, unix.NFNL_SUBSYS_NFTABLES}))
	data = append(data, header(unix.NFNL_MSG_BATCH_BEGIN, 0, resource).Serialize()...)
	for i, m := range b.messages {
		m.Seq = uint32(i + 1)
		if m.Seq == last {
			m.Flags |= unix.NLM_F_ACK // refusals are told of all of them
		}
		data = append(data, m.Serialize()...)
	}
	data = append(data, header(unix.NFNL_MSG_BATCH_END, 0, resource).Serialize()...)

	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_NETFILTER)
	if err != nil {
		return fmt.Errorf("opening netlink: %w", err)
	}
	defer func() { _ = unix.Close(fd) }()
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, len(data)+4096); err != nil {
		return fmt.Errorf("making room for %d bytes of netlink: %w", len(data), err)
	}
	if err := unix.Sendto(fd, data, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return fmt.Errorf("sending %d changes: %w", last, err)
	}
	return b.answer(fd, last)
}

// answer reads what the kernel has said to the transaction, which it did before the sending returned.
func (b *batch) answer(fd int, last uint32) error {
	buffer := make([]byte, 1<<16)
	for {
		n, _, err := unix.Recvfrom(fd, buffer, unix.MSG_DONTWAIT)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return fmt.Errorf("no answer to %d changes: %w", last, err)
		}
		replies, err := syscall.ParseNetlinkMessage(buffer[:n])
		if err != nil {
			return fmt.Errorf("reading the answer to %d changes: %w", last, err)
		}
		for _, r := range replies {
			if r.Header.Type != unix.NLMSG_ERROR || len(r.Data) < 4 {
				continue
			}
			if code := int32(binary.NativeEndian.Uint32(r.Data)); code != 0 {
				return fmt.Errorf("change %d of %d (%s) is refused: %w", r.Header.Seq, last, b.describe(r.Header.Seq), unix.Errno(-code))
			}
			if r.Header.Seq == last {
				return nil
			}
		}
	}
}

// describe names the kind of a change for errors.
func (b *batch) describe(seq uint32) string {
	if seq == 0 || int(seq) > len(b.messages) {
		return "the whole"
	}
	return operations[int(b.messages[seq-1].Type)&0xff]
}

var operations = map[int]string{
	unix.NFT_MSG_NEWTABLE: "adding the table", unix.NFT_MSG_DELTABLE: "removing the table",
	unix.NFT_MSG_NEWCHAIN: "adding a chain", unix.NFT_MSG_DELCHAIN: "removing a chain",
	unix.NFT_MSG_NEWRULE: "adding a rule", unix.NFT_MSG_DELRULE: "removing rules",
	unix.NFT_MSG_NEWSET: "adding a set", unix.NFT_MSG_DELSET: "removing a set",
	unix.NFT_MSG_NEWSETELEM: "adding elements", unix.NFT_MSG_DELSETELEM: "removing elements",
}
