// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"time"

	"minik8s.io/minik8s/pkg/apiserver/authorization/policy"
	"minik8s.io/minik8s/pkg/metrics"
	"minik8s.io/minik8s/pkg/pki"
)

// newMetrics makes what measures nodes and pods. Kubelets of this process are asked like those of others.
func (r *runner) newMetrics() (*metrics.Collector, error) {
	client, err := r.client("minik8s-metrics", policy.MetricsUser)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(r.credentials.ca.Cert) {
		return nil, errors.New("the CA of kubelets is no certificate")
	}
	leaf := r.credentials.ca.Leaf(pki.Request{CommonName: policy.MetricsUser})
	return metrics.New(metrics.Config{Client: client, Kubelets: pki.NewTransport(leaf.Certificate, func(cert *tls.Certificate) *http.Transport {
		return &http.Transport{
			TLSClientConfig:     &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{*cert}, RootCAs: roots},
			DialContext:         (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
			TLSHandshakeTimeout: 5 * time.Second,
			IdleConnTimeout:     90 * time.Second,
			MaxIdleConnsPerHost: 1,
			DisableCompression:  true, // it would cost more than the way
		}
	})}), nil
}

// buildMetrics runs it.
func (r *runner) buildMetrics() (func(context.Context) error, error) { return r.metrics.Start, nil }
