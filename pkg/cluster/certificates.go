// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/request/headerrequest"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/rest"

	"minik8s.io/minik8s/pkg/pki"
)

// credentials are the certificates and keys of a cluster. The CA and the token key are kept in the data directory; leaf
// certificates are made at every start, except those that leave the process. Safe for concurrent use.
type credentials struct {
	dir      string
	ca       *pki.CA
	tokenKey []byte
	host     string // URL of the API server for clients in this process

	mu      sync.Mutex // guards clients
	clients map[string]*rest.Config
}

// loadCredentials reads or makes them under dir.
func loadCredentials(dir, host string) (*credentials, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making %s: %w", dir, err)
	}
	pair, err := keptPair(dir, "ca", func() (pki.Pair, error) {
		ca, err := pki.NewCA("minik8s-ca")
		if err != nil {
			return pki.Pair{}, err
		}
		return ca.Pair, nil
	})
	if err != nil {
		return nil, err
	}
	ca, err := pki.LoadCA(pair)
	if err != nil {
		return nil, err
	}
	key, err := kept(filepath.Join(dir, "sa.key"), pki.NewKey)
	if err != nil {
		return nil, err
	}
	return &credentials{dir: dir, ca: ca, tokenKey: key, host: host, clients: map[string]*rest.Config{}}, nil
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

// renewed reads NAME.crt/.key and makes it anew if it does not fit the request any more or is half through its life.
func (c *credentials) renewed(name string, r pki.Request) (pki.Pair, error) {
	return renewed(c.ca, c.dir, name, r)
}

func renewed(ca *pki.CA, dir, name string, r pki.Request) (pki.Pair, error) {
	p, err := readPair(dir, name)
	if err == nil && ca.Fits(p, r, time.Now()) {
		return p, nil
	}
	if p, err = ca.Issue(r); err != nil {
		return p, err
	}
	return p, writePair(dir, name, p)
}

// Client returns a client configuration for a user in groups, with a certificate of its own that never touches the disk.
func (c *credentials) Client(user string, groups ...string) (*rest.Config, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if have, ok := c.clients[user]; ok {
		return rest.CopyConfig(have), nil
	}
	pair, err := c.ca.Issue(pki.Request{CommonName: user, Organizations: groups})
	if err != nil {
		return nil, err
	}
	config := c.config(pair)
	c.clients[user] = config
	return rest.CopyConfig(config), nil
}

func (c *credentials) config(pair pki.Pair) *rest.Config {
	return &rest.Config{
		Host:            c.host,
		TLSClientConfig: rest.TLSClientConfig{CAData: c.ca.Cert, CertData: pair.Cert, KeyData: pair.Key},
		ContentConfig:   rest.ContentConfig{ContentType: "application/vnd.kubernetes.protobuf", AcceptContentTypes: "application/vnd.kubernetes.protobuf,application/json"},
		// Warnings are meant for people.
		WarningHandlerWithContext: rest.NoWarnings{},
		DisableCompression:        true,
		QPS:                       -1, // parts in this process are trusted not to flood it, and queues in the server are fair
	}
}

// admin is the certificate in the user's kubeconfig.
func (c *credentials) admin() (pki.Pair, error) {
	return c.renewed("admin", pki.Request{CommonName: "kubernetes-admin", Organizations: []string{"system:masters"}})
}

// serving is the API server's certificate.
func (c *credentials) serving(hosts []string) (pki.Pair, error) {
	return c.renewed("apiserver", pki.Request{CommonName: "kube-apiserver", Hosts: hosts})
}

// frontProxy is by what the API server proves to aggregated servers that a request comes through it, and the CA, another than
// that of users, by which they know it. It reads the certificate from files.
func (c *credentials) frontProxy() (ca []byte, certFile, keyFile string, err error) {
	kept, err := keptPair(c.dir, "front-proxy-ca", func() (pki.Pair, error) {
		made, err := pki.NewCA("front-proxy-ca")
		if err != nil {
			return pki.Pair{}, err
		}
		return made.Pair, nil
	})
	if err != nil {
		return nil, "", "", err
	}
	issuer, err := pki.LoadCA(kept)
	if err != nil {
		return nil, "", "", err
	}
	if _, err := renewed(issuer, c.dir, frontProxyName, pki.Request{CommonName: frontProxyName}); err != nil {
		return nil, "", "", err
	}
	path := filepath.Join(c.dir, frontProxyName)
	return kept.Cert, path + ".crt", path + ".key", nil
}

// frontProxyName is the name of the API server as a proxy.
const frontProxyName = "front-proxy-client"

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

// servingHosts are the names and addresses that clients use for the API server.
func servingHosts(domain string, serviceIP, nodeIP netip.Addr, hostname string, extra []string) []string {
	hosts := []string{
		"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc." + domain,
		"localhost", "127.0.0.1", "::1", serviceIP.String(),
	}
	if nodeIP.IsValid() {
		hosts = append(hosts, nodeIP.String())
	}
	if hostname != "" {
		hosts = append(hosts, hostname)
	}
	return append(hosts, extra...)
}
