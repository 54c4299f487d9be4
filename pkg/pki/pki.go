// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package pki makes the certificates by which the parts of a cluster know one another; touch it for key types, lifetimes
// or what a certificate may be used for. Keys are ECDSA P-256, which is made in a millisecond where RSA takes a second.
package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"time"
)

// Lifetimes of certificates. Leaves are renewed at every start when less than half of theirs is left.
const (
	CALifetime   = 10 * 365 * 24 * time.Hour
	LeafLifetime = 365 * 24 * time.Hour
)

// Pair is a certificate and its private key, both PEM.
type Pair struct{ Cert, Key []byte }

// CA signs certificates. Safe for concurrent use.
type CA struct {
	Pair
	cert *x509.Certificate
	key  crypto.Signer
}

// Request says what a certificate is for.
type Request struct {
	// CommonName is the user name of a client, Organizations are its groups.
	CommonName    string
	Organizations []string
	// Hosts are the DNS names and IP addresses of a server; with none the certificate is for a client only.
	Hosts []string
	// Client marks a server certificate that is also used as a client.
	Client bool
}

// NewCA makes a self-signed CA.
func NewCA(commonName string) (*CA, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generating CA key: %w", err)
	}
	t := template(commonName, CALifetime)
	t.IsCA, t.BasicConstraintsValid = true, true
	t.KeyUsage = x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, t, t, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("signing CA %q: %w", commonName, err)
	}
	pair, err := encode(der, key)
	if err != nil {
		return nil, err
	}
	return LoadCA(pair)
}

// LoadCA reads a CA from PEM.
func LoadCA(p Pair) (*CA, error) {
	cert, err := ParseCertificate(p.Cert)
	if err != nil {
		return nil, fmt.Errorf("reading CA certificate: %w", err)
	}
	key, err := ParseKey(p.Key)
	if err != nil {
		return nil, fmt.Errorf("reading CA key: %w", err)
	}
	return &CA{Pair: p, cert: cert, key: key}, nil
}

// Issue makes a key and a certificate for it.
func (c *CA) Issue(r Request) (Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, fmt.Errorf("generating key of %q: %w", r.CommonName, err)
	}
	t := template(r.CommonName, LeafLifetime)
	t.Subject.Organization = r.Organizations
	t.KeyUsage = x509.KeyUsageDigitalSignature
	if len(r.Hosts) == 0 || r.Client {
		t.ExtKeyUsage = append(t.ExtKeyUsage, x509.ExtKeyUsageClientAuth)
	}
	if len(r.Hosts) > 0 {
		t.ExtKeyUsage = append(t.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	for _, h := range r.Hosts {
		if ip := net.ParseIP(h); ip != nil {
			t.IPAddresses = append(t.IPAddresses, ip)
		} else {
			t.DNSNames = append(t.DNSNames, h)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, t, c.cert, key.Public(), c.key)
	if err != nil {
		return Pair{}, fmt.Errorf("signing certificate of %q: %w", r.CommonName, err)
	}
	return encode(der, key)
}

// Fits reports whether p was signed by this CA for r and has more than half of its life left.
func (c *CA) Fits(p Pair, r Request, now time.Time) bool {
	cert, err := ParseCertificate(p.Cert)
	if err != nil || cert.CheckSignatureFrom(c.cert) != nil || cert.Subject.CommonName != r.CommonName {
		return false
	}
	if now.Add(LeafLifetime / 2).After(cert.NotAfter) {
		return false
	}
	for _, h := range r.Hosts {
		if cert.VerifyHostname(h) != nil {
			return false
		}
	}
	_, err = ParseKey(p.Key)
	return err == nil
}

// NewKey makes a private key, PEM, such as the one that signs ServiceAccount tokens.
func NewKey() ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generating key: %w", err)
	}
	return encodeKey(key)
}

// ParseCertificate reads the first certificate of a PEM text.
func ParseCertificate(data []byte) (*x509.Certificate, error) {
	block, _ := pem.Decode(data)
	if block == nil || block.Type != "CERTIFICATE" {
		return nil, errors.New("no PEM certificate found")
	}
	return x509.ParseCertificate(block.Bytes)
}

// ParseKey reads a private key in PKCS#8, SEC 1 or PKCS#1 form.
func ParseKey(data []byte) (crypto.Signer, error) {
	for {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil {
			return nil, errors.New("no PEM private key found")
		}
		switch block.Type {
		case "PRIVATE KEY":
			key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
			if err != nil {
				return nil, err
			}
			if s, ok := key.(crypto.Signer); ok {
				return s, nil
			}
			return nil, fmt.Errorf("a %T cannot sign", key)
		case "EC PRIVATE KEY":
			return x509.ParseECPrivateKey(block.Bytes)
		case "RSA PRIVATE KEY":
			return x509.ParsePKCS1PrivateKey(block.Bytes)
		}
	}
}

func template(commonName string, life time.Duration) *x509.Certificate {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		panic("pki: no randomness: " + err.Error()) // crypto/rand never fails on supported systems
	}
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: commonName},
		NotBefore:    now.Add(-5 * time.Minute), // clocks of nodes may differ
		NotAfter:     now.Add(life),
	}
}

func encode(der []byte, key *ecdsa.PrivateKey) (Pair, error) {
	k, err := encodeKey(key)
	if err != nil {
		return Pair{}, err
	}
	return Pair{Cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), Key: k}, nil
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encoding key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}
