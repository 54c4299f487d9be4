// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package scheduler assigns pods to nodes. A pod comes from a queue, plugins
// filter and score the nodes of a snapshot, the best one is assumed in a cache
// and bound through the API while the next pod is tried already.
//
//	informers ─► queue ─► cycle (filter, score, reserve) ─► binding ─► API
//	         └─► cache ─► snapshot ┘        └─ no node: preempt, requeue, tell the user
//
// Touch this package for the order of these steps; what decides on a node is in
// plugins/, one folder each.
package scheduler

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"

	"minik8s.io/minik8s/pkg/scheduler/framework"
	podcache "minik8s.io/minik8s/pkg/scheduler/internal/cache"
	"minik8s.io/minik8s/pkg/scheduler/internal/nominated"
	"minik8s.io/minik8s/pkg/scheduler/internal/queue"
)

// Scheduler is made by New. Start may be called once.
type Scheduler struct {
	cfg       Config
	profile   *framework.Profile
	cache     *podcache.Cache
	queue     *queue.Queue
	nominated *nominated.Pods
	metrics   *metrics
	pods      corelisters.PodLister

	broadcaster events.EventBroadcaster
	recorder    events.EventRecorder

	// snapshot is what the running cycle decides on.
	snapshot atomic.Pointer[framework.Snapshot]
	// rng and nextNode belong to the goroutine that runs the cycles.
	rng      *rand.Rand
	nextNode int

	bindings sync.WaitGroup
}

// New prepares a scheduler and asks cfg.Informers for what it needs; the caller
// then starts the informers.
func New(cfg Config) (*Scheduler, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	s := &Scheduler{
		cfg:       cfg,
		cache:     podcache.New(),
		nominated: nominated.New(),
		pods:      cfg.Informers.Core().V1().Pods().Lister(),
		rng:       rand.New(rand.NewPCG(cfg.Seed, 0)),
	}
	s.snapshot.Store(framework.NewSnapshot())
	s.informers() // asking for an informer is what registers it with the factory
	s.broadcaster = events.NewBroadcaster(&events.EventSinkImpl{Interface: cfg.Client.EventsV1()})
	s.recorder = s.broadcaster.NewRecorder(scheme.Scheme, cfg.SchedulerName)
	if s.profile, err = framework.NewProfile(handle{s}, cfg.Profile); err != nil {
		s.broadcaster.Shutdown()
		return nil, fmt.Errorf("building the scheduler's profile: %w", err)
	}
	s.queue = queue.New(queue.Config{
		Clock:          cfg.Clock,
		InitialBackoff: cfg.InitialBackoff,
		MaxBackoff:     cfg.MaxBackoff,
		PreEnqueue:     s.profile.RunPreEnqueue,
		Requeues:       s.profile.Requeues(),
	})
	if s.metrics, err = newMetrics(cfg.Registerer, s.queue); err != nil {
		s.broadcaster.Shutdown()
		return nil, fmt.Errorf("registering the scheduler's metrics: %w", err)
	}
	return s, nil
}

// Start schedules pods until ctx ends and then waits for all it started. With
// leader election it first waits for the lease, and it fails when the lease is lost.
func (s *Scheduler) Start(ctx context.Context) error {
	if err := s.broadcaster.StartRecordingToSinkWithContext(ctx); err != nil {
		return fmt.Errorf("starting to record events: %w", err)
	}
	defer s.broadcaster.Shutdown()
	if !s.cfg.LeaderElection {
		return s.run(ctx)
	}
	return s.lead(ctx)
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
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		return nil // ctx ended
	}
	var background sync.WaitGroup
	background.Go(func() { s.queue.Run(ctx) })
	for {
		pod := s.queue.Pop(ctx)
		if pod == nil {
			break
		}
		s.scheduleOne(ctx, pod)
	}
	s.bindings.Wait()
	background.Wait()
	return nil
}

// handle is the scheduler as its plugins see it.
type handle struct{ s *Scheduler }

var _ framework.Handle = handle{}

func (h handle) Client() kubernetes.Interface               { return h.s.cfg.Client }
func (h handle) Informers() informers.SharedInformerFactory { return h.s.cfg.Informers }
func (h handle) Recorder() events.EventRecorder             { return h.s.recorder }
func (h handle) Snapshot() *framework.Snapshot              { return h.s.snapshot.Load() }
func (h handle) Profile() *framework.Profile                { return h.s.profile }
func (h handle) Nominated(node string) []*framework.PodInfo { return h.s.nominated.On(node) }
