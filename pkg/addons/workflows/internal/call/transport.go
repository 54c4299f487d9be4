// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package call

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"syscall"
	"time"
)

// ServiceAddress returns where a Service is: an address of the cluster.
type ServiceAddress func(ctx context.Context, namespace, name string) (string, error)

// NewTransport makes HTTP requests to anywhere but the machine that it is on: who may make a workflow is not thereby somebody who
// may speak to what listens on the control plane's loopback addresses, or to a cloud's metadata. Names of Services, NAME.NAMESPACE.svc,
// are looked up in the API: the control plane's process does not ask the cluster's DNS.
func NewTransport(services ServiceAddress) *http.Transport {
	dialer := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second, Control: outward}
	return &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			host, port, err := net.SplitHostPort(address)
			if err != nil {
				return nil, err
			}
			if namespace, name, ok := serviceOf(host); ok {
				if host, err = services(ctx, namespace, name); err != nil {
					return nil, err
				}
			}
			return dialer.DialContext(ctx, network, net.JoinHostPort(host, port))
		},
		TLSHandshakeTimeout: 10 * time.Second, IdleConnTimeout: 90 * time.Second, MaxIdleConns: 100, MaxIdleConnsPerHost: 16,
		ForceAttemptHTTP2: true,
	}
}

// serviceOf takes a name apart that is a Service's.
func serviceOf(host string) (namespace, name string, ok bool) {
	parts := strings.Split(strings.TrimSuffix(strings.TrimSuffix(host, "."), ".cluster.local"), ".")
	if len(parts) != 3 || parts[2] != "svc" {
		return "", "", false
	}
	return parts[1], parts[0], true
}

// outward refuses addresses that are the machine's own business. It is asked with what a name was resolved to.
func outward(_, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	ip := at.Addr().Unmap()
	if ip.IsLoopback() || ip.IsLinkLocalUnicast() || ip.IsMulticast() || ip.IsUnspecified() {
		return fmt.Errorf("calls to %s are not allowed: workflows are run on the control plane's machine, whose own addresses are not for them", ip)
	}
	return nil
}
