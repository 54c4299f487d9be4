// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"net"
	"net/netip"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"

	"minik8s.io/minik8s/pkg/etcd"
	"minik8s.io/minik8s/pkg/pki"
	"minik8s.io/minik8s/pkg/registry"
)

// Config of one API server.
type Config struct {
	// Backend keeps the objects. Required.
	Backend etcd.Backend
	// Groups are served; default: all that exist.
	Groups []registry.Group
	// Listener accepts TLS connections. Required; the server closes it.
	Listener net.Listener
	// AdvertiseAddress is what the kubernetes Service points to. Required for that Service.
	AdvertiseAddress netip.Addr
	// Serving is the server's certificate. Required.
	Serving pki.Pair
	// ClientCA signs client certificates (PEM).
	ClientCA []byte
	// ServiceIPRanges are the ranges of ClusterIPs; default 10.96.0.0/16.
	ServiceIPRanges []netip.Prefix
	// NodePorts is the range of node ports; default 30000-32767.
	NodePorts utilnet.PortRange

	// TokenKey (PEM) signs ServiceAccount tokens; TokenKeys verify them besides. Without a key none are issued.
	TokenKey  []byte
	TokenKeys [][]byte
	// TokenIssuer is the issuer in tokens, by default https://kubernetes.default.svc.cluster.local; APIAudiences default
	// to it.
	TokenIssuer  string
	APIAudiences []string

	// KubeletClient authenticates the server to kubelets, whose certificates KubeletCA signed. Without, logs, exec,
	// attach, port-forward and node proxy answer that nodes cannot be reached.
	KubeletClient pki.Pair
	KubeletCA     []byte

	// AuthorizationModes in order; default Node, RBAC.
	AuthorizationModes []string
	// EnableAdmission and DisableAdmission change the default set of admission plugins.
	EnableAdmission, DisableAdmission []string

	// RequestTimeout of ordinary requests; default one minute.
	RequestTimeout time.Duration
	// MaxRequestsInFlight and MaxMutatingRequestsInFlight bound concurrency; default 400 and 200.
	MaxRequestsInFlight, MaxMutatingRequestsInFlight int
	// CompactionInterval of etcd; default five minutes, negative: never.
	CompactionInterval time.Duration
	// EventTTL is how long events are kept; default one hour.
	EventTTL time.Duration
	// ShutdownDelay keeps serving after the server has announced its end on /readyz; default none.
	ShutdownDelay time.Duration
}
