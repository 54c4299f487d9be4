// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package horizontalpodautoscaler

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/scale"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
	customv1beta2 "k8s.io/metrics/pkg/apis/custom_metrics/v1beta2"
	externalv1beta1 "k8s.io/metrics/pkg/apis/external_metrics/v1beta1"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
	resourcefake "k8s.io/metrics/pkg/client/clientset/versioned/fake"
	customfake "k8s.io/metrics/pkg/client/custom_metrics/fake"
	externalfake "k8s.io/metrics/pkg/client/external_metrics/fake"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/controllertest"
)

var request = reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "ns", Name: "h"}}

// scales are those of the Deployments of a client.
type scales struct {
	c        client.Client
	selector string
	fail     error
}

type namespacedScales struct {
	scale.ScaleInterface
	scales
	namespace string
}

func (s scales) Scales(namespace string) scale.ScaleInterface {
	return namespacedScales{scales: s, namespace: namespace}
}

func (s namespacedScales) deployment(ctx context.Context, resource schema.GroupResource, name string) (*appsv1.Deployment, error) {
	if resource != (schema.GroupResource{Group: "apps", Resource: "deployments"}) {
		return nil, fmt.Errorf("%s has no scale", resource)
	}
	d := &appsv1.Deployment{}
	return d, controllertest.Live(s.c).Get(ctx, types.NamespacedName{Namespace: s.namespace, Name: name}, d)
}

func (s namespacedScales) Get(ctx context.Context, resource schema.GroupResource, name string, _ metav1.GetOptions) (*autoscalingv1.Scale, error) {
	d, err := s.deployment(ctx, resource, name)
	if err != nil {
		return nil, err
	}
	return &autoscalingv1.Scale{
		ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: d.Name, UID: d.UID, ResourceVersion: d.ResourceVersion},
		Spec:       autoscalingv1.ScaleSpec{Replicas: *d.Spec.Replicas},
		Status:     autoscalingv1.ScaleStatus{Replicas: d.Status.Replicas, Selector: s.selector},
	}, nil
}

func (s namespacedScales) Update(ctx context.Context, resource schema.GroupResource, sc *autoscalingv1.Scale, _ metav1.UpdateOptions) (*autoscalingv1.Scale, error) {
	if s.fail != nil {
		return nil, s.fail
	}
	d, err := s.deployment(ctx, resource, sc.Name)
	if err != nil {
		return nil, err
	}
	d.ResourceVersion = sc.ResourceVersion
	d.Spec.Replicas = &sc.Spec.Replicas
	return sc, s.c.Update(ctx, d)
}

func kinds() *Kinds {
	known := meta.NewDefaultRESTMapper([]schema.GroupVersion{appsv1.SchemeGroupVersion})
	known.Add(appsv1.SchemeGroupVersion.WithKind("Deployment"), meta.RESTScopeNamespace)
	known.Add(appsv1.SchemeGroupVersion.WithKind("ControllerRevision"), meta.RESTScopeNamespace)
	return &Kinds{ResettableRESTMapper: meta.FirstHitRESTMapper{MultiRESTMapper: meta.MultiRESTMapper{known}}}
}

// answers is what the APIs of metrics answer; what is not set is an error.
type answers struct {
	pods     func() ([]metricsv1beta1.PodMetrics, error)
	custom   func(name string) ([]customv1beta2.MetricValue, error)
	external func() ([]externalv1beta1.ExternalMetricValue, error)
}

func (a answers) metrics() *Metrics {
	var resources resourcefake.Clientset
	var custom customfake.FakeCustomMetricsClient
	var external externalfake.FakeExternalMetricsClient
	missing := errors.New("the server could not find the requested resource")
	resources.AddReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		if a.pods == nil {
			return true, nil, missing
		}
		items, err := a.pods()
		return true, &metricsv1beta1.PodMetricsList{Items: items}, err
	})
	custom.AddReactor("get", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if a.custom == nil {
			return true, nil, missing
		}
		items, err := a.custom(action.(customfake.GetForAction).GetMetricName())
		return true, &customv1beta2.MetricValueList{Items: items}, err
	})
	external.AddReactor("list", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		if a.external == nil {
			return true, nil, missing
		}
		items, err := a.external()
		return true, &externalv1beta1.ExternalMetricValueList{Items: items}, err
	})
	return &Metrics{Resource: resources.MetricsV1beta1(), Custom: &custom, External: &external}
}

