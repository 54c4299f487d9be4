// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package addons

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"minik8s.io/minik8s/pkg/addons/addon"
	"minik8s.io/minik8s/pkg/addons/definitions"
)

// Config is what the add-ons of a process need.
type Config struct {
	// Watch is the identity that sees which add-ons are enabled.
	Watch *rest.Config
	// ClientFor returns the identity of an add-on.
	ClientFor func(a addon.Addon) (*rest.Config, error)
	// StreamsFor returns the identity of an add-on for connections that are upgraded (addon.Env.Streams); default ClientFor.
	StreamsFor func(a addon.Addon) (*rest.Config, error)
	// Identity tells this process from others that run the same add-ons; the process that takes the place of a killed one has
	// its identity, and so need not wait until the other's lease has ended.
	Identity string
	// Machine is what add-ons have of the machine; the zero value by default.
	Machine addon.Machine
	// Renew gives an add-on that is enabled what this version has of it (Installer.Renew), when the process begins, and again until it has;
	// default nil: it is as whoever has enabled it left it.
	Renew func(context.Context, addon.Addon) error
	// Addons are those that run when they are enabled; default all of List.
	Addons []addon.Addon
}

// Runner runs the add-ons that are enabled in a cluster.
type Runner struct {
	cfg         Config
	definitions cache.SharedIndexInformer
}

// NewRunner returns a Runner. It does not need the API server yet.
func NewRunner(c Config) (*Runner, error) {
	if c.Addons == nil {
		c.Addons = List()
	}
	if c.StreamsFor == nil {
		c.StreamsFor = c.ClientFor
	}
	client, err := metadata.NewForConfig(plain(c.Watch))
	if err != nil {
		return nil, fmt.Errorf("making the client that watches definitions: %w", err)
	}
	labelled := func(o *metav1.ListOptions) { o.LabelSelector = Label }
	return &Runner{
		cfg:         c,
		definitions: metadatainformer.NewFilteredMetadataInformer(client, definitionsResource, metav1.NamespaceAll, 0, nil, labelled).Informer(),
	}, nil
}

// plain returns a copy of config for kinds that have no protobuf; clients choose that themselves for those that have.
func plain(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.ContentType, config.AcceptContentTypes = "", ""
	config.WarningHandler = rest.NoWarnings{}
	if config.QPS == 0 {
		config.QPS = -1 // the server's priority and fairness does that
	}
	return config
}

// Start runs each add-on from when it is enabled until it is disabled or ctx ends. An add-on that fails is started again, and
// does not end the others.
func (r *Runner) Start(ctx context.Context) error {
	changed := make(chan struct{}, 1)
	poke := func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	if _, err := r.definitions.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { poke() }, UpdateFunc: func(any, any) { poke() }, DeleteFunc: func(any) { poke() },
	}); err != nil {
		return fmt.Errorf("watching definitions: %w", err)
	}
	var running sync.WaitGroup
	defer running.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	running.Go(func() { r.definitions.RunWithContext(ctx) })
	if !cache.WaitForCacheSync(ctx.Done(), r.definitions.HasSynced) {
		return nil
	}
	later := r.renew(ctx, r.cfg.Addons)
	running.Go(func() { r.renewLater(ctx, later) })
	stops := map[string]context.CancelFunc{}
	ended := map[string]chan struct{}{} // when the last run of an add-on has
	for {
		there := sets.New(r.definitions.GetStore().ListKeys()...)
		for _, a := range r.cfg.Addons {
			enabled, stop := there.HasAll(a.Definitions...), stops[a.Name]
			switch {
			case enabled && stop == nil:
				ctx, stop := context.WithCancel(ctx)
				before, now := ended[a.Name], make(chan struct{})
				stops[a.Name], ended[a.Name] = stop, now
				running.Go(func() {
					defer close(now)
					if before != nil { // it was disabled and is enabled again: both would have one identity, and so both lead
						<-before
					}
					r.keep(ctx, a)
				})
			case !enabled && stop != nil:
				stop()
				delete(stops, a.Name)
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}

// renewTimeout bounds what is asked of the API server for an add-on.
const renewTimeout = 30 * time.Second

// renew has the add-ons that a version before this one may have enabled brought up to this one, and returns those for which that fails.
func (r *Runner) renew(ctx context.Context, of []addon.Addon) (failed []addon.Addon) {
	there := sets.New(r.definitions.GetStore().ListKeys()...)
	for _, a := range of {
		logger := klog.FromContext(ctx).WithValues("addon", a.Name)
		switch {
		case !there.HasAny(a.Definitions...):
		case r.cfg.Renew != nil:
			ctx, cancel := context.WithTimeout(ctx, renewTimeout)
			if err := r.cfg.Renew(ctx, a); err != nil {
				logger.Error(err, "An add-on is as the version before this one has left it, and brought up to date later")
				failed = append(failed, a)
			}
			cancel()
		case !there.HasAll(a.Definitions...):
			logger.Info("An add-on has kinds that are not defined, and does not run until they are: apply its manifest again")
		}
	}
	return failed
}

// renewLater tries again to bring add-ons up to date, until all are or ctx ends. One that is disabled meanwhile is left alone.
func (r *Runner) renewLater(ctx context.Context, failed []addon.Addon) {
	backoff := wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.1, Steps: 10, Cap: time.Minute}
	for len(failed) > 0 {
		select {
		case <-time.After(backoff.Step()):
		case <-ctx.Done():
			return
		}
		failed = r.renew(ctx, failed)
	}
}

// keep runs an add-on until ctx ends.
func (r *Runner) keep(ctx context.Context, a addon.Addon) {
	logger := klog.FromContext(ctx).WithValues("addon", a.Name)
	logger.Info("An add-on is enabled")
	defer logger.Info("An add-on has ended")
	backoff := wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Jitter: 0.1, Steps: 10, Cap: 30 * time.Second}
	for ctx.Err() == nil {
		err := r.run(ctx, logger, a)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			err = errors.New("it ended by itself")
		}
		logger.Error(err, "An add-on failed and is started again")
		select {
		case <-time.After(backoff.Step()):
		case <-ctx.Done():
		}
	}
}

