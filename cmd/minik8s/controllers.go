// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"minik8s.io/minik8s/pkg/apiserver"
	"minik8s.io/minik8s/pkg/apiserver/policycheck"
	"minik8s.io/minik8s/pkg/controllers"
	"minik8s.io/minik8s/pkg/controllers/setup"
)

// controllerFlags say which controllers run in the process of the API server.
type controllerFlags struct {
	enabled     []string
	leaderElect bool
	// signingCert and signingKey are files of the CA that signs certificate requests.
	signingCert, signingKey string
	allocateNodes           bool
	clusterCIDRs            []string
	settings                setup.Settings
}

func (f *controllerFlags) add(set *pflag.FlagSet) {
	set.StringSliceVar(&f.enabled, "controllers", nil, "A list of controllers to run in this process, as kube-controller-manager's flag of this name: '*' runs all that are on by default, 'foo' runs the controller foo, '-foo' does not. By default none run. "+
		"This flag is minik8s's own.")
	set.BoolVar(&f.leaderElect, "leader-elect", false, "Let the controllers wait for the Lease kube-system/kube-controller-manager before they begin. This flag is minik8s's own.")
	const manager = " As kube-controller-manager's flag of this name."
	set.StringVar(&f.signingCert, "cluster-signing-cert-file", "", "Certificate of the CA that signs approved CertificateSigningRequests. By default none are signed."+manager)
	set.StringVar(&f.signingKey, "cluster-signing-key-file", "", "Private key of that CA."+manager)
	set.BoolVar(&f.allocateNodes, "allocate-node-cidrs", false, "Give nodes the ranges of their pods, from --cluster-cidr."+manager)
	set.StringSliceVar(&f.clusterCIDRs, "cluster-cidr", nil, "Ranges of all pods, one of a family or one of each. Requires --allocate-node-cidrs to be true."+manager)
	f.addSettings(set)
}

// addSettings adds flags of kube-controller-manager for single controllers.
func (f *controllerFlags) addSettings(set *pflag.FlagSet) {
	f.settings = setup.DefaultSettings()
	const manager = " As kube-controller-manager's flag of this name."
	for _, d := range []struct {
		value       *metav1.Duration
		name, usage string
	}{
		{f.settings.NodeMonitorGracePeriod, "node-monitor-grace-period", "How long a node may be silent before it is unhealthy."},
		{f.settings.NodeStartupGracePeriod, "node-startup-grace-period", "How long a new node may be silent before it is unhealthy."},
		{f.settings.ClusterSigningDuration, "cluster-signing-duration", "How long certificates last that do not ask for less."},
		{f.settings.HorizontalPodAutoscalerSyncPeriod, "horizontal-pod-autoscaler-sync-period", "Time between two looks at an autoscaler."},
		{f.settings.HorizontalPodAutoscalerDownscaleStabilization, "horizontal-pod-autoscaler-downscale-stabilization", "How long a recommendation keeps the number of pods from falling below it."},
		{f.settings.HorizontalPodAutoscalerCPUInitializationPeriod, "horizontal-pod-autoscaler-cpu-initialization-period", "How long after its start a pod's CPU samples may be skipped."},
		{f.settings.HorizontalPodAutoscalerInitialReadinessDelay, "horizontal-pod-autoscaler-initial-readiness-delay", "How long after a pod's start a change of its readiness is its first."},
	} {
		set.DurationVar(&d.value.Duration, d.name, d.value.Duration, d.usage+manager)
	}
	for _, n := range []struct {
		value       *float64
		name, usage string
	}{
		{f.settings.NodeEvictionRate, "node-eviction-rate", "Of how many nodes of a zone pods are evicted a second."},
		{f.settings.SecondaryNodeEvictionRate, "secondary-node-eviction-rate", "Of how many in an unhealthy zone, if it is large."},
		{f.settings.UnhealthyZoneThreshold, "unhealthy-zone-threshold", "Share of the nodes of a zone, at least three, that are not ready in an unhealthy one."},
		{f.settings.HorizontalPodAutoscalerTolerance, "horizontal-pod-autoscaler-tolerance", "How far from its target a usage may be, as a part of it."},
	} {
		set.Float64Var(n.value, n.name, *n.value, n.usage+manager)
	}
	set.Int32Var(f.settings.LargeClusterSizeThreshold, "large-cluster-size-threshold", *f.settings.LargeClusterSizeThreshold, "Number of nodes up to which evictions stop in an unhealthy zone."+manager)
	set.Int32Var(f.settings.TerminatedPodGCThreshold, "terminated-pod-gc-threshold", *f.settings.TerminatedPodGCThreshold, "How many pods that have ended are kept; 0 and less: all."+manager)
}

