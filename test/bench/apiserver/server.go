// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

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
	"strconv"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"minik8s.io/minik8s/pkg/pki"
)

// programs are paths.
type programs struct{ ours, upstream string }

// identity is what both servers share: the CA, the serving pair, the key of tokens.
type identity struct {
	dir   string
	roots *x509.CertPool
	admin tls.Certificate
}

func newIdentity(dir string) (*identity, error) {
	ca, err := pki.NewCA("bench")
	if err != nil {
		return nil, err
	}
	serving, err := ca.Issue(pki.Request{CommonName: "kube-apiserver", Hosts: []string{"127.0.0.1"}})
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
	id := &identity{dir: dir, roots: x509.NewCertPool()}
	id.roots.AppendCertsFromPEM(ca.Cert)
	for name, data := range map[string][]byte{"ca.crt": ca.Cert, "apiserver.crt": serving.Cert, "apiserver.key": serving.Key, "sa.key": token, "sa.pub": public} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			return nil, err
		}
	}
	id.admin, err = tls.X509KeyPair(admin.Cert, admin.Key)
	return id, err
}

// server is an API server that runs, and its etcd.
type server struct {
	who             who
	etcd, apiserver *process
	dir, url        string
	identity        *identity
	// ready is the time from the exec of the API server until /readyz, readyUsage what it had taken by then.
	ready      time.Duration
	readyUsage usage
}

// start runs etcd, with its data synced to the disk, and when that serves, the API server.
func (b *bench) start(ctx context.Context, w who) (_ *server, err error) {
	s := &server{who: w, identity: b.identity}
	if s.dir, err = os.MkdirTemp(b.dir, w.String()+"-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.stop())
		}
	}()
	ports, err := freePorts(3)
	if err != nil {
		return nil, err
	}
	client, peer := fmt.Sprintf("http://127.0.0.1:%d", ports[0]), fmt.Sprintf("http://127.0.0.1:%d", ports[1])
	s.url = fmt.Sprintf("https://127.0.0.1:%d", ports[2])
	if s.etcd, err = execute(s.dir, b.ours, "etcd", "--data-dir="+filepath.Join(s.dir, "etcd"), "--log-level=warn",
		"--listen-client-urls="+client, "--advertise-client-urls="+client, "--listen-peer-urls="+peer,
		"--initial-advertise-peer-urls="+peer, "--initial-cluster=default="+peer); err != nil {
		return nil, err
	}
	if err := until(ctx, &http.Client{Timeout: 5 * time.Second}, client+"/health", s.etcd); err != nil {
		return nil, err
	}
	program := b.upstream
	if w == ours {
		program = b.ours
	}
	file := func(name string) string { return filepath.Join(s.identity.dir, name) }
	begin := time.Now()
	if s.apiserver, err = execute(s.dir, program, "kube-apiserver",
		"--advertise-address=192.0.2.10", // only a value in objects: nothing is sent there
		"--service-cluster-ip-range=10.0.0.0/16", "--client-ca-file="+file("ca.crt"),
		"--tls-cert-file="+file("apiserver.crt"), "--tls-private-key-file="+file("apiserver.key"),
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file="+file("sa.pub"), "--service-account-signing-key-file="+file("sa.key"),
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
		"--etcd-servers="+client, "--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", ports[2]), "--cert-dir="+s.dir,
	); err != nil {
		return nil, err
	}
	if err := until(ctx, s.http(), s.url+"/readyz", s.apiserver); err != nil {
		return nil, err
	}
	s.ready = time.Since(begin)
	s.readyUsage, err = usageOf(s.apiserver.cmd.Process.Pid)
	return s, err
}

// http is a client of its own connection.
func (s *server) http() *http.Client {
	return &http.Client{Transport: &http.Transport{
		ForceAttemptHTTP2:  true,
		DisableCompression: true,
		TLSClientConfig:    &tls.Config{RootCAs: s.identity.roots, Certificates: []tls.Certificate{s.identity.admin}, MinVersion: tls.VersionTLS12},
	}}
}

