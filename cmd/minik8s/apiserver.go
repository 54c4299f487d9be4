// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/klog/v2"

	"minik8s.io/minik8s/pkg/apiserver"
	"minik8s.io/minik8s/pkg/cluster"
	"minik8s.io/minik8s/pkg/pki"
)

// apiServerFlags are kube-apiserver's flags that have a meaning here, with upstream's names and defaults.
type apiServerFlags struct {
	advertiseAddress, bindAddress string
	securePort                    int
	certDir, tlsCert, tlsKey      string
	clientCA                      string
	allowPrivileged               bool
	authorizationMode             []string
	enableAdmission               []string
	disableAdmission              []string
	etcd                          cluster.EtcdConfig
	serviceRange                  string
	saIssuer                      string
	saKeyFiles                    []string
	saSigningKey                  string
	apiAudiences                  []string
	kubeletCert, kubeletKey       string
	kubeletCA                     string
	maxInFlight, maxMutating      int
	requestTimeout, eventTTL      time.Duration
	shutdownDelay                 time.Duration
	verbosity                     int
}

func newAPIServerCommand() *cobra.Command {
	f := &apiServerFlags{}
	cmd := &cobra.Command{
		Use:   "kube-apiserver",
		Short: "The Kubernetes API server alone, against an external etcd, with upstream's flag names",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context()) },
	}
	fs := cmd.Flags()
	fs.StringVar(&f.advertiseAddress, "advertise-address", "", "address that the kubernetes Service points to")
	fs.StringVar(&f.bindAddress, "bind-address", "0.0.0.0", "address to listen on")
	fs.IntVar(&f.securePort, "secure-port", 6443, "port to serve HTTPS on")
	fs.StringVar(&f.certDir, "cert-dir", "/var/run/kubernetes", "directory of apiserver.crt and apiserver.key, made if they are not there")
	fs.StringVar(&f.tlsCert, "tls-cert-file", "", "serving certificate")
	fs.StringVar(&f.tlsKey, "tls-private-key-file", "", "its key")
	fs.StringVar(&f.clientCA, "client-ca-file", "", "CA of client certificates")
	fs.BoolVar(&f.allowPrivileged, "allow-privileged", true, "allow privileged containers; false is not supported: use PodSecurity labels on namespaces")
	fs.StringSliceVar(&f.authorizationMode, "authorization-mode", []string{"Node", "RBAC"}, "authorizers, in order")
	fs.StringSliceVar(&f.enableAdmission, "enable-admission-plugins", nil, "admission plugins besides the default ones")
	fs.StringSliceVar(&f.disableAdmission, "disable-admission-plugins", nil, "default admission plugins to leave out")
	fs.StringSliceVar(&f.etcd.Servers, "etcd-servers", nil, "URLs of etcd")
	fs.StringVar(&f.etcd.CAFile, "etcd-cafile", "", "CA of etcd")
	fs.StringVar(&f.etcd.CertFile, "etcd-certfile", "", "client certificate for etcd")
	fs.StringVar(&f.etcd.KeyFile, "etcd-keyfile", "", "its key")
	fs.StringVar(&f.serviceRange, "service-cluster-ip-range", "10.0.0.0/24", "range of ClusterIPs")
	fs.StringVar(&f.saIssuer, "service-account-issuer", "", "issuer of ServiceAccount tokens")
	fs.StringSliceVar(&f.saKeyFiles, "service-account-key-file", nil, "keys that verify ServiceAccount tokens")
	fs.StringVar(&f.saSigningKey, "service-account-signing-key-file", "", "key that signs ServiceAccount tokens")
	fs.StringSliceVar(&f.apiAudiences, "api-audiences", nil, "audiences of tokens for this API")
	fs.StringVar(&f.kubeletCert, "kubelet-client-certificate", "", "client certificate for kubelets")
	fs.StringVar(&f.kubeletKey, "kubelet-client-key", "", "its key")
	fs.StringVar(&f.kubeletCA, "kubelet-certificate-authority", "", "CA of kubelets' serving certificates")
	fs.IntVar(&f.maxInFlight, "max-requests-inflight", 400, "concurrent reads")
	fs.IntVar(&f.maxMutating, "max-mutating-requests-inflight", 200, "concurrent writes")
	fs.DurationVar(&f.requestTimeout, "request-timeout", time.Minute, "limit of an ordinary request")
	fs.DurationVar(&f.eventTTL, "event-ttl", time.Hour, "how long events are kept")
	fs.DurationVar(&f.shutdownDelay, "shutdown-delay-duration", 0, "how long to serve on after SIGTERM")
	fs.IntVarP(&f.verbosity, "v", "v", 0, "verbosity of the log")
	return cmd
}

func (f *apiServerFlags) run(ctx context.Context) error {
	closeLog, err := startLog(cluster.Config{Verbosity: f.verbosity}, false)
	if err != nil {
		return err
	}
	defer closeLog()
	c, err := f.config(ctx)
	if err != nil {
		return err
	}
	defer c.Backend.Close()
	server, err := apiserver.New(*c)
	if err != nil {
		return err
	}
	klog.InfoS("Running kube-apiserver", "version", gitVersion(), "address", c.Listener.Addr().String(), "etcdServers", f.etcd.Servers)
	return server.Start(ctx)
}

