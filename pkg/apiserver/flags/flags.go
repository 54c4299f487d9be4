// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package flags is the command line of kube-apiserver: upstream's flags with their names, defaults, checks and groups,
// turned into the configuration of a server. Touch it when upstream adds a flag, or one gains a meaning here. A flag without
// a meaning here is accepted if ignoring it does no harm, and otherwise refused with a sentence (see refused).
package flags

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/flagz"
	"k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/component-base/metrics"
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // metrics of the server's own clients
	_ "k8s.io/component-base/metrics/prometheus/version"  // kubernetes_build_info

	"minik8s.io/minik8s/pkg/apis/feature"
	"minik8s.io/minik8s/pkg/apiserver"
	"minik8s.io/minik8s/pkg/apiserver/admission/defaulttolerationseconds"
	"minik8s.io/minik8s/pkg/apiserver/encryption"
)

// Flags are all flags of kube-apiserver. Fields that k8s.io/apiserver publishes options for are those.
type Flags struct {
	generic  *options.ServerRunOptions
	etcd     *options.EtcdOptions
	serving  *options.SecureServingOptions
	audit    *options.AuditOptions
	features *options.FeatureOptions
	apis     *options.APIEnablementOptions
	metrics  *metrics.Options
	logs     *logs.Options
	traces   *options.TracingOptions

	authentication authenticationFlags
	authorization  authorizationFlags
	admission      admissionFlags
	cluster        clusterFlags
	refused        refused

	all cliflag.NamedFlagSets
}

// admissionFlags choose and configure admission plugins.
type admissionFlags struct {
	enable, disable []string
	file            string
	tolerate        defaulttolerationseconds.Seconds
}

// clusterFlags are about the objects and nodes of the cluster.
type clusterFlags struct {
	allowPrivileged         bool
	eventTTL                time.Duration
	serviceRanges           string
	nodePorts               utilnet.PortRange
	proxyCert, proxyKey     string
	aggregatorRouting       bool
	rejectRedirects         bool
	kubeletCert, kubeletKey string
	kubeletCA               string
	kubeletAddresses        []string
	kubeletTimeout          time.Duration
	kubeletReadOnlyPort     uint
}

// New returns flags with upstream's defaults.
func New() *Flags {
	feature.AddUpstream()
	f := &Flags{
		generic:  options.NewServerRunOptions(),
		etcd:     options.NewEtcdOptions(storagebackend.NewDefaultConfig("/registry", nil)),
		serving:  options.NewSecureServingOptions(),
		audit:    options.NewAuditOptions(),
		features: options.NewFeatureOptions(),
		apis:     options.NewAPIEnablementOptions(),
		metrics:  metrics.NewOptions(),
		logs:     logs.NewOptions(),
		traces:   options.NewTracingOptions(),

		authentication: newAuthenticationFlags(),
		authorization:  newAuthorizationFlags(),
		admission:      admissionFlags{tolerate: defaulttolerationseconds.Default},
		cluster: clusterFlags{
			rejectRedirects: true, eventTTL: time.Hour, serviceRanges: "10.0.0.0/24", nodePorts: utilnet.PortRange{Base: 30000, Size: 2768},
			kubeletAddresses: []string{string(corev1.NodeHostName), string(corev1.NodeInternalDNS), string(corev1.NodeInternalIP), string(corev1.NodeExternalDNS), string(corev1.NodeExternalIP)},
			kubeletTimeout:   5 * time.Second, kubeletReadOnlyPort: 10255,
		},
	}
	f.etcd.DefaultStorageMediaType = "application/vnd.kubernetes.protobuf"
	f.serving.BindPort, f.serving.Required = 6443, true
	f.serving.ServerCert.CertDirectory = "/var/run/kubernetes"
	f.add()
	return f
}

// Sets are the flags by upstream's groups.
func (f *Flags) Sets() cliflag.NamedFlagSets { return f.all }