// uses answers that each of the pods a, b, c … uses so much cpu.
func uses(cpu ...string) answers {
	return answers{pods: func() ([]metricsv1beta1.PodMetrics, error) {
		var items []metricsv1beta1.PodMetrics
		for i, c := range cpu {
			items = append(items, metricsv1beta1.PodMetrics{
				ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprintf("%c", 'a'+i), Labels: map[string]string{"app": "web"}},
				Timestamp:  metav1.NewTime(now), Window: metav1.Duration{Duration: time.Minute},
				Containers: []metricsv1beta1.ContainerMetrics{{Name: "main", Usage: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(c)}}},
			})
		}
		return items, nil
	}}
}

func autoscaler(change ...func(*autoscalingv2.HorizontalPodAutoscaler)) *autoscalingv2.HorizontalPodAutoscaler {
	h := &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "h", UID: "h", Generation: 3},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "d"},
			MinReplicas:    new(int32(1)), MaxReplicas: 10,
			Metrics: []autoscalingv2.MetricSpec{{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{
				Name: corev1.ResourceCPU, Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: new(int32(50))},
			}}},
		},
	}
	for _, c := range change {
		c(h)
	}
	return h
}

func byQueue(h *autoscalingv2.HorizontalPodAutoscaler) {
	h.Spec.MinReplicas = new(int32(0))
	h.Spec.Metrics = []autoscalingv2.MetricSpec{{Type: autoscalingv2.ExternalMetricSourceType, External: &autoscalingv2.ExternalMetricSource{
		Metric: autoscalingv2.MetricIdentifier{Name: "queue"},
		Target: autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: new(resource.MustParse("10"))},
	}}}
}

// freely lets nothing hold the autoscaler back, its past included.
func freely(h *autoscalingv2.HorizontalPodAutoscaler) { h.Spec.Behavior = behavior(free(), free()) }

func queue(length string) answers {
	return answers{external: func() ([]externalv1beta1.ExternalMetricValue, error) {
		return []externalv1beta1.ExternalMetricValue{{MetricName: "queue", Value: resource.MustParse(length)}}, nil
	}}
}

func deployment(replicas int32) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "d", UID: "d"},
		Spec:       appsv1.DeploymentSpec{Replicas: &replicas}, Status: appsv1.DeploymentStatus{Replicas: replicas},
	}
}

// world is a reconciler, what it works on, and a clock.
type world struct {
	*Reconciler
	clock  *clocktesting.FakePassiveClock
	events *record.FakeRecorder
}

func newWorld(a answers, objects ...client.Object) *world {
	c := controllertest.NewClientBuilder().WithObjects(objects...).WithStatusSubresource(&autoscalingv2.HorizontalPodAutoscaler{}).Build()
	w := &world{clock: clocktesting.NewFakePassiveClock(now), events: record.NewFakeRecorder(100)}
	w.Reconciler = &Reconciler{Client: c, Scales: scales{c: c, selector: "app=web"}, Kinds: kinds(), Metrics: a.metrics(), Events: w.events, Clock: w.clock, Settings: settings}
	return w
}

// pass runs a pass and returns what the object has become and the number of pods.
func (w *world) pass(t *testing.T) (*autoscalingv2.HorizontalPodAutoscaler, int32, error) {
	t.Helper()
	_, err := w.Reconcile(t.Context(), request)
	h, d := &autoscalingv2.HorizontalPodAutoscaler{}, &appsv1.Deployment{}
	if err := w.Client.Get(t.Context(), request.NamespacedName, h); err != nil {
		t.Fatal(err)
	}
	if readErr := w.Client.Get(t.Context(), types.NamespacedName{Namespace: "ns", Name: "d"}, d); client.IgnoreNotFound(readErr) != nil {
		t.Fatal(readErr)
	}
	return h, ptr.Deref(d.Spec.Replicas, -1), err
}

