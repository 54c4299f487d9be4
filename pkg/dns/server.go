// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package dns is the cluster's name server, this project's CoreDNS. Services and EndpointSlices become an immutable index
// (internal/index), the ConfigMap kube-system/coredns becomes server blocks (internal/corefile, internal/resolve); a question and
// the index become an answer (internal/answer), everything else is asked elsewhere (internal/forward) and kept for a while
// (internal/cache). Touch this package for sockets, for who may ask, and for what is watched.
//
// Pods reach it by the Service kube-system/kube-dns, which has the cluster's DNS address and no selector; its EndpointSlice
// names an address of each node.
package dns

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"

	"k8s.io/klog/v2"

	"minik8s.io/minik8s/pkg/dns/internal/corefile"
	"minik8s.io/minik8s/pkg/dns/internal/forward"
	"minik8s.io/minik8s/pkg/dns/internal/index"
	"minik8s.io/minik8s/pkg/dns/internal/resolve"
)

// Server is what all listeners answer from. Methods are safe for concurrent use, except that Start may be called once.
type Server struct {
	config  Config
	watcher *watcher
	clients *clients
	// index is nil until everything was listed once.
	index atomic.Pointer[index.Index]
	// site is nil until the Corefile was looked for.
	site atomic.Pointer[site]

	mu        sync.Mutex
	listeners []*Listener        // guarded by mu
	closed    bool               // guarded by mu
	running   sync.WaitGroup     // Add is guarded by mu
	ctx       context.Context    //nolint:containedctx // ends what runs beside the answers, with Start
	cancel    context.CancelFunc //
}

// site are the server blocks of a Corefile, with what is counted about each.
type site struct {
	table  *resolve.Table
	counts map[*resolve.Block]*counts
	// none counts for questions that no block is for.
	none *counts
}

// New prepares a Server and registers its informers with the factory.
func New(config Config) (*Server, error) {
	if err := config.complete(); err != nil {
		return nil, err
	}
	s := &Server{config: config, clients: newClients(slices.Concat(config.PodCIDRs, config.AllowFrom))}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.watcher = newWatcher(config, &s.index, s.clients)
	return s, nil
}

// Synced tells that cluster names are answered; before that they get SERVFAIL.
func (s *Server) Synced() bool { return s.index.Load() != nil && s.site.Load() != nil }

// Start watches until the context ends. Listeners answer meanwhile and end by their own contexts; what they ask for afterwards
// fails.
func (s *Server) Start(ctx context.Context) error {
	ctx, cancel := context.WithCancel(klog.NewContext(ctx, klog.FromContext(ctx).WithName("dns")))
	defer cancel()
	defer s.end()
	var wg sync.WaitGroup
	errs := make([]error, 2)
	for i, run := range []func(context.Context) error{s.watcher.run, s.followCorefile} {
		wg.Go(func() {
			errs[i] = run(ctx)
			if errs[i] != nil {
				cancel()
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (s *Server) end() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	s.running.Wait()
	if old := s.site.Load(); old != nil {
		old.table.Close()
	}
}

// background runs f beside the answers, unless the server has ended.
func (s *Server) background(f func(context.Context)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.running.Go(func() { f(s.ctx) })
}

// serve makes server blocks what questions find from now on.
func (s *Server) serve(servers []corefile.Server) {
	m := s.config.Metrics.Set
	table := resolve.New(servers, resolve.Env{
		Index: s.index.Load, NameServers: s.config.ServiceIPs, Clock: s.config.Clock, Metrics: m, Background: s.background,
		Forward: forward.Env{ResolvConf: s.resolvConf, Own: s.own, Clock: s.config.Clock, Metrics: m},
	})
	next := &site{table: table, counts: map[*resolve.Block]*counts{}, none: newCounts(m, "dropped")}
	for _, b := range table.Blocks() {
		next.counts[b] = newCounts(m, b.Zone)
	}
	verified := table.VerifiesPods()
	s.watcher.verify(verified)
	if old := s.site.Swap(next); old != nil {
		old.table.Close()
	}
}

func (s *Server) resolvConf(path string) string {
	if s.config.ResolvConf != "" {
		return s.config.ResolvConf
	}
	return path
}

// own tells whether a name server is this one.
func (s *Server) own(server netip.AddrPort) bool {
	if slices.Contains(s.config.ServiceIPs, server.Addr()) {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.listeners, func(l *Listener) bool { return l.Addr() == server })
}

// addrOf is the address of a client.
func addrOf(a net.Addr) netip.Addr {
	switch a := a.(type) {
	case *net.UDPAddr:
		return a.AddrPort().Addr().Unmap()
	case *net.TCPAddr:
		return a.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}
