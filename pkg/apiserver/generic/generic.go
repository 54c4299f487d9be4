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
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	admissionv1 "k8s.io/api/admission/v1"
	admissionv1beta1 "k8s.io/api/admission/v1beta1"
	imagepolicyv1alpha1 "k8s.io/api/imagepolicy/v1alpha1"
	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	utilversion "k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/discovery/aggregated"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	registrygeneric "k8s.io/apiserver/pkg/registry/generic"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	genericfilters "k8s.io/apiserver/pkg/server/filters"
	"k8s.io/apiserver/pkg/server/healthz"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	etcdmetrics "k8s.io/apiserver/pkg/storage/etcd3/metrics"
	"k8s.io/apiserver/pkg/util/compatibility"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	utilflowcontrol "k8s.io/apiserver/pkg/util/flowcontrol"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/informers"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	basecompatibility "k8s.io/component-base/compatibility"
	metricsfeatures "k8s.io/component-base/metrics/features"
	"k8s.io/component-base/version"
	aggregatorscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"

	"minik8s.io/minik8s/pkg/apiserver/creates"
	"minik8s.io/minik8s/pkg/apiserver/guard"
	"minik8s.io/minik8s/pkg/apiserver/inprocess"
	"minik8s.io/minik8s/pkg/apiserver/lists"
	"minik8s.io/minik8s/pkg/apiserver/openapi"
	"minik8s.io/minik8s/pkg/etcd"
	"minik8s.io/minik8s/pkg/pki"
	"minik8s.io/minik8s/pkg/registry"
	"minik8s.io/minik8s/pkg/registry/etcdstore"
)

// Config of the machinery.
type Config struct {
	Backend  etcd.Backend
	Groups   []registry.Group
	Listener net.Listener
	Serving  pki.Pair
	// SecureServing says how TLS is served, in place of Serving; may be nil.
	SecureServing *genericapiserver.SecureServingInfo
	// ClientCA makes the server ask for client certificates; may be nil.
	ClientCA dynamiccertificates.CAContentProvider
	// InProcess is the way of the loopback client; who runs the server has it serve the server's handler. Nil: that client comes
	// by the wire as all others.
	InProcess *inprocess.Server
	// AdvertiseAddress is where clients find the server; default: the listener's.
	AdvertiseAddress netip.Addr

	// Machinery may change all settings that are not made here; may be nil.
	Machinery func(*genericapiserver.Config) error
	// Storage of objects.
	Storage etcdstore.Options
}

// Builder is a half-made server: the loopback client exists, so that policy can be built on it; Finish makes the server.
type Builder struct {
	// Loopback is a client of the server with all rights, in-process only. It works once the server runs.
	Loopback *rest.Config
	// Scheme of all served types.
	Scheme *runtime.Scheme
	// Storage keeps the objects.
	Storage *etcdstore.Factory
	// OpenAPI says how documents are made.
	OpenAPI openapi.Config

	config  Config
	creates *creates.Creates
	generic *genericapiserver.Config
	wire    *rest.Config // Loopback, over TLS
	roles   authorizer.RuleResolver
}

