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
	"strconv"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"minik8s.io/minik8s/pkg/network/namespace"
	"minik8s.io/minik8s/pkg/proxy/model"
)

// Server holds the listeners. Methods are safe for concurrent use.
type Server struct {
	netNS   string
	healthy func() bool

	mu      sync.Mutex
	entries map[model.Name]*entry // guarded by mu
	closed  bool                  // guarded by mu
}

type entry struct {
	service model.Name
	mu      sync.Mutex
	check   model.HealthCheck // guarded by mu
	http    *http.Server
	done    chan struct{}
}

// New returns a Server without listeners. Healthy tells whether the proxy is in sync; netNS is the path of the network
// namespace to listen in, empty for the process's own.
func New(netNS string, healthy func() bool) *Server {
	return &Server{netNS: netNS, healthy: healthy, entries: map[model.Name]*entry{}}
}

// Sync opens, updates and closes listeners until they are those of the wanted checks. A port that cannot be opened is reported
// and tried again at the next Sync.
func (s *Server) Sync(ctx context.Context, want map[model.Name]model.HealthCheck) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	for key, e := range s.entries {
		if c, ok := want[key]; !ok || c.Port != e.current().Port {
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
		e, err := s.open(ctx, key, c)
		if err != nil {
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

func (s *Server) open(ctx context.Context, service model.Name, c model.HealthCheck) (*entry, error) {
	ln, err := Listen(s.netNS, net.JoinHostPort("", strconv.Itoa(int(c.Port))))
	if err != nil {
		return nil, err
	}
	e := &entry{service: service, check: c, done: make(chan struct{})}
	e.http = &http.Server{
		Handler:           http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { e.answer(w, s.healthy()) }),
		ReadHeaderTimeout: 10 * time.Second,
	}
	log := klog.FromContext(ctx)
	go func() {
		defer close(e.done)
		if err := e.http.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			log.Error(err, "Health check port failed", "port", c.Port)
		}
	}()
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
	<-e.done
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
	write(w, code, struct {
		Service        service `json:"service"`
		LocalEndpoints int     `json:"localEndpoints"`
		Healthy        bool    `json:"serviceProxyHealthy"`
	}{service{e.service.Namespace, e.service.Name}, c.LocalEndpoints, healthy})
}

// Status is what the proxy says of itself.
type Status struct {
	LastUpdated time.Time
	Now         time.Time
	// Healthy tells that the last change reached the kernel.
	Healthy bool
	// Eligible tells that load balancers should still send traffic here: the node is not being deleted.
	Eligible bool
}

// Handler serves /healthz, which an ineligible node fails, and /livez, which it does not.
func Handler(status func() Status) http.Handler {
	mux := http.NewServeMux()
	serve := func(asks func(Status) bool) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			s := status()
			code := http.StatusOK
			if !asks(s) {
				code = http.StatusServiceUnavailable
			}
			write(w, code, struct {
				LastUpdated  string `json:"lastUpdated"`
				CurrentTime  string `json:"currentTime"`
				NodeEligible bool   `json:"nodeEligible"`
			}{s.LastUpdated.String(), s.Now.String(), s.Eligible})
		}
	}
	mux.HandleFunc("/healthz", serve(func(s Status) bool { return s.Healthy && s.Eligible }))
	mux.HandleFunc("/livez", serve(func(s Status) bool { return s.Healthy }))
	return mux
}

// Listen opens a TCP listener in a network namespace.
func Listen(netNS, addr string) (ln net.Listener, err error) {
	err = namespace.Do(netNS, func() error {
		ln, err = net.Listen("tcp", addr)
		return err
	})
	return ln, err
}

func write(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	enc := json.NewEncoder(w)
	enc.SetIndent("", "\t")
	// A client that hung up is the only failure possible here.
	_ = enc.Encode(body)
}
