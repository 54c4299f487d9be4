// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package metrics is what a metrics-server is elsewhere: it asks kubelets for counters and makes of them what nodes and pods use, which
// pkg/registry/metrics serves as metrics.k8s.io. Kubelets are asked when somebody wants to know, and once a minute at rest, so that
// there is something to compare with. Touch it for how usage is computed, or how kubelets are asked. (It does not build on
// sigs.k8s.io/metrics-server, which samples all the time, watches all pods, and brings Prometheus' server along.)
package metrics

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
)

const (
	// fresh is how long nodes are not asked again.
	fresh = 5 * time.Second
	// patience is how long somebody waits for nodes that are asked for him.
	patience = 2 * time.Second
	// timeout is what a node may take to answer; the next who wants to know has what came late.
	timeout = 10 * time.Second
	// stale is the age at which figures are not told any more: it takes a node that does not answer.
	stale = 30 * time.Second
	// firstRest and longestRest are how long nobody is asked if nobody wants to know: a new cluster is soon measured.
	firstRest, longestRest = time.Second, time.Minute
)

// Collector measures nodes and pods. Safe for concurrent use.
type Collector struct {
	cfg Config
	// wanted has channels that are closed when all that answers in time has been measured just now.
	wanted chan chan struct{}

	mu      sync.Mutex // guards what follows
	history map[string][]sample
	// asked are the nodes that have not answered yet, failing those that did not the last time.
	asked, failing sets.Set[string]
}

// New returns a Collector.
func New(c Config) *Collector {
	c.complete()
	return &Collector{
		cfg: c, wanted: make(chan chan struct{}), history: map[string][]sample{}, asked: sets.New[string](), failing: sets.New[string](),
	}
}

// Start measures until ctx ends.
func (c *Collector) Start(ctx context.Context) error {
	var asking sync.WaitGroup
	defer asking.Wait()
	var last time.Time // when nodes were asked
	rest := firstRest
	timer := c.cfg.Clock.NewTimer(0)
	defer timer.Stop()
	for {
		var done chan struct{}
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C():
		case done = <-c.wanted:
		}
		if done == nil || c.cfg.Clock.Since(last) >= fresh {
			last = c.cfg.Clock.Now()
			c.measure(ctx, &asking)
			timer.Stop()
			timer.Reset(rest)
			rest = min(2*rest, longestRest)
		}
		if done != nil {
			close(done)
		}
	}
}

// Measure returns when figures are as new as can be had now, or when ctx ends; it takes no longer than two times the patience.
func (c *Collector) Measure(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 2*patience)
	defer cancel()
	done := make(chan struct{})
	select {
	case c.wanted <- done:
	case <-ctx.Done():
		return
	}
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// measure asks all nodes, and returns when those have answered that did so the last time, or when patience ends. The others go on
// being asked, as part of asking.
func (c *Collector) measure(ctx context.Context, asking *sync.WaitGroup) {
	patient, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	nodes, err := c.cfg.Client.CoreV1().Nodes().List(patient, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		if ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Nodes could not be listed to be measured")
		}
		return
	}
	c.retain(nodes.Items)
	var awaited []<-chan struct{}
	for i := range nodes.Items {
		node := &nodes.Items[i]
		begun, wait := c.begin(node.Name)
		if !begun {
			continue
		}
		answered := make(chan struct{})
		asking.Go(func() {
			defer close(answered)
			c.ask(ctx, node)
		})
		if wait {
			awaited = append(awaited, answered)
		}
	}
	for _, answered := range awaited {
		select {
		case <-answered:
		case <-patient.Done():
			return
		}
	}
}

// retain forgets nodes that are gone.
func (c *Collector) retain(nodes []corev1.Node) {
	there := sets.New[string]()
	for i := range nodes {
		there.Insert(nodes[i].Name)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for name := range c.history {
		if !there.Has(name) {
			delete(c.history, name)
		}
	}
	c.failing = c.failing.Intersection(there)
}

// begin notes that a node is asked, if it is not being asked still, and says whether its answer is worth waiting for.
func (c *Collector) begin(node string) (begun, wait bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asked.Has(node) {
		return false, false
	}
	c.asked.Insert(node)
	return true, !c.failing.Has(node)
}

// ask asks a node and notes what it says.
func (c *Collector) ask(ctx context.Context, node *corev1.Node) {
	s, err := c.scrape(ctx, node)
	c.mu.Lock()
	failed := c.failing.Has(node.Name)
	c.asked.Delete(node.Name)
	if err == nil {
		c.history[node.Name] = remember(c.history[node.Name], s)
		c.failing.Delete(node.Name)
	} else {
		c.failing.Insert(node.Name)
	}
	c.mu.Unlock()
	if err != nil && !failed && ctx.Err() == nil {
		klog.FromContext(ctx).Info("A node could not be measured; it is asked again when somebody wants to know", "node", node.Name, "err", err)
	}
}

// Node is what a node uses, false if that is not known.
func (c *Collector) Node(name string) (metricsv1beta1.NodeMetrics, bool) {
	u, ok := nodeUsage(c.current(name))
	if !ok {
		return metricsv1beta1.NodeMetrics{}, false
	}
	return metricsv1beta1.NodeMetrics{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Timestamp:  metav1.NewTime(u.at), Window: metav1.Duration{Duration: u.window}, Usage: u.resources(),
	}, true
}

// Pod is what the containers of a pod on a node use, false if that is not known of one of them.
func (c *Collector) Pod(node string, name types.NamespacedName) (metricsv1beta1.PodMetrics, bool) {
	containers, ok := podUsage(c.current(node), name)
	if !ok {
		return metricsv1beta1.PodMetrics{}, false
	}
	m := metricsv1beta1.PodMetrics{ObjectMeta: metav1.ObjectMeta{Name: name.Name, Namespace: name.Namespace}}
	first := containers[0].usage
	for _, container := range containers {
		if container.at.Before(first.at) {
			first = container.usage
		}
		m.Containers = append(m.Containers, metricsv1beta1.ContainerMetrics{Name: container.name, Usage: container.resources()})
	}
	m.Timestamp, m.Window = metav1.NewTime(first.at), metav1.Duration{Duration: first.window}
	return m, true
}

// current is what is remembered of a node, the oldest first; nothing if that is stale.
func (c *Collector) current(node string) []sample {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.history[node]
	if len(h) == 0 || c.cfg.Clock.Since(h[len(h)-1].at) > stale {
		return nil
	}
	return h
}

// kubeletURL is where the kubelet of a node serves what it counts.
func (c *Collector) kubeletURL(node *corev1.Node) (string, error) {
	for _, kind := range c.cfg.AddressTypes {
		for _, a := range node.Status.Addresses {
			if a.Type == kind && a.Address != "" {
				return location(a.Address, node.Status.DaemonEndpoints.KubeletEndpoint.Port), nil
			}
		}
	}
	return "", fmt.Errorf("node %q has no address of the types %v", node.Name, c.cfg.AddressTypes)
}
