// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package generic puts a list of API groups behind the published machinery of k8s.io/apiserver: TLS, filters, discovery,
// OpenAPI, health. It has no policy of its own; who may do what is handed in. Touch it when the machinery is set up
// differently for all resources.
package generic

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/sets"
	utilversion "k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/discovery/aggregated"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	genericfilters "k8s.io/apiserver/pkg/server/filters"
	"k8s.io/apiserver/pkg/server/healthz"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	"k8s.io/apiserver/pkg/util/compatibility"
	"k8s.io/client-go/rest"
	basecompatibility "k8s.io/component-base/compatibility"
	"k8s.io/component-base/version"

	"minik8s.io/minik8s/pkg/apiserver/openapi"
	"minik8s.io/minik8s/pkg/etcd"
	"minik8s.io/minik8s/pkg/pki"
	"minik8s.io/minik8s/pkg/registry"
	"minik8s.io/minik8s/pkg/registry/storage"
)

// Config of the machinery.
type Config struct {
	Backend  etcd.Backend
	Groups   []registry.Group
	Listener net.Listener
	Serving  pki.Pair
	// ClientCA makes the server ask for client certificates; may be nil.
	ClientCA dynamiccertificates.CAContentProvider
	// AdvertiseAddress is where clients find the server; default: the listener's.
	AdvertiseAddress netip.Addr

	RequestTimeout                                   time.Duration
	MaxRequestsInFlight, MaxMutatingRequestsInFlight int
	CompactionInterval, ShutdownDelay                time.Duration
}

// Builder is a half-made server: the loopback client exists, so that policy can be built on it; Finish makes the server.
type Builder struct {
	// Loopback is a client of the server with all rights, in-process only. It works once the server runs.
	Loopback *rest.Config
	// Scheme of all served types.
	Scheme *runtime.Scheme

	config  Config
	generic *genericapiserver.Config
	storage *storage.Factory
	openapi openapi.Config
}

// Policy is what decides about requests.
type Policy struct {
	Authenticator authenticator.Request
	APIAudiences  authenticator.Audiences
	Authorizer    authorizer.Authorizer
	RuleResolver  authorizer.RuleResolver
	// Admission may be nil.
	Admission admission.Interface
}

// longRunning are the subresources and verbs that may last; all others end with the request timeout.
func longRunning() apirequest.LongRunningRequestCheck {
	return genericfilters.BasicLongRunningRequestCheck(
		sets.NewString("watch", "proxy"),
		sets.NewString("attach", "exec", "proxy", "log", "portforward"),
	)
}

// NewBuilder prepares a server.
func NewBuilder(c Config) (*Builder, error) {
	scheme := registry.NewScheme(c.Groups)
	g := genericapiserver.NewConfig(serializer.NewCodecFactory(scheme))
	secure, loopback, err := serving(c)
	if err != nil {
		return nil, err
	}
	g.SecureServing, g.LoopbackClientConfig = secure, loopback
	g.EffectiveVersion = effectiveVersion()
	g.LongRunningFunc = longRunning()
	g.MergedResourceConfig = serverstorage.NewResourceConfig()
	g.AggregatedDiscoveryGroupManager = aggregated.NewResourceManager("apis")
	g.ShutdownDelayDuration = c.ShutdownDelay
	g.ShutdownSendRetryAfter = true
	if c.RequestTimeout > 0 {
		g.RequestTimeout = c.RequestTimeout
	}
	if c.MaxRequestsInFlight > 0 {
		g.MaxRequestsInFlight = c.MaxRequestsInFlight
	}
	if c.MaxMutatingRequestsInFlight > 0 {
		g.MaxMutatingRequestsInFlight = c.MaxMutatingRequestsInFlight
	}
	if c.AdvertiseAddress.IsValid() {
		g.PublicAddress = c.AdvertiseAddress.AsSlice()
	} else if a, ok := c.Listener.Addr().(*net.TCPAddr); ok {
		g.PublicAddress = a.IP
	}

	store := storage.NewFactory(storage.Config{
		Backend: c.Backend, Scheme: scheme, CompactionInterval: c.CompactionInterval, ObjectCounts: g.StorageObjectCountTracker,
	})
	g.RESTOptionsGetter = store
	g.AddHealthChecks(healthz.NamedCheck("etcd", func(r *http.Request) error {
		ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
		defer cancel()
		return store.Healthy(ctx)
	}))

	docs := openapi.NewConfig(versioned(c.Groups), version.Get().GitVersion)
	g.OpenAPIConfig, g.OpenAPIV3Config = docs.V2, docs.V3
	g.SkipOpenAPIInstallation = true // ours is lazy
	return &Builder{Loopback: loopback, Scheme: scheme, config: c, generic: g, storage: store, openapi: docs}, nil
}

// AddPostStartHook runs f once the server serves; /readyz waits for it.
func (b *Builder) AddPostStartHook(name string, f genericapiserver.PostStartHookFunc) {
	b.generic.AddPostStartHookOrDie(name, f)
}

