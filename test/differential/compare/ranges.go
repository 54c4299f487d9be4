// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package compare

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// The ranges from which the servers choose: those of node ports and addresses that they are started with, and those of the
// ServiceCIDRs of the corpus, which are there for a while only, without the lower part of each, from which nothing is chosen as
// long as there is something in the upper one (KEP-3070, KEP-3668).
var (
	chosenAddresses = [][2]netip.Addr{
		{netip.MustParseAddr("10.0.0.17"), netip.MustParseAddr("10.0.0.254")},
		{netip.MustParseAddr("10.98.0.17"), netip.MustParseAddr("10.98.0.254")},
		{netip.MustParseAddr("10.99.0.17"), netip.MustParseAddr("10.99.0.254")},
	}
	chosenPorts = [2]int{30086, 32767}
)

// chosenAddress is what a ClusterIP is that the server has chosen; one that it must not choose is told as it is.
func chosenAddress(s string) string {
	a, err := netip.ParseAddr(s)
	if err == nil && slices.ContainsFunc(chosenAddresses, func(r [2]netip.Addr) bool { return !a.Less(r[0]) && !r[1].Less(a) }) {
		return "<clusterIP>"
	}
	return s
}

// chosenPort is the same for a node port.
func chosenPort(s string) string {
	if p, err := strconv.Atoi(s); err != nil || p < chosenPorts[0] || p > chosenPorts[1] {
		return s
	}
	return "<port>"
}

// allocatedTwice returns the addresses and node ports that several Services of a list have.
func allocatedTwice(list any) []string {
	if kindOf(list) != "v1 ServiceList" {
		return nil
	}
	owners := map[string][]string{}
	items, _ := get(list, "items").([]any)
	for _, s := range items {
		var has []string
		for _, ip := range listOf(s, "spec", "clusterIPs") {
			if ip := fmt.Sprint(ip); ip != "None" {
				has = append(has, "address "+ip)
			}
		}
		for _, p := range listOf(s, "spec", "ports") {
			if port := text(p, "nodePort"); port != "" {
				has = append(has, "port "+port+"/"+text(p, "protocol"))
			}
		}
		for _, h := range has {
			owners[h] = append(owners[h], objectName(s))
		}
	}
	var all []string
	for what, names := range owners {
		if len(names) > 1 {
			all = append(all, what+" of "+strings.Join(names, " and "))
		}
	}
	slices.Sort(all)
	return all
}

func listOf(v any, path ...string) []any {
	l, _ := get(v, path...).([]any)
	return l
}
