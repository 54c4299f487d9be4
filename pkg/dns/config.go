// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/miekg/dns"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"minik8s.io/minik8s/pkg/dns/internal/corefile"
	"minik8s.io/minik8s/pkg/dns/internal/metrics"
)

// Where the Corefile is, as everywhere.
const (
	ConfigNamespace = "kube-system"
	ConfigName      = "coredns"
	ConfigKey       = "Corefile"
)

// DefaultCorefile is the Corefile that kubeadm gives a cluster of the domain.
func DefaultCorefile(domain string) string { return corefile.Default(domain) }

// Config is what a Server needs. Client and Informers have no default.
type Config struct {
	// ClusterDomain is the zone of the default Corefile. Default "cluster.local".
	ClusterDomain string
	// ServiceIPs are the addresses at which pods reach this server, that is the cluster IPs of kube-system/kube-dns.
	// They are the addresses of ns.dns.<zone>, and are never used as upstream.
	ServiceIPs []netip.Addr
	// Client watches the Corefile, and pods if that says "pods verified".
	Client kubernetes.Interface
	// Dynamic watches Dns objects (networking.minik8s.io), whose names are answered while they are defined. Default: nobody does.
	Dynamic dynamic.Interface
	// Informers supplies Services, EndpointSlices, Namespaces and Nodes. New asks for the informers, the caller starts the
	// factory after New.
	Informers informers.SharedInformerFactory
	// Recorder writes events about a Corefile that cannot be used. Default: only the log tells.
	Recorder record.EventRecorder
	// PodCIDRs are the cluster's ranges of pods. Who may ask are those, the nodes, the machine itself, and AllowFrom.
	PodCIDRs []netip.Prefix
	// AllowFrom are further ranges of who may ask. Default: none.
	AllowFrom []netip.Prefix
	// ResolvConf stands for the files with name servers that a Corefile names, "none" for one without servers. Such a file is
	// read again when it is some seconds old. Default: what is named.
	ResolvConf string
	// Metrics counts. Default: new ones, which nobody sees.
	Metrics *Metrics
	// Clock defaults to the real one.
	Clock clock.PassiveClock
}

func (c *Config) complete() error {
	if c.Informers == nil || c.Client == nil {
		return errors.New("dns: a client and informers are required")
	}
	if c.ClusterDomain == "" {
		c.ClusterDomain = "cluster.local"
	}
	if _, ok := dns.IsDomainName(c.ClusterDomain); !ok || strings.Trim(c.ClusterDomain, ".") == "" {
		return fmt.Errorf("dns: %q is not a domain name", c.ClusterDomain)
	}
	if c.Metrics == nil {
		c.Metrics = NewMetrics()
	}
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
	return nil
}

// Metrics are what several servers of one process count together. It is safe for concurrent use.
type Metrics struct {
	*metrics.Set
}

// MetricsPath is where the API server serves the metrics of its process. CoreDNS's port 9153 would be taken from the machine.
const MetricsPath = "/metrics/dns"

// NewMetrics returns metrics whose Handler serves them to Prometheus, under CoreDNS's names.
func NewMetrics() *Metrics { return &Metrics{metrics.New()} }
