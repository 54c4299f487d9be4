// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package ruleset tells whether somebody has changed the packet filter's rules, without running a program for it. Touch it when
// rules that are as they were are looked at all the time.
package ruleset

import (
	"context"
	"encoding/binary"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Generation is the number of the present rules of the calling thread's network namespace, which is another one after each change
// of them by anybody (NFT_MSG_GETGEN in linux/netfilter/nf_tables.h). ok is false where that cannot be told: the kernel does not
// number the rules of iptables' legacy variant. Safe for concurrent use.
func Generation() (generation uint32, ok bool) {
	if !nfTables() {
		return 0, false
	}
	request := nl.NewNetlinkRequest(unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_GETGEN, 0)
	request.AddData(&nl.Nfgenmsg{NfgenFamily: unix.AF_UNSPEC, Version: unix.NFNETLINK_V0})
	answers, err := request.Execute(unix.NETLINK_NETFILTER, 0)
	if err != nil || len(answers) == 0 || len(answers[0]) < nl.SizeofNfgenmsg {
		return 0, false
	}
	attributes, err := nl.ParseRouteAttr(answers[0][nl.SizeofNfgenmsg:])
	if err != nil {
		return 0, false
	}
	for _, a := range attributes {
		if a.Attr.Type == unix.NFTA_GEN_ID && len(a.Value) == 4 {
			return binary.BigEndian.Uint32(a.Value), true
		}
	}
	return 0, false
}

// Look remembers at which generation rules were right. It is not for concurrent use.
type Look struct{ right *uint32 }

// Mend calls mend, which looks at rules and writes what is missing, unless nobody has changed any since it succeeded. What it writes makes
// another generation, so that it looks once more the next time.
func (l *Look) Mend(mend func() error) error {
	now, known := Generation()
	if known && l.right != nil && *l.right == now {
		return nil
	}
	l.right = nil
	if err := mend(); err != nil {
		return err
	}
	if known {
		l.right = &now
	}
	return nil
}

// patience is how long iptables may take to tell its version.
const patience = 10 * time.Second

// nfTables tells which variant of iptables this machine has.
var nfTables = sync.OnceValue(func() bool {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, "iptables", "--version").Output()
	return err == nil && strings.Contains(string(out), "nf_tables")
})
