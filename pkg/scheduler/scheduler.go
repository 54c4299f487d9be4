// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package scheduler assigns pods to nodes. A pod comes from a queue, plugins
// filter and score the nodes of a snapshot, the best one is assumed in a cache
// and bound through the API while the next pod is tried already. Pods of a
// PodGroup are tried together.
//
//	informers ─► queue ─► cycle (filter, score, reserve) ─► binding ─► API
//	         └─► cache ─► snapshot ┘        └─ no node: preempt, requeue, tell the user
//
// Touch this package for the order of these steps; what decides on a node is in
// plugins/, one folder each.
package scheduler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/kubernetes/scheme"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"minik8s.io/minik8s/pkg/scheduler/extender"
	"minik8s.io/minik8s/pkg/scheduler/framework"
	podcache "minik8s.io/minik8s/pkg/scheduler/internal/cache"
	"minik8s.io/minik8s/pkg/scheduler/internal/dra"
	"minik8s.io/minik8s/pkg/scheduler/internal/metrics"
	"minik8s.io/minik8s/pkg/scheduler/internal/nominated"
	"minik8s.io/minik8s/pkg/scheduler/internal/podgroup"
	"minik8s.io/minik8s/pkg/scheduler/internal/podstatus"
	"minik8s.io/minik8s/pkg/scheduler/internal/queue"
)

// Scheduler is made by New. Start may be called once.
type Scheduler struct {
	cfg       Config
	profiles  map[string]*framework.Profile // by scheduler name
	cache     *podcache.Cache
	queue     *queue.Queue
	nominated *nominated.Pods
	statuses  *podstatus.Writer
	metrics   *metrics.Metrics // nil if nobody wants to know
	pods      corelisters.PodLister
	dra       *dra.Manager
	// groups and conditions of groups; nil if pods are scheduled one by one.
	groups     *podgroup.Groups
	conditions *podgroup.Writer

	broadcaster events.EventBroadcaster
	// dynamic watches what plugins from outside name; nil if there is no such plugin.
	dynamic dynamicinformer.DynamicSharedInformerFactory
	// anyUpdate tells that a plugin wants to hear of every update of a pod that has a node.
	anyUpdate bool

	// snapshot is what the running cycle decides on.
	snapshot atomic.Pointer[framework.Snapshot]
	// rng, nextNode, memory and scratch belong to the goroutine that runs the cycles.
	rng      *rand.Rand
	nextNode int
	memory   *framework.Memory
	scratch  scratch

	bindings sync.WaitGroup
	slots    chan struct{} // one per Binding that is being written
	stop     context.CancelFunc
}

// New prepares a scheduler and asks cfg.Informers for what it needs; the caller
// then starts the informers. What plugins do in the background ends with Start.
func New(cfg Config) (*Scheduler, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	lister := cfg.Informers.Core().V1().Pods().Lister()
	s := &Scheduler{
		cfg:         cfg,
		profiles:    map[string]*framework.Profile{},
		cache:       podcache.New(),
		nominated:   nominated.New(),
		pods:        lister,
		broadcaster: events.NewBroadcaster(newEventSink(&events.EventSinkImpl{Interface: cfg.Client.EventsV1()})),
		rng:         rand.New(rand.NewPCG(cfg.Seed, 0)),
		memory:      framework.NewMemory(),
		slots:       make(chan struct{}, maxBindings),
	}
	if cfg.Registerer != nil {
		s.metrics = metrics.New()
	}
	s.statuses = podstatus.NewWriter(cfg.Client, lister, s.metrics)
	s.snapshot.Store(framework.NewSnapshot())
	if cfg.PodGroups {
		objects := cfg.Informers.Scheduling().V1beta1().PodGroups().Lister()
		s.groups, s.conditions = podgroup.New(objects), podgroup.NewWriter(cfg.Client, objects)
	}
	if err := s.build(); err != nil {
		s.broadcaster.Shutdown()
		return nil, err
	}
	return s, nil
}

