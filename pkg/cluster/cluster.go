// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package cluster puts the parts together: it is the only package that imports all of them. Run is the boot order. Touch
// it to add a part, a setting, or a step of the start.
package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"minik8s.io/minik8s/pkg/apiserver"
	"minik8s.io/minik8s/pkg/apiserver/authentication"
	"minik8s.io/minik8s/pkg/apiserver/authorization/policy"
	"minik8s.io/minik8s/pkg/apiserver/inprocess"
	"minik8s.io/minik8s/pkg/apiserver/policycheck"
	"minik8s.io/minik8s/pkg/controllers"
	"minik8s.io/minik8s/pkg/dns"
	"minik8s.io/minik8s/pkg/etcd"
	"minik8s.io/minik8s/pkg/heap"
	"minik8s.io/minik8s/pkg/imagesource"
	"minik8s.io/minik8s/pkg/kubelet"
	"minik8s.io/minik8s/pkg/metrics"
	"minik8s.io/minik8s/pkg/registry"
	"minik8s.io/minik8s/pkg/registry/etcdstore/sharing"
	"minik8s.io/minik8s/pkg/scheduler"
)

// Options are what a caller of Run may want to know or change.
type Options struct {
	// Progress is called after each step of the start.
	Progress func(step string)
	// Ready is called once, when the cluster is Ready.
	Ready func()
	// CertificateLifetime is how long certificates last that the process makes; they are replaced before. Default a year.
	CertificateLifetime time.Duration
}

// Run runs the cluster until ctx ends. Pods go on running when it returns.
func (s *Start) Run(ctx context.Context, o Options) error {
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	r := &runner{config: s.Config, options: o, served: s.serves, fleet: newFleet(s.Config, s.counts)}
	return explain(r.run(ctx), s.Config.DataDir)
}

// runner is one run of a cluster.
type runner struct {
	config  Config
	options Options
	served  func() error // is called before anything but the API server runs
	since   time.Time    // when the run began

	credentials *credentials
	listener    net.Listener
	backend     etcd.Backend
	nodeIPs     []netip.Addr   // one of each family, the primary first; none of a control plane on a machine without addresses
	services    []netip.Prefix // likewise
	fleet       *fleet
	dnsMetrics  *dns.Metrics
	// schedulerMetrics are those of the scheduler that runs; a scheduler registers them when it is built.
	schedulerMetrics *prometheus.Registry
	// schedulerResources are what the scheduler's pods ask for, a line for each pod.
	schedulerResources *prometheus.Registry
	metrics            *metrics.Collector
	objects            sharing.Objects                 // of which the API server and informers of this process have one copy
	machine            atomic.Pointer[kubelet.Kubelet] // of the first node, once it is made
}

// run is the boot order. Each part ends when ctx does; the first that fails ends all others.
func (r *runner) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r.since = time.Now()
	if err := r.prepare(); err != nil {
		return err
	}
	defer r.listener.Close()

	// Etcd needs the disk and the node's checks need Docker: neither waits for the other.
	var before errgroup.Group
	before.Go(func() error { return r.startEtcd(ctx) })
	before.Go(func() error { return checkNode(ctx, r.config) })
	if err := before.Wait(); err != nil {
		if r.backend != nil {
			_ = r.backend.Close()
		}
		return err
	}
	defer r.backend.Close()
	r.options.Progress("etcd")

	server, err := r.apiServer()
	if err != nil {
		return err
	}

	parts, ctx := errgroup.WithContext(ctx)
	parts.Go(func() error { return r.credentials.keepFiles(ctx, r.publishAdmin) })
	if m, ok := r.backend.(*etcd.Member); ok {
		parts.Go(func() error { return watchMember(ctx, m) })
	}
	// The API server ends last, so that the others can still say goodbye.
	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	served := make(chan error, 1)
	go func() { served <- server.Start(serving) }()
	parts.Go(func() error {
		select {
		case err := <-served:
			served <- err
			if err == nil {
				err = errors.New("the API server ended")
			}
			return err
		case <-ctx.Done():
			return nil
		}
	})

	// Rights are among the objects that the API server starts with: clients that came before would be refused and back
	// off, which takes longer than to wait. What can be built before is.
	serves := make(chan struct{})
	parts.Go(func() error {
		if err := r.waitFor(ctx, apiStep); err != nil || ctx.Err() != nil {
			return err
		}
		if err := r.served(); err != nil {
			return err
		}
		close(serves)
		return nil
	})
	for _, build := range []builder{r.buildNode, r.buildControllers, r.buildScheduler, r.buildProvisioner, r.buildStorageClass, r.buildApprover, r.buildRouter, r.buildMetrics, r.buildAddons} {
		parts.Go(func() error {
			run, err := build()
			if err != nil {
				return err
			}
			select {
			case <-serves:
				return run(ctx)
			case <-ctx.Done():
				return nil
			}
		})
	}
	parts.Go(func() error {
		select {
		case <-serves: // else who is told that it is Ready could find a start that was cut off
		case <-ctx.Done():
			return nil
		}
		if err := r.waitReady(ctx); err != nil {
			return err
		}
		heap.Manage(ctx, heap.ServerRoom())
		return nil
	})
	err = parts.Wait()
	stopServing()
	if serr := <-served; err == nil {
		err = serr
	}
	return err
}

