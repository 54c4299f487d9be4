// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package program

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
)

// Server is an API server, upstream's or ours, that runs with an etcd of its own.
type Server struct {
	Etcd, APIServer *Program
	// URL is its address, without a slash at the end.
	URL string
	// Dir holds data, logs and Kubeconfig, which is the administrator's.
	Dir, Kubeconfig string

	identity *Identity
}

// Setup says how a Server is started.
type Setup struct {
	Identity *Identity
	// Dir is made if it is not there.
	Dir string
	// Minik8s is our binary, which is the etcd of every server; APIServer is upstream's program or also our binary.
	Minik8s, APIServer string
	// Address and Port are where it listens. Default: 127.0.0.1 and a free port.
	Address string
	Port    int
	// EtcdFlags and Flags are those besides what every server is started with.
	EtcdFlags, Flags []string
}

// Start runs etcd and, when that serves, the API server, and returns when /readyz says so. It asks often: how long a start
// takes is measured.
func (s Setup) Start(ctx context.Context) (_ *Server, err error) {
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return nil, err
	}
	ports, err := FreePorts(3)
	if err != nil {
		return nil, err
	}
	if s.Address == "" {
		s.Address = "127.0.0.1"
	}
	if s.Port == 0 {
		s.Port = ports[2]
	}
	r := &Server{URL: fmt.Sprintf("https://%s:%d", s.Address, s.Port), Dir: s.Dir, Kubeconfig: filepath.Join(s.Dir, "kubeconfig"), identity: s.Identity}
	if err := os.WriteFile(r.Kubeconfig, []byte(s.Identity.admins(r.URL)), 0o600); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			r.Stop()
		}
	}()
	client, peer := fmt.Sprintf("http://127.0.0.1:%d", ports[0]), fmt.Sprintf("http://127.0.0.1:%d", ports[1])
	if r.Etcd, err = Start(s.Dir, s.Minik8s, "etcd", append([]string{
		"--data-dir=" + filepath.Join(s.Dir, "etcd"), "--log-level=warn",
		"--listen-client-urls=" + client, "--advertise-client-urls=" + client, "--listen-peer-urls=" + peer,
		"--initial-advertise-peer-urls=" + peer, "--initial-cluster=default=" + peer,
	}, s.EtcdFlags...)...); err != nil {
		return nil, err
	}
	if err := r.Etcd.Await(ctx, 5*time.Millisecond, fine(&http.Client{Timeout: 5 * time.Second}, client+"/health")); err != nil {
		return nil, err
	}
	flags := append(s.Identity.flags(),
		"--advertise-address=192.0.2.10", // only a value in objects: nothing is sent there
		"--service-cluster-ip-range=10.0.0.0/24", "--authorization-mode=Node,RBAC",
		"--etcd-servers="+client, "--bind-address="+s.Address, fmt.Sprintf("--secure-port=%d", s.Port), "--cert-dir="+s.Dir)
	if r.APIServer, err = Start(s.Dir, s.APIServer, "kube-apiserver", append(flags, s.Flags...)...); err != nil {
		return nil, err
	}
	return r, r.APIServer.Await(ctx, 5*time.Millisecond, fine(r.HTTP(), r.URL+"/readyz"))
}

// fine returns a check of a URL: whether it answers 200.
func fine(c *http.Client, url string) func(context.Context) error {
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		answer, err := c.Do(request)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		if answer.StatusCode != http.StatusOK {
			err = fmt.Errorf("%s: %s: %s", url, answer.Status, body)
		}
		return err
	}
}

// HTTP is a client of the administrator, on a connection of its own.
func (s *Server) HTTP() *http.Client {
	return &http.Client{Transport: &http.Transport{ForceAttemptHTTP2: true, DisableCompression: true, TLSClientConfig: s.identity.TLS()}}
}

// Config is for clients of the administrator that ask as fast as they can.
func (s *Server) Config() *rest.Config {
	return &rest.Config{
		Host: s.URL, QPS: -1, WarningHandlerWithContext: rest.NoWarnings{}, // they are meant for people
		TLSClientConfig: rest.TLSClientConfig{CAFile: s.identity.File("ca.crt"), CertFile: s.identity.File("admin.crt"), KeyFile: s.identity.File("admin.key")},
		ContentConfig:   rest.ContentConfig{ContentType: runtime.ContentTypeProtobuf, AcceptContentTypes: runtime.ContentTypeProtobuf + ",application/json"},
	}
}

// Alive returns nil as long as both programs run, then how they ended.
func (s *Server) Alive() error { return errors.Join(s.Etcd.Alive(), s.APIServer.Alive()) }

// Stop ends both programs.
func (s *Server) Stop() {
	s.APIServer.Stop()
	s.Etcd.Stop()
}