// told returns the events so far.
func (w *world) told() []string {
	var all []string
	for {
		select {
		case e := <-w.events.Events:
			all = append(all, e)
		default:
			return all
		}
	}
}

// conditions are written as TYPE=STATUS REASON: MESSAGE.
func conditions(h *autoscalingv2.HorizontalPodAutoscaler) []string {
	var all []string
	for _, c := range h.Status.Conditions {
		all = append(all, fmt.Sprintf("%s=%s %s: %s", c.Type, c.Status, c.Reason, c.Message))
	}
	return all
}

func objects(h *autoscalingv2.HorizontalPodAutoscaler, replicas int32, ready ...*corev1.Pod) []client.Object {
	all := []client.Object{h, deployment(replicas)}
	for _, p := range ready {
		all = append(all, p)
	}
	return all
}

func TestReconcile_Suite(t *testing.T) {
	wants := func(replicas int32) func(context.Context, client.Client) error {
		return func(ctx context.Context, c client.Client) error {
			d, h := &appsv1.Deployment{}, &autoscalingv2.HorizontalPodAutoscaler{}
			if err := errors.Join(c.Get(ctx, types.NamespacedName{Namespace: "ns", Name: "d"}, d), c.Get(ctx, request.NamespacedName, h)); err != nil {
				return err
			}
			if *d.Spec.Replicas != replicas || h.Status.DesiredReplicas != replicas || h.Status.CurrentReplicas != replicas || *h.Status.ObservedGeneration != 3 {
				return fmt.Errorf("%d replicas, status %+v, want %d", *d.Spec.Replicas, h.Status, replicas)
			}
			return nil
		}
	}
	tests := []struct {
		name    string
		answers answers
		objects []client.Object
		want    func(context.Context, client.Client) error
	}{
		{"more", uses("900m", "900m"), objects(autoscaler(), 2, some(2)...), wants(4)},
		{"above the maximum", uses("500m", "500m"), objects(autoscaler(freely), 20, some(2)...), wants(10)},
		{"to zero", queue("0"), objects(autoscaler(byQueue, freely), 2, some(2)...), wants(0)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			controllertest.Run(t, controllertest.Case{
				Objects: tt.objects,
				Request: request,
				New: func(c client.Client) reconcile.Reconciler {
					return &Reconciler{
						Client: c, Scales: scales{c: c, selector: "app=web"}, Kinds: kinds(), Metrics: tt.answers.metrics(),
						Events: &record.FakeRecorder{}, Clock: clocktesting.NewFakePassiveClock(now), Settings: settings,
					}
				},
				// More pods share the work.
				World: func(ctx context.Context, c client.Client) error { return present(ctx, c) },
				Want:  tt.want,
			})
		})
	}
}

// present lets a Deployment have the pods that it wants, which share what was used by those before.
func present(ctx context.Context, c client.Client) error {
	d := &appsv1.Deployment{}
	if err := c.Get(ctx, types.NamespacedName{Namespace: "ns", Name: "d"}, d); err != nil || d.Status.Replicas == *d.Spec.Replicas {
		return client.IgnoreNotFound(err)
	}
	d.Status.Replicas = *d.Spec.Replicas
	return c.Status().Update(ctx, d)
}

// Parts of conditions that many passes end with.
const (
	able      = "AbleToScale=True SucceededGetScale: the HPA controller was able to get the target's current scale"
	noMetrics = "the HPA was unable to compute the replica count: failed to get cpu utilization: unable to get metrics for resource cpu: "
)

// refuse has scales not be written.
func refuse(err error) func(*world) {
	return func(w *world) { w.Scales = scales{c: w.Client, selector: "app=web", fail: err} }
}

// selecting gives scales another selector.
func selecting(selector string) func(*world) {
	return func(w *world) { w.Scales = scales{c: w.Client, selector: selector} }
}

