// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/request/headerrequest"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"minik8s.io/minik8s/pkg/apiserver/inprocess"
	"minik8s.io/minik8s/pkg/pki"
)

// credentials are the certificates and keys of a cluster. The CA and the token key are kept in the data directory, with the
// certificates that leave the process; others are made at every start. All but the CA are replaced before they end. Safe for
// concurrent use.
type credentials struct {
	dir      string
	ca       *pki.CA
	proxyCA  *pki.CA // another than that of users: whom it trusts may say who the user is
	tokenKey []byte
	host     string            // URL of the API server for clients on this machine
	server   *inprocess.Server // the API server, if it shares the process; else nil

	mu      sync.Mutex          // guards clients
	clients map[string]identity // by user and groups
}

// identity is a user over TLS, who asks by config with the certificate that leaf has at the time.
type identity struct {
	leaf   *pki.Leaf
	config *rest.Config
}

// loadCredentials reads or makes them under dir. Certificates that are made from now on last for lifetime, 0 for the default.
func loadCredentials(dir, host string, lifetime time.Duration) (*credentials, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making %s: %w", dir, err)
	}
	ca, err := keptCA(dir, "ca", "minik8s-ca")
	if err != nil {
		return nil, err
	}
	proxyCA, err := keptCA(dir, "front-proxy-ca", "front-proxy-ca")
	if err != nil {
		return nil, err
	}
	if lifetime != 0 {
		ca.Lifetime, proxyCA.Lifetime = lifetime, lifetime
	}
	key, err := kept(filepath.Join(dir, "sa.key"), pki.NewKey)
	if err != nil {
		return nil, err
	}
	return &credentials{dir: dir, ca: ca, proxyCA: proxyCA, tokenKey: key, host: host, clients: map[string]identity{}}, nil
}

// readCredentials reads those of a cluster that has been up, for somebody beside it, who must make nothing there.
func readCredentials(c Config) (*credentials, error) {
	dir := filepath.Join(c.DataDir, "pki")
	pair, err := readPair(dir, "ca")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &Problem{
			Cause: fmt.Sprintf("there is no CA of cluster %q in %s", c.Name, dir), Remedy: "start the cluster, or restore its data directory", Err: err,
		}
	}
	if err != nil {
		return nil, fmt.Errorf("reading the cluster's CA: %w", err)
	}
	ca, err := pki.LoadCA(pair)
	if err != nil {
		return nil, err
	}
	return &credentials{dir: dir, ca: ca, host: Server(c), clients: map[string]identity{}}, nil
}

// keptCA reads the CA that is kept as NAME, or makes it.
func keptCA(dir, name, commonName string) (*pki.CA, error) {
	pair, err := keptPair(dir, name, func() (pki.Pair, error) {
		ca, err := pki.NewCA(commonName)
		if err != nil {
			return pki.Pair{}, err
		}
		return ca.Pair, nil
	})
	if err != nil {
		return nil, err
	}
	return pki.LoadCA(pair)
}

// kept reads a file, or makes it if there is none.
func kept(path string, make func() ([]byte, error)) ([]byte, error) {
	data, err := os.ReadFile(path)
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return data, err
	}
	if data, err = make(); err != nil {
		return nil, err
	}
	return data, writeFile(path, data)
}

// keptPair reads NAME.crt and NAME.key. The certificate is written last, so one without key is never found.
func keptPair(dir, name string, make func() (pki.Pair, error)) (pki.Pair, error) {
	p, err := readPair(dir, name)
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return p, err
	}
	if p, err = make(); err != nil {
		return p, err
	}
	return p, writePair(dir, name, p)
}

func readPair(dir, name string) (pki.Pair, error) {
	cert, err := os.ReadFile(filepath.Join(dir, name+".crt"))
	if err != nil {
		return pki.Pair{}, err
	}
	key, err := os.ReadFile(filepath.Join(dir, name+".key"))
	return pki.Pair{Cert: cert, Key: key}, err
}

func writePair(dir, name string, p pki.Pair) error {
	if err := writeFile(filepath.Join(dir, name+".key"), p.Key); err != nil {
		return err
	}
	return writeFile(filepath.Join(dir, name+".crt"), p.Cert)
}

// file is a certificate that leaves the process, with its key: one file, so that nobody finds halves of two.
type file struct {
	ca      *pki.CA
	path    string
	request pki.Request
}

// frontProxyName is the name of the API server as a proxy.
const frontProxyName = "front-proxy-client"