// config of a client on that connection that has no limit of its own.
func (s *server) config() *rest.Config {
	return &rest.Config{Host: s.url, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: runtime.ContentTypeProtobuf, AcceptContentTypes: runtime.ContentTypeProtobuf + ",application/json"}}
}

// clients are n clients of a connection each.
func (s *server) clients(n int) ([]kubernetes.Interface, error) {
	all := make([]kubernetes.Interface, n)
	for i := range all {
		c, err := kubernetes.NewForConfigAndClient(s.config(), s.http())
		if err != nil {
			return nil, err
		}
		all[i] = c
	}
	return all, nil
}

// usage of the API server and of its etcd.
func (s *server) usage() (apiserver, etcd usage, err error) {
	if apiserver, err = usageOf(s.apiserver.cmd.Process.Pid); err != nil {
		return usage{}, usage{}, err
	}
	etcd, err = usageOf(s.etcd.cmd.Process.Pid)
	return apiserver, etcd, err
}

// stop ends both programs and removes their data.
func (s *server) stop() error {
	s.apiserver.stop()
	s.etcd.stop()
	return os.RemoveAll(s.dir)
}

// process is a program that was started.
type process struct {
	name, log string
	cmd       *exec.Cmd
	done      chan struct{}
}

func execute(dir, program, name string, args ...string) (*process, error) {
	p := &process{name: name, log: filepath.Join(dir, name+".log"), done: make(chan struct{})}
	log, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p.cmd = exec.Command(program, args...)
	p.cmd.Args[0] = name // a program of several names looks at this one
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	go func() {
		_ = p.cmd.Wait() // how it ends is of no interest: whoever needs it sees that it does not answer
		close(p.done)
	}()
	return p, nil
}

func (p *process) stop() {
	if p == nil {
		return
	}
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

// until asks every five milliseconds until a URL answers 200.
func until(ctx context.Context, c *http.Client, url string, p *process) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-p.done:
			data, err := os.ReadFile(p.log)
			return errors.Join(fmt.Errorf("%s ended: %s", p.name, data[max(0, len(data)-1000):]), err)
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", url, ctx.Err())
		case <-ticker.C:
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		answer, err := c.Do(request)
		if err != nil {
			continue
		}
		_, err = io.Copy(io.Discard, answer.Body)
		if err = errors.Join(err, answer.Body.Close()); err == nil && answer.StatusCode == http.StatusOK {
			return nil
		}
	}
}

// freePorts returns ports that nobody listened on a moment ago.
func freePorts(n int) ([]int, error) {
	ports := make([]int, n)
	for i := range ports {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		ports[i] = l.Addr().(*net.TCPAddr).Port
	}
	return ports, nil
}

// usage is what a process has taken.
type usage struct {
	// resident memory in bytes, and that part of it which is no file, as the program is one.
	resident, anonymous int64
	processor           time.Duration
}

// usageOf reads /proc/PID/stat (proc(5)): utime and stime are the 14th and 15th field, in hundredths of a second, rss is the
// 24th, in pages. In /proc/PID/statm resident memory is the second field, and that of files the third.
func usageOf(pid int) (usage, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return usage{}, err
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:])) // begins with the third
	if len(fields) < 22 {
		return usage{}, fmt.Errorf("reading stat %q: too short", stat)
	}
	var numbers [3]int64
	for i, n := range []int{14, 15, 24} {
		if numbers[i], err = strconv.ParseInt(fields[n-3], 10, 64); err != nil {
			return usage{}, fmt.Errorf("reading stat: %w", err)
		}
	}
	statm, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return usage{}, err
	}
	var size, resident, files int64
	if _, err := fmt.Sscan(string(statm), &size, &resident, &files); err != nil {
		return usage{}, fmt.Errorf("reading statm: %w", err)
	}
	page := int64(os.Getpagesize())
	return usage{processor: time.Duration(numbers[0]+numbers[1]) * 10 * time.Millisecond, resident: numbers[2] * page, anonymous: (resident - files) * page}, nil
}
