// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package certificatesigningrequestsigning

import (
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/utils/clock"

	"minik8s.io/minik8s/pkg/pki"
)

const (
	// shortest is how long a certificate lasts that asks for even less.
	shortest = 10 * time.Minute
	// backdate lets clocks of clients be late. A certificate of less than a working day loses none of its life to it.
	backdate, working = pki.Backdate, 8 * time.Hour
)

// Authority is the CA that signs. Safe for concurrent use.
type Authority struct {
	cert  *x509.Certificate
	key   crypto.Signer
	clock clock.PassiveClock
	// longest is how long a certificate lasts that does not ask for less.
	longest time.Duration
}

// NewAuthority reads a CA whose certificates last for longest if they do not ask for less.
func NewAuthority(ca pki.Pair, longest time.Duration, clock clock.PassiveClock) (*Authority, error) {
	cert, err := pki.ParseCertificate(ca.Cert)
	if err != nil {
		return nil, fmt.Errorf("reading the certificate of the signing CA: %w", err)
	}
	key, err := pki.ParseKey(ca.Key)
	if err != nil {
		return nil, fmt.Errorf("reading the key of the signing CA: %w", err)
	}
	return &Authority{cert, key, clock, longest}, nil
}

// Sign returns a certificate, PEM, with the names of the request, these usages and nothing else of the request.
func (a *Authority) Sign(
	request *x509.CertificateRequest, usages []certificatesv1.KeyUsage, expirationSeconds *int32,
) ([]byte, error) {
	if err := request.CheckSignature(); err != nil {
		return nil, fmt.Errorf("unable to verify certificate request signature: %w", err)
	}
	usage, extended, err := keyUsages(usages)
	if err != nil {
		return nil, err
	}
	from, to, err := validity(a.clock.Now(), lifetime(expirationSeconds, a.longest), a.cert.NotAfter)
	if err != nil {
		return nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 128))
	if err != nil {
		return nil, fmt.Errorf("making a serial number: %w", err)
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: serial, Subject: request.Subject,
		DNSNames: request.DNSNames, IPAddresses: request.IPAddresses,
		EmailAddresses: request.EmailAddresses, URIs: request.URIs,
		KeyUsage: usage, ExtKeyUsage: extended, BasicConstraintsValid: true, NotBefore: from, NotAfter: to,
	}, a.cert, request.PublicKey, a.key)
	if err != nil {
		return nil, fmt.Errorf("failed to sign certificate: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}

// lifetime is what a request gets that asks for so many seconds.
func lifetime(expirationSeconds *int32, longest time.Duration) time.Duration {
	if expirationSeconds == nil {
		return longest
	}
	return min(longest, max(shortest, time.Duration(*expirationSeconds)*time.Second))
}

// validity returns the first and the last moment of a certificate. It does not outlive its CA.
func validity(now time.Time, lifetime time.Duration, end time.Time) (from, to time.Time, err error) {
	if !now.Before(end) {
		return from, to, fmt.Errorf("the signer has expired: NotAfter=%v", end)
	}
	from, to = now.Add(-backdate), now.Add(lifetime)
	if lifetime >= working {
		to = to.Add(-backdate)
	}
	if to.After(end) {
		to = end
	}
	return from, to, nil
}

var keyUsageBits = map[certificatesv1.KeyUsage]x509.KeyUsage{
	certificatesv1.UsageSigning:           x509.KeyUsageDigitalSignature,
	certificatesv1.UsageDigitalSignature:  x509.KeyUsageDigitalSignature,
	certificatesv1.UsageContentCommitment: x509.KeyUsageContentCommitment,
	certificatesv1.UsageKeyEncipherment:   x509.KeyUsageKeyEncipherment,
	certificatesv1.UsageKeyAgreement:      x509.KeyUsageKeyAgreement,
	certificatesv1.UsageDataEncipherment:  x509.KeyUsageDataEncipherment,
	certificatesv1.UsageCertSign:          x509.KeyUsageCertSign,
	certificatesv1.UsageCRLSign:           x509.KeyUsageCRLSign,
	certificatesv1.UsageEncipherOnly:      x509.KeyUsageEncipherOnly,
	certificatesv1.UsageDecipherOnly:      x509.KeyUsageDecipherOnly,
}

var extendedKeyUsages = map[certificatesv1.KeyUsage]x509.ExtKeyUsage{
	certificatesv1.UsageAny:             x509.ExtKeyUsageAny,
	certificatesv1.UsageServerAuth:      x509.ExtKeyUsageServerAuth,
	certificatesv1.UsageClientAuth:      x509.ExtKeyUsageClientAuth,
	certificatesv1.UsageCodeSigning:     x509.ExtKeyUsageCodeSigning,
	certificatesv1.UsageEmailProtection: x509.ExtKeyUsageEmailProtection,
	certificatesv1.UsageSMIME:           x509.ExtKeyUsageEmailProtection,
	certificatesv1.UsageIPsecEndSystem:  x509.ExtKeyUsageIPSECEndSystem,
	certificatesv1.UsageIPsecTunnel:     x509.ExtKeyUsageIPSECTunnel,
	certificatesv1.UsageIPsecUser:       x509.ExtKeyUsageIPSECUser,
	certificatesv1.UsageTimestamping:    x509.ExtKeyUsageTimeStamping,
	certificatesv1.UsageOCSPSigning:     x509.ExtKeyUsageOCSPSigning,
	certificatesv1.UsageMicrosoftSGC:    x509.ExtKeyUsageMicrosoftServerGatedCrypto,
	certificatesv1.UsageNetscapeSGC:     x509.ExtKeyUsageNetscapeServerGatedCrypto,
}

// keyUsages translates usages; the extended ones are sorted, none is there twice.
func keyUsages(usages []certificatesv1.KeyUsage) (x509.KeyUsage, []x509.ExtKeyUsage, error) {
	var bits x509.KeyUsage
	extended := map[x509.ExtKeyUsage]bool{}
	var unknown []certificatesv1.KeyUsage
	for _, u := range usages {
		if b, ok := keyUsageBits[u]; ok {
			bits |= b
		} else if e, ok := extendedKeyUsages[u]; ok {
			extended[e] = true
		} else {
			unknown = append(unknown, u)
		}
	}
	if len(unknown) > 0 {
		return 0, nil, fmt.Errorf("unrecognized usage values: %q", unknown)
	}
	return bits, slices.Sorted(maps.Keys(extended)), nil
}
