// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package horizontalpodautoscaler

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"minik8s.io/minik8s/pkg/controllers/setup"
)

var (
	now      = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	tenth    = tolerance{up: 0.1, down: 0.1}
	settings = setup.DefaultSettings()
	lenient  = leniencyOf(nil, settings)
	period   = settings.HorizontalPodAutoscalerSyncPeriod.Duration
	backward = settings.HorizontalPodAutoscalerDownscaleStabilization.Duration
)

// pod is one that runs and has been ready for an hour, with a container that requests a processor and a gibibyte.
func pod(name string, change ...func(*corev1.Pod)) *corev1.Pod {
	hour := metav1.NewTime(now.Add(-time.Hour))
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: map[string]string{"app": "web"}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("1Gi")},
		}}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &hour, Conditions: []corev1.PodCondition{
			{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: hour},
		}},
	}
	for _, c := range change {
		c(p)
	}
	return p
}

// started changes when a pod started and became what it is: ready or not.
func started(ago, since time.Duration, ready bool) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.StartTime = new(metav1.NewTime(now.Add(-ago)))
		c := &p.Status.Conditions[0]
		c.LastTransitionTime = metav1.NewTime(now.Add(-since))
		if !ready {
			c.Status = corev1.ConditionFalse
		}
	}
}

func phase(is corev1.PodPhase) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.Phase = is }
}

func deleted(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.NewTime(now)) }

var neverReady = started(time.Hour, time.Hour-10*time.Second, false)

// some are so many pods that differ in nothing but their names.
func some(n int, change ...func(*corev1.Pod)) []*corev1.Pod {
	var all []*corev1.Pod
	for i := range n {
		all = append(all, pod(fmt.Sprintf("%c", 'a'+i), change...))
	}
	return all
}

// used gives pods a, b, c … their values, of a minute that ended a moment ago; a negative one stands for none.
func used(milli ...int64) samples {
	s := samples{}
	for i, m := range milli {
		if m >= 0 {
			s[fmt.Sprintf("%c", 'a'+i)] = sample{m, now, time.Minute}
		}
	}
	return s
}