func (f *Flags) add() {
	f.generic.AddUniversalFlags(f.all.FlagSet("generic"))
	f.etcd.AddFlags(f.all.FlagSet("etcd"))
	f.serving.AddFlags(f.all.FlagSet("secure serving"))
	f.audit.AddFlags(f.all.FlagSet("auditing"))
	f.features.AddFlags(f.all.FlagSet("features"))
	f.authentication.add(f.all.FlagSet("authentication"))
	f.authorization.add(f.all.FlagSet("authorization"))
	f.apis.AddFlags(f.all.FlagSet("API enablement"))
	f.all.FlagSet("egress selector") // keeps its place in the order of groups
	f.admission.add(&f.all)
	f.metrics.AddFlags(f.all.FlagSet("metrics"))
	logsapi.AddFlags(f.logs, f.all.FlagSet("logs"))
	f.traces.AddFlags(f.all.FlagSet("traces"))
	f.cluster.add(&f.all)
	f.refused.add(&f.all)
}

// StartLog sets the log and the feature gates of the process up as flags say. It is the first thing to do after parsing.
func (f *Flags) StartLog() error {
	if err := f.generic.ComponentGlobalsRegistry.Set(); err != nil {
		return err
	}
	if err := CheckGates(utilfeature.DefaultMutableFeatureGate); err != nil {
		return err
	}
	return logsapi.ValidateAndApply(f.logs, utilfeature.DefaultFeatureGate)
}

// Config connects to etcd, opens the port and returns the configuration of a server.
func (f *Flags) Config(ctx context.Context) (*apiserver.Config, error) {
	if err := f.complete(); err != nil {
		return nil, err
	}
	if errs := f.validate(); len(errs) > 0 {
		return nil, utilerrors.NewAggregate(errs)
	}
	if err := f.certificate(); err != nil {
		return nil, err
	}
	c := &apiserver.Config{
		AdvertiseAddress: address(f.generic.AdvertiseAddress), NodePorts: f.cluster.nodePorts, EventTTL: f.cluster.eventTTL,
		EnableAdmission: f.admission.enable, DisableAdmission: f.admission.disable, AdmissionConfigFile: f.admission.file, TolerationSeconds: &f.admission.tolerate,
		AggregatorRouting: f.cluster.aggregatorRouting, RejectAggregatorRedirects: f.cluster.rejectRedirects,
		ProxyClientCertFile: f.cluster.proxyCert, ProxyClientKeyFile: f.cluster.proxyKey,
		ForbidPrivileged: !f.cluster.allowPrivileged,
		Storage:          f.storage(), Machinery: f.machinery, WithoutFairness: !f.features.EnablePriorityAndFairness,
	}
	for _, kind := range f.cluster.kubeletAddresses {
		c.KubeletAddressTypes = append(c.KubeletAddressTypes, corev1.NodeAddressType(kind))
	}
	var err error
	if c.ServiceIPRanges, err = serviceRanges(f.cluster.serviceRanges); err != nil {
		return nil, err
	}
	if err := f.authentication.apply(c); err != nil {
		return nil, err
	}
	f.authorization.apply(c)
	if err := f.readFiles(c); err != nil {
		return nil, err
	}
	if c.Groups, err = enabledGroups(f.apis.RuntimeConfig); err != nil {
		return nil, err
	}
	if c.Backend, c.Storage.Overrides, err = f.dialEtcd(ctx); err != nil {
		return nil, err
	}
	if err := f.serving.ApplyTo(&c.SecureServing); err != nil {
		_ = c.CloseBackends()
		return nil, err
	}
	c.Listener = c.SecureServing.Listener
	return c, nil
}

