// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package apiserver is the Kubernetes API server: resources (pkg/registry) behind the machinery (generic), with
// authentication, authorization, admission and the objects every cluster starts with. Touch it when one of these is wired
// differently; each lives in a folder of its own.
package apiserver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"minik8s.io/minik8s/pkg/apiserver/authentication/serviceaccount"
	"minik8s.io/minik8s/pkg/apiserver/authorization"
	"minik8s.io/minik8s/pkg/apiserver/bootstrap"
	"minik8s.io/minik8s/pkg/apiserver/clusterauthentication"
	"minik8s.io/minik8s/pkg/apiserver/generic"
	"minik8s.io/minik8s/pkg/apiserver/identity"
	"minik8s.io/minik8s/pkg/apiserver/inprocess"
	"minik8s.io/minik8s/pkg/etcd"
	"minik8s.io/minik8s/pkg/registry"
	"minik8s.io/minik8s/pkg/registry/core/componentstatus"
	"minik8s.io/minik8s/pkg/registry/core/service"
	"minik8s.io/minik8s/pkg/registry/groups"
)

// Server is an API server that has not started yet.
type Server struct {
	config Config
	server *genericapiserver.GenericAPIServer
}

// New builds a server: it connects to nothing but etcd.
func New(c Config) (*Server, error) {
	if c.Backend == nil || c.Listener == nil {
		return nil, errors.New("the API server needs a backend and a listener")
	}
	complete(&c)
	stores := registry.NewStores()
	p, err := newPolicy(c, stores)
	if err != nil {
		return nil, err
	}
	b, err := generic.NewBuilder(generic.Config{
		Backend: c.Backend, Groups: c.Groups, Listener: c.Listener, InProcess: c.InProcess, Serving: c.Serving, SecureServing: c.SecureServing, ClientCA: p.trusted(),
		AdvertiseAddress: c.AdvertiseAddress, Machinery: c.Machinery, Storage: c.Storage,
	})
	if err != nil {
		return nil, err
	}
	a, err := newAccess(b, c)
	if err != nil {
		return nil, err
	}
	decide, err := p.build(b, a)
	if err != nil {
		return nil, err
	}
	b.Decide(decide)
	deps := registry.Config{
		Stores: stores, ServiceIPRanges: c.ServiceIPRanges, NodePorts: c.NodePorts, EventTTL: c.EventTTL, Tokens: p.issuer(), MaxTokenExpiration: c.MaxTokenExpiration, Kubelet: p.kubelet, Usage: c.Usage,
	}
	deps.Scheme = b.Scheme
	deps.Components = components(c)
	s := &Server{config: c}
	b.AddPostStartHook("start-apiserver-admission-initializer", a.start)
	b.AddPostStartHook("start-cluster-authentication-info-controller", func(hook genericapiserver.PostStartHookContext) error {
		go clusterauthentication.Keep(hook, a.client, clusterauthentication.Trust{ClientCA: p.clientCA, RequestHeader: c.Authentication.RequestHeader})
		return nil
	})
	s.addBootstrap(b, a.client, service.NewRepair(deps))
	removeIdentity := s.addIdentity(b, a.client)
	s.server, err = newChain(b, a, c, deps, func(builtIn *genericapiserver.GenericAPIServer) error {
		if err := builtIn.AddPreShutdownHook("stop-kube-apiserver-identity-lease-controller", removeIdentity); err != nil {
			return err
		}
		for path, handler := range c.Handlers {
			builtIn.Handler.NonGoRestfulMux.UnlistedHandle(path, handler)
		}
		return s.publishKeys(builtIn, p.tokens)
	})
	return s, err
}

// components are the parts of the control plane that ComponentStatuses tell of.
func components(c Config) map[string]registry.Check {
	all := map[string]registry.Check{
		"controller-manager": componentstatus.Listening(10257),
		"scheduler":          componentstatus.Listening(10259),
		"etcd-0":             storeCheck(c.Backend),
	}
	for i, o := range c.Storage.Overrides {
		all[fmt.Sprintf("etcd-%d", i+1)] = storeCheck(o.Backend)
	}
	maps.Copy(all, c.Components)
	return all
}

func storeCheck(b etcd.Backend) registry.Check {
	return func(ctx context.Context) error {
		if err := b.Healthy(ctx); err != nil {
			return err
		}
		return b.Writable(ctx) // /readyz does not ask this: who is to delete something must be let in
	}
}

// publishKeys serves what others verify ServiceAccount tokens by.
func (s *Server) publishKeys(server *genericapiserver.GenericAPIServer, tokens *serviceaccount.Tokens) error {
	if tokens == nil {
		return nil
	}
	if !strings.HasPrefix(s.config.TokenIssuer, "https://") {
		klog.InfoS("The keys of ServiceAccount tokens are not published: the issuer is not an https URL", "issuer", s.config.TokenIssuer)
		return nil
	}
	keys := s.config.TokenKeysURL
	if keys == "" {
		keys = "https://" + server.ExternalAddress + serviceaccount.KeysPath
	}
	services, err := tokens.Discovery(keys)
	if err != nil {
		return fmt.Errorf("publishing the keys of ServiceAccount tokens: %w", err)
	}
	for _, ws := range services {
		server.Handler.GoRestfulContainer.Add(ws)
	}
	return nil
}