func TestReplicasByUtilization(t *testing.T) {
	tests := []struct {
		name     string
		pods     []*corev1.Pod
		samples  samples
		resource corev1.ResourceName
		target   int32
		current  int32
		want     int32
		percent  int32
		err      string
	}{
		{name: "above target", pods: some(3), samples: used(300, 500, 700), target: 30, current: 3, want: 5, percent: 50},
		{name: "below target", pods: some(5), samples: used(100, 100, 100, 100, 100), target: 20, current: 5, want: 3, percent: 10},
		{name: "just outside of the tolerance", pods: some(3), samples: used(560, 560, 560), target: 50, current: 3, want: 4, percent: 56},
		{name: "within the tolerance", pods: some(3), samples: used(540, 540, 540), target: 50, current: 3, want: 3, percent: 54},
		{name: "nothing used", pods: some(3), samples: used(0, 0, 0), target: 50, current: 3, want: 0, percent: 0},
		{name: "current is not what there is", pods: some(3), samples: used(500, 500, 500), target: 50, current: 7, want: 7, percent: 50},

		{name: "one missing on the way up is assumed to use nothing", pods: some(4), samples: used(800, 800, 800, -1), target: 40, current: 4, want: 6, percent: 80},
		{name: "one missing on the way down is assumed to use all it requests", pods: some(4), samples: used(100, 100, 100, -1), target: 50, current: 4, want: 3, percent: 10},
		{name: "one missing with a target above a hundred is assumed to use that", pods: some(2), samples: used(1000, -1), target: 120, current: 2, want: 2, percent: 100},
		{name: "what is missing would turn the decision round", pods: some(4), samples: used(600, 600, -1, -1), target: 40, current: 4, want: 4, percent: 60},
		{name: "what is missing keeps it within the tolerance", pods: some(3), samples: used(750, 750, -1), target: 50, current: 3, want: 3, percent: 75},
		{name: "nothing is known of any", pods: some(2), samples: samples{}, target: 50, current: 2, err: "did not receive metrics for targeted pods (pods might be unready)"},

		{name: "unready on the way up is assumed to use nothing", pods: append(some(3), pod("d", neverReady)), samples: used(800, 800, 800, 4000), target: 40, current: 4, want: 6, percent: 80},
		{name: "unready does not count on the way down", pods: append(some(3), pod("d", neverReady)), samples: used(100, 100, 100, 4000), target: 50, current: 4, want: 1, percent: 10},
		{name: "pending on the way up", pods: append(some(2), pod("c", phase(corev1.PodPending))), samples: used(1000, 1000), target: 50, current: 3, want: 4, percent: 100},
		{name: "pending would not be enough to grow", pods: append(some(1), some(4, phase(corev1.PodPending))[1:]...), samples: used(700), target: 50, current: 4, want: 4, percent: 70},
		{name: "failed and deleted ones are left out", pods: append(some(2), pod("c", phase(corev1.PodFailed)), pod("d", deleted)), samples: used(1000, 1000, 0, 0), target: 50, current: 2, want: 4, percent: 100},
		{name: "all unready", pods: some(2, neverReady), samples: used(900, 900), target: 50, current: 2, err: "did not receive metrics for targeted pods (pods might be unready)"},
		{name: "memory counts also of unready ones", pods: some(2, neverReady), resource: corev1.ResourceMemory, samples: samples{
			"a": {milli: 1 << 30 * 1000, at: now}, "b": {milli: 1 << 30 * 1000, at: now},
		}, target: 50, current: 2, want: 4, percent: 100},
		{name: "samples of others do not count", pods: some(2), samples: used(500, 500, 9000, 9000), target: 50, current: 2, want: 2, percent: 50},
		{name: "nothing requested", pods: some(1, func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests = nil }), samples: used(500), target: 50, current: 1,
			err: "missing request for cpu in container main of Pod a"},
		{name: "zero requested", pods: some(1, func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("0")
		}), samples: used(500), target: 50, current: 1,
			err: "no metrics returned matched known pods"},
		{name: "negative", pods: some(1), samples: samples{"a": {milli: -5, at: now}}, target: 50, current: 1, err: "the metric's value is negative (-5m)"},
		{name: "more than can be written", pods: some(1, func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("1m")
		}),
			samples: used(math.MaxInt64), target: 1, current: 1, want: math.MaxInt32, percent: math.MaxInt32},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			name := tt.resource
			if name == "" {
				name = corev1.ResourceCPU
			}
			target := autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: &tt.target}
			spec := &autoscalingv2.MetricSpec{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{Name: name, Target: target}}
			got, err := propose(spec, observation{pods: tt.pods, samples: tt.samples}, size{wanted: tt.current}, lenient, now)
			if tt.err != "" {
				if err == nil || err.Error() != tt.err {
					t.Fatalf("error %v, want %q", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got.replicas != tt.want || *got.status.Resource.Current.AverageUtilization != tt.percent {
				t.Errorf("%d replicas at %d%%, want %d at %d%%", got.replicas, *got.status.Resource.Current.AverageUtilization, tt.want, tt.percent)
			}
		})
	}
}

func TestReplicasByAmount(t *testing.T) {
	tests := []struct {
		name    string
		pods    []*corev1.Pod
		samples samples
		current int32
		want    int32
		average int64
		err     error
	}{
		{name: "above target", pods: some(3), samples: used(20000, 10000, 30000), current: 3, want: 4, average: 20000},
		{name: "below target", pods: some(3), samples: used(1000, 1000, 1000), current: 3, want: 1, average: 1000},
		{name: "missing on the way up", pods: some(3), samples: used(60000, 30000, -1), current: 3, want: 6, average: 45000},
		{name: "missing on the way down is assumed to be at the target", pods: some(3), samples: used(1000, 1000, -1), current: 3, want: 2, average: 1000},
		{name: "less pods known than there shall be: it does not shrink for growing", pods: some(2), samples: used(30000, -1), current: 8, want: 8, average: 30000},
		{name: "no pods", samples: used(1), current: 3, err: errNoPods},
		{name: "no samples", pods: some(1), samples: samples{}, current: 1, err: errNoSamples},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			spec := &autoscalingv2.MetricSpec{Type: autoscalingv2.PodsMetricSourceType, Pods: &autoscalingv2.PodsMetricSource{
				Metric: autoscalingv2.MetricIdentifier{Name: "qps"},
				Target: autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: resource.NewQuantity(15, resource.DecimalSI)},
			}}
			got, err := propose(spec, observation{pods: tt.pods, samples: tt.samples}, size{wanted: tt.current}, lenient, now)
			if !errors.Is(err, tt.err) {
				t.Fatalf("error %v, want %v", err, tt.err)
			}
			if err != nil {
				return
			}
			if average := got.status.Pods.Current.AverageValue.MilliValue(); got.replicas != tt.want || average != tt.average {
				t.Errorf("%d replicas, %dm each, want %d and %dm", got.replicas, average, tt.want, tt.average)
			}
			if got.metric != "pods metric qps" {
				t.Errorf("it is called %q", got.metric)
			}
		})
	}
}

