// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"crypto/sha256"
	"encoding/base32"
	"strings"

	"minik8s.io/minik8s/pkg/proxy/model"
)

// Chains knows the names of one cluster's chains. All begin with "MK-", a hash of the cluster's name and
// the name that upstream's proxy gives to the same chain after its "KUBE-", so that several clusters
// share a host. A name never exceeds the 28 characters that the kernel allows.
type Chains struct {
	prefix string
}

// ChainsOf returns the names for a cluster.
func ChainsOf(cluster string) Chains {
	return Chains{prefix: "MK-" + hash(5, cluster) + "-"}
}

// The chains that exist once per cluster and table.
const (
	services         = "SERVICES"
	externalServices = "EXTERNAL-SERVICES"
	nodePorts        = "NODEPORTS"
	postrouting      = "POSTROUTING"
	markMasq         = "MARK-MASQ"
	forward          = "FORWARD"
	firewall         = "FIREWALL"
	proxyFirewall    = "PROXY-FIREWALL"
	canary           = "PROXY-CANARY"
)

// The prefixes of chains that exist once per service port or endpoint.
const (
	clusterPolicy = "SVC-" // endpoints of the policy Cluster
	localPolicy   = "SVL-" // endpoints of the policy Local
	external      = "EXT-" // traffic that does not come in by the cluster IP
	sourceFilter  = "FW-"  // load balancer source ranges
	endpoint      = "SEP-"
)

// Owns tells whether the chain was made by the proxy of this cluster. Other parts may use the same
// cluster prefix for chains of their own; those are left alone.
func (c Chains) Owns(chain string) bool {
	kind, ok := strings.CutPrefix(chain, c.prefix)
	if !ok {
		return false
	}
	switch kind {
	case services, externalServices, nodePorts, postrouting, markMasq, forward, firewall, proxyFirewall, canary:
		return true
	}
	for _, p := range []string{clusterPolicy, localPolicy, external, sourceFilter, endpoint} {
		if strings.HasPrefix(kind, p) {
			return true
		}
	}
	return false
}

// Rank orders the chains of a table for their removal: only chains of a lower rank refer to a chain.
func (c Chains) Rank(chain string) int {
	kind := strings.TrimPrefix(chain, c.prefix)
	for rank, prefixes := range [][]string{{sourceFilter}, {external}, {clusterPolicy, localPolicy}, {endpoint}, {markMasq}} {
		for _, p := range prefixes {
			if strings.HasPrefix(kind, p) {
				return rank + 1
			}
		}
	}
	return 0
}

// Canary is an empty chain in each table: if it is gone, somebody flushed the table.
func (c Chains) Canary() string { return c.prefix + canary }

func (c Chains) fixed(kind string) string { return c.prefix + kind }

func (c Chains) port(kind string, n model.PortName) string {
	return c.prefix + kind + hash(15, n.String(), string(n.Protocol))
}

func (c Chains) sep(n model.PortName, ep model.Endpoint) string {
	return c.prefix + endpoint + hash(15, n.String(), string(n.Protocol), ep.Addr.String())
}

func hash(length int, parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "|")))
	return base32.StdEncoding.EncodeToString(sum[:])[:length]
}
