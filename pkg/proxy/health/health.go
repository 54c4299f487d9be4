// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package health answers the HTTP checks of the proxy: one port per service with a healthCheckNodePort, by which load
// balancers find the nodes that have endpoints, and /healthz and /livez of the proxy itself.
package health

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/vishvananda/netlink"
	"k8s.io/klog/v2"

	"minik8s.io/minik8s/pkg/network/dump"
	"minik8s.io/minik8s/pkg/network/namespace"
	"minik8s.io/minik8s/pkg/proxy/model"
)

// Server holds the listeners. Methods are safe for concurrent use.
type Server struct {
	netNS   string
	ranges  []netip.Prefix
	healthy func() bool
	failed  func(service model.Name, port uint16, err error)

	mu      sync.Mutex
	entries map[model.Name]*entry // guarded by mu
	closed  bool                  // guarded by mu
}

type entry struct {
	service model.Name
	addrs   []netip.Addr
	mu      sync.Mutex
	check   model.HealthCheck // guarded by mu
	http    *http.Server
	serving sync.WaitGroup
}

// New returns a Server without listeners. Healthy tells whether the proxy is in sync; netNS is the path of the network
// namespace to listen in, empty for the process's own. It listens on those of the node's addresses that are in the ranges. Failed is
// told of each port that cannot be opened, whenever that is tried.
func New(netNS string, ranges []netip.Prefix, healthy func() bool, failed func(service model.Name, port uint16, err error)) *Server {
	return &Server{netNS: netNS, ranges: ranges, healthy: healthy, failed: failed, entries: map[model.Name]*entry{}}
}

// Sync opens, updates and closes listeners until they are those of the wanted checks. A port that cannot be opened is reported
// and tried again at the next Sync.
func (s *Server) Sync(ctx context.Context, want map[model.Name]model.HealthCheck) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	have, err := s.addresses(len(want) > 0)
	if err != nil {
		return err
	}
	addrs := within(s.ranges, have)
	for key, e := range s.entries {
		if c, ok := want[key]; !ok || c.Port != e.current().Port || !slices.Equal(e.addrs, addrs) {
			e.close()
			delete(s.entries, key)
		}
	}
	var errs []error
	for key, c := range want {
		if e, ok := s.entries[key]; ok {
			e.set(c)
			continue
		}
		e, err := s.open(ctx, key, addrs, c)
		if err != nil {
			s.failed(key, c.Port, err)
			errs = append(errs, fmt.Errorf("opening health check port %d of service %q: %w", c.Port, key, err))
			continue
		}
		s.entries[key] = e
	}
	return errors.Join(errs...)
}

// Close closes all listeners; later Syncs do nothing.
func (s *Server) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for key, e := range s.entries {
		e.close()
		delete(s.entries, key)
	}
}

// addresses are those of the node, if they are needed.
func (s *Server) addresses(needed bool) (all []netip.Addr, err error) {
	if !needed {
		return nil, nil
	}
	err = namespace.Do(s.netNS, func() error {
		list, err := dump.Whole(func() ([]netlink.Addr, error) { return netlink.AddrList(nil, netlink.FAMILY_ALL) })
		if err != nil {
			return fmt.Errorf("listing the node's addresses: %w", err)
		}
		for _, a := range list {
			if ip, ok := netip.AddrFromSlice(a.IP); ok {
				all = append(all, ip.Unmap())
			}
		}
		return nil
	})
	return all, err
}

// within are the addresses to listen on, in order: of a family of which a range has everything it is the unspecified one. Those of a link
// alone are left out: they cannot be listened on without it.
func within(ranges []netip.Prefix, have []netip.Addr) (out []netip.Addr) {
	for _, unspecified := range []netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()} {
		if slices.Contains(ranges, netip.PrefixFrom(unspecified, 0)) {
			out = append(out, unspecified)
			continue
		}
		for _, a := range have {
			if a.Is4() == unspecified.Is4() && (a.Is4() || !a.IsLinkLocalUnicast()) &&
				slices.ContainsFunc(ranges, func(p netip.Prefix) bool { return p.Contains(a) }) {
				out = append(out, a)
			}
		}
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return slices.Compact(out)
}

