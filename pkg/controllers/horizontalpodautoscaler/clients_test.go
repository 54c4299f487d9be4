// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package horizontalpodautoscaler

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"minik8s.io/minik8s/pkg/controllers/setup"
)

// wire is what an API server with all three APIs of metrics answers, by path.
var wire = map[string]string{
	"/api":    `{"kind":"APIVersions","versions":["v1"]}`,
	"/api/v1": `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"v1","resources":[{"name":"pods","namespaced":true,"kind":"Pod"},{"name":"services","namespaced":true,"kind":"Service"}]}`,
	"/apis": `{"kind":"APIGroupList","apiVersion":"v1","groups":[{"name":"custom.metrics.k8s.io","versions":[{"groupVersion":"custom.metrics.k8s.io/v1beta2","version":"v1beta2"}],
		"preferredVersion":{"groupVersion":"custom.metrics.k8s.io/v1beta2","version":"v1beta2"}}]}`,
	"/apis/custom.metrics.k8s.io/v1beta2": `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"custom.metrics.k8s.io/v1beta2","resources":[]}`,

	"/apis/metrics.k8s.io/v1beta1/namespaces/ns/pods": `{"kind":"PodMetricsList","apiVersion":"metrics.k8s.io/v1beta1","items":[
		{"metadata":{"name":"a"},"timestamp":"2026-05-01T12:00:00Z","window":"15s","containers":[{"name":"main","usage":{"cpu":"250m"}},{"name":"helper","usage":{"cpu":"50m"}}]},
		{"metadata":{"name":"b"},"timestamp":"2026-05-01T12:00:00Z","window":"15s","containers":[{"name":"main","usage":{"cpu":"1"}},{"name":"helper","usage":{"memory":"1Mi"}}]}]}`,
	"/apis/custom.metrics.k8s.io/v1beta2/namespaces/ns/pods/*/qps": `{"kind":"MetricValueList","apiVersion":"custom.metrics.k8s.io/v1beta2","items":[
		{"describedObject":{"kind":"Pod","name":"a"},"metric":{"name":"qps"},"timestamp":"2026-05-01T12:00:00Z","value":"1500m"},
		{"describedObject":{"kind":"Pod","name":"b"},"metric":{"name":"qps"},"timestamp":"2026-05-01T12:00:00Z","windowSeconds":20,"value":"2"}]}`,
	"/apis/custom.metrics.k8s.io/v1beta2/namespaces/ns/services/s/qps": `{"kind":"MetricValueList","apiVersion":"custom.metrics.k8s.io/v1beta2","items":[{"value":"3"}]}`,
	"/apis/custom.metrics.k8s.io/v1beta2/namespaces/ns/metrics/qps":    `{"kind":"MetricValueList","apiVersion":"custom.metrics.k8s.io/v1beta2","items":[{"value":"4"}]}`,
	"/apis/external.metrics.k8s.io/v1beta1/namespaces/ns/queue":        `{"kind":"ExternalMetricValueList","apiVersion":"external.metrics.k8s.io/v1beta1","items":[{"metricName":"queue","value":"5"},{"value":"1k"}]}`,
	"/apis/external.metrics.k8s.io/v1beta1/namespaces/ns/none":         `{"kind":"ExternalMetricValueList","apiVersion":"external.metrics.k8s.io/v1beta1","items":[]}`,
	"/apis/external.metrics.k8s.io/v1beta1/namespaces/ns/nan":          `{"kind":"ExternalMetricValueList","apiVersion":"external.metrics.k8s.io/v1beta1","items":[{"value":"NaN"}]}`,
}