func (f *apiServerFlags) config(ctx context.Context) (*apiserver.Config, error) {
	if len(f.etcd.Servers) == 0 {
		return nil, errors.New("--etcd-servers must be given")
	}
	if !f.allowPrivileged {
		return nil, errors.New("--allow-privileged=false is not supported: label namespaces with pod-security.kubernetes.io/enforce instead")
	}
	services, err := netip.ParsePrefix(f.serviceRange)
	if err != nil {
		return nil, fmt.Errorf("--service-cluster-ip-range: %w", err)
	}
	c := &apiserver.Config{
		ServiceIPRanges: []netip.Prefix{services}, TokenIssuer: f.saIssuer, APIAudiences: f.apiAudiences,
		AuthorizationModes: f.authorizationMode, EnableAdmission: f.enableAdmission, DisableAdmission: f.disableAdmission,
		RequestTimeout: f.requestTimeout, MaxRequestsInFlight: f.maxInFlight,
		MaxMutatingRequestsInFlight: f.maxMutating, EventTTL: f.eventTTL, ShutdownDelay: f.shutdownDelay,
	}
	if c.AdvertiseAddress, err = f.advertised(); err != nil {
		return nil, err
	}
	if err := f.readFiles(c); err != nil {
		return nil, err
	}
	if c.Backend, err = cluster.DialEtcd(ctx, f.etcd); err != nil {
		return nil, err
	}
	c.Listener, err = net.Listen("tcp", net.JoinHostPort(f.bindAddress, strconv.Itoa(f.securePort)))
	if err != nil {
		c.Backend.Close()
		return nil, fmt.Errorf("listening: %w", err)
	}
	return c, nil
}

// advertised is the address for the kubernetes Service: as given, else the one that is listened on, else, if that is every
// or only reached from this machine, the one of the default route. A machine without one leaves the Service without
// endpoints.
func (f *apiServerFlags) advertised() (netip.Addr, error) {
	if f.advertiseAddress != "" {
		a, err := netip.ParseAddr(f.advertiseAddress)
		if err != nil {
			return a, fmt.Errorf("--advertise-address: %w", err)
		}
		return a, nil
	}
	bind := net.ParseIP(f.bindAddress)
	if bind == nil {
		return netip.Addr{}, fmt.Errorf("--bind-address: %q is not an IP address", f.bindAddress)
	}
	ip, err := utilnet.ResolveBindAddress(bind)
	if err != nil {
		return netip.Addr{}, nil
	}
	a, _ := netip.AddrFromSlice(ip)
	return a.Unmap(), nil
}

// readFiles reads the files that flags name.
func (f *apiServerFlags) readFiles(c *apiserver.Config) error {
	var err error
	read := func(flag, path string) []byte {
		if path == "" || err != nil {
			return nil
		}
		data, rerr := os.ReadFile(path)
		if rerr != nil {
			err = fmt.Errorf("--%s: %w", flag, rerr)
		}
		return data
	}
	c.ClientCA = read("client-ca-file", f.clientCA)
	c.TokenKey = read("service-account-signing-key-file", f.saSigningKey)
	for _, path := range f.saKeyFiles {
		c.TokenKeys = append(c.TokenKeys, read("service-account-key-file", path))
	}
	c.KubeletClient = pki.Pair{Cert: read("kubelet-client-certificate", f.kubeletCert), Key: read("kubelet-client-key", f.kubeletKey)}
	c.KubeletCA = read("kubelet-certificate-authority", f.kubeletCA)
	if err != nil {
		return err
	}
	if f.tlsCert != "" {
		c.Serving = pki.Pair{Cert: read("tls-cert-file", f.tlsCert), Key: read("tls-private-key-file", f.tlsKey)}
		return err
	}
	c.Serving, err = f.selfSigned()
	return err
}

// selfSigned reads apiserver.crt and .key of --cert-dir, or makes them.
func (f *apiServerFlags) selfSigned() (pki.Pair, error) {
	cert, key := filepath.Join(f.certDir, "apiserver.crt"), filepath.Join(f.certDir, "apiserver.key")
	var p pki.Pair
	var err error
	if p.Cert, err = os.ReadFile(cert); err == nil {
		if p.Key, err = os.ReadFile(key); err == nil {
			return p, nil
		}
	}
	ca, err := pki.NewCA("kube-apiserver-ca")
	if err != nil {
		return p, err
	}
	if p, err = ca.Issue(pki.Request{CommonName: "kube-apiserver", Hosts: []string{"localhost", "127.0.0.1", "kubernetes", "kubernetes.default", "kubernetes.default.svc"}}); err != nil {
		return p, err
	}
	p.Cert = append(p.Cert, ca.Cert...)
	if err := os.MkdirAll(f.certDir, 0o700); err != nil {
		return p, fmt.Errorf("--cert-dir: %w", err)
	}
	if err := os.WriteFile(key, p.Key, 0o600); err != nil {
		return p, err
	}
	return p, os.WriteFile(cert, p.Cert, 0o600)
}