// prepare reads credentials and takes the port.
func (r *runner) prepare() error {
	c := r.config
	var err error
	if r.nodeIPs, err = nodeIPs(c); err != nil && c.NodeCount() > 0 {
		return err
	}
	if r.services, err = settledRanges("networking.serviceSubnet", c.Networking.ServiceSubnet); err != nil {
		return err
	}
	if r.credentials, err = loadCredentials(filepath.Join(c.DataDir, "pki"), Server(c), r.options.CertificateLifetime); err != nil {
		return err
	}
	r.credentials.server = inprocess.NewServer()
	if _, err := r.credentials.renewFiles(r.publishAdmin); err != nil {
		return err
	}
	address := net.JoinHostPort(c.BindAddress, strconv.Itoa(c.APIPort))
	r.listener, err = net.Listen("tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return &Problem{
			Cause: fmt.Sprintf("port %d is in use by another program", c.APIPort), Remedy: "stop that program, or choose another port with --api-port", Err: err,
		}
	}
	return err
}

// primaryIP is the first of the node's addresses, not valid if there is none.
func (r *runner) primaryIP() netip.Addr {
	if len(r.nodeIPs) == 0 {
		return netip.Addr{}
	}
	return r.nodeIPs[0]
}

// Server is the URL by which clients on this machine reach the API server.
func Server(c Config) string {
	host := c.BindAddress
	if host == "" || host == "0.0.0.0" || host == "::" {
		host = "127.0.0.1"
	}
	return "https://" + net.JoinHostPort(host, strconv.Itoa(c.APIPort))
}

// freeSpace is the least that embedded etcd needs: two segments of its log are allocated ahead.
const freeSpace = 160 << 20

// checkSpace refuses a disk that is all but full, since etcd ends the process when it cannot write its log.
func checkSpace(dir string) error {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return fmt.Errorf("finding the free space of %s: %w", dir, err)
	}
	if free := s.Bavail * uint64(s.Bsize); free < freeSpace {
		return fmt.Errorf("%d MiB are free, %d MiB are needed: %w", free>>20, freeSpace>>20, unix.ENOSPC)
	}
	return nil
}

func (r *runner) startEtcd(ctx context.Context) error {
	c := r.config.Etcd
	if len(c.Servers) == 0 {
		if err := checkSpace(r.config.DataDir); err != nil {
			return err
		}
		member, err := etcd.Start(ctx, etcd.Config{Dir: filepath.Join(r.config.DataDir, "etcd"), UnsafeNoFsync: c.UnsafeNoFsync, QuotaBytes: c.QuotaBackendBytes})
		if err != nil {
			return err
		}
		r.backend = member
		return nil
	}
	var err error
	r.backend, err = DialEtcd(ctx, c)
	return err
}

// DialEtcd connects to an external etcd and fails if it does not answer within ten seconds.
func DialEtcd(ctx context.Context, c EtcdConfig) (etcd.Backend, error) {
	tlsConfig, err := etcdTLS(c)
	if err != nil {
		return nil, err
	}
	remote, err := etcd.Dial(c.Servers, tlsConfig)
	if err != nil {
		return nil, err
	}
	check, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := remote.Healthy(check); err != nil {
		_ = remote.Close()
		return nil, &Problem{Cause: fmt.Sprintf("etcd at %v does not answer", c.Servers), Remedy: "start it, or correct --etcd-servers", Err: err}
	}
	return remote, nil
}

// etcdTLS is nil if no files are given. The client certificate is read for every connection, so that it can be renewed.
func etcdTLS(c EtcdConfig) (*tls.Config, error) {
	if c.CAFile == "" && c.CertFile == "" {
		return nil, nil
	}
	t := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CAFile != "" {
		data, err := os.ReadFile(c.CAFile)
		if err != nil {
			return nil, fmt.Errorf("reading etcd CA: %w", err)
		}
		t.RootCAs = x509.NewCertPool()
		if !t.RootCAs.AppendCertsFromPEM(data) {
			return nil, fmt.Errorf("no certificate in %s", c.CAFile)
		}
	}
	if c.CertFile != "" {
		t.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			cert, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
			return &cert, err
		}
		if _, err := t.GetClientCertificate(nil); err != nil {
			return nil, fmt.Errorf("reading etcd client certificate: %w", err)
		}
	}
	return t, nil
}

func watchMember(ctx context.Context, m *etcd.Member) error {
	select {
	case err := <-m.Err():
		return fmt.Errorf("etcd failed: %w", err)
	case <-ctx.Done():
		return nil
	}
}