func (s *Server) open(ctx context.Context, service model.Name, addrs []netip.Addr, c model.HealthCheck) (*entry, error) {
	var listeners []net.Listener
	for _, a := range addrs {
		network := "tcp6" // by "tcp" the unspecified address of one family is that of both
		if a.Is4() {
			network = "tcp4"
		}
		ln, err := listen(s.netNS, network, netip.AddrPortFrom(a, c.Port).String())
		if err != nil {
			for _, ln := range listeners {
				_ = ln.Close() // nothing came by it
			}
			return nil, err
		}
		listeners = append(listeners, ln)
	}
	e := &entry{service: service, addrs: addrs, check: c}
	e.http = &http.Server{
		Handler:           http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { e.answer(w, s.healthy()) }),
		ReadHeaderTimeout: 10 * time.Second,
	}
	log := klog.FromContext(ctx)
	for _, ln := range listeners {
		e.serving.Go(func() {
			if err := e.http.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
				log.Error(err, "Health check port failed", "port", c.Port)
			}
		})
	}
	return e, nil
}

func (e *entry) current() model.HealthCheck {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.check
}

func (e *entry) set(c model.HealthCheck) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.check = c
}

func (e *entry) close() {
	_ = e.http.Close()
	e.serving.Wait()
}

func (e *entry) answer(w http.ResponseWriter, healthy bool) {
	type service struct {
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
	}
	c := e.current()
	code := http.StatusOK
	if c.LocalEndpoints == 0 || !healthy {
		code = http.StatusServiceUnavailable
	}
	w.Header().Set("X-Load-Balancing-Endpoint-Weight", strconv.Itoa(c.LocalEndpoints))
	text, _ := json.MarshalIndent(struct { // what it is made of can be written
		Service        service `json:"service"`
		LocalEndpoints int     `json:"localEndpoints"`
		Healthy        bool    `json:"serviceProxyHealthy"`
	}{service{e.service.Namespace, e.service.Name}, c.LocalEndpoints, healthy}, "", "\t")
	write(w, code, text)
}

// Status is what the proxy says of itself.
type Status struct {
	Now time.Time
	// Families is what it says of the rules of each family.
	Families map[model.Family]Family
	// Eligible tells that load balancers should still send traffic here: the node is not being deleted.
	Eligible bool
}

// Family is how the rules of one family are.
type Family struct {
	// LastUpdated is when they were last written.
	LastUpdated time.Time `json:"lastUpdated"`
	// Healthy tells that they were written, and that what has changed since does not wait for too long.
	Healthy bool `json:"healthy"`
}

// Healthy tells that the rules of all families are.
func (s Status) Healthy() bool {
	for _, f := range s.Families {
		if !f.Healthy {
			return false
		}
	}
	return true
}

// report is a status as upstream has it.
type report struct {
	LastUpdated  time.Time               `json:"lastUpdated"`
	CurrentTime  time.Time               `json:"currentTime"`
	NodeEligible *bool                   `json:"nodeEligible,omitempty"`
	Healthy      bool                    `json:"healthy"`
	Status       map[model.Family]Family `json:"status,omitempty"`
}

// report takes the latest of the families for the last update.
func (s Status) report() report {
	r := report{CurrentTime: s.Now, Healthy: s.Healthy(), Status: s.Families}
	for _, f := range s.Families {
		if f.LastUpdated.After(r.LastUpdated) {
			r.LastUpdated = f.LastUpdated
		}
	}
	return r
}

// Handler serves /healthz, which an ineligible node fails, and /livez, which it does not. It tells answered of each answer.
func Handler(status func() Status, answered func(path string, code int)) http.Handler {
	mux := http.NewServeMux()
	serve := func(w http.ResponseWriter, path string, r report, well bool) {
		code := http.StatusServiceUnavailable
		if well { // then it is as if it had been written just now, as before there were families to tell apart
			code, r.LastUpdated = http.StatusOK, r.CurrentTime
		}
		answered(path, code)
		text, _ := json.Marshal(r) // what it is made of can be written
		write(w, code, text)
	}
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) {
		s := status()
		r := s.report()
		r.NodeEligible = &s.Eligible
		serve(w, "/healthz", r, r.Healthy && s.Eligible)
	})
	mux.HandleFunc("/livez", func(w http.ResponseWriter, _ *http.Request) {
		s := status()
		r := s.report()
		serve(w, "/livez", r, r.Healthy)
	})
	return mux
}

// Listen opens a TCP listener in a network namespace.
func Listen(netNS, addr string) (net.Listener, error) { return listen(netNS, "tcp", addr) }

func listen(netNS, network, addr string) (ln net.Listener, err error) {
	err = namespace.Do(netNS, func() error {
		ln, err = net.Listen(network, addr)
		return err
	})
	return ln, err
}

func write(w http.ResponseWriter, code int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	_, _ = w.Write(body) // a client that hung up is the only failure possible here
}
