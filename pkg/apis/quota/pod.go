// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-helpers/resource"

	"minik8s.io/minik8s/pkg/apis/core/qos"
)

var pods = Kind{
	Resource: corev1.Resource("pods"),
	Counts:   podCounts,
	Usage:    podUsage,
	InScope:  podInScope,
	Moves:    podMoves,
	Require:  podRequire,
}

// compute are the resources that pods have of their own accord. The plain name stands for the requests.
var compute = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage}

// mustSpecify are the names which every container has to say an amount for once they are limited.
var mustSpecify = []corev1.ResourceName{
	corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceRequestsCPU, corev1.ResourceRequestsMemory, corev1.ResourceLimitsCPU, corev1.ResourceLimitsMemory,
}

const (
	requestsPrefix = "requests."
	limitsPrefix   = "limits."
)

func podCounts(name corev1.ResourceName) bool {
	if name == corev1.ResourcePods || name == countName(corev1.Resource("pods")) || strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) {
		return true
	}
	bare, isRequest := strings.CutPrefix(string(name), requestsPrefix)
	if isRequest && (strings.HasPrefix(bare, corev1.ResourceHugePagesPrefix) || isExtended(corev1.ResourceName(bare))) {
		return true
	}
	if !isRequest {
		bare = strings.TrimPrefix(bare, limitsPrefix)
	}
	return slices.Contains(compute, corev1.ResourceName(bare))
}

// isExtended reports whether the name is of a resource outside the domain of Kubernetes, like that of a device plugin, or of the
// devices of a class.
func isExtended(name corev1.ResourceName) bool {
	if strings.HasPrefix(string(name), resourcev1.ResourceDeviceClassPrefix) {
		return true
	}
	domain, _, ok := strings.Cut(string(name), "/")
	return ok && domain != "kubernetes.io" && !strings.HasSuffix(domain, ".kubernetes.io")
}

// podUsage counts every pod that exists as count/pods, but under all other names only those that still run: one that has
// ended, or is overdue on a node that is lost, keeps nobody from starting another.
func podUsage(obj runtime.Object, now time.Time) (corev1.ResourceList, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return nil, fmt.Errorf("expected a pod, got %T", obj)
	}
	used := corev1.ResourceList{countName(corev1.Resource("pods")): count(1)}
	if pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
		return used, nil
	}
	if pod.DeletionTimestamp != nil && pod.DeletionGracePeriodSeconds != nil {
		if now.After(pod.DeletionTimestamp.Add(time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second)) {
			return used, nil
		}
	}
	options := resource.PodResourcesOptions{UseStatusResources: true}
	maps.Copy(used, computeUsage(resource.PodRequests(pod, options), resource.PodLimits(pod, options)))
	used[corev1.ResourcePods] = count(1)
	return used, nil
}

// computeUsage names requests and limits as quotas do.
func computeUsage(requests, limits corev1.ResourceList) corev1.ResourceList {
	used := corev1.ResourceList{}
	for name, amount := range requests {
		plain := slices.Contains(compute, name) || strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
		if plain {
			used[name] = amount
		}
		if plain || isExtended(name) {
			used[requestsPrefix+name] = amount
		}
	}
	for name, amount := range limits {
		if slices.Contains(compute, name) {
			used[limitsPrefix+name] = amount
		}
	}
	return used
}

// podMoves reports whether a pod has got a deadline that it did not have before: all else that scopes look at never changes.
func podMoves(before, after runtime.Object) bool {
	old, isPod := before.(*corev1.Pod)
	pod, stillPod := after.(*corev1.Pod)
	return isPod && stillPod && isTerminating(old) != isTerminating(pod)
}

// isTerminating reports whether the pod ends at a deadline, as quotas understand it.
func isTerminating(pod *corev1.Pod) bool {
	return pod.Spec.ActiveDeadlineSeconds != nil && *pod.Spec.ActiveDeadlineSeconds >= 0
}

func podInScope(scope corev1.ScopedResourceSelectorRequirement, obj runtime.Object) (bool, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return false, fmt.Errorf("expected a pod, got %T", obj)
	}
	terminating := isTerminating(pod)
	switch scope.ScopeName {
	case corev1.ResourceQuotaScopeTerminating:
		return terminating, nil
	case corev1.ResourceQuotaScopeNotTerminating:
		return !terminating, nil
	case corev1.ResourceQuotaScopeBestEffort:
		return qos.Class(&pod.Spec) == corev1.PodQOSBestEffort, nil
	case corev1.ResourceQuotaScopeNotBestEffort:
		return qos.Class(&pod.Spec) != corev1.PodQOSBestEffort, nil
	case corev1.ResourceQuotaScopePriorityClass:
		if pod.Spec.PriorityClassName == "" {
			return selects(scope)
		}
		return selects(scope, pod.Spec.PriorityClassName)
	case corev1.ResourceQuotaScopeCrossNamespacePodAffinity:
		return crossesNamespaces(pod.Spec.Affinity), nil
	}
	return false, nil
}

// crossesNamespaces reports whether a term of the affinity to other pods looks beyond the pod's own namespace.
func crossesNamespaces(a *corev1.Affinity) bool {
	if a == nil {
		return false
	}
	var terms []corev1.PodAffinityTerm
	var weighted []corev1.WeightedPodAffinityTerm
	if p := a.PodAffinity; p != nil {
		terms = append(terms, p.RequiredDuringSchedulingIgnoredDuringExecution...)
		weighted = append(weighted, p.PreferredDuringSchedulingIgnoredDuringExecution...)
	}
	if p := a.PodAntiAffinity; p != nil {
		terms = append(terms, p.RequiredDuringSchedulingIgnoredDuringExecution...)
		weighted = append(weighted, p.PreferredDuringSchedulingIgnoredDuringExecution...)
	}
	for _, w := range weighted {
		terms = append(terms, w.PodAffinityTerm)
	}
	return slices.ContainsFunc(terms, func(t corev1.PodAffinityTerm) bool {
		return len(t.Namespaces) > 0 || t.NamespaceSelector != nil
	})
}

// podRequire demands of every container an amount for each limited resource, unless the pod as a whole has resources, be it others (KEP-2837).
func podRequire(required []corev1.ResourceName, obj runtime.Object) error {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return fmt.Errorf("expected a pod, got %T", obj)
	}
	if resource.IsPodLevelResourcesSet(pod) {
		return nil
	}
	lacking := map[string][]string{}
	for _, c := range slices.Concat(pod.Spec.Containers, pod.Spec.InitContainers) {
		own := computeUsage(c.Resources.Requests, c.Resources.Limits)
		for _, name := range required {
			if _, said := own[name]; !said && slices.Contains(mustSpecify, name) {
				lacking[string(name)] = append(lacking[string(name)], c.Name)
			}
		}
	}
	if len(lacking) == 0 {
		return nil
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(lacking)) {
		slices.Sort(lacking[name])
		parts = append(parts, fmt.Sprintf("%s for: %s", name, strings.Join(slices.Compact(lacking[name]), ",")))
	}
	return fmt.Errorf("must specify %s", strings.Join(parts, "; "))
}