func failing() answers {
	return answers{pods: func() ([]metricsv1beta1.PodMetrics, error) { return nil, errors.New("boom") }}
}

// said is what passes tell, in upstream's words.
var said = []struct {
	name       string
	answers    answers
	objects    []client.Object
	prepare    func(*world)
	replicas   int32
	conditions []string
	events     []string
	err        string
}{
	{name: "it grows", answers: uses("900m", "900m"), objects: objects(autoscaler(), 2, some(2)...), replicas: 4,
		conditions: []string{
			"AbleToScale=True SucceededRescale: the HPA controller was able to update the target scale to 4",
			"ScalingActive=True ValidMetricFound: the HPA was able to successfully calculate a replica count from cpu resource utilization (percentage of request)",
			"ScalingLimited=False DesiredWithinRange: the desired count is within the acceptable range",
			"ScaledToZero=False NotScaledToZero: the HPA controller did not scale the workload to zero",
		},
		events: []string{"Normal SuccessfulRescale New size: 4; reason: cpu resource utilization (percentage of request) above target"}},
	{name: "above the maximum", objects: objects(autoscaler(), 12), replicas: 10,
		conditions: []string{
			"AbleToScale=True SucceededRescale: the HPA controller was able to update the target scale to 10",
			"ScaledToZero=False NotScaledToZero: the HPA controller did not scale the workload to zero",
		},
		events: []string{"Normal SuccessfulRescale New size: 10; reason: Current number of replicas above Spec.MaxReplicas"}},
	{name: "switched off", objects: objects(autoscaler(), 0), replicas: 0,
		conditions: []string{able, "ScalingActive=False ScalingDisabled: scaling is disabled since the replica count of the target is zero"}},
	{name: "no API of metrics", objects: objects(autoscaler(), 2, some(2)...), replicas: 2,
		conditions: []string{able, "ScalingActive=False FailedGetResourceMetric: " + noMetrics + "unable to fetch metrics from resource metrics API: the server could not find the requested resource"},
		events: []string{
			"Warning FailedGetResourceMetric failed to get cpu utilization: unable to get metrics for resource cpu: unable to fetch metrics from resource metrics API: the server could not find the requested resource",
			"Warning FailedComputeMetricsReplicas invalid metrics (1 invalid out of 1), first error is: failed to get cpu resource metric value: failed to get cpu utilization: unable to get metrics for resource cpu: unable to fetch metrics from resource metrics API: the server could not find the requested resource",
		},
		err: "failed to compute desired number of replicas based on listed metrics for Deployment/ns/d: invalid metrics"},
	{name: "no metrics yet", answers: uses(), objects: objects(autoscaler(), 2, some(2)...), replicas: 2,
		conditions: []string{able, "ScalingActive=False FailedGetResourceMetric: " + noMetrics + "no metrics returned from resource metrics API"},
		events: []string{
			"Warning FailedGetResourceMetric failed to get cpu utilization: unable to get metrics for resource cpu: no metrics returned from resource metrics API",
			"Warning FailedComputeMetricsReplicas invalid metrics (1 invalid out of 1), first error is: failed to get cpu resource metric value: failed to get cpu utilization: unable to get metrics for resource cpu: no metrics returned from resource metrics API",
		},
		err: "no metrics returned"},
	{name: "no pods", answers: uses("1"), objects: objects(autoscaler(), 2), replicas: 2,
		conditions: []string{able, "ScalingActive=False FailedGetResourceMetric: the HPA was unable to compute the replica count: failed to get cpu utilization: no pods returned by selector while calculating replica count"},
		events: []string{
			"Warning FailedGetResourceMetric failed to get cpu utilization: no pods returned by selector while calculating replica count",
			"Warning FailedComputeMetricsReplicas invalid metrics (1 invalid out of 1), first error is: failed to get cpu resource metric value: failed to get cpu utilization: no pods returned by selector while calculating replica count",
		},
		err: "no pods returned"},
	{name: "no workload", answers: uses("1"), objects: []client.Object{autoscaler()}, replicas: -1,
		conditions: []string{`AbleToScale=False FailedGetScale: the HPA controller was unable to get the target's current scale: deployments.apps "d" not found`},
		events:     []string{`Warning FailedGetScale deployments.apps "d" not found`},
		err:        `failed to query scale subresource for Deployment/ns/d: deployments.apps "d" not found`},
	{name: "no such kind", objects: objects(autoscaler(func(h *autoscalingv2.HorizontalPodAutoscaler) { h.Spec.ScaleTargetRef.Kind = "Moon" }), 2), replicas: 2,
		conditions: []string{`AbleToScale=False FailedGetScale: the HPA controller was unable to get the target's current scale: no matches for kind "Moon" in group "apps"`},
		events:     []string{`Warning FailedGetScale no matches for kind "Moon" in group "apps"`},
		err:        "unable to determine resource for scale target reference: no matches"},
	{name: "a kind that cannot be scaled", objects: objects(autoscaler(func(h *autoscalingv2.HorizontalPodAutoscaler) { h.Spec.ScaleTargetRef.Kind = "ControllerRevision" }), 2), replicas: 2,
		conditions: []string{`AbleToScale=False FailedGetScale: the HPA controller was unable to get the target's current scale: controllerrevisions.apps has no scale`},
		events:     []string{`Warning FailedGetScale controllerrevisions.apps has no scale`},
		err:        "failed to query scale subresource for ControllerRevision/ns/d: "},
	{name: "no such version", objects: objects(autoscaler(func(h *autoscalingv2.HorizontalPodAutoscaler) { h.Spec.ScaleTargetRef.APIVersion = "a/b/c" }), 2), replicas: 2,
		conditions: []string{`AbleToScale=False FailedGetScale: the HPA controller was unable to get the target's current scale: unexpected GroupVersion string: a/b/c`},
		events:     []string{`Warning FailedGetScale unexpected GroupVersion string: a/b/c`},
		err:        "invalid API version in scale target reference: "},
	{name: "the scale may not be written", answers: uses("900m", "900m"), objects: objects(autoscaler(), 2, some(2)...), prepare: refuse(errors.New("boom")), replicas: 2,
		conditions: []string{
			"AbleToScale=False FailedUpdateScale: the HPA controller was unable to update the target scale: boom",
			"ScalingActive=True ValidMetricFound: the HPA was able to successfully calculate a replica count from cpu resource utilization (percentage of request)",
			"ScalingLimited=False DesiredWithinRange: the desired count is within the acceptable range",
		},
		events: []string{"Warning FailedRescale New size: 4; reason: cpu resource utilization (percentage of request) above target; error: boom"},
		err:    "failed to rescale Deployment/ns/d: boom"},
	{name: "no selector", objects: objects(autoscaler(), 2), prepare: selecting(""), replicas: 2,
		conditions: []string{able, "ScalingActive=False InvalidSelector: the HPA target's scale is missing a selector"},
		events:     []string{"Warning SelectorRequired selector is required", "Warning FailedComputeMetricsReplicas selector is required"},
		err:        "selector is required"},
	{name: "a selector that is none", objects: objects(autoscaler(), 2), prepare: selecting("a in"), replicas: 2,
		conditions: []string{able, "ScalingActive=False InvalidSelector: couldn't convert selector into a corresponding internal selector object: unable to parse requirement: found '' expected: '('"},
		events: []string{
			"Warning InvalidSelector couldn't convert selector into a corresponding internal selector object: unable to parse requirement: found '' expected: '('",
			"Warning FailedComputeMetricsReplicas couldn't convert selector into a corresponding internal selector object: unable to parse requirement: found '' expected: '('",
		},
		err: "couldn't convert"},
	{name: "one of two metrics fails, the other asks for more", answers: answers{pods: uses("900m", "900m").pods}, objects: objects(autoscaler(func(h *autoscalingv2.HorizontalPodAutoscaler) {
		queued := autoscaler(byQueue).Spec.Metrics
		h.Spec.Metrics = append(h.Spec.Metrics, queued...)
	}), 2, some(2)...), replicas: 4,
		conditions: []string{
			"AbleToScale=True SucceededRescale: the HPA controller was able to update the target scale to 4",
			"ScalingActive=True ValidMetricFound: the HPA was able to successfully calculate a replica count from cpu resource utilization (percentage of request)",
			"ScalingLimited=False DesiredWithinRange: the desired count is within the acceptable range",
			"ScaledToZero=False NotScaledToZero: the HPA controller did not scale the workload to zero",
		},
		events: []string{
			"Warning FailedGetExternalMetric unable to get external metric ns/queue/nil: unable to fetch metrics from external metrics API: the server could not find the requested resource",
			"Normal SuccessfulRescale New size: 4; reason: cpu resource utilization (percentage of request) above target",
		},
		err: "invalid metrics (1 invalid out of 2), first error is: failed to get queue external metric value: failed to get queue external metric: "},
	{name: "one of two metrics fails, the other asks for less", answers: answers{pods: failing().pods, external: queue("1").external}, objects: objects(autoscaler(func(h *autoscalingv2.HorizontalPodAutoscaler) {
		h.Spec.Metrics = append(autoscaler(byQueue).Spec.Metrics, h.Spec.Metrics...)
	}), 2, some(2)...), replicas: 2,
		conditions: []string{able, "ScalingActive=False FailedGetResourceMetric: " + noMetrics + "unable to fetch metrics from resource metrics API: boom"},
		events: []string{
			"Warning FailedGetResourceMetric failed to get cpu utilization: unable to get metrics for resource cpu: unable to fetch metrics from resource metrics API: boom",
			"Warning FailedComputeMetricsReplicas invalid metrics (1 invalid out of 2), first error is: failed to get cpu resource metric value: failed to get cpu utilization: unable to get metrics for resource cpu: unable to fetch metrics from resource metrics API: boom",
		},
		err: "invalid metrics (1 invalid out of 2)"},
	{name: "a negative metric", answers: queue("-5"), objects: objects(autoscaler(byQueue), 2, some(2)...), replicas: 2,
		conditions: []string{able, "ScalingActive=False FailedGetExternalMetric: the HPA was unable to compute the replica count: the metric's value is negative (-5000m)"},
		events: []string{
			"Warning FailedGetExternalMetric the metric's value is negative (-5000m)",
			"Warning FailedComputeMetricsReplicas invalid metrics (1 invalid out of 1), first error is: failed to get queue external metric value: failed to get queue external metric: the metric's value is negative (-5000m)",
		},
		err: "negative"},
}

