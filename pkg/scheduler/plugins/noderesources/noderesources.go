// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package noderesources keeps pods off nodes that lack the requested resources
// and scores the nodes by what is free (LeastAllocated), used (MostAllocated) or
// by a shape (RequestedToCapacityRatio). Touch it when a resource is accounted in
// another way.
package noderesources

import (
	"context"
	"encoding/binary"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	configv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"minik8s.io/minik8s/pkg/scheduler/configuration"
	"minik8s.io/minik8s/pkg/scheduler/framework"
	"minik8s.io/minik8s/pkg/scheduler/internal/dra"
)

// Name of the plugin.
const Name = "NodeResourcesFit"

// Fit is the plugin.
type Fit struct {
	args    *configv1.NodeResourcesFitArgs
	measure strategy
	classes fwk.DeviceClassResolver // nil if device classes stand for no resources
	// changes counts those of device classes; nil if nobody does.
	changes func() int64
}

var (
	_ fwk.FilterPlugin      = (*Fit)(nil)
	_ fwk.ScorePlugin       = (*Fit)(nil)
	_ fwk.EnqueueExtensions = (*Fit)(nil)
	_ framework.NodeLocal   = (*Fit)(nil)
)

// New returns the plugin.
func New(_ context.Context, obj runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
	args, err := configuration.Args[configv1.NodeResourcesFitArgs](obj)
	if err != nil {
		return nil, err
	}
	measure, err := strategyOf(args.ScoringStrategy)
	if err != nil {
		return nil, err
	}
	f := &Fit{args: args, measure: measure}
	if manager := h.SharedDRAManager(); manager != nil {
		f.classes = manager.DeviceClassResolver()
		if ours, ok := manager.(*dra.Manager); ok {
			f.changes = ours.Classes().Changes
		}
	}
	return f, nil
}

// Name returns the plugin's name.
func (*Fit) Name() string { return Name }

// Filter rejects nodes that lack something. A node that would lack it even when
// empty is none where preemption helps.
func (f *Fit) Filter(_ context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) *fwk.Status {
	lacks := f.insufficient(&framework.InfoOf(state, pod).Requests, node.GetAllocatable(), node.GetRequested(), len(node.GetPods()))
	if len(lacks) == 0 {
		return nil
	}
	code := fwk.Unschedulable
	reasons := make([]string, 0, len(lacks))
	for _, l := range lacks {
		reasons = append(reasons, l.reason)
		if l.never {
			code = fwk.UnschedulableAndUnresolvable
		}
	}
	return fwk.NewStatus(code, reasons...)
}

// lack is a resource a node has not enough of.
type lack struct {
	reason string
	never  bool // the request exceeds all that the node has
}

// insufficient lists what a node lacks for a request, in a fixed order.
func (f *Fit) insufficient(r *framework.Resource, total, used fwk.Resource, pods int) (lacks []lack) {
	if pods+1 > total.GetAllowedPodNumber() {
		lacks = append(lacks, lack{reason: "Too many pods"})
	}
	check := func(name corev1.ResourceName, want, have, taken int64) {
		if want > 0 && want > have-taken {
			lacks = append(lacks, lack{reason: "Insufficient " + string(name), never: want > have})
		}
	}
	check(corev1.ResourceCPU, r.MilliCPU, total.GetMilliCPU(), used.GetMilliCPU())
	check(corev1.ResourceMemory, r.Memory, total.GetMemory(), used.GetMemory())
	check(corev1.ResourceEphemeralStorage, r.EphemeralStorage, total.GetEphemeralStorage(), used.GetEphemeralStorage())
	first := len(lacks)
	for name, want := range r.Scalar {
		if have := total.GetScalarResources()[name]; !f.ignores(name) && (have > 0 || !f.backed(name)) {
			check(name, want, have, used.GetScalarResources()[name])
		}
	}
	slices.SortFunc(lacks[first:], func(a, b lack) int { return strings.Compare(a.reason, b.reason) })
	return lacks
}

// backed tells whether a device class stands for a resource. A node that does not have it itself gets it by DynamicResources.
func (f *Fit) backed(name corev1.ResourceName) bool {
	return f.classes != nil && f.classes.GetDeviceClass(name) != nil
}

// ignores tells whether the profile, or an extender that manages a resource,
// keeps it out of the filter.
func (f *Fit) ignores(name corev1.ResourceName) bool {
	group, _, extended := strings.Cut(string(name), "/")
	return slices.Contains(f.args.IgnoredResources, string(name)) || extended && slices.Contains(f.args.IgnoredResourceGroups, group)
}