// Policy is what decides about requests.
type Policy struct {
	Authenticator authenticator.Request
	APIAudiences  authenticator.Audiences
	Authorizer    authorizer.Authorizer
	RuleResolver  authorizer.RuleResolver
	// RoleRules are those that users hold by roles, whatever else allows them something; nil if there are no roles.
	RoleRules authorizer.RuleResolver
	// Admission may be nil.
	Admission admission.Interface
	// FlowControl lets requests wait for one another. Nil: there is only a bound on how many are in flight.
	FlowControl utilflowcontrol.Interface
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
	metricsfeatures.ApplyFeatureGates(utilfeature.DefaultFeatureGate) // before there are histograms
	scheme := registry.NewScheme(c.Groups)
	g := genericapiserver.NewConfig(serializer.NewCodecFactory(scheme))
	secure, wire, fresh, err := serving(c)
	if err != nil {
		return nil, err
	}
	loopback := wire
	if c.InProcess != nil {
		if loopback, err = withoutWire(wire, c.InProcess); err != nil {
			return nil, err
		}
	}
	g.SecureServing, g.LoopbackClientConfig = secure, loopback
	g.AddHealthzChecks(fresh)
	g.AddLivezChecks(fresh)
	g.EffectiveVersion = effectiveVersion()
	g.LongRunningFunc = longRunning()
	g.MergedResourceConfig = serverstorage.NewResourceConfig()
	g.AggregatedDiscoveryGroupManager = aggregated.NewResourceManager("apis")
	g.ShutdownSendRetryAfter = true
	quick := &creates.Creates{}
	g.BuildHandlerChainFunc = func(handler http.Handler, c *genericapiserver.Config) http.Handler {
		return guard.Chain(reserving(quick.Handler(handler)), c)
	}
	if c.AdvertiseAddress.IsValid() {
		g.PublicAddress = c.AdvertiseAddress.AsSlice()
	} else if a, ok := c.Listener.Addr().(*net.TCPAddr); ok {
		g.PublicAddress = a.IP
	}

	if c.Machinery != nil {
		if err := c.Machinery(g); err != nil {
			return nil, err
		}
	}
	store := etcdstore.NewFactory(etcdstore.Config{
		Backend: c.Backend, Scheme: scheme, ObjectCounts: g.StorageObjectCountTracker,
		Transformers: g.ResourceTransformers, Options: c.Storage,
	})
	g.RESTOptionsGetter = store
	watchStores(g, store.Clusters())

	docs := openapi.NewConfig(g.EffectiveVersion.EmulationVersion().String(), versioned(c.Groups), apiextensionsapiserver.Scheme, aggregatorscheme.Scheme)
	g.OpenAPIConfig, g.OpenAPIV3Config = docs.V2, docs.V3
	g.SkipOpenAPIInstallation = true // ours is lazy
	return &Builder{Loopback: loopback, Scheme: scheme, Storage: store, OpenAPI: docs, config: c, creates: quick, generic: g, wire: wire}, nil
}

// watchStores has the server tell whether each etcd answers, and how large it is, by upstream's names.
func watchStores(g *genericapiserver.Config, clusters []*etcdstore.Cluster) {
	var monitors []etcdmetrics.Monitor
	for i, c := range clusters {
		healthy := func(r *http.Request) error {
			ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
			defer cancel()
			return c.Healthy(ctx)
		}
		live, ready := "etcd", "etcd-readiness"
		if i > 0 {
			live, ready = fmt.Sprintf("etcd-override-%d", i-1), fmt.Sprintf("etcd-override-readiness-%d", i-1)
		}
		g.AddHealthChecks(healthz.NamedGroupedCheck(live, "etcd", healthy))
		g.AddReadyzChecks(healthz.NamedGroupedCheck(ready, "etcd-readiness", healthy))
		monitors = append(monitors, c)
	}
	etcdmetrics.SetStorageMonitorGetter(func() ([]etcdmetrics.Monitor, error) { return monitors, nil })
}

// withoutWire is a client that needs no TLS any more.
func withoutWire(wire *rest.Config, server *inprocess.Server) (*rest.Config, error) {
	transport, err := rest.TransportFor(&rest.Config{Host: wire.Host, TLSClientConfig: wire.TLSClientConfig})
	if err != nil {
		return nil, fmt.Errorf("making the transport of the loopback client: %w", err)
	}
	c := rest.CopyConfig(wire)
	c.TLSClientConfig, c.Transport = rest.TLSClientConfig{}, server.Transport(nil, transport)
	return c, nil
}

// reserving lets the server itself write into a store that is full: it starts only with the objects that every cluster has, and
// who wants to delete something needs a server.
func reserving(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if u, ok := apirequest.UserFrom(r.Context()); ok && u.GetName() == user.APIServerUser {
			r = r.WithContext(etcd.WithReserve(r.Context()))
		}
		next.ServeHTTP(w, r)
	})
}

// AddPostStartHook runs f once the server serves; /readyz waits for it.
func (b *Builder) AddPostStartHook(name string, f genericapiserver.PostStartHookFunc) {
	b.generic.AddPostStartHookOrDie(name, f)
}