func TestReconcile_Says(t *testing.T) {
	for _, tt := range said {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(tt.answers, tt.objects...)
			if tt.prepare != nil {
				tt.prepare(w)
			}
			h, replicas, err := w.pass(t)
			if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("error %v, want %q", err, tt.err)
			}
			if replicas != tt.replicas {
				t.Errorf("%d replicas, want %d", replicas, tt.replicas)
			}
			if diff := cmp.Diff(tt.conditions, conditions(h)); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.events, w.told()); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
}

// TestReconcile_Ambiguous: the second autoscaler of the same pods finds out in its first pass, the first one in its next.
func TestReconcile_Ambiguous(t *testing.T) {
	other := autoscaler(func(h *autoscalingv2.HorizontalPodAutoscaler) { h.Name, h.UID = "other", "other" })
	w := newWorld(uses("500m", "500m"), append(objects(autoscaler(), 2, some(2)...), other)...)
	if _, _, err := w.pass(t); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(other)}); err == nil {
		t.Error("the second one scales what the first one does")
	}
	h, _, err := w.pass(t)
	const want = "pods by selector app=web are controlled by more than one HPA (e.g. [{h ns} {other ns}])"
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v", err)
	}
	if c := h.Status.Conditions[1]; c.Type != autoscalingv2.ScalingActive || c.Status != corev1.ConditionFalse || c.Reason != "AmbiguousSelector" || c.Message != want {
		t.Errorf("condition %+v", c)
	}
	if err := w.Client.Delete(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(other)}); err != nil {
		t.Error(err)
	}
	if _, _, err := w.pass(t); err != nil {
		t.Errorf("the other one is gone: %v", err)
	}
}