// Score is the weighted mean of the profile's resources once the pod runs.
func (f *Fit) Score(_ context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	info := framework.InfoOf(state, pod)
	var sum, weights int64
	for i := range f.args.ScoringStrategy.Resources {
		resource := &f.args.ScoringStrategy.Resources[i]
		name := corev1.ResourceName(resource.Name)
		more, used := &info.Requests, node.GetRequested()
		if name == corev1.ResourceCPU || name == corev1.ResourceMemory {
			more, used = &info.NonZeroRequests, node.GetNonZeroRequested()
		}
		want, have := framework.Amount(more, name), framework.Amount(node.GetAllocatable(), name)
		if have == 0 || want == 0 && strings.Contains(resource.Name, "/") {
			continue // a node without the resource, or a pod that leaves it alone, is neither better nor worse
		}
		score := f.measure(framework.Amount(used, name)+want, have)
		if score == 0 && f.args.ScoringStrategy.Type == configv1.RequestedToCapacityRatio {
			continue
		}
		sum += score * resource.Weight
		weights += resource.Weight
	}
	if weights == 0 {
		return 0, nil
	}
	if f.args.ScoringStrategy.Type == configv1.RequestedToCapacityRatio {
		return (sum + weights/2) / weights, nil
	}
	return sum / weights, nil
}

// ScoreExtensions implements fwk.ScorePlugin.
func (*Fit) ScoreExtensions() fwk.ScoreExtensions { return nil }

// AppendSignature implements framework.NodeLocal. For what device classes stand is no matter of the node: with other ones it is another
// kind of pods. A change is counted when it is known, so that nothing is found by old classes under a new count.
func (f *Fit) AppendSignature(to []byte, pod *framework.PodInfo) ([]byte, bool) {
	to = pod.NonZeroRequests.AppendTo(pod.Requests.AppendTo(to))
	if f.classes == nil || len(pod.Requests.Scalar) == 0 {
		return to, true
	}
	if f.changes == nil {
		return to, false
	}
	return binary.BigEndian.AppendUint64(to, uint64(f.changes())), true
}

// EventsToRegister implements fwk.EnqueueExtensions: resources were freed, the pod asks for less, a node has
// more of what the pod asks for and would hold it if it were empty, or a device class stands for a resource.
func (f *Fit) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{
		framework.Event(fwk.AssignedPod, fwk.Delete, nil),
		framework.Event(fwk.AssignedPod, fwk.UpdatePodScaleDown, framework.Hint(scaleDownHelps)),
		framework.Event(fwk.TargetPod, fwk.UpdatePodScaleDown, nil),
		framework.Event(fwk.Node, fwk.Add|fwk.UpdateNodeAllocatable, framework.Hint(f.nodeHelps)),
		framework.Event(fwk.DeviceClass, fwk.Add|fwk.Update, framework.Hint(classHelps)),
	}, nil
}

// nodeHelps tells whether a node would hold the pod if it were empty, and has more of what the pod asks for than before.
func (f *Fit) nodeHelps(pod *corev1.Pod, old, new any) bool {
	before, after := framework.AsNode(old), framework.AsNode(new)
	if after == nil {
		return true
	}
	wanted, total := &framework.NewPodInfo(pod).Requests, framework.NewResource(after.Status.Allocatable)
	if len(f.insufficient(wanted, &total, &framework.Resource{}, 0)) > 0 {
		return false
	}
	if before == nil {
		return true
	}
	was := framework.NewResource(before.Status.Allocatable)
	return total.Pods > was.Pods || moreOf(wanted, &was, &total) || slices.ContainsFunc(asked(wanted), func(name corev1.ResourceName) bool {
		return framework.Amount(&total, name) == 0 && f.backed(name) // how much there is DynamicResources knows
	})
}

// scaleDownHelps tells whether a pod takes less than before of what the waiting one asks for.
func scaleDownHelps(pod *corev1.Pod, old, new any) bool {
	before, after := framework.AsPod(old), framework.AsPod(new)
	if before == nil || after == nil {
		return true
	}
	return moreOf(&framework.NewPodInfo(pod).Requests, &framework.NewPodInfo(after).Requests, &framework.NewPodInfo(before).Requests)
}

// moreOf tells whether there is more in large than in small of something that is wanted.
func moreOf(wanted, small, large *framework.Resource) bool {
	return slices.ContainsFunc(asked(wanted), func(name corev1.ResourceName) bool {
		return framework.Amount(large, name) > framework.Amount(small, name)
	})
}

// asked are the names of what a request is for.
func asked(r *framework.Resource) []corev1.ResourceName {
	names := append(slices.Collect(maps.Keys(r.Scalar)), corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage)
	return slices.DeleteFunc(names, func(name corev1.ResourceName) bool { return framework.Amount(r, name) == 0 })
}

// classHelps tells whether a class newly stands for a resource that the pod asks for.
func classHelps(pod *corev1.Pod, old, new any) bool {
	before, _ := old.(*resourcev1.DeviceClass)
	after, ok := new.(*resourcev1.DeviceClass)
	if !ok {
		return true
	}
	requests := framework.NewPodInfo(pod).Requests.Scalar
	if _, implicit := requests[corev1.ResourceName(resourcev1.ResourceDeviceClassPrefix+after.Name)]; implicit && before == nil {
		return true
	}
	name := after.Spec.ExtendedResourceName
	if name == nil || before != nil && before.Spec.ExtendedResourceName != nil && *before.Spec.ExtendedResourceName == *name {
		return false
	}
	_, explicit := requests[corev1.ResourceName(*name)]
	return explicit
}
