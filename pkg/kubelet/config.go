// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package kubelet runs the pods that are bound to one node, and tells the API server about them and the node. Touch it
// when the parts under internal are wired differently; what they do is theirs.
//
// A tour: internal/source takes the pods from the API, from manifests (internal/staticpod), or from the checkpoints on disk,
// and gives each that the node admits to internal/podworker, which has a goroutine per pod. That goroutine calls
// internal/podsync, whose pure Compute decides what is to be done, from the spec and from what the container engine has
// (internal/pleg); internal/launch resolves specs into container configurations. internal/status computes and reports what
// came of it, internal/mirror shows static pods in the API, internal/prober watches the containers' health, internal/node
// keeps the Node object, internal/server answers logs, exec and metrics.
package kubelet

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/kubernetes"
	"k8s.io/component-base/version"
	kubeletconfigv1 "k8s.io/kubelet/config/v1"
	kubeletconfigv1beta1 "k8s.io/kubelet/config/v1beta1"
	"k8s.io/utils/clock"

	"minik8s.io/minik8s/pkg/kubelet/configuration"
	"minik8s.io/minik8s/pkg/kubelet/container"
	"minik8s.io/minik8s/pkg/kubelet/internal/image"
	"minik8s.io/minik8s/pkg/network"
	"minik8s.io/minik8s/pkg/pki"
)

// Config is what a Kubelet is made from.
type Config struct {
	// NodeName is the name of the Node object. Required.
	NodeName string
	// Cluster tells the clusters on one machine apart: the chains of host ports are named after it.
	Cluster string
	// Client speaks to the API server as system:node:NodeName. Required.
	Client kubernetes.Interface
	// Heartbeats is a client of the same for the Node and its lease alone, which nothing else holds up, and whose calls end by themselves:
	// the pods of a node that gives no sign of life are not ready. Required.
	Heartbeats kubernetes.Interface
	// Runtime is the container engine. Required.
	Runtime container.Runtime
	// Network connects pods. Required.
	Network network.Plugin
	// RootDir holds checkpoints and the directories of pods. Required, absolute; it must survive restarts.
	RootDir string
	// StandardDir is where drivers and plugins outside of pods look for the directory of a node's kubelet, kubeletdir.Standard on a
	// machine: it becomes a link to RootDir if nothing is there. "": they are not to find this kubelet. Those in pods find it.
	StandardDir string
	// NodeIPs are the node's addresses, the primary first. Required.
	NodeIPs []netip.Addr
	// NetNS is the path of the node's network namespace, where the API is served, probes come from and host ports are. Default "": the
	// process's own.
	NetNS string
	// Size is how much of the machine the node has, as far as it is said. Pods together get no more of it.
	Size Size
	// ListenAddr of the kubelet's HTTPS API; ":10250" if empty.
	ListenAddr string
	// Certificate returns the serving certificate, unless Configuration names files that have it. nil: the API is not served.
	Certificate func() (*tls.Certificate, error)
	// ClientCertificate returns the certificate by which Client asks, for metrics. nil: nothing is told of it.
	ClientCertificate func() (*tls.Certificate, error)
	// ClientCAs returns the authorities that verify the client certificates of the API's callers, unless Configuration names a file that has
	// them.
	ClientCAs func() (*x509.CertPool, error)
	// Labels are added to the ones that every node has.
	Labels map[string]string
	// PodCIDRs are the node's pod ranges, by which other nodes route to its pods; told with a newly registered Node.
	PodCIDRs []string
	// Configuration are the settings that upstream's kubelet has, too, as package configuration reads them, and valid; the
	// defaults if nil.
	Configuration *kubeletconfigv1beta1.KubeletConfiguration
	// CredentialProviders are plugins that know logins for registries, as package configuration reads them, and
	// CredentialProviderDir is the directory of their programs. Default: there are none. CredentialProvidersHash tells what they were
	// read from, for metrics; "" is not told.
	CredentialProviders     []kubeletconfigv1.CredentialProvider
	CredentialProviderDir   string
	CredentialProvidersHash string
	// ImagePulls tell what was pulled and is used, where several nodes have one store of images. Default: those of this node.
	ImagePulls *ImagePulls
	// ImageSource has images that no registry may have. One that is not here, and whose pull policy is IfNotPresent, is asked for there
	// first. Default: there is none.
	ImageSource ImageSource
	// CgroupRoot is the cgroup below which those of pods are; "/minik8s-NodeName" if empty.
	CgroupRoot string
	// Version is reported as the node's kubelet version; that of the Kubernetes libraries if empty.
	Version string
	// Clock is the real one if nil.
	Clock clock.WithTicker
}

