// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package nftables

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// batch is a transaction: all of it is done, in an instant, or nothing.
type batch struct {
	family byte
	table  string
	data   []byte
	count  uint32
	// lastFlags is where the flags of the last message are.
	lastFlags int
	// kinds are the operations of the changes, for errors.
	kinds []byte
}

const (
	sizeofGenmsg = 4 // struct nfgenmsg
	// elementBytes keeps a list of elements below the 64 KiB of a netlink attribute.
	elementBytes = 48 << 10
	// elementEnd is NFT_SET_ELEM_INTERVAL_END.
	elementEnd = 1
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
	b.kinds = append(b.kinds, byte(operation))
	b.message(unix.NFNL_SUBSYS_NFTABLES<<8|operation, flags, 0, parts...)
}

func (b *batch) addTable() {
	b.add(unix.NFT_MSG_NEWTABLE, unix.NLM_F_CREATE, Text(unix.NFTA_TABLE_NAME, b.table))
}

func (b *batch) deleteTable() {
	b.add(unix.NFT_MSG_DELTABLE, 0, Text(unix.NFTA_TABLE_NAME, b.table))
}

func (b *batch) addChain(c Chain) {
	parts := [][]byte{Text(unix.NFTA_CHAIN_TABLE, b.table), Text(unix.NFTA_CHAIN_NAME, c.Name)}
	if h := c.Hook; h != nil {
		parts = append(parts, Nest(unix.NFTA_CHAIN_HOOK, Number(unix.NFTA_HOOK_HOOKNUM, h.Number), Number(unix.NFTA_HOOK_PRIORITY, uint32(h.Priority))),
			Number(unix.NFTA_CHAIN_POLICY, 1), Text(unix.NFTA_CHAIN_TYPE, h.Kind)) // NF_ACCEPT
	}
	b.add(unix.NFT_MSG_NEWCHAIN, unix.NLM_F_CREATE, parts...)
}

func (b *batch) deleteChain(name string) {
	b.add(unix.NFT_MSG_DELCHAIN, 0, Text(unix.NFTA_CHAIN_TABLE, b.table), Text(unix.NFTA_CHAIN_NAME, name))
}

// flush removes the rules of a chain.
func (b *batch) flush(chain string) {
	b.add(unix.NFT_MSG_DELRULE, 0, Text(unix.NFTA_RULE_TABLE, b.table), Text(unix.NFTA_RULE_CHAIN, chain))
}

// addRule appends a rule with its print as its comment, in the form of the nft program: type 0, length, text with its zero.
func (b *batch) addRule(chain string, r Rule, print string) {
	comment := append([]byte{0, byte(len(print) + 1)}, append([]byte(print), 0)...)
	b.add(unix.NFT_MSG_NEWRULE, unix.NLM_F_CREATE|unix.NLM_F_APPEND, Text(unix.NFTA_RULE_TABLE, b.table), Text(unix.NFTA_RULE_CHAIN, chain),
		Nest(unix.NFTA_RULE_EXPRESSIONS, r), Attr(unix.NFTA_RULE_USERDATA, comment))
}

// remembered is how many elements a set has that packets fill, as the nft program has it.
const remembered = 65535

func (b *batch) addSet(s Set) {
	parts := [][]byte{
		Text(unix.NFTA_SET_TABLE, b.table), Text(unix.NFTA_SET_NAME, s.Name), Number(unix.NFTA_SET_KEY_TYPE, s.KeyType),
		Number(unix.NFTA_SET_KEY_LEN, s.KeyLength), Number(unix.NFTA_SET_ID, b.count+1), // any number of its own
	}
	flags := uint32(0)
	if s.Interval {
		flags |= unix.NFT_SET_INTERVAL
	}
	if s.DataType != 0 {
		flags |= unix.NFT_SET_MAP
		parts = append(parts, Number(unix.NFTA_SET_DATA_TYPE, s.DataType))
	}
	if s.DataLength != 0 {
		parts = append(parts, Number(unix.NFTA_SET_DATA_LEN, s.DataLength))
	}
	if s.dynamic() {
		flags |= unix.NFT_SET_TIMEOUT | unix.NFT_SET_EVAL
		parts = append(parts, Attr(unix.NFTA_SET_TIMEOUT, binary.BigEndian.AppendUint64(nil, uint64(s.Seconds)*1000)),
			Nest(unix.NFTA_SET_DESC, Number(unix.NFTA_SET_DESC_SIZE, remembered)))
	}
	b.add(unix.NFT_MSG_NEWSET, unix.NLM_F_CREATE, append(parts, Number(unix.NFTA_SET_FLAGS, flags))...)
}

func (b *batch) deleteSet(name string) {
	b.add(unix.NFT_MSG_DELSET, 0, Text(unix.NFTA_SET_TABLE, b.table), Text(unix.NFTA_SET_NAME, name))
}