// build makes the profiles and the queue that they share.
func (s *Scheduler) build() error {
	registry, err := s.cfg.registry()
	if err != nil {
		return err
	}
	outside, err := extender.New(s.cfg.Configuration.Extenders)
	if err != nil {
		return fmt.Errorf("building the scheduler's extenders: %w", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	if s.dra, err = dra.New(ctx, s.cfg.Informers); err != nil {
		stop()
		return err
	}
	waiting := &framework.WaitingPods{}
	var groups fwk.PodGroupManager // an interface of nil is not nil
	if s.groups != nil {
		groups = s.groups
	}
	var sort *framework.Profile
	for _, c := range s.cfg.Configuration.Profiles {
		profile, err := framework.NewProfile(ctx, &framework.Services{
			Client:    s.cfg.Client,
			Config:    s.cfg.KubeConfig,
			Informers: s.cfg.Informers,
			Recorder:  s.broadcaster.NewRecorder(scheme.Scheme, *c.SchedulerName),
			State:     s.snapshot.Load,
			Nominator: s.nominated,
			Awaken: func(logger klog.Logger, pods map[string]*corev1.Pod) {
				s.queue.Activate(klog.NewContext(ctx, logger), pods)
			},
			Waiting:  waiting,
			Outside:  outside,
			Parallel: framework.Parallelizer(*s.cfg.Configuration.Parallelism),
			DRA:      s.dra,
			CSI:      csiNodes{s.cfg.Informers},
			Groups:   groups,
			Metrics:  s.metrics,
		}, registry, c)
		if err != nil {
			stop()
			return fmt.Errorf("building the scheduler's profile: %w", err)
		}
		if sort != nil && sort.QueueSort() != profile.QueueSort() {
			stop()
			return fmt.Errorf("different queue sort plugins for profile %q: %q, first: %q", profile.Name(), profile.QueueSort(), sort.QueueSort())
		}
		sort = cmp.Or(sort, profile)
		s.profiles[profile.Name()] = profile
	}
	if err := s.prepareEvents(); err != nil {
		stop()
		return err
	}
	c := queue.Config{
		Clock:          s.cfg.Clock,
		InitialBackoff: s.cfg.initialBackoff,
		MaxBackoff:     time.Duration(*s.cfg.Configuration.PodMaxBackoffSeconds) * time.Second,
		Less:           sort.Less,
		PreEnqueue: func(ctx context.Context, pod *corev1.Pod) *fwk.Status {
			return s.profiles[pod.Spec.SchedulerName].RunPreEnqueue(ctx, pod)
		},
		Events: func(pod *corev1.Pod) map[string][]fwk.ClusterEventWithHint {
			return s.profiles[pod.Spec.SchedulerName].Events()
		},
		Metrics: s.metrics,
	}
	if s.groups != nil {
		c.Group, c.Incomplete = s.group, s.incomplete
	}
	s.queue = queue.New(c)
	if err := s.register(); err != nil {
		stop()
		return fmt.Errorf("registering the scheduler's metrics: %w", err)
	}
	return nil
}

// Start schedules pods until ctx ends and then waits for all it started. With
// leader election it first waits for the lease, and it fails when the lease is lost.
func (s *Scheduler) Start(ctx context.Context) error {
	if err := s.broadcaster.StartRecordingToSinkWithContext(ctx); err != nil {
		return fmt.Errorf("starting to record events: %w", err)
	}
	defer s.broadcaster.Shutdown()
	defer s.close(ctx)
	if !s.cfg.leads() {
		return s.run(ctx)
	}
	return s.lead(ctx)
}

// close ends what plugins do in the background.
func (s *Scheduler) close(ctx context.Context) {
	s.stop()
	for name, profile := range s.profiles {
		if err := profile.Close(); err != nil {
			klog.FromContext(ctx).Error(err, "Closing the plugins of a profile failed", "profile", name)
		}
	}
}

func (s *Scheduler) lead(ctx context.Context) error {
	var (
		mu      sync.Mutex
		over    bool // guarded by mu
		running sync.WaitGroup
		failed  error // written by the goroutine that running waits for
	)
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Name: "kube-scheduler",
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "kube-scheduler"},
			Client:     s.cfg.Client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: s.cfg.Identity},
		},
		LeaseDuration:   15 * time.Second,
		RenewDeadline:   10 * time.Second,
		RetryPeriod:     2 * time.Second,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			// Called in a goroutine of its own, at worst when the term is over.
			OnStartedLeading: func(ctx context.Context) {
				mu.Lock()
				defer mu.Unlock()
				if !over {
					running.Go(func() { failed = s.run(ctx) })
				}
			},
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return fmt.Errorf("preparing leader election: %w", err)
	}
	elector.Run(ctx)
	mu.Lock()
	over = true
	mu.Unlock()
	running.Wait()
	if failed == nil && ctx.Err() == nil {
		failed = errors.New("leader election lost")
	}
	return failed
}

func (s *Scheduler) run(ctx context.Context) error {
	ctx = klog.NewContext(ctx, klog.FromContext(ctx).WithName("scheduler"))
	stop, synced, err := s.watch(ctx)
	if err != nil {
		return err
	}
	defer stop()
	if s.dynamic != nil {
		s.dynamic.Start(ctx.Done())
		defer s.dynamic.Shutdown()
	}
	// Plugins read listers that have no handler here.
	s.cfg.Informers.WaitForCacheSync(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), append(synced, s.dra.HasSynced)...) {
		return nil // ctx ended
	}
	var background sync.WaitGroup
	background.Go(func() { s.queue.Run(ctx) })
	background.Go(func() { s.statuses.Run(ctx) })
	if s.conditions != nil {
		background.Go(func() { s.conditions.Run(ctx) })
	}
	for {
		pod := s.queue.Pop(ctx)
		if pod == nil {
			break
		}
		s.schedule(ctx, pod)
	}
	s.bindings.Wait()
	background.Wait()
	return nil
}