// Lease durations: a process that takes over waits for the first, and what leads writes every third of them.
const (
	leaseDuration = time.Minute
	renewDeadline = 40 * time.Second
	retryPeriod   = 15 * time.Second
)

// passTimeout is how long one pass of a controller may take, with all that it asks of others.
const passTimeout = 2 * time.Minute

// run runs an add-on once.
func (r *Runner) run(ctx context.Context, logger logr.Logger, a addon.Addon) error {
	config, err := r.cfg.ClientFor(a)
	if err != nil {
		return err
	}
	config = plain(config)
	if err := awaitServed(ctx, config, a); err != nil {
		return err
	}
	mgr, err := newManager(config, logger, a, r.cfg.Identity)
	if err != nil {
		return err
	}
	streams := func() (*rest.Config, error) {
		config, err := r.cfg.StreamsFor(a)
		if err != nil {
			return nil, err
		}
		return rest.CopyConfig(config), nil // that of all its clients, perhaps, which the caller completes
	}
	if err := a.Setup(ctx, addon.Env{Manager: mgr, Machine: r.cfg.Machine, Streams: streams}); err != nil {
		return fmt.Errorf("setting up: %w", err)
	}
	return mgr.Start(ctx)
}

// servedTimeout is how long it may take from when a kind is defined until it is served.
const servedTimeout = 30 * time.Second

// awaitServed waits until the kinds of an add-on are served: who asks for a kind sooner is told that there is none, and asks again
// after ten seconds.
func awaitServed(ctx context.Context, config *rest.Config, a addon.Addon) error {
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	for _, name := range a.Definitions {
		definition, err := definitions.Get(name)
		if err != nil {
			return err
		}
		for _, version := range definition.Spec.Versions {
			gv := schema.GroupVersion{Group: definition.Spec.Group, Version: version.Name}.String()
			err := wait.PollUntilContextTimeout(ctx, look, servedTimeout, true, func(ctx context.Context) (bool, error) {
				all, err := client.ServerResourcesForGroupVersionWithContext(ctx, gv)
				if apierrors.IsNotFound(err) {
					return false, nil
				}
				return err == nil && slices.ContainsFunc(all.APIResources, func(r metav1.APIResource) bool { return r.Name == definition.Spec.Names.Plural }), err
			})
			if err != nil {
				return fmt.Errorf("waiting until %s are served: %w", name, err)
			}
		}
	}
	return nil
}

func newManager(config *rest.Config, logger logr.Logger, a addon.Addon, identity string) (manager.Manager, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, a.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("making its types known: %w", err)
		}
	}
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	lease, duration, renew, retry := leaseOf(a), leaseDuration, renewDeadline, retryPeriod
	mgr, err := ctrl.NewManager(config, manager.Options{
		Scheme: scheme, Logger: logger,
		Metrics:                metricsserver.Options{BindAddress: "0"},
		HealthProbeBindAddress: "0",
		LeaderElection:         true,
		LeaderElectionResourceLockInterface: &resourcelock.LeaseLock{
			LeaseMeta: metav1.ObjectMeta{Namespace: lease.Namespace, Name: lease.Name}, Client: clients.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
		},
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 &duration, RenewDeadline: &renew, RetryPeriod: &retry,
		// It is set up again when it was disabled and enabled, or failed.
		Controller: ctrlconfig.Controller{SkipNameValidation: new(true), Logger: logger, ReconciliationTimeout: passTimeout},
	})
	if err != nil {
		return nil, fmt.Errorf("making a manager: %w", err)
	}
	return mgr, nil
}
