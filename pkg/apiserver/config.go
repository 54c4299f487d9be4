// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/util/webhook"

	"minik8s.io/minik8s/pkg/apiserver/admission/defaulttolerationseconds"
	"minik8s.io/minik8s/pkg/apiserver/authentication"
	"minik8s.io/minik8s/pkg/apiserver/authorization"
	rbac "minik8s.io/minik8s/pkg/apiserver/authorization/policy"
	"minik8s.io/minik8s/pkg/apiserver/inprocess"
	"minik8s.io/minik8s/pkg/etcd"
	"minik8s.io/minik8s/pkg/pki"
	"minik8s.io/minik8s/pkg/registry"
	"minik8s.io/minik8s/pkg/registry/etcdstore"
)

// Config of one API server.
type Config struct {
	// Backend keeps the objects. Required.
	Backend etcd.Backend
	// Groups are served; default: all that exist.
	Groups []registry.Group
	// Listener accepts TLS connections. Required; the server closes it.
	Listener net.Listener
	// InProcess is by which clients that share the process reach the server, once it runs; default: one for itself.
	InProcess *inprocess.Server
	// AdvertiseAddress is what the kubernetes Service points to. Required for that Service.
	AdvertiseAddress netip.Addr
	// Serving is the server's certificate. Required without SecureServing.
	Serving pki.Pair
	// SecureServing says how TLS is served, in place of Serving: certificates that follow files, names, ciphers. Its
	// listener is Listener.
	SecureServing *genericapiserver.SecureServingInfo
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
	// to it and to OtherTokenIssuers, whose tokens are accepted too.
	TokenIssuer       string
	OtherTokenIssuers []string
	APIAudiences      []string
	// TokenKeysURL is where others find the keys that verify tokens; default: at this server's external address.
	TokenKeysURL string
	// MaxTokenExpiration bounds the lifetime of tokens; 0: no bound. ExactTokenLifetime gives pods no longer lifetime than
	// the kubelet asks for; by default it is a year, as upstream has it.
	MaxTokenExpiration time.Duration
	ExactTokenLifetime bool
	// SkipTokenLookup accepts tokens that are kept in Secrets without looking whether the Secret is still there.
	SkipTokenLookup bool

	// KubeletClient returns the certificate that authenticates the server to kubelets, an empty one if nothing does. It is asked
	// before each request; another pointer is another certificate. Without, logs, exec, attach, port-forward and node proxy
	// answer that nodes cannot be reached. KubeletCA signed the certificates of kubelets; without, any certificate will do, as
	// upstream has it, but not at addresses that only this machine reaches.
	KubeletClient func() (*tls.Certificate, error)
	KubeletCA     []byte
	// KubeletAddressTypes are the addresses of a node to try, in order; default InternalIP, Hostname, ExternalIP.
	KubeletAddressTypes []corev1.NodeAddressType

	// Usage tells what nodes and pods use: metrics.k8s.io is served then, unless an APIService names another server for it.
	Usage registry.Usage

	// Authentication says who is accepted besides holders of client certificates and ServiceAccounts.
	Authentication authentication.Config
	// Authorization says who decides; default: the modes Node and RBAC.
	Authorization authorization.Config
	// Policy is what RBAC permits from the start, beyond what it permits in every cluster.
	Policy rbac.Policy
	// ForbidPrivileged refuses privileged containers everywhere.
	ForbidPrivileged bool
	// EnableAdmission and DisableAdmission change the default set of admission plugins.
	EnableAdmission, DisableAdmission []string
	// AdmissionConfigFile configures admission plugins (an AdmissionConfiguration); may be empty.
	AdmissionConfigFile string
	// TolerationSeconds is for how long pods tolerate nodes that fail, if they do not say it; default: for 300 seconds.
	TolerationSeconds *defaulttolerationseconds.Seconds

	// ProxyClientCertFile and ProxyClientKeyFile prove to aggregated servers that requests come through this one. Without,
	// those servers see nobody.
	ProxyClientCertFile, ProxyClientKeyFile string
	// AggregatorRouting sends requests to the pods behind a Service of an aggregated server or webhook, and not to its
	// cluster IP; RejectAggregatorRedirects passes no redirects of aggregated servers on.
	AggregatorRouting, RejectAggregatorRedirects bool
	// ServiceResolver finds the servers of Services in another way; default: see AggregatorRouting.
	ServiceResolver webhook.ServiceResolver

	// WithoutFairness refuses requests above the machinery's bounds, with no priority and fairness among them.
	WithoutFairness bool
	// EventTTL is how long events are kept; default one hour.
	EventTTL time.Duration
	// Handlers are what others in this process serve besides the API, by path. Whether a request gets there is told by
	// authorization; the list of paths does not show them.
	Handlers map[string]http.Handler
	// Components tell of the controller-manager and the scheduler whether they are well, for ComponentStatuses; one that is
	// missing is looked for at the port that upstream's has on this machine.
	Components map[string]registry.Check
	// Machinery may change settings of the generic server, before storage is made; may be nil.
	Machinery func(*genericapiserver.Config) error
	// Storage of objects; the zero value has upstream's defaults.
	Storage etcdstore.Options
}

// CloseBackends ends the connections to where objects are kept, after the server.
func (c *Config) CloseBackends() error {
	errs := []error{c.Backend.Close()}
	for _, o := range c.Storage.Overrides {
		errs = append(errs, o.Backend.Close())
	}
	return errors.Join(errs...)
}
