// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package nftables

import (
	"encoding/binary"
	"errors"

	"golang.org/x/sys/unix"

	"minik8s.io/minik8s/pkg/network/nftables"
)

// read asks the kernel for a table of the calling thread's network namespace; nil if there is none.
func read(family byte, table string) (*state, error) {
	exists := false
	err := nftables.Dump(family, unix.NFT_MSG_GETTABLE, nil, func(a nftables.Attributes) {
		exists = exists || nftables.String(a[unix.NFTA_TABLE_NAME]) == table
	})
	if errors.Is(err, unix.EINVAL) {
		return nil, nil // a kernel that has no nf_tables knows no such question
	}
	if err != nil || !exists {
		return nil, err
	}
	s := newState()
	// The kernel dumps chains of all tables.
	err = nftables.Dump(family, unix.NFT_MSG_GETCHAIN, nil, func(a nftables.Attributes) {
		if nftables.String(a[unix.NFTA_CHAIN_TABLE]) == table {
			s.addChain(nftables.String(a[unix.NFTA_CHAIN_NAME]), nil)
		}
	})
	if err != nil {
		return nil, err
	}
	err = nftables.Dump(family, unix.NFT_MSG_GETRULE, text(unix.NFTA_RULE_TABLE, table), func(a nftables.Attributes) {
		if nftables.String(a[unix.NFTA_RULE_TABLE]) == table {
			c := s.chains[nftables.String(a[unix.NFTA_RULE_CHAIN])]
			c.prints = append(c.prints, nftables.Comment(a[unix.NFTA_RULE_USERDATA]))
			s.chains[c.name] = c
		}
	})
	if err != nil {
		return nil, err
	}
	err = nftables.Dump(family, unix.NFT_MSG_GETSET, text(unix.NFTA_SET_TABLE, table), func(a nftables.Attributes) {
		if nftables.String(a[unix.NFTA_SET_TABLE]) != table {
			return
		}
		v := set{name: nftables.String(a[unix.NFTA_SET_NAME])}
		if t := a[unix.NFTA_SET_TIMEOUT]; len(t) == 8 {
			v.seconds = uint32(binary.BigEndian.Uint64(t) / 1000)
		}
		s.addSet(v)
	})
	if err != nil {
		return nil, err
	}
	for name, v := range s.sets {
		if v.dynamic() {
			continue
		}
		of := append(text(unix.NFTA_SET_ELEM_LIST_TABLE, table), text(unix.NFTA_SET_ELEM_LIST_SET, name)...)
		err := nftables.Dump(family, unix.NFT_MSG_GETSETELEM, of, func(a nftables.Attributes) {
			nftables.ForEach(a[unix.NFTA_SET_ELEM_LIST_ELEMENTS], func(_ uint16, item []byte) { s.readElement(name, item) })
		})
		if err != nil && !errors.Is(err, unix.ENOENT) { // ENOENT: it is gone meanwhile
			return nil, err
		}
	}
	return s, nil
}

// readElement adds an element as the kernel shows it.
func (s *state) readElement(set string, item []byte) {
	a := nftables.Parse(item)
	of := nftables.Parse(a[unix.NFTA_SET_ELEM_DATA])
	d := data{value: string(of[unix.NFTA_DATA_VALUE])}
	if v := nftables.Parse(of[unix.NFTA_DATA_VERDICT]); len(v) > 0 {
		d.chain = nftables.String(v[unix.NFTA_VERDICT_CHAIN])
	}
	s.addElement(set, string(nftables.Parse(a[unix.NFTA_SET_ELEM_KEY])[unix.NFTA_DATA_VALUE]), d)
}
