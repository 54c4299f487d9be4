// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	resourceclient "k8s.io/metrics/pkg/client/clientset/versioned/typed/metrics/v1beta1"
	"k8s.io/utils/clock"
)

const (
	// fresh is how long nobody is asked again, also after a failure. Nodes are measured over more than that.
	fresh = 5 * time.Second
	// timeout bounds how long a pod is held back.
	timeout = 5 * time.Second
	// stale is the age from which figures say nothing, when new ones cannot be had.
	stale = time.Minute
)

// source has the newest figures, and asks for others when somebody wants them.
type source struct {
	// measure asks; its context has a deadline.
	measure  func(context.Context) (*figures, error)
	activate func(logger klog.Logger, pods map[string]*corev1.Pod)
	clock    clock.PassiveClock
	ctx      context.Context // that of the scheduler: what is begun for a pod outlives the call
	stop     context.CancelFunc
	asking   sync.WaitGroup

	mu sync.Mutex // guards what follows
	// newest are figures, and of when.
	newest *figures
	at     time.Time
	// tried is when somebody was asked last, busy that there is no answer yet.
	tried  time.Time
	busy   bool
	closed bool
	// waiting are the pods that are held back, by UID.
	waiting map[string]*corev1.Pod
}

func newSource(ctx context.Context, h fwk.Handle) (*source, error) {
	core := h.SharedInformerFactory().Core().V1()
	a := &api{
		nodes: core.Nodes().Lister(), pods: core.Pods().Lister(),
		synced: []cache.InformerSynced{core.Nodes().Informer().HasSynced, core.Pods().Informer().HasSynced},
	}
	if config := h.KubeConfig(); config != nil {
		config = rest.CopyConfig(config)
		// Who serves metrics may not speak protobuf.
		config.ContentConfig = rest.ContentConfig{ContentType: runtime.ContentTypeJSON}
		client, err := resourceclient.NewForConfig(config)
		if err != nil {
			return nil, fmt.Errorf("creating the client of metrics: %w", err)
		}
		a.metrics = client
	}
	s := &source{measure: a.measure, activate: h.Activate, clock: clock.RealClock{}, waiting: map[string]*corev1.Pod{}}
	s.ctx, s.stop = context.WithCancel(ctx)
	return s, nil
}

// close ends what was begun, and lets nothing begin any more.
func (s *source) close() {
	s.stop()
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.asking.Wait()
}

// await tells whether a pod need not wait for figures. One that must is activated
// later.
func (s *source) await(pod *corev1.Pod) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refresh()
	if !s.busy {
		return true
	}
	s.waiting[string(pod.UID)] = pod
	return false
}

// latest returns what is known now, nil if that is nothing.
func (s *source) latest() *figures {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refresh()
	if s.clock.Since(s.at) > stale {
		return nil
	}
	return s.newest
}

// refresh asks for new figures if it is time. s.mu is held.
func (s *source) refresh() {
	if s.busy || s.closed || s.clock.Since(s.tried) < fresh {
		return
	}
	s.busy = true
	s.asking.Go(s.ask)
}

func (s *source) ask() {
	ctx, cancel := context.WithTimeout(s.ctx, timeout)
	defer cancel()
	f, err := s.measure(ctx)
	logger := klog.FromContext(s.ctx)
	if err != nil && s.ctx.Err() == nil {
		logger.Error(err, "What nodes use could not be found out")
	}
	s.mu.Lock()
	s.tried, s.busy = s.clock.Now(), false
	if err == nil {
		s.newest, s.at = f, s.tried
	}
	waited := s.waiting
	s.waiting = map[string]*corev1.Pod{}
	s.mu.Unlock()
	if len(waited) > 0 && s.ctx.Err() == nil {
		s.activate(logger, waited)
	}
}

// api is where figures are from.
type api struct {
	metrics resourceclient.MetricsV1beta1Interface // nil if there is none
	nodes   corelisters.NodeLister
	pods    corelisters.PodLister
	// synced tell whether the listers know everything: the first pod may come before the last node.
	synced []cache.InformerSynced
}

func (a *api) measure(ctx context.Context) (*figures, error) {
	if a.metrics == nil {
		return nil, errors.New("the scheduler has no configuration of clients")
	}
	if !cache.WaitForCacheSync(ctx.Done(), a.synced...) {
		return nil, errors.New("nodes and pods are not known yet")
	}
	nodes, err := a.metrics.NodeMetricses().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing metrics of nodes: %w", err)
	}
	pods, err := a.metrics.PodMetricses(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing metrics of pods: %w", err)
	}
	return compute(nodes.Items, pods.Items, a), nil
}

func (a *api) machine(node string) (string, bool) {
	n, err := a.nodes.Get(node)
	if err != nil {
		return "", false
	}
	if id := n.Status.NodeInfo.BootID; id != "" {
		return "boot " + id, true
	}
	return "node " + node, true
}

func (a *api) nodeOf(pod types.NamespacedName) (string, bool) {
	p, err := a.pods.Pods(pod.Namespace).Get(pod.Name)
	if err != nil {
		return "", false
	}
	return p.Spec.NodeName, true
}