// ServerID names this server among others of the same cluster.
func (b *Builder) ServerID() string { return b.generic.APIServerID }

// EffectiveVersion is the version whose behaviour the server has.
func (b *Builder) EffectiveVersion() basecompatibility.EffectiveVersion {
	return b.generic.EffectiveVersion
}

// WebhookAuthentication says how the server reaches webhooks and proves itself to them: by TLS, if it is one itself, for it is
// dialed as any other.
func (b *Builder) WebhookAuthentication() webhook.AuthenticationInfoResolverWrapper {
	return webhook.NewDefaultAuthenticationInfoResolverWrapper(nil, b.generic.EgressSelector, b.wire, b.generic.TracerProvider)
}

// Concurrency is how many requests may run at a time.
func (b *Builder) Concurrency() int {
	return b.generic.MaxRequestsInFlight + b.generic.MaxMutatingRequestsInFlight
}

// DrainedSignal closes when all requests have been drained at the server's end.
func (b *Builder) DrainedSignal() <-chan struct{} { return b.generic.DrainedNotify() }

// Decide sets the policy, for this server and for those that are chained to it later.
func (b *Builder) Decide(p Policy) {
	b.generic.Authentication.Authenticator = p.Authenticator
	b.generic.Authentication.APIAudiences = p.APIAudiences
	b.generic.Authorization.Authorizer = p.Authorizer
	b.generic.RuleResolver, b.roles = p.RuleResolver, p.RoleRules
	b.generic.AdmissionControl = b.creates.Learning(p.Admission)
	b.generic.FlowControl = p.FlowControl
}

// Chained is the configuration of another server of the chain: the same in all but its resources, which are kept by storage,
// and its hooks. The shared informers are those that it may use.
func (b *Builder) Chained(storage registrygeneric.RESTOptionsGetter, resources *serverstorage.ResourceConfig, shared informers.SharedInformerFactory) *genericapiserver.RecommendedConfig {
	c := *b.generic
	c.PostStartHooks = map[string]genericapiserver.PostStartHookConfigEntry{}
	c.RESTOptionsGetter, c.MergedResourceConfig = storage, resources
	return &genericapiserver.RecommendedConfig{Config: c, SharedInformerFactory: shared}
}