// DrainedSignal closes when all requests have been drained at the server's end.
func (b *Builder) DrainedSignal() <-chan struct{} { return b.generic.DrainedNotify() }

// Finish builds the storage of all resources with deps (whose Scheme, RESTOptions, Stores and policy fields are filled in
// here) and installs it.
func (b *Builder) Finish(p Policy, deps registry.Config) (*genericapiserver.GenericAPIServer, error) {
	b.generic.Authentication.Authenticator = p.Authenticator
	b.generic.Authentication.APIAudiences = p.APIAudiences
	b.generic.Authorization.Authorizer = p.Authorizer
	b.generic.RuleResolver = p.RuleResolver
	b.generic.AdmissionControl = p.Admission

	deps.Scheme, deps.RESTOptions = b.Scheme, b.storage
	if deps.Stores == nil {
		deps.Stores = registry.NewStores()
	}
	completed := b.generic.Complete(nil)
	// Completion wraps both: reviews must see the loopback identity too.
	deps.Authenticator, deps.APIAudiences = b.generic.Authentication.Authenticator, p.APIAudiences
	deps.Authorizer, deps.RuleResolver = b.generic.Authorization.Authorizer, p.RuleResolver

	s, err := completed.New("kube-apiserver", genericapiserver.NewEmptyDelegate())
	if err != nil {
		return nil, fmt.Errorf("building API server: %w", err)
	}
	infos, err := registry.APIGroupInfos(b.config.Groups, deps)
	if err != nil {
		return nil, err
	}
	var named []*genericapiserver.APIGroupInfo
	for _, info := range infos {
		if info.PrioritizedVersions[0].Group != "" {
			named = append(named, info)
			continue
		}
		if err := s.InstallLegacyAPIGroup(genericapiserver.DefaultLegacyAPIPrefix, info); err != nil {
			return nil, fmt.Errorf("installing core group: %w", err)
		}
	}
	if len(named) > 0 {
		if err := s.InstallAPIGroups(named...); err != nil {
			return nil, fmt.Errorf("installing API groups: %w", err)
		}
	}
	if err := openapi.Install(s, b.openapi); err != nil {
		return nil, err
	}
	s.RegisterDestroyFunc(b.storage.Stop)
	return s, nil
}

func effectiveVersion() basecompatibility.EffectiveVersion {
	if v, err := utilversion.ParseSemantic(version.Get().GitVersion); err == nil && v.Major() > 0 {
		return compatibility.DefaultBuildEffectiveVersion()
	}
	// Built without version information, as by go test.
	return basecompatibility.NewEffectiveVersionFromString("1.37", "", "")
}

// versioned is the scheme without internal types, for names in documents.
func versioned(groups []registry.Group) *runtime.Scheme {
	s := runtime.NewScheme()
	for _, g := range groups {
		if err := g.AddToScheme(s); err != nil {
			panic(err) // the same call has succeeded in registry.NewScheme
		}
	}
	return s
}

// serving sets TLS up, and a loopback client that proves itself by a random token.
func serving(c Config) (*genericapiserver.SecureServingInfo, *rest.Config, error) {
	if c.Listener == nil {
		return nil, nil, errors.New("no listener given")
	}
	cert, err := dynamiccertificates.NewStaticCertKeyContent("serving", c.Serving.Cert, c.Serving.Key)
	if err != nil {
		return nil, nil, fmt.Errorf("reading serving certificate: %w", err)
	}
	ca, err := pki.NewCA("loopback")
	if err != nil {
		return nil, nil, err
	}
	pair, err := ca.Issue(pki.Request{CommonName: genericapiserver.LoopbackClientServerNameOverride, Hosts: []string{genericapiserver.LoopbackClientServerNameOverride}})
	if err != nil {
		return nil, nil, err
	}
	sni, err := dynamiccertificates.NewStaticSNICertKeyContent("loopback", pair.Cert, pair.Key, genericapiserver.LoopbackClientServerNameOverride)
	if err != nil {
		return nil, nil, fmt.Errorf("reading loopback certificate: %w", err)
	}
	info := &genericapiserver.SecureServingInfo{
		Listener:      c.Listener,
		Cert:          cert,
		SNICerts:      []dynamiccertificates.SNICertKeyContentProvider{sni},
		ClientCA:      c.ClientCA,
		MinTLSVersion: tls.VersionTLS12,
	}
	loopback, err := info.NewLoopbackClientConfig(uuid.NewString(), ca.Cert)
	if err != nil {
		return nil, nil, fmt.Errorf("making loopback client: %w", err)
	}
	loopback.ContentType = runtime.ContentTypeProtobuf
	loopback.QPS = -1
	loopback.WarningHandlerWithContext = rest.NoWarnings{} // meant for people
	return info, loopback, nil
}