// read fills in what the controllers have from these flags.
func (f *controllerFlags) read(c *controllers.Config) error {
	if (f.signingCert == "") != (f.signingKey == "") {
		return errors.New("--cluster-signing-cert-file and --cluster-signing-key-file need one another")
	}
	if f.signingCert != "" {
		var err error
		if c.SigningCA.Cert, err = os.ReadFile(f.signingCert); err != nil {
			return fmt.Errorf("--cluster-signing-cert-file: %w", err)
		}
		if c.SigningCA.Key, err = os.ReadFile(f.signingKey); err != nil {
			return fmt.Errorf("--cluster-signing-key-file: %w", err)
		}
	}
	if !f.allocateNodes {
		return nil
	}
	if len(f.clusterCIDRs) == 0 {
		return errors.New("--cluster-cidr has to be set if --allocate-node-cidrs is")
	}
	for _, s := range f.clusterCIDRs {
		p, err := netip.ParsePrefix(s)
		if err != nil {
			return fmt.Errorf("--cluster-cidr: %w", err)
		}
		c.ClusterCIDRs = append(c.ClusterCIDRs, p)
	}
	return nil
}

// complete lets a server with controllers end without waiting a minute for watches of its clients: tests that use it wait only
// for 20 s.
func (f *controllerFlags) complete(all *pflag.FlagSet) error {
	const flag = "shutdown-send-retry-after"
	if len(f.enabled) == 0 || all.Changed(flag) {
		return nil
	}
	return all.Set(flag, "true")
}

// handlers are what the API server serves for the controllers.
func (f *controllerFlags) handlers() map[string]http.Handler {
	if len(f.enabled) == 0 {
		return nil
	}
	return map[string]http.Handler{controllers.MetricsPath: controllers.Metrics()}
}

// serve runs the server, and in it the controllers, until ctx ends. c is the server's configuration; rootCA is what clients
// trust the server by.
func (f *controllerFlags) serve(ctx context.Context, server *apiserver.Server, c *apiserver.Config, rootCA []byte) error {
	if len(f.enabled) == 0 {
		return server.Start(ctx)
	}
	ctrllog.SetLogger(klog.Background())
	config := controllers.Config{
		RESTConfig: as(server.Loopback(), "system:kube-controller-manager"),
		ClientFor: func(account string) (*rest.Config, error) {
			return as(server.Loopback(), "system:serviceaccount:kube-system:"+account, "system:serviceaccounts", "system:serviceaccounts:kube-system"), nil
		},
		RootCA:         rootCA,
		TokenKey:       c.TokenKey,
		ServiceCIDRs:   c.ServiceIPRanges,
		LeaderElection: f.leaderElect,
		Enabled:        f.enabled,
		Settings:       f.settings,
	}
	if err := f.read(&config); err != nil {
		return err
	}
	check, err := policycheck.New(config.RESTConfig)
	if err != nil {
		return fmt.Errorf("preparing to check policies: %w", err)
	}
	config.CheckPolicy = check
	loops, err := controllers.New(config)
	if err != nil {
		return fmt.Errorf("--controllers: %w", err)
	}
	parts, ctx := errgroup.WithContext(ctx)
	// The server ends last, so that the controllers can finish what they have begun.
	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	parts.Go(func() error { return server.Start(serving) })
	parts.Go(func() error {
		defer stopServing()
		if err := waitServing(ctx, server.Loopback()); err != nil || ctx.Err() != nil {
			return err
		}
		return loops.Start(ctx)
	})
	return parts.Wait()
}

// as lets all that config sends be a user's, who has that user's rights.
func as(config *rest.Config, user string, groups ...string) *rest.Config {
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: groups}
	return config
}

// waitServing waits until the server is ready: the rights of controllers are among what it begins with. The end of ctx is no
// error.
func waitServing(ctx context.Context, config *rest.Config) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making the client that waits for the server: %w", err)
	}
	_ = wait.PollUntilContextCancel(ctx, 10*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		return client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error() == nil, nil
	})
	return nil
}