// ImagePulls tell which images were pulled with which login, and which of them volumes show. Safe for concurrent use.
type ImagePulls struct {
	records *image.Records
	roots   func() ([]string, error)
}

// OpenImagePulls reads what is kept in the root directory of a kubelet. roots are the root directories of all nodes that have this store
// of images at the time, whether their kubelets run or not; nil: there is one only.
func OpenImagePulls(rootDir string, roots func() ([]string, error)) (*ImagePulls, error) {
	r, err := image.OpenRecords(imageDir(rootDir))
	return &ImagePulls{r, roots}, err
}

// imagePulls are those of a store, by default the node's own.
func (c *Config) imagePulls() (*ImagePulls, error) {
	if c.ImagePulls != nil {
		return c.ImagePulls, nil
	}
	return OpenImagePulls(c.RootDir, nil)
}

// imageDir is where a node keeps what it has pulled.
func imageDir(rootDir string) string { return filepath.Join(rootDir, "image_manager") }

// ImageSource opens the archives of images.
type ImageSource = image.Source

// Size is how much of a machine a node has. Zero values mean all that there is.
type Size struct{ CPU, Memory resource.Quantity }

func (c *Config) complete() error {
	switch {
	case c.NodeName == "":
		return errors.New("kubelet: NodeName is required")
	case c.Client == nil:
		return errors.New("kubelet: Client is required")
	case c.Heartbeats == nil:
		return errors.New("kubelet: Heartbeats is required")
	case c.Runtime == nil:
		return errors.New("kubelet: Runtime is required")
	case c.Network == nil:
		return errors.New("kubelet: Network is required")
	case !filepath.IsAbs(c.RootDir):
		return errors.New("kubelet: RootDir must be an absolute path")
	case len(c.NodeIPs) == 0:
		return errors.New("kubelet: NodeIPs is required")
	}
	if c.Configuration == nil {
		c.Configuration = configuration.Default()
		c.Configuration.ClusterDomain = "cluster.local"
	}
	if err := c.files(); err != nil {
		return fmt.Errorf("kubelet: %w", err)
	}
	if c.ListenAddr == "" {
		c.ListenAddr = ":10250"
	}
	if c.CgroupRoot == "" {
		c.CgroupRoot = "/minik8s-" + c.NodeName
	}
	if c.Version == "" {
		c.Version = version.Get().GitVersion
	}
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
	return nil
}

// files has certificates read from the files that the settings name, by whoever needs them at the time: they may be renewed. As
// upstream, serverTLSBootstrap counts for more than a certificate in files.
func (c *Config) files() error {
	if settings := c.Configuration; settings.TLSCertFile != "" && !settings.ServerTLSBootstrap {
		serving := pki.KeyPairFiles(settings.TLSCertFile, settings.TLSPrivateKeyFile)
		if _, err := serving.Get(); err != nil {
			return err
		}
		c.Certificate = serving.Get
	}
	if file := c.Configuration.Authentication.X509.ClientCAFile; file != "" {
		authorities := pki.PoolFile(file)
		if _, err := authorities.Get(); err != nil {
			return err
		}
		c.ClientCAs = authorities.Get
	}
	return nil
}
