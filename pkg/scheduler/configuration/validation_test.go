// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package configuration

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	configv1 "k8s.io/kube-scheduler/config/v1"
)

// The texts are those of upstream's pkg/scheduler/apis/config/validation/validation_pluginargs.go in 1.37.
func TestValidateArgs(t *testing.T) {
	shape := func(pairs ...int32) (out []configv1.UtilizationShapePoint) {
		for i := 0; i < len(pairs); i += 2 {
			out = append(out, configv1.UtilizationShapePoint{Utilization: pairs[i], Score: pairs[i+1]})
		}
		return out
	}
	fit := func(strategy configv1.ScoringStrategy) *configv1.NodeResourcesFitArgs {
		return &configv1.NodeResourcesFitArgs{ScoringStrategy: &strategy}
	}
	spread := func(constraints ...corev1.TopologySpreadConstraint) *configv1.PodTopologySpreadArgs {
		return &configv1.PodTopologySpreadArgs{DefaultingType: configv1.ListDefaulting, DefaultConstraints: constraints}
	}
	zone := corev1.TopologySpreadConstraint{MaxSkew: 1, TopologyKey: "zone", WhenUnsatisfiable: corev1.DoNotSchedule}
	for _, tc := range []struct {
		name string
		args any
		want []string
	}{
		{"preemption", &configv1.DefaultPreemptionArgs{MinCandidateNodesPercentage: new(int32(10)), MinCandidateNodesAbsolute: new(int32(100))}, nil},
		{"preemption: too much", &configv1.DefaultPreemptionArgs{MinCandidateNodesPercentage: new(int32(101)), MinCandidateNodesAbsolute: new(int32(-1))}, []string{
			"args.minCandidateNodesPercentage: Invalid value: 101: not in valid range [0, 100]",
			"args.minCandidateNodesAbsolute: Invalid value: -1: not in valid range [0, inf)"}},
		{"preemption: nothing", &configv1.DefaultPreemptionArgs{MinCandidateNodesPercentage: new(int32(0)), MinCandidateNodesAbsolute: new(int32(0))}, []string{
			"args.minCandidateNodesPercentage: Invalid value: 0: cannot be zero at the same time as minCandidateNodesAbsolute",
			"args.minCandidateNodesAbsolute: Invalid value: 0: cannot be zero at the same time as minCandidateNodesPercentage"}},
		{"affinity", &configv1.InterPodAffinityArgs{HardPodAffinityWeight: new(int32(100))}, nil},
		{"affinity: weight", &configv1.InterPodAffinityArgs{HardPodAffinityWeight: new(int32(-1))}, []string{
			"args.hardPodAffinityWeight: Invalid value: -1: not in valid range [0, 100]"}},
		{"balance", &configv1.NodeResourcesBalancedAllocationArgs{Resources: []configv1.ResourceSpec{{Name: "cpu", Weight: 1}, {Name: "memory", Weight: 1}}}, nil},
		{"balance: weight, twice", &configv1.NodeResourcesBalancedAllocationArgs{Resources: []configv1.ResourceSpec{{Name: "cpu", Weight: 2}, {Name: "cpu", Weight: 1}}}, []string{
			"args.resources[0].weight: Invalid value: 2: must be 1",
			`args.resources[1].name: Duplicate value: "cpu"`}},
		{"fit", fit(configv1.ScoringStrategy{Type: configv1.LeastAllocated, Resources: []configv1.ResourceSpec{{Name: "cpu", Weight: 100}}}), nil},
		{"fit: weights", fit(configv1.ScoringStrategy{Type: configv1.MostAllocated, Resources: []configv1.ResourceSpec{{Name: "cpu"}, {Name: "memory", Weight: 101}}}), []string{
			"args.scoringStrategy.resources[0].weight: Invalid value: 0: resource weight of cpu not in valid range (0, 100]",
			"args.scoringStrategy.resources[1].weight: Invalid value: 101: resource weight of memory not in valid range (0, 100]"}},
		{"fit: type", fit(configv1.ScoringStrategy{Type: "Best"}), []string{
			`args.scoringStrategy.type: Unsupported value: "Best": supported values: "LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"`}},
		{"fit: no ratio", fit(configv1.ScoringStrategy{Type: configv1.RequestedToCapacityRatio}), []string{
			"args.scoringStrategy.requestedToCapacityRatio: Required value: must be specified when type is RequestedToCapacityRatio"}},
		{"fit: ratio of another", fit(configv1.ScoringStrategy{Type: configv1.LeastAllocated, RequestedToCapacityRatio: &configv1.RequestedToCapacityRatioParam{Shape: shape(0, 0)}}), []string{
			"args.scoringStrategy.requestedToCapacityRatio: Forbidden: must be nil when type is not RequestedToCapacityRatio"}},
		{"fit: no shape", fit(configv1.ScoringStrategy{Type: configv1.RequestedToCapacityRatio, RequestedToCapacityRatio: &configv1.RequestedToCapacityRatioParam{}}), []string{
			"args.scoringStrategy.requestedToCapacityRatio.shape: Required value: at least one point must be specified"}},
		{"fit: shape", fit(configv1.ScoringStrategy{Type: configv1.RequestedToCapacityRatio, RequestedToCapacityRatio: &configv1.RequestedToCapacityRatioParam{Shape: shape(50, 11, 50, 0, -1, 0)}}), []string{
			"args.scoringStrategy.requestedToCapacityRatio.shape[1].utilization: Invalid value: 50: values must be sorted in increasing order",
			"args.scoringStrategy.requestedToCapacityRatio.shape[0].score: Invalid value: 11: not in valid range [0, 10]",
			"args.scoringStrategy.requestedToCapacityRatio.shape[2].utilization: Invalid value: -1: not in valid range [0, 100]"}},
		{"fit: group", &configv1.NodeResourcesFitArgs{IgnoredResourceGroups: []string{"example.com/gpu"}, ScoringStrategy: &configv1.ScoringStrategy{Type: configv1.LeastAllocated}}, []string{
			`args.ignoredResourceGroups[0]: Invalid value: "example.com/gpu": resource group name can't contain '/'`}},
		{"spread", spread(zone), nil},
		{"spread: system's and own", &configv1.PodTopologySpreadArgs{DefaultingType: configv1.SystemDefaulting, DefaultConstraints: []corev1.TopologySpreadConstraint{zone}}, []string{
			`args.defaultingType: Invalid value: "System": when .defaultConstraints are not empty`}},
		{"spread: type", &configv1.PodTopologySpreadArgs{DefaultingType: "None"}, []string{
			`args.defaultingType: Unsupported value: "None": supported values: "System", "List"`}},
		{"spread: all wrong", spread(corev1.TopologySpreadConstraint{LabelSelector: &metav1.LabelSelector{}}), []string{
			"args.defaultConstraints[0].maxSkew: Invalid value: 0: not in valid range (0, inf)",
			"args.defaultConstraints[0].topologyKey: Required value: can not be empty",
			"args.defaultConstraints[0].whenUnsatisfiable: Required value: can not be empty",
			"args.defaultConstraints[0].labelSelector: Forbidden: constraint must not define a selector, as they deduced for each pod"}},
		{"spread: action", spread(corev1.TopologySpreadConstraint{MaxSkew: 1, TopologyKey: "zone", WhenUnsatisfiable: "Hope"}), []string{
			`args.defaultConstraints[0].whenUnsatisfiable: Unsupported value: "Hope": supported values: "DoNotSchedule", "ScheduleAnyway"`}},
		{"spread: twice", spread(zone, zone), []string{`args.defaultConstraints[1]: Duplicate value: "{zone, DoNotSchedule}"`}},
		{"devices: time-outs", &configv1.DynamicResourcesArgs{FilterTimeout: &metav1.Duration{Duration: -1}, BindingTimeout: &metav1.Duration{Duration: time.Millisecond}}, []string{
			`args.filterTimeout: Invalid value: "-1ns": must be zero or positive`,
			`args.bindingTimeout: Invalid value: "1ms": must be at least 1 second`}},
		{"volumes: time-out", &configv1.VolumeBindingArgs{BindTimeoutSeconds: new(int64(-1)), Shape: shape(0, 0)}, []string{
			"args.bindTimeoutSeconds: Invalid value: -1: invalid BindTimeoutSeconds, should not be a negative value"}},
		{"node affinity: operator", &configv1.NodeAffinityArgs{AddedAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "zone", Operator: "Near"}}}}}}}, []string{
			`args.addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].operator: Unsupported value: "Near": supported values: "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"`}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got []string
			for _, err := range validateArgs(field.NewPath("args"), tc.args) {
				got = append(got, err.Error())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
