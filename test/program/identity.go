// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package program

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"minik8s.io/minik8s/pkg/pki"
)

// Identity is what servers that are compared share, so that what depends on keys is the same: the CA, the pairs of the
// server and of an administrator, the key of tokens.
type Identity struct {
	dir   string
	ca    *pki.CA
	roots *x509.CertPool
	admin tls.Certificate
}

// NewIdentity writes keys and certificates into dir, those of the server for some hosts.
func NewIdentity(dir string, hosts ...string) (*Identity, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	ca, err := pki.NewCA("judges")
	if err != nil {
		return nil, err
	}
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
	id := &Identity{dir: dir, ca: ca, roots: x509.NewCertPool()}
	id.roots.AppendCertsFromPEM(ca.Cert)
	for name, data := range map[string][]byte{
		"ca.crt": ca.Cert, "ca.key": ca.Key, "apiserver.crt": serving.Cert, "apiserver.key": serving.Key, "admin.crt": admin.Cert, "admin.key": admin.Key,
		"sa.key": token, "sa.pub": pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: verifier}),
	} {
		if err := os.WriteFile(id.File(name), data, 0o600); err != nil {
			return nil, err
		}
	}
	id.admin, err = tls.X509KeyPair(admin.Cert, admin.Key)
	return id, err
}

// File is the path of one of the files: ca, apiserver and admin with .crt and .key, sa with .key and .pub.
func (id *Identity) File(name string) string { return filepath.Join(id.dir, name) }

// TLS is what the administrator connects with.
func (id *Identity) TLS() *tls.Config {
	return &tls.Config{RootCAs: id.roots, Certificates: []tls.Certificate{id.admin}, MinVersion: tls.VersionTLS12}
}

// Kubeconfig writes one of a user to a file, with a certificate of its own.
func (id *Identity) Kubeconfig(file, url, user string, groups ...string) error {
	pair, err := id.ca.Issue(pki.Request{CommonName: user, Organizations: groups})
	if err != nil {
		return err
	}
	cert, key := file+".crt", file+".key"
	return errors.Join(
		os.WriteFile(cert, pair.Cert, 0o600), os.WriteFile(key, pair.Key, 0o600),
		os.WriteFile(file, []byte(id.kubeconfig(url, user, cert, key)), 0o600),
	)
}

// flags make a kube-apiserver the one of this identity.
func (id *Identity) flags() []string {
	return []string{
		"--client-ca-file=" + id.File("ca.crt"), "--tls-cert-file=" + id.File("apiserver.crt"), "--tls-private-key-file=" + id.File("apiserver.key"),
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=" + id.File("sa.pub"), "--service-account-signing-key-file=" + id.File("sa.key"),
	}
}

// admins is the administrator's kubeconfig.
func (id *Identity) admins(url string) string {
	return id.kubeconfig(url, "admin", id.File("admin.crt"), id.File("admin.key"))
}

func (id *Identity) kubeconfig(url, user, cert, key string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: judged
contexts: [{name: judged, context: {cluster: judged, user: %[2]q}}]
clusters: [{name: judged, cluster: {server: %[1]q, certificate-authority: %[3]q}}]
users: [{name: %[2]q, user: {client-certificate: %[4]q, client-key: %[5]q}}]
`, url, user, id.File("ca.crt"), cert, key)
}
