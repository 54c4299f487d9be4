// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package httpget builds the HTTP requests that probes and life-cycle hooks send to containers. Touch it when a field
// of HTTPGetAction is added.
package httpget

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"minik8s.io/minik8s/pkg/network/namespace"
)

// Port resolves a port by number or by its name in the container.
func Port(p intstr.IntOrString, c *corev1.Container) (int, error) {
	port := 0
	if p.Type == intstr.Int {
		port = p.IntValue()
	} else {
		for _, cp := range c.Ports {
			if cp.Name == p.StrVal {
				port = int(cp.ContainerPort)
			}
		}
		if port == 0 {
			n, err := strconv.Atoi(p.StrVal)
			if err != nil {
				return 0, fmt.Errorf("couldn't find port: %v in container %s", p.StrVal, c.Name)
			}
			port = n
		}
	}
	if port < 1 || port > 65535 {
		return 0, fmt.Errorf("invalid port number: %v", port)
	}
	return port, nil
}

// Request is the GET that a describes; host is the pod's address, used unless a names another, and agent the default
// User-Agent ("" keeps Go's).
func Request(ctx context.Context, a *corev1.HTTPGetAction, c *corev1.Container, host, agent string) (*http.Request, error) {
	port, err := Port(a.Port, c)
	if err != nil {
		return nil, err
	}
	if a.Host != "" {
		host = a.Host
	}
	scheme := strings.ToLower(string(a.Scheme))
	if scheme == "" {
		scheme = "http"
	}
	u, err := url.Parse(a.Path)
	if err != nil { // an odd path is sent as it is
		u = &url.URL{Path: a.Path}
	}
	u.Scheme = scheme
	u.Host = net.JoinHostPort(host, strconv.Itoa(port))
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("building request: %w", err)
	}
	for _, h := range a.HTTPHeaders {
		if http.CanonicalHeaderKey(h.Name) == "Host" {
			req.Host = h.Value
		}
		req.Header.Add(h.Name, h.Value)
	}
	if _, ok := req.Header["User-Agent"]; !ok && agent != "" {
		req.Header.Set("User-Agent", agent)
	}
	if _, ok := req.Header["Accept"]; !ok {
		req.Header.Set("Accept", "*/*")
	} else if req.Header.Get("Accept") == "" {
		req.Header.Del("Accept") // an empty value asks for none
	}
	return req, nil
}

// Transport opens a connection per request and trusts any certificate: containers make their own. A nil dial is that of the process.
func Transport(dial namespace.Dial) *http.Transport {
	return &http.Transport{
		DialContext:        dial,
		TLSClientConfig:    &tls.Config{InsecureSkipVerify: true},
		DisableKeepAlives:  true,
		DisableCompression: true,
		Proxy:              nil,
	}
}
