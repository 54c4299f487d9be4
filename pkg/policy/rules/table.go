// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Table is a table of nftables for both IP families. Names of sets and chains are its own.
type Table struct {
	Sets   []Set
	Chains []Chain
}

// Kind is what the elements of a set are.
type Kind int

// The kinds of sets.
const (
	// Addresses have Addr.
	Addresses Kind = iota
	// Ranges have Addr and Last.
	Ranges
	// Endpoints have Addr, Protocol and Port.
	Endpoints
	// Pairs are an address twice: Addr talks to itself.
	Pairs
	// Chains have Addr, and the Chain to go to.
	Chains
)

// Set is a set of elements of one IP family.
type Set struct {
	Name     string
	Kind     Kind
	Six      bool
	Elements []Element
}

// Element is an element of a set; the kind of the set says which fields it has.
type Element struct {
	Addr, Last netip.Addr
	Protocol   corev1.Protocol
	Port       uint16
	Chain      string
}

// Chain is a chain with its whole content.
type Chain struct {
	Name string
	// Hook is where the kernel calls the chain; it calls no other ones by itself. A packet must be accepted by each chain of a hook,
	// and is if nothing drops it.
	Hook  Hook
	Rules []Rule
}

// Hook is where packets pass.
type Hook int

// The hooks. Forward is for packets that the node forwards, Input for those to the node itself.
const (
	None Hook = iota
	Forward
	Input
)

// Rule does Verdict if all Matches do.
type Rule struct {
	Matches []Match
	Verdict Verdict
	// Target is the chain of Jump, and the set of Goto, whose element for the field of the last match says the chain.
	Target string
}

// Verdict is what becomes of a packet.
type Verdict int

// The verdicts. Accept and Drop end the chain of the hook, and what comes after a Goto is not asked.
const (
	Accept Verdict = iota
	Drop
	Jump
	Goto
)

// Field is something known about a packet. All but Source and Untracked are about its connection: they are the same for
// each packet of it, in both directions, and tell the ends as they are, whatever is written in the packet on its way.
type Field int

// The fields.
const (
	// Client is the address that began the connection.
	Client Field = iota
	// Server is the address that the connection was led to.
	Server
	// Asked is the address that the client meant, such as that of a Service.
	Asked
	// Self are Client and Server.
	Self
	// Protocol and Port are those of the server.
	Protocol
	Port
	// Called is the server's address, protocol and port.
	Called
	// Source and Destination are the addresses in the packet.
	Source
	Destination
	// Untracked is a packet of no connection that the kernel knows.
	Untracked
)

// Match compares a field. For Goto the last match of a rule has neither Set nor bounds: it is the key.
type Match struct {
	Field Field
	// Six is the IP family, for fields with addresses. A packet of the other one does not match.
	Six bool
	// Set is the name of a set that has the field, or does Not have it.
	Set string
	Not bool
	// Addr is the value of an address, without Set.
	Addr netip.Addr
	// Is is the value of Protocol; First and Last are bounds of Port.
	Is          corev1.Protocol
	First, Last uint16
}

// String is the rule in the words of nft.
func (r Rule) String() string {
	var words []string
	for _, m := range r.Matches {
		words = append(words, m.String())
	}
	switch r.Verdict {
	case Accept:
		words = append(words, "accept")
	case Drop:
		words = append(words, "drop")
	case Jump:
		words = append(words, "jump "+r.Target)
	case Goto:
		words = append(words, "vmap @"+r.Target)
	}
	return strings.Join(words, " ")
}

// String is the match in the words of nft.
func (m Match) String() string {
	family := "ip"
	if m.Six {
		family = "ip6"
	}
	value := ""
	switch {
	case m.Set != "" && m.Not:
		value = " != @" + m.Set
	case m.Set != "":
		value = " @" + m.Set
	case m.Addr.IsValid():
		value = " " + m.Addr.String()
	}
	switch m.Field {
	case Client:
		return "ct original " + family + " saddr" + value
	case Server:
		return "ct reply " + family + " saddr" + value
	case Asked:
		return "ct original " + family + " daddr" + value
	case Self:
		return "ct original " + family + " saddr . ct reply " + family + " saddr" + value
	case Called:
		return "ct reply " + family + " saddr . ct original protocol . ct reply proto-src" + value
	case Protocol:
		return "ct original protocol " + strings.ToLower(string(m.Is))
	case Port:
		if m.First == m.Last {
			return "ct reply proto-src " + strconv.Itoa(int(m.First))
		}
		return fmt.Sprintf("ct reply proto-src %d-%d", m.First, m.Last)
	case Source:
		return family + " saddr" + value
	case Destination:
		return family + " daddr" + value
	default:
		return "ct state invalid,untracked"
	}
}
