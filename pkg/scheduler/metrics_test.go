// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	pt "minik8s.io/minik8s/pkg/scheduler/plugintest"
)

// series returns the value of each series, of histograms the count, by name and label values.
func series(t *testing.T, g prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			key := []string{f.GetName()}
			for _, l := range m.GetLabel() {
				key = append(key, l.GetValue())
			}
			value := m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			out[strings.Join(key, " ")] = value
		}
	}
	return out
}

func TestMetrics_OfWhatHappened(t *testing.T) {
	registry, resources := prometheus.NewRegistry(), prometheus.NewRegistry()
	c := start(t, Config{Registerer: registry, Resources: resources},
		pt.Node("n", pt.Allocatable("cpu", "2")),
		pt.Pod("low", pt.On("n"), pt.Requests("cpu", "2"), pt.Priority(1)),
		pt.Pod("high", pt.Requests("cpu", "1"), pt.Priority(10)),
		pt.Pod("gated", func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "g"}} }),
	)
	c.awaitNode("high", "n")
	c.awaitEvent("Scheduled", "Successfully assigned default/high to n")
	node := pt.Node("n", pt.Allocatable("cpu", "2"), pt.NodeLabels("k", "v"))
	node.Annotations = map[string]string{"k": "v"}
	if _, err := c.client.CoreV1().Nodes().Update(t.Context(), node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"high", "gated"} {
		p := c.pod(name).DeepCopy()
		p.Labels, p.Spec.Tolerations = map[string]string{"k": "v"}, []corev1.Toleration{{Key: "k"}}
		if _, err := c.client.CoreV1().Pods("default").Update(t.Context(), p, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	// Labels are in the order of their names.
	for name, atLeast := range map[string]float64{
		"scheduler_schedule_attempts_total default-scheduler scheduled":                             1,
		"scheduler_schedule_attempts_total default-scheduler unschedulable":                         1,
		"scheduler_preemption_attempts_total":                                                       1,
		"scheduler_preemption_victims":                                                              1,
		"scheduler_preemption_goroutines_execution_total success":                                   1,
		"scheduler_queue_incoming_pods_total UnscheduledPodAdd active":                              1,
		"scheduler_queue_incoming_pods_total UnscheduledPodAdd unschedulable":                       1,
		"scheduler_queue_incoming_pods_total ScheduleAttemptFailure unschedulable":                  0, // or it was woken meanwhile
		"scheduler_pending_pods gated":                                                              1,
		"scheduler_unschedulable_pods SchedulingGates default-scheduler":                            1,
		"scheduler_framework_extension_point_duration_seconds Filter default-scheduler Success":     1,
		"scheduler_framework_extension_point_duration_seconds PostFilter default-scheduler Success": 1,
		"scheduler_framework_extension_point_duration_seconds Bind default-scheduler Success":       1,
		"scheduler_plugin_evaluation_total Filter NodeResourcesFit default-scheduler":               2,
		"scheduler_event_handling_duration_seconds AssignedPodDelete":                               1,
		"scheduler_event_handling_duration_seconds NodeUpdateNodeAnnotation":                        1,
		"scheduler_event_handling_duration_seconds NodeUpdateNodeLabel":                             1,
		"scheduler_event_handling_duration_seconds AssignedPodUpdatePodLabel":                       1,
		"scheduler_event_handling_duration_seconds AssignedPodUpdatePodToleration":                  1,
		"scheduler_event_handling_duration_seconds UnscheduledPodUpdatePodLabel":                    1,
		"scheduler_event_handling_duration_seconds UnscheduledPodUpdatePodToleration":               1,
		"scheduler_async_api_call_execution_total pod_binding success":                              1,
		"scheduler_cache_size nodes":                                                                1,
	} {
		c.await(name, func() bool { return series(t, registry)[name] >= atLeast })
	}
	const request = "kube_pod_resource_request default n high 10 cpu default-scheduler cores"
	c.await(request, func() bool { return series(t, resources)[request] == 1 })
}

func TestPodResources(t *testing.T) {
	limited := pt.Pod("limited", pt.On("n"), pt.Requests("cpu", "500m", "memory", "1Gi", "hugepages-2Mi", "4Mi", "example.com/gpu", "2"))
	limited.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("0")}
	ended := pt.Pod("ended", pt.On("n"), pt.Requests("cpu", "1"))
	ended.Status.Phase = corev1.PodSucceeded
	store := cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)
	for _, p := range []*corev1.Pod{limited, ended, pt.Pod("waits", pt.Requests("cpu", "3"), pt.Priority(5))} {
		if err := store.Add(p); err != nil {
			t.Fatal(err)
		}
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(podResources{corelisters.NewPodLister(store)})
	// namespace, node, pod, priority, resource, scheduler, unit
	want := map[string]float64{
		"kube_pod_resource_limit default n limited  cpu default-scheduler cores":             1,
		"kube_pod_resource_request default n limited  cpu default-scheduler cores":           0.5,
		"kube_pod_resource_request default n limited  memory default-scheduler bytes":        1 << 30,
		"kube_pod_resource_request default n limited  hugepages-2Mi default-scheduler bytes": 4 << 20,
		"kube_pod_resource_request default n limited  example.com/gpu default-scheduler ":    2,
		"kube_pod_resource_request default  waits 5 cpu default-scheduler cores":             3,
	}
	got := series(t, registry)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// The names and labels are upstream's (test/instrumentation/testdata/stable-metrics-list.yaml of 1.37), stable ones.
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		var labels []string
		for _, l := range f.GetMetric()[0].GetLabel() {
			labels = append(labels, l.GetName())
		}
		if want := []string{"namespace", "node", "pod", "priority", "resource", "scheduler", "unit"}; !slices.Equal(labels, want) || !strings.HasPrefix(f.GetHelp(), "[STABLE] ") {
			t.Errorf("%s has labels %v and the text %q", f.GetName(), labels, f.GetHelp())
		}
	}
}