func TestIsStarting(t *testing.T) {
	tests := []struct {
		name   string
		change func(*corev1.Pod)
		sample time.Duration // ago
		want   bool
	}{
		{"ready for long", started(time.Hour, time.Hour, true), 0, false},
		{"unready for a while", started(time.Hour, time.Minute, false), 0, false},
		{"never ready", neverReady, 0, true},
		{"no condition", func(p *corev1.Pod) { p.Status.Conditions = nil }, 0, true},
		{"not started", func(p *corev1.Pod) { p.Status.StartTime = nil }, 0, true},
		{"young and unready", started(time.Minute, time.Second, false), 0, true},
		{"young, and the sample began before it was ready", started(2*time.Minute, 50*time.Second, true), 0, true},
		{"young, and the sample is of a time in which it was ready", started(2*time.Minute, 61*time.Second, true), 0, false},
		{"young, and the sample is old", started(4*time.Minute, 90*time.Second, true), 40 * time.Second, true},
		{"at the end of its youth", started(lenient.initialization, time.Second, true), 0, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := lenient.isStarting(pod("a", tt.change), sample{at: now.Add(-tt.sample), window: time.Minute}, now); got != tt.want {
				t.Errorf("got %t, want %t", got, tt.want)
			}
		})
	}
}

func TestRequestsOf(t *testing.T) {
	container := func(name, cpu string) corev1.Container {
		return corev1.Container{Name: name, Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}}
	}
	sidecar, initial := container("sidecar", "300m"), container("initial", "7")
	sidecar.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
	rich := func(p *corev1.Pod) {
		p.Spec.Containers = []corev1.Container{container("main", "200m"), container("helper", "50m")}
		p.Spec.InitContainers = []corev1.Container{initial, sidecar}
	}
	whole := func(p *corev1.Pod) {
		p.Spec.Resources = &corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}}
	}
	memory := func(p *corev1.Pod) {
		p.Spec.Resources = &corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("2Gi")}}
		p.Spec.Containers[0].Resources.Requests = nil
	}
	tests := []struct {
		name      string
		change    []func(*corev1.Pod)
		container string
		want      int64
		err       string
	}{
		{name: "containers and sidecars", change: []func(*corev1.Pod){rich}, want: 550},
		{name: "one container", change: []func(*corev1.Pod){rich}, container: "helper", want: 50},
		{name: "a sidecar", change: []func(*corev1.Pod){rich}, container: "sidecar", want: 300},
		{name: "an init container is none", change: []func(*corev1.Pod){rich}, container: "initial", err: "container initial not found in Pod p"},
		{name: "of the pod", change: []func(*corev1.Pod){rich, whole}, want: 2000},
		{name: "a container precedes the pod", change: []func(*corev1.Pod){rich, whole}, container: "main", want: 200},
		{name: "the pod does not say", change: []func(*corev1.Pod){memory}, err: "missing pod-level request for cpu in Pod p"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := requestsOf([]*corev1.Pod{pod("p", tt.change...)}, tt.container, corev1.ResourceCPU)
			if tt.err != "" {
				if err == nil || err.Error() != tt.err {
					t.Fatalf("error %v, want %q", err, tt.err)
				}
				return
			}
			if err != nil || got["p"] != tt.want {
				t.Errorf("got %v (%v), want %d", got, err, tt.want)
			}
		})
	}
}

func TestReplicasByValue(t *testing.T) {
	tests := []struct {
		name    string
		current int32
		ratio   float64
		pods    []*corev1.Pod
		want    int32
		err     error
	}{
		{name: "twice as much", current: 3, ratio: 2, pods: some(3), want: 6},
		{name: "only ready ones count", current: 3, ratio: 2, pods: append(some(2), pod("c", neverReady), pod("d", phase(corev1.PodPending))), want: 4},
		{name: "within the tolerance", current: 3, ratio: 1.05, want: 3},
		{name: "nothing", current: 3, ratio: 0, pods: some(3), want: 0},
		{name: "from zero", current: 0, ratio: 2.1, want: 3},
		{name: "from zero, nothing", current: 0, ratio: 0, want: 0},
		{name: "no pods", current: 3, ratio: 2, err: errNoPods},
		{name: "more than can be counted", current: 3, ratio: 1e18, pods: some(3), want: math.MaxInt32},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := replicasByValue(tt.current, tt.ratio, tenth, tt.pods)
			if got != tt.want || !errors.Is(err, tt.err) {
				t.Errorf("got %d (%v), want %d (%v)", got, err, tt.want, tt.err)
			}
		})
	}
}

