// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package pki makes the certificates by which the parts of a cluster know one another; touch it for key types, lifetimes
// or what a certificate may be used for. Keys are ECDSA P-256, which is made in a millisecond where RSA takes a second.
package pki

import (
	"cmp"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"slices"
	"time"
)

// Lifetimes of certificates.
const (
	CALifetime   = 10 * 365 * 24 * time.Hour
	LeafLifetime = 365 * 24 * time.Hour
)

// Backdate is how long before its making a certificate is valid, because the clocks of nodes may differ.
const Backdate = 5 * time.Minute

// CABackdate is the same of a CA, which nobody makes anew when the machine's clock is set back, by a time zone or to what a time
// server says.
const CABackdate = 24 * time.Hour

// Pair is a certificate and its private key, both PEM.
type Pair struct{ Cert, Key []byte }

// CA signs certificates. Safe for concurrent use.
type CA struct {
	Pair
	// Lifetime of certificates whose request does not say; default LeafLifetime. Set it before use.
	Lifetime time.Duration

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
	// Lifetime from now on; default that of the CA.
	Lifetime time.Duration
	// NotBefore is from when on it is valid; default Backdate ago.
	NotBefore time.Time
}

// usages are what the certificate may be used for.
func (r Request) usages() []x509.ExtKeyUsage {
	var all []x509.ExtKeyUsage
	if len(r.Hosts) == 0 || r.Client {
		all = append(all, x509.ExtKeyUsageClientAuth)
	}
	if len(r.Hosts) > 0 {
		all = append(all, x509.ExtKeyUsageServerAuth)
	}
	return all
}

// names are the hosts by kind.
func (r Request) names() (dns []string, ips []net.IP) {
	for _, h := range r.Hosts {
		if ip := net.ParseIP(h); ip != nil {
			ips = append(ips, ip)
		} else {
			dns = append(dns, h)
		}
	}
	return dns, ips
}

// NewCA makes a self-signed CA.
func NewCA(commonName string) (*CA, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generating CA key: %w", err)
	}
	t := template(commonName, CALifetime)
	t.NotBefore = time.Now().Add(-CABackdate)
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
	if public, ok := key.Public().(interface{ Equal(crypto.PublicKey) bool }); !ok || !public.Equal(cert.PublicKey) {
		return nil, fmt.Errorf("the key is not that of the CA certificate %q", cert.Subject.CommonName)
	}
	return &CA{Pair: p, Lifetime: LeafLifetime, cert: cert, key: key}, nil
}

// Issue makes a key and a certificate for it.
func (c *CA) Issue(r Request) (Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, fmt.Errorf("generating key of %q: %w", r.CommonName, err)
	}
	life := r.Lifetime
	if life == 0 {
		life = c.Lifetime
	}
	t := template(r.CommonName, life)
	if !r.NotBefore.IsZero() {
		t.NotBefore = r.NotBefore
	}
	t.Subject.Organization = r.Organizations
	t.KeyUsage = x509.KeyUsageDigitalSignature
	t.ExtKeyUsage = r.usages()
	t.DNSNames, t.IPAddresses = r.names()
	der, err := x509.CreateCertificate(rand.Reader, t, c.cert, key.Public(), c.key)
	if err != nil {
		return Pair{}, fmt.Errorf("signing certificate of %q: %w", r.CommonName, err)
	}
	return encode(der, key)
}

// Fits reports whether p is what Issue would make for r: signed by this CA, for that user and groups, those hosts and uses, with
// its key; and whether it is valid already, as a clock may have been set back since, and need not be renewed yet.
func (c *CA) Fits(p Pair, r Request, now time.Time) bool {
	cert, err := ParseCertificate(p.Cert)
	if err != nil || cert.CheckSignatureFrom(c.cert) != nil || now.Before(cert.NotBefore) || !now.Before(RenewAt(cert)) {
		return false
	}
	if _, err := tls.X509KeyPair(p.Cert, p.Key); err != nil {
		return false // the key is another one's
	}
	dns, ips := r.names()
	return cert.Subject.CommonName == r.CommonName && sameSet(cert.Subject.Organization, r.Organizations) &&
		sameSet(cert.DNSNames, dns) && sameSet(texts(cert.IPAddresses), texts(ips)) && sameSet(cert.ExtKeyUsage, r.usages())
}

func sameSet[T cmp.Ordered](a, b []T) bool {
	a, b = slices.Clone(a), slices.Clone(b)
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(slices.Compact(a), slices.Compact(b))
}

func texts(ips []net.IP) []string {
	var all []string
	for _, ip := range ips {
		all = append(all, ip.String())
	}
	return all
}

// Issued is when a certificate of this cluster was made.
func Issued(cert *x509.Certificate) time.Time { return cert.NotBefore.Add(Backdate) }

// RenewAt is when a certificate is to be replaced: after 70 to 90 % of its life, as client-go's certificate manager does, so that
// not all of a cluster are replaced at once. It is the same at every call.
func RenewAt(cert *x509.Certificate) time.Time {
	issued := Issued(cert)
	if issued.After(cert.NotAfter) {
		return cert.NotBefore // of somebody else, and for a shorter time than ours are backdated
	}
	part := new(big.Int).Mod(cert.SerialNumber, big.NewInt(1000)).Int64()
	return issued.Add(time.Duration(float64(cert.NotAfter.Sub(issued)) * (0.7 + 0.2*float64(part)/1000)))
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
		NotBefore:    now.Add(-Backdate),
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
