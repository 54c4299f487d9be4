// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package program

import (
	"crypto/tls"
	"fmt"
	"os"

	"minik8s.io/minik8s/pkg/pki"
)

// As is what a user with a certificate of this identity's CA connects with.
func (id *Identity) As(user string, groups ...string) (*tls.Config, error) {
	cert, err := os.ReadFile(id.File("ca.crt"))
	if err != nil {
		return nil, err
	}
	key, err := os.ReadFile(id.File("ca.key"))
	if err != nil {
		return nil, err
	}
	ca, err := pki.LoadCA(pki.Pair{Cert: cert, Key: key})
	if err != nil {
		return nil, err
	}
	issued, err := ca.Issue(pki.Request{CommonName: user, Organizations: groups})
	if err != nil {
		return nil, fmt.Errorf("issuing a certificate for %s: %w", user, err)
	}
	pair, err := tls.X509KeyPair(issued.Cert, issued.Key)
	if err != nil {
		return nil, err
	}
	c := id.Nobody()
	c.Certificates = []tls.Certificate{pair}
	return c, nil
}

// Nobody is what somebody without a certificate connects with.
func (id *Identity) Nobody() *tls.Config {
	return &tls.Config{RootCAs: id.roots, MinVersion: tls.VersionTLS12}
}