func TestReplicasByShare(t *testing.T) {
	tests := []struct {
		name         string
		current      int32
		value, share int64
		want         int32
		each         int64
	}{
		{"more", 3, 8600, 1000, 9, 2867},
		{"less", 5, 2000, 1000, 2, 400},
		{"within the tolerance", 4, 4300, 1000, 4, 1075},
		{"nothing", 4, 0, 1000, 0, 0},
		{"of no pods", 0, 2500, 1000, 3, 2500},
		{"nothing of no pods", 0, 0, 1000, 0, 0},
		{"more than can be counted", 3, math.MaxInt64, 1, math.MaxInt32, math.MaxInt64},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, each := replicasByShare(tt.current, tt.value, tt.share, tenth)
			if got != tt.want || each != tt.each {
				t.Errorf("got %d with %d each, want %d with %d", got, each, tt.want, tt.each)
			}
		})
	}
}

func TestTotal(t *testing.T) {
	tests := []struct {
		name   string
		values []int64
		want   int64
		fails  bool
	}{
		{name: "a sum", values: []int64{3, 4}, want: 7},
		{name: "of both signs", values: []int64{5, -2}, want: 3},
		{name: "too much", values: []int64{math.MaxInt64, 5}, want: math.MaxInt64},
		{name: "negative", values: []int64{2, -5}, fails: true},
		{name: "negative without end", values: []int64{math.MinInt64, -5}, fails: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got, err := total(tt.values); got != tt.want || (err != nil) != tt.fails {
				t.Errorf("got %d (%v), want %d", got, err, tt.want)
			}
		})
	}
}

func TestToleranceOf(t *testing.T) {
	rules := func(s string) *autoscalingv2.HPAScalingRules {
		return &autoscalingv2.HPAScalingRules{Tolerance: new(resource.MustParse(s))}
	}
	got := toleranceOf(&autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: rules("0"), ScaleDown: rules("250m")}, 0.1)
	if got != (tolerance{up: 0, down: 0.25}) {
		t.Errorf("got %+v", got)
	}
	if got.allows(1.001) || !got.allows(1) || !got.allows(0.75) || got.allows(0.749) {
		t.Errorf("%+v does not hold", got)
	}
	if got := toleranceOf(&autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: &autoscalingv2.HPAScalingRules{}, ScaleDown: rules("0.5")}, 0.1); got != (tolerance{up: 0.1, down: 0.5}) {
		t.Errorf("got %+v", got)
	}
	if got := toleranceOf(nil, 0.1); got != tenth {
		t.Errorf("got %+v", got)
	}
	if tenth.allows(math.NaN()) {
		t.Error("what is no number is within a tolerance")
	}
}

