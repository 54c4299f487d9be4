// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package servers runs an API server, upstream's or ours, so that it can be asked things as an administrator and its answers
// compared. Touch it when both have to be started with another flag.
package servers

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"minik8s.io/minik8s/test/program"
)

// Programs are the paths of what a server is made of.
type Programs struct{ Etcd, APIServer string }

// Server is an API server that runs.
type Server struct {
	// URL is its address, without a slash at the end.
	URL string
	// Client trusts it, and is in system:masters.
	Client *http.Client

	running *program.Server
}

// Both servers listen on the same port, so that it is the same in what they say of themselves: each on its own address.
const (
	UpstreamAddress = "127.0.0.1"
	OurAddress      = "127.0.0.2"
)

// NewIdentity writes keys and certificates, for both servers, into dir.
func NewIdentity(dir string) (*program.Identity, error) {
	return program.NewIdentity(dir, "localhost", UpstreamAddress, OurAddress, "kubernetes", "kubernetes.default", "kubernetes.default.svc", "10.0.0.1")
}

// Start runs etcd and the API server with data, logs and a kubeconfig in dir, and returns when /readyz says so.
func Start(ctx context.Context, dir, address string, port int, p Programs, id *program.Identity) (*Server, error) {
	running, err := program.Setup{
		Identity: id, Dir: dir, Minik8s: p.Etcd, APIServer: p.APIServer, Address: address, Port: port,
		EtcdFlags: []string{"--unsafe-no-fsync"},
		Flags: []string{
			"--enable-admission-plugins=NodeRestriction", "--allow-privileged=true",
			// There are no kubelets, but the way to one is judged before.
			"--kubelet-client-certificate=" + id.File("admin.crt"), "--kubelet-client-key=" + id.File("admin.key"),
			"--kubelet-certificate-authority=" + id.File("ca.crt"),
			// Thousands of requests of one user in parallel must not be turned away.
			"--max-requests-inflight=2000", "--max-mutating-requests-inflight=1000",
		},
	}.Start(ctx)
	if err != nil {
		return nil, err
	}
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{TLSClientConfig: id.TLS(), MaxIdleConnsPerHost: 64}}
	return &Server{URL: running.URL, Client: client, running: running}, nil
}

// Stop ends both programs and waits for them.
func (s *Server) Stop() { s.running.Stop() }

// Alive tells whether the programs still run; if not, why.
func (s *Server) Alive() error { return s.running.Alive() }

// Panics returns the lines of the logs that tell of a panic.
func (s *Server) Panics() ([]string, error) {
	var found []string
	for _, p := range []*program.Program{s.running.Etcd, s.running.APIServer} {
		data, err := os.ReadFile(p.Log)
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(data)) {
			if strings.Contains(line, "Observed a panic") || strings.Contains(line, ": panic serving ") || strings.Contains(line, "DATA RACE") {
				found = append(found, fmt.Sprintf("%s: %s", p.Name, strings.TrimSpace(line)))
			}
		}
	}
	return found, nil
}