func (r *runner) apiServer() (*apiserver.Server, error) {
	c := r.config
	host, err := os.Hostname()
	if err != nil {
		host = ""
	}
	serving := r.credentials.serving(servingHosts(c.Networking.DNSDomain, apiAddresses(r.services, r.nodeIPs), host, c.APIServer.CertSANs))
	headers, err := requestHeaders(r.credentials.proxyCA.Cert)
	if err != nil {
		return nil, err
	}
	if err := c.APIServer.setGates(); err != nil {
		return nil, err
	}
	images, err := r.serveImages()
	if err != nil {
		return nil, err
	}
	if r.metrics, err = r.newMetrics(); err != nil {
		return nil, err
	}
	r.dnsMetrics, r.schedulerMetrics, r.schedulerResources = dns.NewMetrics(), prometheus.NewRegistry(), prometheus.NewRegistry()
	return apiserver.New(apiserver.Config{
		Backend:           r.backend,
		Listener:          r.listener,
		InProcess:         r.credentials.server,
		AdvertiseAddress:  r.primaryIP(),
		SecureServing:     &genericapiserver.SecureServingInfo{Cert: serving, MinTLSVersion: tls.VersionTLS12},
		ClientCA:          r.credentials.ca.Cert,
		ServiceIPRanges:   r.services,
		TokenKey:          r.credentials.tokenKey,
		TokenIssuer:       "https://kubernetes.default.svc." + c.Networking.DNSDomain,
		KubeletClient:     r.credentials.ca.Leaf(kubeletClient).Certificate,
		KubeletCA:         r.credentials.ca.Cert,
		Usage:             r.metrics,
		EnableAdmission:   c.APIServer.EnableAdmissionPlugins,
		DisableAdmission:  c.APIServer.DisableAdmissionPlugins,
		TolerationSeconds: c.APIServer.tolerationSeconds(),
		Machinery:         r.machinery,
		Storage:           c.APIServer.storage(&r.objects),

		Components:     map[string]registry.Check{"controller-manager": alive, "scheduler": alive},
		Authentication: authentication.Config{RequestHeader: headers, BootstrapTokens: true, RemovedNodes: true},
		Policy:         policy.AddOns(),
		Handlers: map[string]http.Handler{
			controllers.MetricsPath: controllers.Metrics(), scheduler.MetricsPath: scheduler.Metrics(r.schedulerMetrics),
			scheduler.ResourcesPath: scheduler.Metrics(r.schedulerResources), dns.MetricsPath: r.dnsMetrics.Handler(), imagesource.Path: images,
		},
		ProxyClientCertFile: r.credentials.frontProxy().path, ProxyClientKeyFile: r.credentials.frontProxy().path, RejectAggregatorRedirects: true,
	})
}

// alive is the check of parts without which this process does not run.
func alive(context.Context) error { return nil }

// builder makes a part that talks to the API server, without talking to it yet. The part runs until ctx ends.
type builder func() (run func(ctx context.Context) error, err error)

func (r *runner) buildControllers() (func(context.Context) error, error) {
	config, err := r.credentials.Client("system:kube-controller-manager")
	if err != nil {
		return nil, err
	}
	check, err := policycheck.New(config)
	if err != nil {
		return nil, fmt.Errorf("preparing to check policies: %w", err)
	}
	pool, err := r.config.LoadBalancer.prefixes()
	if err != nil {
		return nil, err
	}
	c, err := controllers.New(controllers.Config{
		RESTConfig:  config,
		CheckPolicy: check,
		ClientFor: func(account string) (*rest.Config, error) {
			return r.credentials.Client("system:serviceaccount:kube-system:"+account, "system:serviceaccounts", "system:serviceaccounts:kube-system")
		},
		RootCA:    r.credentials.ca.Cert,
		TokenKey:  r.credentials.tokenKey,
		SigningCA: r.credentials.ca.Pair,
		Enabled:   withJoining(r.config.Controllers),

		LoadBalancerPool: pool,
		Settings:         r.config.ControllerManager,
		Transform:        r.objects.Transform,
	})
	if err != nil {
		return nil, fmt.Errorf("building controllers: %w", err)
	}
	return c.Start, nil
}

// waitFor waits for steps of the start, reporting none; the end of ctx is no error. Like users it comes by the wire.
func (r *runner) waitFor(ctx context.Context, steps ...Step) error {
	config, err := r.credentials.Wire("kubernetes-admin", "system:masters")
	if err != nil {
		return err
	}
	if err := waitSteps(ctx, config, steps, func(string) {}); err != nil && ctx.Err() == nil {
		return err
	}
	return nil
}

// waitReady reports progress, and gives the memory that the start took back to the system.
func (r *runner) waitReady(ctx context.Context) error {
	config, err := r.credentials.Wire("kubernetes-admin", "system:masters")
	if err != nil {
		return err
	}
	if err := waitReady(ctx, config, r.config, r.since, r.options.Progress); err != nil {
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the cluster ends
		}
		return err
	}
	if r.options.Ready != nil {
		r.options.Ready()
	}
	klog.FromContext(ctx).Info("cluster is ready", "name", r.config.Name, "server", Server(r.config))
	return nil
}
