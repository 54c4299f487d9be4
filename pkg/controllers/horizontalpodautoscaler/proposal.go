// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package horizontalpodautoscaler

import (
	"errors"
	"fmt"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// observation is what there is to be known about a metric.
type observation struct {
	// pods are those that the scale selects. They belong to the cache.
	pods []*corev1.Pod
	// samples is set for metrics of pods: of type Resource, ContainerResource and Pods.
	samples samples
	// values, in thousandths, is set for metrics of something else: one of type Object, any number of type External.
	values []int64
}

// size is how many pods the scale says there shall be, and there are.
type size struct{ wanted, present int32 }

// proposal is the number of pods that a metric asks for.
type proposal struct {
	replicas int32
	// metric is what it is called in events and conditions.
	metric string
	status autoscalingv2.MetricStatus
}

// propose returns the number of pods that a metric asks for by what was observed.
func propose(spec *autoscalingv2.MetricSpec, o observation, s size, l leniency, now time.Time) (proposal, error) {
	switch spec.Type {
	case autoscalingv2.ResourceMetricSourceType:
		source := spec.Resource
		p, value, err := byResource(source.Name, "", &source.Target, o, s, l, now)
		p.status = autoscalingv2.MetricStatus{Type: spec.Type, Resource: &autoscalingv2.ResourceMetricStatus{Name: source.Name, Current: value}}
		return p, err
	case autoscalingv2.ContainerResourceMetricSourceType:
		source := spec.ContainerResource
		p, value, err := byResource(source.Name, source.Container, &source.Target, o, s, l, now)
		p.status = autoscalingv2.MetricStatus{Type: spec.Type, ContainerResource: &autoscalingv2.ContainerResourceMetricStatus{
			Name: source.Name, Container: source.Container, Current: value,
		}}
		return p, err
	case autoscalingv2.PodsMetricSourceType:
		return byPods(spec.Pods, o, s, l, now)
	case autoscalingv2.ObjectMetricSourceType:
		return byObject(spec.Object, o, s, l.tolerance)
	case autoscalingv2.ExternalMetricSourceType:
		return byExternal(spec.External, o, s, l.tolerance)
	}
	return proposal{}, invalidSpec{fmt.Errorf("unknown metric source type %q", spec.Type)}
}

// byResource relates what pods use of a resource to an amount, or to what they request; container narrows that down to one of theirs.
func byResource(name corev1.ResourceName, container string, target *autoscalingv2.MetricTarget, o observation, s size, l leniency, now time.Time) (proposal, autoscalingv2.MetricValueStatus, error) {
	var value autoscalingv2.MetricValueStatus
	switch {
	case target.AverageValue == nil && target.AverageUtilization == nil:
		return proposal{}, value, errors.New("invalid resource metric source: neither an average utilization target nor an average value (usage) target was set")
	case len(o.pods) == 0:
		return proposal{}, value, errNoPods
	}
	g := group(o.pods, o.samples, name, l.youth, now)
	if target.AverageValue != nil {
		amount := target.AverageValue.MilliValue()
		n, u, err := replicasByPods(s.wanted, g, l.tolerance, plainUse(amount), func(string) int64 { return amount })
		value.AverageValue = amountOf(name, u.average)
		return proposal{replicas: n, metric: fmt.Sprintf("%s resource", name)}, value, err
	}
	if len(g.counted) == 0 {
		return proposal{}, value, errNoSamples
	}
	requests, err := requestsOf(o.pods, container, name)
	if err != nil {
		return proposal{}, value, err
	}
	percent := *target.AverageUtilization
	n, u, err := replicasByPods(s.wanted, g, l.tolerance, utilization(requests, percent), func(pod string) int64 { return requests[pod] * int64(max(100, percent)) / 100 })
	value.AverageUtilization, value.AverageValue = &u.percent, amountOf(name, u.average)
	metric := fmt.Sprintf("%s resource utilization (percentage of request)", name)
	if container != "" {
		metric = fmt.Sprintf("%s container resource utilization (percentage of request)", name)
	}
	return proposal{replicas: n, metric: metric}, value, err
}

func byPods(source *autoscalingv2.PodsMetricSource, o observation, s size, l leniency, now time.Time) (proposal, error) {
	if len(o.pods) == 0 {
		return proposal{}, errNoPods
	}
	target := source.Target.AverageValue.MilliValue()
	n, u, err := replicasByPods(s.wanted, group(o.pods, o.samples, "", l.youth, now), l.tolerance, plainUse(target), func(string) int64 { return target })
	return proposal{
		replicas: n,
		metric:   "pods metric " + source.Metric.Name,
		status: autoscalingv2.MetricStatus{Type: autoscalingv2.PodsMetricSourceType, Pods: &autoscalingv2.PodsMetricStatus{
			Metric: source.Metric, Current: autoscalingv2.MetricValueStatus{AverageValue: milli(u.average)},
		}},
	}, err
}

func byObject(source *autoscalingv2.ObjectMetricSource, o observation, s size, t tolerance) (proposal, error) {
	status := &autoscalingv2.ObjectMetricStatus{DescribedObject: source.DescribedObject, Metric: source.Metric}
	p := proposal{status: autoscalingv2.MetricStatus{Type: autoscalingv2.ObjectMetricSourceType, Object: status}}
	value, err := total(o.values)
	if err != nil {
		return p, err
	}
	switch target := &source.Target; {
	case target.Type == autoscalingv2.ValueMetricType && target.Value != nil:
		p.metric = fmt.Sprintf("%s metric %s", source.DescribedObject.Kind, source.Metric.Name)
		status.Current.Value = milli(value)
		p.replicas, err = replicasByValue(s.wanted, float64(value)/float64(target.Value.MilliValue()), t, o.pods)
		return p, err
	case target.Type == autoscalingv2.AverageValueMetricType && target.AverageValue != nil:
		p.metric = externalName(&source.Metric)
		replicas, each := replicasByShare(s.present, value, target.AverageValue.MilliValue(), t)
		p.replicas, status.Current.AverageValue = replicas, milli(each)
		return p, nil
	}
	return p, errors.New("invalid object metric source: neither a value target nor an average value target was set")
}

func byExternal(source *autoscalingv2.ExternalMetricSource, o observation, s size, t tolerance) (proposal, error) {
	status := &autoscalingv2.ExternalMetricStatus{Metric: source.Metric}
	p := proposal{
		metric: externalName(&source.Metric),
		status: autoscalingv2.MetricStatus{Type: autoscalingv2.ExternalMetricSourceType, External: status},
	}
	value, err := total(o.values)
	if err != nil {
		return p, err
	}
	switch target := &source.Target; {
	case target.AverageValue != nil:
		replicas, each := replicasByShare(s.present, value, target.AverageValue.MilliValue(), t)
		p.replicas, status.Current.AverageValue = replicas, milli(each)
		return p, nil
	case target.Value != nil:
		status.Current.Value = milli(value)
		p.replicas, err = replicasByValue(s.wanted, float64(value)/float64(target.Value.MilliValue()), t, o.pods)
		return p, err
	}
	return p, errors.New("invalid external metric source: neither a value target nor an average value target was set")
}

// externalName is what upstream calls a metric of which each pod has a share, also one of an object.
func externalName(metric *autoscalingv2.MetricIdentifier) string {
	return fmt.Sprintf("external metric %s(%+v)", metric.Name, metric.Selector)
}

func milli(n int64) *resource.Quantity { return resource.NewMilliQuantity(n, resource.DecimalSI) }

// amountOf writes an amount of a resource as metrics.k8s.io does.
func amountOf(name corev1.ResourceName, thousandths int64) *resource.Quantity {
	if name == corev1.ResourceMemory {
		return resource.NewMilliQuantity(thousandths, resource.BinarySI)
	}
	return milli(thousandths)
}