// complete fills in what is left out and follows from the rest.
func (f *Flags) complete() error {
	if err := f.generic.Complete(); err != nil {
		return err
	}
	if err := f.generic.DefaultAdvertiseAddress(f.serving); err != nil {
		if ip := f.serving.BindAddress; !ip.IsLoopback() && !ip.IsUnspecified() {
			return err
		}
		// A machine without a default route: the kubernetes Service stays without endpoints.
		f.generic.AdvertiseAddress = nil
	}
	if f.generic.RequestTimeout > 0 {
		// A list may take as long as a request: a watch from its revision must be possible after that.
		f.etcd.StorageConfig.EventsHistoryWindow = max(f.etcd.StorageConfig.EventsHistoryWindow, f.generic.RequestTimeout+15*time.Second)
	}
	if f.generic.ExternalHost == "" {
		if f.generic.ExternalHost = f.generic.AdvertiseAddress.String(); f.generic.AdvertiseAddress == nil {
			host, err := os.Hostname()
			if err != nil {
				return fmt.Errorf("finding the host's name: %w", err)
			}
			f.generic.ExternalHost = host
		}
	}
	f.authorization.complete(&f.authentication)
	f.apis.RuntimeConfig = normalized(f.apis.RuntimeConfig)
	return nil
}

// certificate finds apiserver.crt and .key in --cert-dir, or makes them, unless files are given.
func (f *Flags) certificate() error {
	ranges, err := serviceRanges(f.cluster.serviceRanges)
	if err != nil {
		return err
	}
	public := f.generic.AdvertiseAddress.String()
	if f.generic.AdvertiseAddress == nil {
		public = "127.0.0.1"
	}
	names := []string{"kubernetes.default.svc", "kubernetes.default", "kubernetes"}
	first := net.IP(ranges[0].Masked().Addr().Next().AsSlice())
	if err := f.serving.MaybeDefaultWithSelfSignedCerts(public, names, []net.IP{first}); err != nil {
		return fmt.Errorf("error creating self-signed certificates: %w", err)
	}
	return nil
}

// machinery sets what flags say about the published machinery alone.
func (f *Flags) machinery(c *genericapiserver.Config) error {
	if err := f.generic.ApplyTo(c); err != nil {
		return err
	}
	if c.PublicAddress == nil {
		c.PublicAddress = f.serving.BindAddress
	}
	c.EnableProfiling, c.EnableContentionProfiling, c.DebugSocketPath = f.features.EnableProfiling, f.features.EnableContentionProfiling, f.features.DebugSocketPath
	c.Flagz = flagz.NamedFlagSetsReader{FlagSets: f.all}
	if err := f.traces.ApplyTo(nil, c); err != nil {
		return err
	}
	if err := f.audit.ApplyTo(c); err != nil {
		return err
	}
	f.metrics.Apply()
	utilfeature.DefaultMutableFeatureGate.AddMetrics()
	f.generic.ComponentGlobalsRegistry.AddMetrics()
	if f.etcd.EncryptionProviderConfigFilepath == "" {
		return nil
	}
	return encryption.Apply(c, f.etcd.EncryptionProviderConfigFilepath, f.etcd.EncryptionProviderConfigAutomaticReload)
}

// readFiles reads keys and certificates.
func (f *Flags) readFiles(c *apiserver.Config) error {
	var errs []error
	read := func(flag, path string) []byte {
		if path == "" {
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			errs = append(errs, fmt.Errorf("--%s: %w", flag, err))
		}
		return data
	}
	c.TokenKey = read("service-account-signing-key-file", f.authentication.signingKey)
	for _, path := range f.authentication.keyFiles {
		c.TokenKeys = append(c.TokenKeys, read("service-account-key-file", path))
	}
	nobody := &tls.Certificate{}
	c.KubeletClient = func() (*tls.Certificate, error) { return nobody, nil }
	if f.cluster.kubeletCert != "" {
		var err error
		if c.KubeletClient, err = followed(f.cluster.kubeletCert, f.cluster.kubeletKey); err != nil {
			errs = append(errs, fmt.Errorf("--kubelet-client-certificate: %w", err))
		}
	}
	c.KubeletCA = read("kubelet-certificate-authority", f.cluster.kubeletCA)
	return errors.Join(errs...)
}

func address(ip net.IP) netip.Addr {
	a, _ := netip.AddrFromSlice(ip)
	return a.Unmap()
}