// TestReconcile_ToZeroAndBack scales a workload to zero and back by a metric that needs no pods, and leaves it at zero if it was
// somebody else who scaled it so.
func TestReconcile_ToZeroAndBack(t *testing.T) {
	length := "0"
	a := answers{external: func() ([]externalv1beta1.ExternalMetricValue, error) {
		return []externalv1beta1.ExternalMetricValue{{Value: resource.MustParse(length)}}, nil
	}}
	w := newWorld(a, objects(autoscaler(byQueue, func(h *autoscalingv2.HorizontalPodAutoscaler) {
		h.Spec.Behavior = behavior(direction(0, "Max", per(byPod, 4, 15)), free())
	}), 2, some(2)...)...)
	step := func(want int32, zeroed corev1.ConditionStatus) {
		t.Helper()
		w.clock.SetTime(w.clock.Now().Add(period))
		h, replicas, err := w.pass(t)
		if err != nil || replicas != want {
			t.Fatalf("%d replicas (%v), want %d", replicas, err, want)
		}
		if is := isScaledToZero(h); is != (zeroed == corev1.ConditionTrue) {
			t.Fatalf("scaled to zero: %t, want %s", is, zeroed)
		}
		if err := present(t.Context(), w.Client); err != nil {
			t.Fatal(err)
		}
	}
	step(0, corev1.ConditionTrue)
	step(0, corev1.ConditionTrue)
	length = "25"
	step(3, corev1.ConditionFalse)
	d := deployment(0)
	d.ResourceVersion = ""
	if err := w.Client.Update(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	step(0, corev1.ConditionFalse)
	step(0, corev1.ConditionFalse)
}

// TestReconcile_Conflict: the workload's own controller writes all the time.
func TestReconcile_Conflict(t *testing.T) {
	w := newWorld(uses("900m", "900m"), objects(autoscaler(), 2, some(2)...)...)
	conflicts := 0
	w.Scales = conflicting{ScalesGetter: w.Scales, left: 2, count: &conflicts}
	if _, replicas, err := w.pass(t); err != nil || replicas != 4 || conflicts != 2 {
		t.Errorf("%d replicas after %d conflicts (%v), want 4 after 2", replicas, conflicts, err)
	}
}

// conflicting fails the first updates.
type conflicting struct {
	scale.ScalesGetter
	left  int
	count *int
}

type conflictingScales struct {
	scale.ScaleInterface
	c conflicting
}

func (c conflicting) Scales(namespace string) scale.ScaleInterface {
	return conflictingScales{c.ScalesGetter.Scales(namespace), c}
}

func (s conflictingScales) Update(ctx context.Context, resource schema.GroupResource, sc *autoscalingv1.Scale, opts metav1.UpdateOptions) (*autoscalingv1.Scale, error) {
	if *s.c.count < s.c.left {
		*s.c.count++
		return nil, apierrors.NewConflict(resource, sc.Name, errors.New("changed"))
	}
	return s.ScaleInterface.Update(ctx, resource, sc, opts)
}

// TestReconcile_Recreated: what was recommended to an autoscaler does not hold back another one of its name.
func TestReconcile_Recreated(t *testing.T) {
	w := newWorld(answers{}, autoscaler())
	one := w.historyOf(autoscaler())
	one.begin(5, now)
	if again := w.historyOf(autoscaler()); again != one {
		t.Error("the history is lost")
	}
	if other := w.historyOf(autoscaler(func(h *autoscalingv2.HorizontalPodAutoscaler) { h.UID = "new" })); len(other.recommendations) > 0 {
		t.Error("the history of another one is kept")
	}
	w.forget(request.NamespacedName)
	if len(w.histories) > 0 {
		t.Error("the history of one that is gone is kept")
	}
}