// reconcilerOf returns a reconciler with real clients of a server.
func reconcilerOf(t *testing.T, handler http.Handler) *Reconciler {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	r, err := newReconciler(setup.Env{RESTConfig: &rest.Config{Host: server.URL, QPS: -1}, Clock: clock.RealClock{}})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestMetrics(t *testing.T) {
	var selected []string
	m := reconcilerOf(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, ok := wire[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		for _, name := range []string{"labelSelector", "metricLabelSelector"} {
			if s := r.URL.Query().Get(name); s != "" {
				selected = append(selected, name+" "+s)
			}
		}
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, answer)
	})).Metrics
	web, front := labels.SelectorFromSet(labels.Set{"app": "web"}), &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "front"}}
	at := func(milli int64, window time.Duration) sample {
		return sample{milli, metav1.NewTime(now).Local(), window}
	}
	qps := &autoscalingv2.MetricIdentifier{Name: "qps", Selector: front}
	tests := []struct {
		name string
		ask  func() (any, error)
		want any
		err  string
	}{
		{name: "pods with all containers", ask: func() (any, error) { return m.ofResource(t.Context(), "ns", web, "cpu", "") }, want: samples{"a": at(300, 15*time.Second)}},
		{name: "a container", ask: func() (any, error) { return m.ofResource(t.Context(), "ns", web, "cpu", "main") },
			want: samples{"a": at(250, 15*time.Second), "b": at(1000, 15*time.Second)}},
		{name: "a container that some lack", ask: func() (any, error) { return m.ofResource(t.Context(), "ns", web, "memory", "helper") },
			want: samples{"b": at(1<<20*1000, 15*time.Second)}},
		{name: "custom metrics of pods", ask: func() (any, error) { return m.ofPods("ns", web, qps) },
			want: samples{"a": at(1500, time.Minute), "b": at(2000, 20*time.Second)}},
		{name: "of an object", ask: func() (any, error) {
			return m.ofObject("ns", &autoscalingv2.CrossVersionObjectReference{APIVersion: "v1", Kind: "Service", Name: "s"}, qps)
		}, want: []int64{3000}},
		{name: "of the namespace", ask: func() (any, error) {
			return m.ofObject("ns", &autoscalingv2.CrossVersionObjectReference{APIVersion: "v1", Kind: "Namespace", Name: "other"}, qps)
		}, want: []int64{4000}},
		{name: "of a kind that nobody knows", ask: func() (any, error) {
			return m.ofObject("ns", &autoscalingv2.CrossVersionObjectReference{APIVersion: "v1", Kind: "Moon", Name: "m"}, qps)
		}, err: `unable to get metric qps on Moon ns/m: unable to fetch metrics from custom metrics API: `},
		{name: "external", ask: func() (any, error) {
			return m.external("ns", &autoscalingv2.MetricIdentifier{Name: "queue", Selector: front})
		}, want: []int64{5000, 1000000}},
		{name: "external, without values", ask: func() (any, error) { return m.external("ns", &autoscalingv2.MetricIdentifier{Name: "none"}) },
			err: "unable to get external metric ns/none/nil: no metrics returned from external metrics API"},
		{name: "external, no number", ask: func() (any, error) { return m.external("ns", &autoscalingv2.MetricIdentifier{Name: "nan"}) },
			err: "unable to get external metric ns/nan/nil: unable to fetch metrics from external metrics API: "},
		{name: "external, missing", ask: func() (any, error) { return m.external("ns", &autoscalingv2.MetricIdentifier{Name: "missing"}) },
			err: "unable to get external metric ns/missing/nil: unable to fetch metrics from external metrics API: the server could not find the requested resource"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tt.ask()
			if tt.err != "" {
				if err == nil || !strings.HasPrefix(err.Error(), tt.err) {
					t.Errorf("error %v, want %q", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(sample{})); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
		})
	}
	if want := []string{"labelSelector app=web", "metricLabelSelector tier=front", "labelSelector tier=front"}; slices.ContainsFunc(want, func(s string) bool { return !slices.Contains(selected, s) }) {
		t.Errorf("asked for %v, want %v among them", selected, want)
	}
}

// TestMetrics_Hang: no call waits for an answer for longer than it may, also those that take no context.
func TestMetrics_Hang(t *testing.T) {
	t.Parallel()
	ended := make(chan struct{})
	t.Cleanup(func() { close(ended) })
	r := reconcilerOf(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if answer, ok := wire[r.URL.Path]; ok && !strings.Contains(r.URL.Path, "/namespaces/") {
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, answer)
			return
		}
		select {
		case <-ended:
		case <-r.Context().Done():
		}
	}))
	qps := &autoscalingv2.MetricIdentifier{Name: "qps"}
	calls := map[string]func() error{
		"resource": func() error {
			_, err := r.Metrics.ofResource(t.Context(), "ns", labels.Everything(), corev1.ResourceCPU, "")
			return err
		},
		"custom":   func() error { _, err := r.Metrics.ofPods("ns", labels.Everything(), qps); return err },
		"external": func() error { _, err := r.Metrics.external("ns", qps); return err },
	}
	type end struct {
		name string
		err  error
		took time.Duration
	}
	ends := make(chan end, len(calls))
	for name, call := range calls {
		go func() {
			start := time.Now()
			err := call()
			ends <- end{name, err, time.Since(start)}
		}()
	}
	for range calls {
		e := <-ends
		if !isLate(e.err) {
			t.Errorf("%s: %v is not said to be late", e.name, e.err)
		}
		if e.took > callTimeout+5*time.Second {
			t.Errorf("%s took %s", e.name, e.took)
		}
	}
}