// admin is the user's certificate. Who has read it is told of no other one, so that it outlives a clock that is set back as the CA does,
// unless it is there for a short time only.
func (c *credentials) admin() file {
	early := min(pki.CABackdate, max(pki.Backdate, c.ca.Lifetime/10))
	return file{c.ca, filepath.Join(c.dir, "admin.pem"), pki.Request{
		CommonName: "kubernetes-admin", Organizations: []string{"system:masters"}, NotBefore: time.Now().Add(-early),
	}}
}

// frontProxy is that by which the API server proves to aggregated servers that a request comes through it.
func (c *credentials) frontProxy() file {
	return file{c.proxyCA, filepath.Join(c.dir, frontProxyName+".pem"), pki.Request{CommonName: frontProxyName}}
}

// renewed reads the file, and makes it anew if it does not fit the request any more or ends too soon.
func (f file) renewed() (pki.Pair, error) {
	data, err := os.ReadFile(f.path)
	if p := split(data); err == nil && f.ca.Fits(p, f.request, time.Now()) {
		return p, nil
	}
	p, err := f.ca.Issue(f.request)
	if err != nil {
		return p, err
	}
	return p, writeFile(f.path, slices.Concat(p.Cert, p.Key))
}

// split tells certificates from keys.
func split(data []byte) (p pki.Pair) {
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "CERTIFICATE" {
			p.Cert = append(p.Cert, pem.EncodeToMemory(block)...)
		} else {
			p.Key = append(p.Key, pem.EncodeToMemory(block)...)
		}
	}
	return p
}

// renewFiles makes all files if they are not there or end too soon, gives the user's certificate to publish, and returns when to
// look again.
func (c *credentials) renewFiles(publish func(admin pki.Pair) error) (next time.Time, _ error) {
	admin := c.admin()
	for _, f := range []file{admin, c.frontProxy()} {
		pair, err := f.renewed()
		if err != nil {
			return next, fmt.Errorf("renewing the certificate of %s: %w", f.request.CommonName, err)
		}
		cert, err := pki.ParseCertificate(pair.Cert)
		if err != nil {
			return next, err
		}
		if at := pki.RenewAt(cert); next.IsZero() || at.Before(next) {
			next = at
		}
		if f.path == admin.path {
			if err := publish(pair); err != nil {
				return next, err
			}
		}
	}
	return next, nil
}

// keepFiles renews files until ctx ends. It tries again what fails, for instance because the disk is full.
func (c *credentials) keepFiles(ctx context.Context, publish func(admin pki.Pair) error) error {
	const longest = time.Minute // the clock may be set
	for {
		next, err := c.renewFiles(publish)
		wait := min(time.Until(next), longest)
		if err != nil {
			klog.FromContext(ctx).Error(err, "Certificates could not be renewed")
			wait = longest
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil
		}
	}
}

// Client returns a client configuration for a user in groups. In the API server's process that needs no certificate, nor a wire.
func (c *credentials) Client(name string, groups ...string) (*rest.Config, error) {
	config, err := c.Wire(name, groups...)
	if err == nil && c.server != nil {
		config.Transport = c.server.Transport(&user.DefaultInfo{Name: name, Groups: groups}, config.Transport)
	}
	return config, err
}

// Wire is a Client that comes over TLS, with a certificate of its own that never touches the disk.
func (c *credentials) Wire(user string, groups ...string) (*rest.Config, error) {
	have, err := c.identity(user, groups)
	if err != nil {
		return nil, err
	}
	return rest.CopyConfig(have.config), nil
}

// Leaf is the certificate of a Wire.
func (c *credentials) Leaf(user string, groups ...string) (*pki.Leaf, error) {
	have, err := c.identity(user, groups)
	return have.leaf, err
}

func (c *credentials) identity(user string, groups []string) (identity, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := strings.Join(append([]string{user}, groups...), "\x00")
	if have, ok := c.clients[key]; ok {
		return have, nil
	}
	leaf := c.ca.Leaf(pki.Request{CommonName: user, Organizations: groups})
	config, err := clientConfig(c.host, c.ca.Cert, leaf.Certificate)
	if err != nil {
		return identity{}, err
	}
	c.clients[key] = identity{leaf, config}
	return c.clients[key], nil
}

// Keyed is a Wire for libraries that make connections of their own, and so want the key: it is for one connection that begins now.
func (c *credentials) Keyed(user string, groups ...string) (*rest.Config, error) {
	pair, err := c.ca.Issue(pki.Request{CommonName: user, Organizations: groups})
	if err != nil {
		return nil, err
	}
	return &rest.Config{Host: c.host, TLSClientConfig: rest.TLSClientConfig{CAData: c.ca.Cert, CertData: pair.Cert, KeyData: pair.Key}}, nil
}

