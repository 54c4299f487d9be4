// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package nftables

import (
	"encoding/binary"
	"errors"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// batch is a transaction: all of it is done, in an instant, or nothing.
type batch struct {
	language
	table string
	data  []byte
	count uint32
	// lastFlags is where the flags of the last message are.
	lastFlags int
}

const (
	sizeofGenmsg = 4 // struct nfgenmsg
	// elementBytes keeps a list of elements below the 64 KiB of a netlink attribute.
	elementBytes = 48 << 10
)

// message appends a netlink message. resource is in network order.
func (b *batch) message(kind, flags int, resource uint16, parts ...[]byte) {
	n := unix.SizeofNlMsghdr + sizeofGenmsg
	for _, p := range parts {
		n += len(p)
	}
	b.data = binary.NativeEndian.AppendUint32(b.data, uint32(n))
	b.data = binary.NativeEndian.AppendUint16(b.data, uint16(kind))
	b.lastFlags = len(b.data)
	b.data = binary.NativeEndian.AppendUint16(b.data, uint16(flags|unix.NLM_F_REQUEST))
	b.data = binary.NativeEndian.AppendUint32(b.data, b.count)
	b.data = append(b.data, 0, 0, 0, 0, b.family, unix.NFNETLINK_V0)
	b.data = binary.BigEndian.AppendUint16(b.data, resource)
	for _, p := range parts {
		b.data = append(b.data, p...)
	}
}

func (b *batch) add(operation, flags int, parts ...[]byte) {
	if b.count == 0 {
		b.message(unix.NFNL_MSG_BATCH_BEGIN, 0, unix.NFNL_SUBSYS_NFTABLES)
	}
	b.count++
	b.message(unix.NFNL_SUBSYS_NFTABLES<<8|operation, flags, 0, parts...)
}

func (b *batch) addTable() {
	b.add(unix.NFT_MSG_NEWTABLE, unix.NLM_F_CREATE, text(unix.NFTA_TABLE_NAME, b.table))
}

func (b *batch) deleteTable() {
	b.add(unix.NFT_MSG_DELTABLE, 0, text(unix.NFTA_TABLE_NAME, b.table))
}

func (b *batch) addChain(c chain) {
	parts := [][]byte{text(unix.NFTA_CHAIN_TABLE, b.table), text(unix.NFTA_CHAIN_NAME, c.name)}
	if h := c.hook; h != nil {
		parts = append(parts, nest(unix.NFTA_CHAIN_HOOK, number(unix.NFTA_HOOK_HOOKNUM, h.number), number(unix.NFTA_HOOK_PRIORITY, uint32(h.priority))),
			number(unix.NFTA_CHAIN_POLICY, 1), text(unix.NFTA_CHAIN_TYPE, h.kind))
	}
	b.add(unix.NFT_MSG_NEWCHAIN, unix.NLM_F_CREATE, parts...)
}

func (b *batch) deleteChain(name string) {
	b.add(unix.NFT_MSG_DELCHAIN, 0, text(unix.NFTA_CHAIN_TABLE, b.table), text(unix.NFTA_CHAIN_NAME, name))
}

// flush removes the rules of a chain.
func (b *batch) flush(chain string) {
	b.add(unix.NFT_MSG_DELRULE, 0, text(unix.NFTA_RULE_TABLE, b.table), text(unix.NFTA_RULE_CHAIN, chain))
}

// addRule appends a rule with its print as its comment, in the form of the nft program: type 0, length, text with its zero.
func (b *batch) addRule(chain string, r rule, print string) {
	comment := append([]byte{0, byte(len(print) + 1)}, append([]byte(print), 0)...)
	b.add(unix.NFT_MSG_NEWRULE, unix.NLM_F_CREATE|unix.NLM_F_APPEND, text(unix.NFTA_RULE_TABLE, b.table), text(unix.NFTA_RULE_CHAIN, chain),
		nest(unix.NFTA_RULE_EXPRESSIONS, r), attr(unix.NFTA_RULE_USERDATA, comment))
}

// addresses is how many sources a set remembers, as the nft program has it.
const addresses = 65535

func (b *batch) addSet(s set) {
	parts := [][]byte{
		text(unix.NFTA_SET_TABLE, b.table), text(unix.NFTA_SET_NAME, s.name), number(unix.NFTA_SET_KEY_TYPE, s.keyType),
		number(unix.NFTA_SET_KEY_LEN, s.keyLength), number(unix.NFTA_SET_ID, b.count+1), // any number of its own
	}
	flags := uint32(0)
	if s.dataType != 0 {
		flags |= unix.NFT_SET_MAP
		parts = append(parts, number(unix.NFTA_SET_DATA_TYPE, s.dataType))
	}
	if s.dataLength != 0 {
		parts = append(parts, number(unix.NFTA_SET_DATA_LEN, s.dataLength))
	}
	if s.dynamic() {
		flags |= unix.NFT_SET_TIMEOUT | unix.NFT_SET_EVAL
		parts = append(parts, attr(unix.NFTA_SET_TIMEOUT, binary.BigEndian.AppendUint64(nil, uint64(s.seconds)*1000)),
			nest(unix.NFTA_SET_DESC, number(unix.NFTA_SET_DESC_SIZE, addresses)))
	}
	b.add(unix.NFT_MSG_NEWSET, unix.NLM_F_CREATE, append(parts, number(unix.NFTA_SET_FLAGS, flags))...)
}

func (b *batch) deleteSet(name string) {
	b.add(unix.NFT_MSG_DELSET, 0, text(unix.NFTA_SET_TABLE, b.table), text(unix.NFTA_SET_NAME, name))
}

// elements adds elements to a set, or deletes them.
func (b *batch) elements(operation int, set string, list elements) {
	flags := 0
	if operation == unix.NFT_MSG_NEWSETELEM {
		flags = unix.NLM_F_CREATE
	}
	var items []byte
	write := func() {
		if len(items) > 0 {
			b.add(operation, flags, text(unix.NFTA_SET_ELEM_LIST_TABLE, b.table), text(unix.NFTA_SET_ELEM_LIST_SET, set),
				nest(unix.NFTA_SET_ELEM_LIST_ELEMENTS, items))
		}
		items = nil
	}
	for key, data := range list {
		parts := [][]byte{value(unix.NFTA_SET_ELEM_KEY, []byte(key))}
		switch {
		case data.chain != "":
			parts = append(parts, nest(unix.NFTA_SET_ELEM_DATA, verdict(unix.NFT_GOTO, data.chain)))
		case data.value != "":
			parts = append(parts, value(unix.NFTA_SET_ELEM_DATA, []byte(data.value)))
		}
		if items = append(items, nest(unix.NFTA_LIST_ELEM, parts...)...); len(items) > elementBytes {
			write()
		}
	}
	write()
}

// commit sends the transaction from the calling thread's network namespace.
func (b *batch) commit() error {
	if b.count == 0 {
		return nil
	}
	flags := b.data[b.lastFlags:]
	binary.NativeEndian.PutUint16(flags, binary.NativeEndian.Uint16(flags)|unix.NLM_F_ACK) // refusals are told of all of them
	b.message(unix.NFNL_MSG_BATCH_END, 0, unix.NFNL_SUBSYS_NFTABLES)

	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_NETFILTER)
	if err != nil {
		return fmt.Errorf("opening netlink: %w", err)
	}
	defer func() { _ = unix.Close(fd) }()
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, len(b.data)+4096); err != nil {
		return fmt.Errorf("making room for %d bytes of netlink: %w", len(b.data), err)
	}
	if err := unix.Sendto(fd, b.data, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return fmt.Errorf("sending %d changes: %w", b.count, err)
	}
	return b.answer(fd)
}

// answer reads what the kernel has said to the transaction, which it did before the sending returned.
func (b *batch) answer(fd int) error {
	buffer := make([]byte, 1<<16)
	for {
		n, _, err := unix.Recvfrom(fd, buffer, unix.MSG_DONTWAIT)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return fmt.Errorf("no answer to %d changes: %w", b.count, err)
		}
		replies, err := syscall.ParseNetlinkMessage(buffer[:n])
		if err != nil {
			return fmt.Errorf("reading the answer to %d changes: %w", b.count, err)
		}
		for _, r := range replies {
			if r.Header.Type != unix.NLMSG_ERROR || len(r.Data) < 4 {
				continue
			}
			if code := int32(binary.NativeEndian.Uint32(r.Data)); code != 0 {
				return fmt.Errorf("change %d of %d is refused: %w", r.Header.Seq, b.count, unix.Errno(-code))
			}
			if r.Header.Seq == b.count {
				return nil
			}
		}
	}
}