// elements adds elements to a set, or deletes them. Those of ranges come in order, for the kernel compares each with its neighbours.
func (b *batch) elements(operation int, set Set, list Elements) {
	flags := 0
	if operation == unix.NFT_MSG_NEWSETELEM {
		flags = unix.NLM_F_CREATE
	}
	keys := maps.Keys(list)
	if set.Interval {
		keys = slices.Values(slices.SortedFunc(keys, func(a, b Key) int { return cmp.Compare(a.Bytes, b.Bytes) }))
	}
	var items []byte
	write := func() {
		if len(items) > 0 {
			b.add(operation, flags, Text(unix.NFTA_SET_ELEM_LIST_TABLE, b.table), Text(unix.NFTA_SET_ELEM_LIST_SET, set.Name),
				Nest(unix.NFTA_SET_ELEM_LIST_ELEMENTS, items))
		}
		items = nil
	}
	for key := range keys {
		parts := [][]byte{Value(unix.NFTA_SET_ELEM_KEY, []byte(key.Bytes))}
		if key.End {
			parts = append(parts, Number(unix.NFTA_SET_ELEM_FLAGS, elementEnd))
		}
		switch data := list[key]; {
		case data.Chain != "":
			parts = append(parts, Nest(unix.NFTA_SET_ELEM_DATA, verdict(unix.NFT_GOTO, data.Chain)))
		case data.Value != "":
			parts = append(parts, Value(unix.NFTA_SET_ELEM_DATA, []byte(data.Value)))
		}
		if items = append(items, Nest(unix.NFTA_LIST_ELEM, parts...)...); len(items) > elementBytes {
			write()
		}
	}
	write()
}

// plan adds to the transaction what leads from one state to another. What is referred to is made before the reference, and removed
// after it.
func (b *batch) plan(have, want *State) {
	for name, v := range want.Sets {
		if _, ok := have.Sets[name]; !ok {
			b.addSet(v)
		}
	}
	for name, c := range want.Chains {
		if _, ok := have.Chains[name]; !ok {
			b.addChain(c)
		}
	}
	b.planElements(have, want)
	for name, c := range want.Chains {
		before := have.Chains[name].prints
		if slices.Equal(before, c.prints) {
			continue
		}
		if len(before) > 0 {
			b.flush(name)
		}
		for i, r := range c.Rules {
			b.addRule(name, r, c.prints[i])
		}
	}
	var chains []string
	for name := range have.Chains {
		if _, ok := want.Chains[name]; !ok {
			b.flush(name)
			chains = append(chains, name)
		}
	}
	for name := range have.Sets {
		if _, ok := want.Sets[name]; !ok {
			b.deleteSet(name)
		}
	}
	for _, name := range chains {
		b.deleteChain(name)
	}
}

// planElements leaves alone what goes with its set.
func (b *batch) planElements(have, want *State) {
	of := func(name string) (set Set, gone bool) {
		if set, ok := want.Sets[name]; ok {
			return set, false
		}
		_, gone = have.Sets[name]
		return Set{Name: name}, gone
	}
	for name, list := range have.Elements {
		if set, gone := of(name); !gone {
			b.elements(unix.NFT_MSG_DELSETELEM, set, differing(list, want.Elements[name]))
		}
	}
	for name, list := range want.Elements {
		set, _ := of(name)
		b.elements(unix.NFT_MSG_NEWSETELEM, set, differing(list, have.Elements[name]))
	}
}

// differing are the elements of one that the other has not, or has otherwise.
func differing(of, in Elements) Elements {
	out := Elements{}
	for key, d := range of {
		if other, ok := in[key]; !ok || other != d {
			out[key] = d
		}
	}
	return out
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
				return fmt.Errorf("change %d of %d (%s) is refused: %w", r.Header.Seq, b.count, b.describe(r.Header.Seq), unix.Errno(-code))
			}
			if r.Header.Seq == b.count {
				return nil
			}
		}
	}
}

// describe names the kind of a change for errors.
func (b *batch) describe(seq uint32) string {
	if seq == 0 || int(seq) > len(b.kinds) {
		return "the whole"
	}
	return operations[b.kinds[seq-1]]
}

var operations = map[byte]string{
	unix.NFT_MSG_NEWTABLE: "adding the table", unix.NFT_MSG_DELTABLE: "removing the table",
	unix.NFT_MSG_NEWCHAIN: "adding a chain", unix.NFT_MSG_DELCHAIN: "removing a chain",
	unix.NFT_MSG_NEWRULE: "adding a rule", unix.NFT_MSG_DELRULE: "removing rules",
	unix.NFT_MSG_NEWSET: "adding a set", unix.NFT_MSG_DELSET: "removing a set",
	unix.NFT_MSG_NEWSETELEM: "adding elements", unix.NFT_MSG_DELSETELEM: "removing elements",
}
