// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package nftables

import (
	"encoding/binary"
	"errors"

	"golang.org/x/sys/unix"

	"minik8s.io/minik8s/pkg/network/nftables"
)

// state is a table as the kernel has it.
type state struct {
	exists bool
	// chains are the fingerprints of the rules by chain.
	chains map[string][]string
	sets   map[string]map[element]bool
}

// read asks the kernel for a table of the calling thread's network namespace.
func read(table string) (*state, error) {
	s := &state{chains: map[string][]string{}, sets: map[string]map[element]bool{}}
	err := nftables.Dump(unix.NFPROTO_INET, unix.NFT_MSG_GETTABLE, nil, func(a nftables.Attributes) {
		s.exists = s.exists || nftables.String(a[unix.NFTA_TABLE_NAME]) == table
	})
	if errors.Is(err, unix.EINVAL) {
		return s, nil // a kernel that has no nf_tables knows no such question
	}
	if err != nil || !s.exists {
		return s, err
	}
	// The kernel dumps chains of all tables.
	err = nftables.Dump(unix.NFPROTO_INET, unix.NFT_MSG_GETCHAIN, nil, func(a nftables.Attributes) {
		if nftables.String(a[unix.NFTA_CHAIN_TABLE]) == table {
			s.chains[nftables.String(a[unix.NFTA_CHAIN_NAME])] = nil
		}
	})
	if err != nil {
		return nil, err
	}
	err = nftables.Dump(unix.NFPROTO_INET, unix.NFT_MSG_GETRULE, text(unix.NFTA_RULE_TABLE, table).Serialize(), func(a nftables.Attributes) {
		if nftables.String(a[unix.NFTA_RULE_TABLE]) == table {
			chain := nftables.String(a[unix.NFTA_RULE_CHAIN])
			s.chains[chain] = append(s.chains[chain], nftables.Comment(a[unix.NFTA_RULE_USERDATA]))
		}
	})
	if err != nil {
		return nil, err
	}
	err = nftables.Dump(unix.NFPROTO_INET, unix.NFT_MSG_GETSET, text(unix.NFTA_SET_TABLE, table).Serialize(), func(a nftables.Attributes) {
		if nftables.String(a[unix.NFTA_SET_TABLE]) == table {
			s.sets[nftables.String(a[unix.NFTA_SET_NAME])] = map[element]bool{}
		}
	})
	if err != nil {
		return nil, err
	}
	for name, elements := range s.sets {
		of := append(text(unix.NFTA_SET_ELEM_LIST_TABLE, table).Serialize(), text(unix.NFTA_SET_ELEM_LIST_SET, name).Serialize()...)
		err := nftables.Dump(unix.NFPROTO_INET, unix.NFT_MSG_GETSETELEM, of, func(a nftables.Attributes) {
			nftables.ForEach(a[unix.NFTA_SET_ELEM_LIST_ELEMENTS], func(_ uint16, item []byte) { elements[elementOf(item)] = true })
		})
		if errors.Is(err, unix.ENOENT) {
			continue // it is gone meanwhile
		}
		if err != nil {
			return nil, err
		}
	}
	return s, nil
}

func elementOf(item []byte) element {
	a := nftables.Parse(item)
	e := element{key: string(nftables.Parse(a[unix.NFTA_SET_ELEM_KEY])[unix.NFTA_DATA_VALUE])}
	if flags := a[unix.NFTA_SET_ELEM_FLAGS]; len(flags) == 4 {
		e.end = binary.BigEndian.Uint32(flags)&elemIntervalEnd != 0
	}
	if v := nftables.Parse(nftables.Parse(a[unix.NFTA_SET_ELEM_DATA])[unix.NFTA_DATA_VERDICT]); len(v) > 0 {
		e.chain = nftables.String(v[unix.NFTA_VERDICT_CHAIN])
	}
	return e
}