func TestPropose_Others(t *testing.T) {
	quantity := func(s string) *resource.Quantity { return new(resource.MustParse(s)) }
	service := autoscalingv2.CrossVersionObjectReference{APIVersion: "v1", Kind: "Service", Name: "s"}
	identifier := autoscalingv2.MetricIdentifier{Name: "requests"}
	object := func(target autoscalingv2.MetricTarget) *autoscalingv2.MetricSpec {
		return &autoscalingv2.MetricSpec{Type: autoscalingv2.ObjectMetricSourceType, Object: &autoscalingv2.ObjectMetricSource{DescribedObject: service, Metric: identifier, Target: target}}
	}
	external := func(target autoscalingv2.MetricTarget) *autoscalingv2.MetricSpec {
		return &autoscalingv2.MetricSpec{Type: autoscalingv2.ExternalMetricSourceType, External: &autoscalingv2.ExternalMetricSource{Metric: identifier, Target: target}}
	}
	value := autoscalingv2.MetricTarget{Type: autoscalingv2.ValueMetricType, Value: quantity("10")}
	share := autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: quantity("10")}
	memory := &autoscalingv2.MetricSpec{Type: autoscalingv2.ContainerResourceMetricSourceType, ContainerResource: &autoscalingv2.ContainerResourceMetricSource{
		Name: corev1.ResourceMemory, Container: "main", Target: autoscalingv2.MetricTarget{AverageValue: quantity("1Gi")},
	}}
	percent := memory.DeepCopy()
	percent.ContainerResource.Target = autoscalingv2.MetricTarget{AverageUtilization: new(int32(50))}
	tests := []struct {
		name string
		spec *autoscalingv2.MetricSpec
		o    observation
		want proposal
		err  string
	}{
		{name: "a value of an object", spec: object(value), o: observation{pods: some(2), values: []int64{15000}}, want: proposal{replicas: 3, metric: "Service metric requests",
			status: autoscalingv2.MetricStatus{Type: autoscalingv2.ObjectMetricSourceType, Object: &autoscalingv2.ObjectMetricStatus{
				DescribedObject: service, Metric: identifier, Current: autoscalingv2.MetricValueStatus{Value: quantity("15")}}}}},
		{name: "a share of an object's value", spec: object(share), o: observation{values: []int64{35000}}, want: proposal{replicas: 4, metric: "external metric requests(nil)",
			status: autoscalingv2.MetricStatus{Type: autoscalingv2.ObjectMetricSourceType, Object: &autoscalingv2.ObjectMetricStatus{
				DescribedObject: service, Metric: identifier, Current: autoscalingv2.MetricValueStatus{AverageValue: quantity("17500m")}}}}},
		{name: "external values", spec: external(value), o: observation{pods: some(2), values: []int64{5000, 10000}}, want: proposal{replicas: 3, metric: "external metric requests(nil)",
			status: autoscalingv2.MetricStatus{Type: autoscalingv2.ExternalMetricSourceType, External: &autoscalingv2.ExternalMetricStatus{
				Metric: identifier, Current: autoscalingv2.MetricValueStatus{Value: quantity("15")}}}}},
		{name: "a share of external values", spec: external(share), o: observation{values: []int64{5000, 10000}}, want: proposal{replicas: 2, metric: "external metric requests(nil)",
			status: autoscalingv2.MetricStatus{Type: autoscalingv2.ExternalMetricSourceType, External: &autoscalingv2.ExternalMetricStatus{
				Metric: identifier, Current: autoscalingv2.MetricValueStatus{AverageValue: quantity("7500m")}}}}},
		{name: "negative external values", spec: external(share), o: observation{values: []int64{-5000}}, err: "the metric's value is negative (-5000m)"},
		{name: "a negative value of an object", spec: object(value), o: observation{pods: some(2), values: []int64{-1}}, err: "the metric's value is negative (-1m)"},
		{name: "an object without a target", spec: object(autoscalingv2.MetricTarget{}), o: observation{values: []int64{1}},
			err: "invalid object metric source: neither a value target nor an average value target was set"},
		{name: "external without a target", spec: external(autoscalingv2.MetricTarget{}), o: observation{values: []int64{1}},
			err: "invalid external metric source: neither a value target nor an average value target was set"},
		{name: "memory of a container", spec: memory, o: observation{pods: some(2), samples: used(3<<30*1000, 3<<30*1000)}, want: proposal{replicas: 6, metric: "memory resource",
			status: autoscalingv2.MetricStatus{Type: autoscalingv2.ContainerResourceMetricSourceType, ContainerResource: &autoscalingv2.ContainerResourceMetricStatus{
				Name: corev1.ResourceMemory, Container: "main", Current: autoscalingv2.MetricValueStatus{AverageValue: quantity("3Gi")}}}}},
		{name: "a part of a container's memory", spec: percent, o: observation{pods: some(2), samples: used(1<<30*1000, 1<<30*1000)}, want: proposal{replicas: 4, metric: "memory container resource utilization (percentage of request)",
			status: autoscalingv2.MetricStatus{Type: autoscalingv2.ContainerResourceMetricSourceType, ContainerResource: &autoscalingv2.ContainerResourceMetricStatus{
				Name: corev1.ResourceMemory, Container: "main", Current: autoscalingv2.MetricValueStatus{AverageUtilization: new(int32(100)), AverageValue: quantity("1Gi")}}}}},
		{name: "an unknown type", spec: &autoscalingv2.MetricSpec{Type: "Moon"}, err: `unknown metric source type "Moon"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := propose(tt.spec, tt.o, size{wanted: 2, present: 2}, lenient, now)
			if tt.err != "" {
				if err == nil || err.Error() != tt.err {
					t.Fatalf("error %v, want %q", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(proposal{}), cmp.Comparer(func(a, b *resource.Quantity) bool {
				return a == b || a != nil && b != nil && a.String() == b.String()
			})); diff != "" {
				t.Errorf("proposal (-want +got):\n%s", diff)
			}
		})
	}
	if _, err := propose(&autoscalingv2.MetricSpec{Type: "Moon"}, observation{}, size{}, lenient, now); errorOf(err) != "spec" {
		t.Error("a type that does not exist is no error of the spec")
	}
	if !strings.Contains(externalName(&autoscalingv2.MetricIdentifier{Name: "q", Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}}), "q(&LabelSelector{MatchLabels:map[string]string{a: b,}") {
		t.Error("a selector is not written as upstream does")
	}
}
