// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/miekg/dns"
	"k8s.io/client-go/informers"
	"k8s.io/utils/clock"

	"minik8s.io/minik8s/pkg/dns/internal/answer"
)

// Config is what a Server needs. Only Informers has no default.
type Config struct {
	// Addrs are the host:port pairs to listen on, each for UDP and TCP. Port 0 takes a free port, the same for both.
	// Default "0.0.0.0:0".
	Addrs []string
	// ClusterDomain is the zone. Default "cluster.local".
	ClusterDomain string
	// ServiceIPs are the addresses at which pods reach this server, that is the cluster IPs of kube-system/kube-dns.
	// They are the addresses of ns.dns.<zone>, and are never used as upstream.
	ServiceIPs []netip.Addr
	// Informers supplies Services, EndpointSlices and Namespaces, and Pods if VerifyPods. New asks for the informers,
	// the caller starts the factory after New.
	Informers informers.SharedInformerFactory
	// VerifyPods answers names such as 1-2-3-4.ns.pod.<zone> only if that pod exists (CoreDNS "pods verified").
	// Default: every address is echoed ("pods insecure").
	VerifyPods bool
	// Upstreams are name servers, host or host:port, for names outside the cluster. They take precedence over ResolvConf.
	Upstreams []string
	// ResolvConf is a file with upstream name servers, read again when it is some seconds old. Default
	// "/etc/resolv.conf"; "none" forwards nothing, and such names are refused.
	ResolvConf string
	// TTL is the lifetime of cluster records, rounded to seconds. Default 5s, CoreDNS's.
	TTL time.Duration
	// Clock defaults to the real one.
	Clock clock.PassiveClock
}

func (c *Config) complete() error {
	if c.Informers == nil {
		return errors.New("dns: informers are required")
	}
	if len(c.Addrs) == 0 {
		c.Addrs = []string{"0.0.0.0:0"}
	}
	if c.ClusterDomain == "" {
		c.ClusterDomain = "cluster.local"
	}
	if _, ok := dns.IsDomainName(c.ClusterDomain); !ok || strings.Trim(c.ClusterDomain, ".") == "" {
		return fmt.Errorf("dns: %q is not a domain name", c.ClusterDomain)
	}
	if c.ResolvConf == "" {
		c.ResolvConf = "/etc/resolv.conf"
	}
	if c.TTL == 0 {
		c.TTL = 5 * time.Second
	}
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
	return nil
}

func (c *Config) zone() answer.Zone {
	return answer.Zone{
		Domain:      strings.ToLower(dns.Fqdn(c.ClusterDomain)),
		TTL:         uint32(c.TTL / time.Second),
		NameServers: c.ServiceIPs,
		VerifyPods:  c.VerifyPods,
	}
}