func complete(c *Config) {
	if c.InProcess == nil {
		c.InProcess = inprocess.NewServer()
	}
	if c.Groups == nil {
		c.Groups = groups.All()
	}
	if c.Usage != nil {
		c.Groups = append(slices.Clip(c.Groups), groups.Measured())
	}
	if len(c.ServiceIPRanges) == 0 {
		c.ServiceIPRanges = []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16")}
	}
	if c.NodePorts.Size == 0 {
		c.NodePorts = utilnet.PortRange{Base: 30000, Size: 2768}
	}
	if c.TokenIssuer == "" {
		c.TokenIssuer = "https://kubernetes.default.svc.cluster.local"
	}
	if len(c.APIAudiences) == 0 {
		c.APIAudiences = append([]string{c.TokenIssuer}, c.OtherTokenIssuers...)
	}
	if len(c.Authorization.Modes) == 0 && c.Authorization.File == "" {
		c.Authorization.Modes = []string{authorization.Node, authorization.RBAC}
	}
	if len(c.KubeletAddressTypes) == 0 {
		c.KubeletAddressTypes = []corev1.NodeAddressType{corev1.NodeInternalIP, corev1.NodeHostName, corev1.NodeExternalIP}
	}
}

// addBootstrap runs the bootstrap hooks one after the other, as the Service needs its namespace and its range of addresses, and then the repair of
// service addresses, which needs caches that are filled.
func (s *Server) addBootstrap(b *generic.Builder, client kubernetes.Interface, repair *service.Repair) {
	c := bootstrap.Config{ServiceIP: s.config.ServiceIPRanges[0].Masked().Addr().Next(), ServiceIPRanges: s.config.ServiceIPRanges, Policy: s.config.Policy}
	if a, ok := s.config.Listener.Addr().(*net.TCPAddr); ok && s.config.AdvertiseAddress.IsValid() {
		c.Endpoint = netip.AddrPortFrom(s.config.AdvertiseAddress, uint16(a.Port))
	}
	before := make(chan struct{})
	close(before)
	for _, h := range bootstrap.Hooks {
		previous, done := before, make(chan struct{})
		before = done
		b.AddPostStartHook(h.Name, func(hook genericapiserver.PostStartHookContext) error {
			select {
			case <-previous:
			case <-hook.Done():
				return nil
			}
			if err := bootstrap.Start(hook.Context, h, client, c); err != nil {
				return nil //nolint:nilerr // the server is asked to end: a failed hook would kill the process instead
			}
			close(done)
			return nil
		})
	}
	b.AddPostStartHook("start-service-ip-repair-controllers", func(hook genericapiserver.PostStartHookContext) error {
		go func() {
			select {
			case <-before:
			case <-hook.Done():
				return
			}
			if err := repair.Start(hook.Context); err != nil {
				utilruntime.HandleErrorWithContext(hook.Context, err, "Repairing service addresses and ports")
			}
		}()
		return nil
	})
}

// addIdentity keeps the lease of this server while it serves.
func (s *Server) addIdentity(b *generic.Builder, client kubernetes.Interface) (stop func() error) {
	address := ""
	if a, ok := s.config.Listener.Addr().(*net.TCPAddr); ok && s.config.AdvertiseAddress.IsValid() {
		address = netip.AddrPortFrom(s.config.AdvertiseAddress, uint16(a.Port)).String()
	}
	lease := identity.NewLease(client, b.ServerID(), address)
	b.AddPostStartHook("start-kube-apiserver-identity-lease-controller", func(hook genericapiserver.PostStartHookContext) error {
		return lease.Start(hook.Done())
	})
	b.AddPostStartHook("start-kube-apiserver-identity-lease-garbage-collector", func(hook genericapiserver.PostStartHookContext) error {
		go identity.Collect(hook, client)
		return nil
	})
	return func() error { lease.Stop(); return nil }
}

// Loopback is a client with all rights, for what shares the process. It works once the server runs.
func (s *Server) Loopback() *rest.Config { return rest.CopyConfig(s.server.LoopbackClientConfig) }

// Start serves until ctx ends, then drains requests and returns.
func (s *Server) Start(ctx context.Context) error {
	prepared := s.server.PrepareRun()
	s.config.InProcess.Serve(s.server.Handler)
	defer s.config.InProcess.Close()
	if err := prepared.RunWithContext(ctx); err != nil {
		return fmt.Errorf("serving the API: %w", err)
	}
	return nil
}
