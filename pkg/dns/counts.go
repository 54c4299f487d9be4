// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"sync"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"

	"minik8s.io/minik8s/pkg/dns/internal/message"
	"minik8s.io/minik8s/pkg/dns/internal/metrics"
)

// counts are the metrics of a server block. Finding a metric by its labels costs more than an answer does otherwise, so those
// that were found are kept.
type counts struct {
	zone     string
	set      *metrics.Set
	duration prometheus.Observer
	sizes    [2]prometheus.Observer // by UDP and by TCP
	requests sync.Map               // of requestLabels, to prometheus.Counter
	answers  sync.Map               // of answerLabels, to prometheus.Counter
}

type requestLabels struct {
	tcp, v6 bool
	qtype   uint16
}

type answerLabels struct {
	rcode  int
	plugin string
}

func newCounts(set *metrics.Set, zone string) *counts {
	c := &counts{zone: zone, set: set, duration: set.Duration.WithLabelValues(metrics.Server, zone, "")}
	for i, proto := range []string{"udp", "tcp"} {
		c.sizes[i] = set.Response.WithLabelValues(metrics.Server, zone, "", proto)
	}
	return c
}

// count does nothing for nil.
func (c *counts) count(r request, reply message.Reply, size int, took time.Duration) {
	if c == nil {
		return
	}
	var qtype uint16
	if len(r.msg.Question) > 0 {
		qtype = r.msg.Question[0].Qtype
	}
	c.request(requestLabels{r.tcp, r.client.Is6(), countedTypes[qtype]}).Inc()
	c.answer(answerLabels{reply.Rcode, reply.Plugin}).Inc()
	c.duration.Observe(took.Seconds())
	proto := 0
	if r.tcp {
		proto = 1
	}
	c.sizes[proto].Observe(float64(size))
}

// countedTypes are those that have a number of their own, as in CoreDNS: clients must not make labels.
var countedTypes = map[uint16]uint16{
	dns.TypeA: dns.TypeA, dns.TypeAAAA: dns.TypeAAAA, dns.TypeMX: dns.TypeMX, dns.TypeSOA: dns.TypeSOA, dns.TypeCNAME: dns.TypeCNAME,
	dns.TypePTR: dns.TypePTR, dns.TypeTXT: dns.TypeTXT, dns.TypeNS: dns.TypeNS, dns.TypeSRV: dns.TypeSRV, dns.TypeDS: dns.TypeDS,
	dns.TypeDNSKEY: dns.TypeDNSKEY, dns.TypeRRSIG: dns.TypeRRSIG, dns.TypeNSEC: dns.TypeNSEC, dns.TypeNSEC3: dns.TypeNSEC3,
	dns.TypeHTTPS: dns.TypeHTTPS, dns.TypeANY: dns.TypeANY,
}

func (c *counts) request(l requestLabels) prometheus.Counter {
	if m, ok := c.requests.Load(l); ok {
		return m.(prometheus.Counter)
	}
	proto, family, qtype := "udp", "1", "other"
	if l.tcp {
		proto = "tcp"
	}
	if l.v6 {
		family = "2"
	}
	if l.qtype != 0 {
		qtype = dns.TypeToString[l.qtype]
	}
	m := c.set.Requests.WithLabelValues(metrics.Server, c.zone, "", proto, family, qtype)
	c.requests.Store(l, m)
	return m
}

func (c *counts) answer(l answerLabels) prometheus.Counter {
	if m, ok := c.answers.Load(l); ok {
		return m.(prometheus.Counter)
	}
	m := c.set.Responses.WithLabelValues(metrics.Server, c.zone, "", dns.RcodeToString[l.rcode], l.plugin)
	c.answers.Store(l, m)
	return m
}
