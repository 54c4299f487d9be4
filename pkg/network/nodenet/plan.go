// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package nodenet

import (
	"crypto/sha256"
	"encoding/hex"
	"net"
	"net/netip"
	"slices"

	"minik8s.io/minik8s/pkg/network/chain"
)

// names are those of what a cluster has on the machine; they carry a hash of the cluster's, so that clusters spare each other.
type names struct {
	link             string // the machine's end of the link to the fabric; Linux allows 15 characters
	forward, nat     string // chains
	fabric, uplink   string // the bridge, and the end of that link beside it
	handle, nodeLink string // the file of the fabric's namespace, and a node's end of its link
}

func namesOf(cluster string) names {
	h := hash(cluster)
	return names{
		link: "mn" + h, forward: "MINIK8S-NODES-" + h, nat: "MINIK8S-NMASQ-" + h,
		fabric: "br0", uplink: "machine", handle: "fabric", nodeLink: "eth0",
	}
}

func hash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:4])
}

// port is the fabric's end of a node's link.
func port(node string) string { return "n" + hash(node) }

// hardware is the hardware address of whoever has an address in the fabric. It is the same after a node was stopped and started, and for
// another node that gets the address: neighbours remember it, and would send packets to nobody for half a minute.
func hardware(cluster string, a netip.Addr) net.HardwareAddr {
	sum := sha256.Sum256([]byte(cluster + " " + a.String()))
	return append(net.HardwareAddr{sum[0]&^1 | 2}, sum[1:6]...)
}

// Gateway is the machine's own address in the fabric: the first of a subnet.
func Gateway(subnet netip.Prefix) netip.Addr { return subnet.Masked().Addr().Next() }

// chains are the rules of the machine for one IP family, pure. What is forwarded between nodes and anybody is accepted, because Docker makes the machine
// drop what it forwards. Nobody else knows the nodes' addresses, so packets to elsewhere get the machine's.
func chains(cluster string, subnet, pods netip.Prefix) []chain.Chain {
	n, nodes := namesOf(cluster), subnet.Masked().String()
	multicast := "224.0.0.0/4"
	if subnet.Addr().Is6() {
		multicast = "ff00::/8"
	}
	comment := []string{"-m", "comment", "--comment", "minik8s:" + cluster}
	return []chain.Chain{{
		Table: "filter", Name: n.forward, From: "FORWARD",
		Rules: [][]string{{"-s", nodes, "-j", "ACCEPT"}, {"-d", nodes, "-j", "ACCEPT"}},
		Jumps: [][]string{append(slices.Clip(comment), "-j", n.forward)},
	}, {
		Table: "nat", Name: n.nat, From: "POSTROUTING",
		Rules: [][]string{
			{"-d", nodes, "-j", "RETURN"}, {"-d", pods.Masked().String(), "-j", "RETURN"}, {"-d", multicast, "-j", "RETURN"},
			{"-j", "MASQUERADE"},
		},
		Jumps: [][]string{append(append([]string{"-s", nodes}, comment...), "-j", n.nat)},
	}}
}
