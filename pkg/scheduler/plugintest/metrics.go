// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package plugintest

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
)

// Metrics plays the API metrics.k8s.io.
type Metrics struct {
	server *httptest.Server

	mu sync.Mutex // guards what follows
	// nodes and pods have figures by name; pods are of namespace "default".
	nodes, pods map[string]corev1.ResourceList
	at          time.Time
	broken      bool
	// held keeps answers until it is closed.
	held chan struct{}
}

// NewMetrics serves figures of nothing until the test ends.
func NewMetrics(tb testing.TB) *Metrics {
	tb.Helper()
	m := &Metrics{nodes: map[string]corev1.ResourceList{}, pods: map[string]corev1.ResourceList{}, at: time.Now().Add(time.Hour)}
	m.server = httptest.NewServer(m)
	tb.Cleanup(m.server.Close)
	return m
}

// Config is that of clients which ask it.
func (m *Metrics) Config() *rest.Config { return &rest.Config{Host: m.server.URL} }

// Node sets what a node uses, by pairs of resource and quantity.
func (m *Metrics) Node(name string, pairs ...string) *Metrics { return m.set(m.nodes, name, pairs) }

// Pod sets what a pod uses.
func (m *Metrics) Pod(name string, pairs ...string) *Metrics { return m.set(m.pods, name, pairs) }

func (m *Metrics) set(of map[string]corev1.ResourceList, name string, pairs []string) *Metrics {
	m.mu.Lock()
	defer m.mu.Unlock()
	of[name] = quantities(pairs)
	return m
}

// Break makes it answer with errors.
func (m *Metrics) Break(broken bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.broken = broken
}

// Hold makes it answer nobody until it is released.
func (m *Metrics) Hold() (release func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.held = make(chan struct{})
	return sync.OnceFunc(func() { close(m.held) })
}

// ServeHTTP implements http.Handler.
func (m *Metrics) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	held := m.held
	m.mu.Unlock()
	if held != nil {
		select {
		case <-held:
		case <-r.Context().Done():
			return
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var answer any
	switch path := r.URL.Path; {
	case m.broken:
		http.Error(w, "it is broken", http.StatusServiceUnavailable)
		return
	case strings.HasSuffix(path, "/metrics.k8s.io/v1beta1/nodes"):
		list := &metricsv1beta1.NodeMetricsList{TypeMeta: metav1.TypeMeta{APIVersion: "metrics.k8s.io/v1beta1", Kind: "NodeMetricsList"}}
		for name, use := range m.nodes {
			list.Items = append(list.Items, metricsv1beta1.NodeMetrics{ObjectMeta: metav1.ObjectMeta{Name: name}, Timestamp: metav1.NewTime(m.at), Usage: use})
		}
		answer = list
	case strings.HasSuffix(path, "/metrics.k8s.io/v1beta1/pods"):
		list := &metricsv1beta1.PodMetricsList{TypeMeta: metav1.TypeMeta{APIVersion: "metrics.k8s.io/v1beta1", Kind: "PodMetricsList"}}
		for name, use := range m.pods {
			list.Items = append(list.Items, metricsv1beta1.PodMetrics{
				ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}, Timestamp: metav1.NewTime(m.at),
				Containers: []metricsv1beta1.ContainerMetrics{{Name: "main", Usage: use}},
			})
		}
		answer = list
	default:
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer) // a client that went sees for itself
}
