// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package servers runs an API server, upstream's or ours, with an etcd of its own, and asks it things as an administrator.
// Touch it when both have to be started with another flag.
package servers

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"minik8s.io/minik8s/pkg/pki"
)

// Programs are the paths of what a server is made of.
type Programs struct{ Etcd, APIServer string }

// Server is an API server that runs.
type Server struct {
	// URL is its address, without a slash at the end.
	URL string
	// Client trusts it, and is in system:masters.
	Client *http.Client

	processes []*process
}

// Identity is what both servers share, so that what depends on keys is the same: the CA, the serving pair, the key of tokens.
type Identity struct {
	dir   string
	ca    *pki.CA
	admin tls.Certificate
}

// NewIdentity writes keys and certificates into dir.
func NewIdentity(dir string) (*Identity, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	ca, err := pki.NewCA("differential")
	if err != nil {
		return nil, err
	}
	hosts := []string{"localhost", UpstreamAddress, OurAddress, "kubernetes", "kubernetes.default", "kubernetes.default.svc", "10.0.0.1"}
	serving, err := ca.Issue(pki.Request{CommonName: "kube-apiserver", Hosts: hosts})
	if err != nil {
		return nil, err
	}
	admin, err := ca.Issue(pki.Request{CommonName: "admin", Organizations: []string{"system:masters"}})
	if err != nil {
		return nil, err
	}
	token, err := pki.NewKey()
	if err != nil {
		return nil, err
	}
	signer, err := pki.ParseKey(token)
	if err != nil {
		return nil, err
	}
	verifier, err := x509.MarshalPKIXPublicKey(signer.Public())
	if err != nil {
		return nil, err
	}
	public := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: verifier})
	id := &Identity{dir: dir, ca: ca}
	for name, data := range map[string][]byte{"admin.crt": admin.Cert, "admin.key": admin.Key, "ca.crt": ca.Cert, "apiserver.crt": serving.Cert, "apiserver.key": serving.Key, "sa.key": token, "sa.pub": public} {
		if err := os.WriteFile(id.file(name), data, 0o600); err != nil {
			return nil, err
		}
	}
	id.admin, err = tls.X509KeyPair(admin.Cert, admin.Key)
	return id, err
}

func (id *Identity) file(name string) string { return filepath.Join(id.dir, name) }

func (id *Identity) client() *http.Client {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(id.ca.Cert)
	return &http.Client{
		Timeout: time.Minute,
		Transport: &http.Transport{
			TLSClientConfig:     &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{id.admin}, MinVersion: tls.VersionTLS12},
			MaxIdleConnsPerHost: 64,
		},
	}
}

// Flags are what both servers are started with, besides addresses.
func (id *Identity) flags() []string {
	return []string{
		// Only a value in objects: nothing is sent there.
		"--advertise-address=192.0.2.10",
		"--service-cluster-ip-range=10.0.0.0/24",
		"--client-ca-file=" + id.file("ca.crt"),
		"--tls-cert-file=" + id.file("apiserver.crt"),
		"--tls-private-key-file=" + id.file("apiserver.key"),
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=" + id.file("sa.pub"),
		"--service-account-signing-key-file=" + id.file("sa.key"),
		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction",
		"--allow-privileged=true",
		// Thousands of requests of one user in parallel must not be turned away.
		"--max-requests-inflight=2000",
		"--max-mutating-requests-inflight=1000",
	}
}

// Both servers listen on the same port, so that it is the same in what they say of themselves: each on its own address.
const (
	UpstreamAddress = "127.0.0.1"
	OurAddress      = "127.0.0.2"
)