// Finish builds the storage of all resources with deps (whose Scheme, RESTOptions, Stores and policy fields are filled in
// here) and installs it. Requests for anything else go to next.
func (b *Builder) Finish(deps registry.Config, next genericapiserver.DelegationTarget) (*genericapiserver.GenericAPIServer, error) {
	deps.Scheme, deps.RESTOptions = b.Scheme, b.Storage
	if deps.Stores == nil {
		deps.Stores = registry.NewStores()
	}
	completed := b.generic.Complete(nil)
	// Completion wraps both: reviews must see the loopback identity too.
	deps.Authenticator, deps.APIAudiences = b.generic.Authentication.Authenticator, b.generic.Authentication.APIAudiences
	deps.Authorizer, deps.RuleResolver, deps.RoleRules = b.generic.Authorization.Authorizer, b.generic.RuleResolver, b.roles
	var err error
	if deps.Discovery, err = discovery.NewDiscoveryClientForConfig(b.Loopback); err != nil {
		return nil, fmt.Errorf("making a discovery client: %w", err)
	}

	s, err := completed.New("kube-apiserver", next)
	if err != nil {
		return nil, fmt.Errorf("building API server: %w", err)
	}
	infos, err := registry.APIGroupInfos(b.config.Groups, deps)
	if err != nil {
		return nil, err
	}
	var named []*genericapiserver.APIGroupInfo
	encoded := lists.NewCache()
	for _, info := range infos {
		info.NegotiatedSerializer = lists.Encoders(guard.Decoders(info.NegotiatedSerializer, info.Scheme), encoded)
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
	b.creates.Install(s, infos, b.generic.AdmissionControl)
	if err := s.AddPostStartHook("storage-readiness", s.StorageReadinessHook.Hook); err != nil {
		return nil, err
	}
	s.RegisterDestroyFunc(b.Storage.Stop)
	return s, nil
}

func effectiveVersion() basecompatibility.EffectiveVersion {
	if v, err := utilversion.ParseSemantic(version.Get().GitVersion); err == nil && v.Major() > 0 {
		return compatibility.DefaultBuildEffectiveVersion()
	}
	// Built without version information, as by go test.
	return basecompatibility.NewEffectiveVersionFromString("1.37", "", "")
}

// versioned is the scheme without internal types, for names in documents. Of group versions that are not served it has what
// all have (DeleteOptions), for upstream's documents name these too.
func versioned(groups []registry.Group) *runtime.Scheme {
	all := runtime.NewScheme()
	for _, g := range groups {
		utilruntime.Must(g.AddToScheme(all)) // has succeeded in registry.NewScheme
	}
	s := runtime.NewScheme()
	for kind, t := range all.AllKnownTypes() {
		if kind.Version == runtime.APIVersionInternal || strings.HasPrefix(t.PkgPath(), "k8s.io/apimachinery/") {
			continue
		}
		obj, err := all.New(kind)
		utilruntime.Must(err)
		s.AddKnownTypeWithName(kind, obj)
	}
	for _, gv := range slices.Concat(clientscheme.Scheme.PrioritizedVersionsAllGroups(),
		[]schema.GroupVersion{admissionv1.SchemeGroupVersion, admissionv1beta1.SchemeGroupVersion, imagepolicyv1alpha1.SchemeGroupVersion}) {
		metav1.AddToGroupVersion(s, gv)
	}
	return s
}

// serving sets TLS up, and a loopback client that proves itself by a random token. The check fails when the certificate
// that this client knows has expired: the server must start again then.
func serving(c Config) (_ *genericapiserver.SecureServingInfo, _ *rest.Config, check healthz.HealthChecker, _ error) {
	if c.Listener == nil {
		return nil, nil, nil, errors.New("no listener given")
	}
	info := c.SecureServing
	if info == nil {
		cert, err := dynamiccertificates.NewStaticCertKeyContent("serving", c.Serving.Cert, c.Serving.Key)
		if err != nil {
			return nil, nil, nil, fmt.Errorf("reading serving certificate: %w", err)
		}
		info = &genericapiserver.SecureServingInfo{Cert: cert, MinTLSVersion: tls.VersionTLS12}
	}
	ca, err := pki.NewCA("loopback")
	if err != nil {
		return nil, nil, nil, err
	}
	pair, err := ca.Issue(pki.Request{
		CommonName: genericapiserver.LoopbackClientServerNameOverride, Hosts: []string{genericapiserver.LoopbackClientServerNameOverride},
		// Its key never leaves the memory of this process.
		NotBefore: time.Now().Add(-pki.CABackdate), Lifetime: pki.CALifetime,
	})
	if err != nil {
		return nil, nil, nil, err
	}
	cert, err := pki.ParseCertificate(pair.Cert)
	if err != nil {
		return nil, nil, nil, err
	}
	check = healthz.NamedCheck("loopback-serving-certificate", func(*http.Request) error {
		if time.Now().After(cert.NotAfter) {
			return errors.New("loopback serving certificate is expired")
		}
		return nil
	})
	sni, err := dynamiccertificates.NewStaticSNICertKeyContent("loopback", pair.Cert, pair.Key, genericapiserver.LoopbackClientServerNameOverride)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("reading loopback certificate: %w", err)
	}
	info.Listener, info.ClientCA = c.Listener, c.ClientCA
	// First, so that no other certificate of this name is taken.
	info.SNICerts = append([]dynamiccertificates.SNICertKeyContentProvider{sni}, info.SNICerts...)
	loopback, err := info.NewLoopbackClientConfig(uuid.NewString(), ca.Cert)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("making loopback client: %w", err)
	}
	loopback.ContentType = runtime.ContentTypeProtobuf
	loopback.QPS = -1
	loopback.DisableCompression = true                     // it would cost more than the way within the process
	loopback.WarningHandlerWithContext = rest.NoWarnings{} // meant for people
	return info, loopback, check, nil
}