// clientConfig is for a part of this project that proves itself by a certificate that may be replaced at any time.
func clientConfig(host string, ca []byte, certificate func() (*tls.Certificate, error)) (*rest.Config, error) {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		return nil, errors.New("the CA of the API server is no certificate")
	}
	return &rest.Config{
		Host: host,
		Transport: pki.NewTransport(certificate, func(cert *tls.Certificate) *http.Transport {
			t := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}
			if cert != nil {
				t.Certificates = []tls.Certificate{*cert}
			}
			// HTTP/2 with pings, and idle connections that close, as client-go's own.
			return utilnet.SetTransportDefaults(&http.Transport{TLSClientConfig: t, DisableCompression: true, MaxIdleConnsPerHost: 25})
		}),
		ContentConfig: rest.ContentConfig{ContentType: "application/vnd.kubernetes.protobuf", AcceptContentTypes: "application/vnd.kubernetes.protobuf,application/json"},
		// Warnings are meant for people.
		WarningHandlerWithContext: rest.NoWarnings{},
		QPS:                       -1, // parts of this project are trusted not to flood it, and queues in the server are fair
	}, nil
}

// serving is the API server's certificate, for TLS that asks for it.
type serving struct {
	*pki.Leaf

	mu        sync.Mutex
	listeners []dynamiccertificates.Listener // guarded by mu
}

var (
	_ dynamiccertificates.CertKeyContentProvider = (*serving)(nil)
	_ dynamiccertificates.Notifier               = (*serving)(nil)
	_ dynamiccertificates.ControllerRunner       = (*serving)(nil)
)

func (c *credentials) serving(hosts []string) *serving {
	return &serving{Leaf: c.ca.Leaf(pki.Request{CommonName: "kube-apiserver", Hosts: hosts})}
}

// Name implements dynamiccertificates.CertKeyContentProvider.
func (s *serving) Name() string { return "serving" }

// CurrentCertKeyContent implements dynamiccertificates.CertKeyContentProvider.
func (s *serving) CurrentCertKeyContent() (cert, key []byte) {
	pair, err := s.Pair()
	if err != nil {
		return nil, nil // which is refused, so that the old one is served on
	}
	return pair.Cert, pair.Key
}

// AddListener implements dynamiccertificates.Notifier.
func (s *serving) AddListener(l dynamiccertificates.Listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listeners = append(s.listeners, l)
}

// RunOnce implements dynamiccertificates.ControllerRunner.
func (s *serving) RunOnce(context.Context) error {
	_, err := s.Pair()
	return err
}

// Run implements dynamiccertificates.ControllerRunner: it tells listeners when there is another certificate.
func (s *serving) Run(ctx context.Context, _ int) {
	const longest = time.Minute // the clock may be set
	for {
		at, err := s.RenewAt()
		wait := min(time.Until(at), longest)
		if err != nil {
			klog.FromContext(ctx).Error(err, "The API server's certificate could not be renewed")
			wait = longest
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
		s.mu.Lock()
		listeners := slices.Clone(s.listeners)
		s.mu.Unlock()
		for _, l := range listeners {
			l.Enqueue()
		}
	}
}

// requestHeaders are those by which the holder of that certificate says who the user is.
func requestHeaders(ca []byte) (*authenticatorfactory.RequestHeaderConfig, error) {
	trusted, err := dynamiccertificates.NewStaticCAContent("front-proxy-ca", ca)
	if err != nil {
		return nil, fmt.Errorf("reading the CA of the front proxy: %w", err)
	}
	return &authenticatorfactory.RequestHeaderConfig{
		CAContentProvider:   trusted,
		AllowedClientNames:  headerrequest.StaticStringSlice{frontProxyName},
		UsernameHeaders:     headerrequest.StaticStringSlice{"X-Remote-User"},
		UIDHeaders:          headerrequest.StaticStringSlice{"X-Remote-Uid"},
		GroupHeaders:        headerrequest.StaticStringSlice{"X-Remote-Group"},
		ExtraHeaderPrefixes: headerrequest.StaticStringSlice{"X-Remote-Extra-"},
	}, nil
}

// apiAddresses are those of the API server but loopback: of its Service and of its node.
func apiAddresses(services []netip.Prefix, nodeIPs []netip.Addr) (all []netip.Addr) {
	for _, s := range services {
		all = append(all, s.Masked().Addr().Next())
	}
	return append(all, nodeIPs...)
}

// servingHosts are the names and addresses that clients use for the API server.
func servingHosts(domain string, addresses []netip.Addr, hostname string, extra []string) []string {
	hosts := []string{
		"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc." + domain,
		"localhost", "127.0.0.1", "::1",
	}
	for _, a := range addresses {
		hosts = append(hosts, a.String())
	}
	if hostname != "" {
		hosts = append(hosts, hostname)
	}
	return append(hosts, extra...)
}