// Start runs etcd and the API server with data and logs in dir, and returns when /readyz says so.
func Start(ctx context.Context, dir, address string, port int, p Programs, id *Identity) (_ *Server, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	ports, err := FreePorts(2)
	if err != nil {
		return nil, err
	}
	client, peer := fmt.Sprintf("http://127.0.0.1:%d", ports[0]), fmt.Sprintf("http://127.0.0.1:%d", ports[1])
	s := &Server{URL: fmt.Sprintf("https://%s:%d", address, port), Client: id.client()}
	defer func() {
		if err != nil {
			s.Stop()
		}
	}()
	if err := s.run(dir, p.Etcd, "etcd", "--data-dir="+filepath.Join(dir, "etcd"), "--unsafe-no-fsync", "--log-level=warn",
		"--listen-client-urls="+client, "--advertise-client-urls="+client, "--listen-peer-urls="+peer,
		"--initial-advertise-peer-urls="+peer, "--initial-cluster=default="+peer); err != nil {
		return nil, err
	}
	flags := append(id.flags(), "--etcd-servers="+client, "--bind-address="+address, fmt.Sprintf("--secure-port=%d", port), "--cert-dir="+dir)
	if err := s.run(dir, p.APIServer, "kube-apiserver", flags...); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "kubeconfig"), []byte(id.kubeconfig(s.URL)), 0o600); err != nil {
		return nil, err
	}
	return s, s.awaitReady(ctx)
}

func (id *Identity) kubeconfig(url string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: differential
contexts: [{name: differential, context: {cluster: differential, user: admin}}]
clusters: [{name: differential, cluster: {server: %q, certificate-authority: %q}}]
users: [{name: admin, user: {client-certificate: %q, client-key: %q}}]
`, url, id.file("ca.crt"), id.file("admin.crt"), id.file("admin.key"))
}

// Stop ends both programs and waits for them.
func (s *Server) Stop() {
	for i := len(s.processes) - 1; i >= 0; i-- {
		s.processes[i].stop()
	}
}

// Alive tells whether the programs still run; if not, why.
func (s *Server) Alive() error {
	for _, p := range s.processes {
		select {
		case <-p.done:
			return fmt.Errorf("%s ended: %w: see %s", p.name, p.err, p.log)
		default:
		}
	}
	return nil
}

func (s *Server) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	answer := ""
	for {
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w: %s", s.URL, ctx.Err(), answer)
		case <-tick.C:
		}
		if err := s.Alive(); err != nil {
			return err
		}
		r, err := s.Client.Get(s.URL + "/readyz?verbose")
		if err != nil {
			answer = err.Error()
			continue
		}
		body, err := io.ReadAll(r.Body)
		answer = string(body)
		if err := errors.Join(err, r.Body.Close()); err == nil && r.StatusCode == http.StatusOK {
			return nil
		}
	}
}

// process is a program that was started.
type process struct {
	name, log string
	cmd       *exec.Cmd
	done      chan struct{}
	// err is why it ended, once done is closed.
	err error
}

func (s *Server) run(dir, program, name string, args ...string) error {
	p := &process{name: name, log: filepath.Join(dir, name+".log"), done: make(chan struct{})}
	log, err := os.Create(p.log)
	if err != nil {
		return err
	}
	defer log.Close()
	p.cmd = exec.Command(program, args...)
	// A program of several names looks at this one.
	p.cmd.Args[0] = name
	p.cmd.Dir = dir
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", name, err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	s.processes = append(s.processes, p)
	return nil
}

func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	grace := time.NewTimer(20 * time.Second)
	defer grace.Stop()
	select {
	case <-p.done:
	case <-grace.C:
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// FreePorts returns ports of the loopback device that nobody listened on a moment ago.
func FreePorts(n int) ([]int, error) {
	ports := make([]int, n)
	for i := range ports {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		a, ok := l.Addr().(*net.TCPAddr)
		if !ok {
			return nil, fmt.Errorf("listening on %s, which is no TCP address", l.Addr())
		}
		ports[i] = a.Port
	}
	return ports, nil
}

// Panics returns the lines of the logs that tell of a panic.
func (s *Server) Panics() ([]string, error) {
	var found []string
	for _, p := range s.processes {
		data, err := os.ReadFile(p.log)
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(data)) {
			if strings.Contains(line, "Observed a panic") || strings.Contains(line, "DATA RACE") {
				found = append(found, p.name+": "+strings.TrimSpace(line))
			}
		}
	}
	return found, nil
}
