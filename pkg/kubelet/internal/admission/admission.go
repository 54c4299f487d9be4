// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package admission decides whether this node takes a pod that was bound to it. The scheduler decided before, perhaps
// on older news, or was not asked. Touch it when the node must refuse something new.
package admission

import (
	"fmt"
	"runtime"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/resource"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	"minik8s.io/minik8s/pkg/apis/core/qos"
	"minik8s.io/minik8s/pkg/kubelet/internal/podspec"
)

// Refusal is why a pod is not taken, in the words of its status and event.
type Refusal struct{ Reason, Message string }

// Features are what the node can do.
type Features struct {
	AppArmor bool
	// UnsafeSysctls may be set by pods besides those that are safe; a "*" at the end stands for all that begin so.
	UnsafeSysctls []string
	// Pressure are the conditions that the node is under.
	Pressure []corev1.NodeConditionType
	// PodLevelResources: pods may have resources as a whole.
	PodLevelResources bool
	// ShuttingDown: the machine is about to go down.
	ShuttingDown bool
}

// Admit returns nil if node takes pod beside active, the pods that it has taken and that have not ended.
func Admit(pod *corev1.Pod, node *corev1.Node, active []*corev1.Pod, f Features) *Refusal {
	return first(
		func() *Refusal { return fitting(pod, f) },
		func() *Refusal { return Room(pod, node, active) },
		func() *Refusal { return others(pod, node, active) },
	)
}

// fitting is what does not depend on other pods but for the pressure that they make.
func fitting(pod *corev1.Pod, f Features) *Refusal {
	if f.ShuttingDown {
		return &Refusal{"NodeShutdown", "Pod was rejected as the node is shutting down."}
	}
	return first(
		func() *Refusal { return pressure(pod, f.Pressure) },
		func() *Refusal { return system(pod) },
		func() *Refusal { return supported(pod) },
		func() *Refusal { return podLevel(pod, f.PodLevelResources) },
		func() *Refusal { return sysctls(pod, f.UnsafeSysctls) },
		func() *Refusal { return security(pod, f) },
	)
}

func others(pod *corev1.Pod, node *corev1.Node, active []*corev1.Pod) *Refusal {
	return first(
		func() *Refusal { return affinity(pod, node) },
		func() *Refusal { return ports(pod, active) },
		func() *Refusal { return taints(pod, node) },
	)
}

func first(checks ...func() *Refusal) *Refusal {
	for _, check := range checks {
		if r := check(); r != nil {
			return r
		}
	}
	return nil
}

func podLevel(pod *corev1.Pod, on bool) *Refusal {
	if on || !resource.IsPodLevelResourcesSet(pod) {
		return nil
	}
	return &Refusal{"PodLevelResourcesNotSupported", "PodLevelResources feature gate is disabled"}
}

// pressure refuses what would make it worse: with too little memory only pods that request none.
func pressure(pod *corev1.Pod, under []corev1.NodeConditionType) *Refusal {
	if len(under) == 0 || podspec.IsCritical(pod) {
		return nil
	}
	if slices.Equal(under, []corev1.NodeConditionType{corev1.NodeMemoryPressure}) {
		tolerated := corev1helpers.TolerationsTolerateTaint(klog.Background(), pod.Spec.Tolerations,
			&corev1.Taint{Key: corev1.TaintNodeMemoryPressure, Effect: corev1.TaintEffectNoSchedule}, false)
		if tolerated || qos.Of(pod) != corev1.PodQOSBestEffort {
			return nil
		}
	}
	return &Refusal{"Evicted", fmt.Sprintf("The node had condition: %v. ", under)}
}

func predicate(name, description string) *Refusal {
	return &Refusal{Reason: name, Message: fmt.Sprintf("Predicate %s failed: %s", name, description)}
}

// system refuses what says that it is for another operating system, of which the pod's label counts, as upstream: what its nodeSelector
// says is for affinity.
func system(pod *corev1.Pod) *Refusal {
	if want, ok := pod.Labels[corev1.LabelOSStable]; ok && want != runtime.GOOS {
		return &Refusal{"PodOSSelectorNodeLabelDoesNotMatch", "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label"}
	}
	if pod.Spec.OS != nil && string(pod.Spec.OS.Name) != runtime.GOOS {
		return &Refusal{"PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS"}
	}
	return nil
}

// safe sysctls are namespaced and cannot hurt other pods.
var safe = []string{
	"kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.ip_local_reserved_ports",
	"net.ipv4.ip_unprivileged_port_start", "net.ipv4.ping_group_range", "net.ipv4.tcp_fin_timeout",
	"net.ipv4.tcp_keepalive_intvl", "net.ipv4.tcp_keepalive_probes", "net.ipv4.tcp_keepalive_time",
	"net.ipv4.tcp_rmem", "net.ipv4.tcp_syncookies", "net.ipv4.tcp_wmem",
}

func sysctls(pod *corev1.Pod, unsafe []string) *Refusal {
	if pod.Spec.SecurityContext == nil {
		return nil
	}
	for _, s := range pod.Spec.SecurityContext.Sysctls {
		name := strings.ReplaceAll(s.Name, "/", ".")
		switch {
		case !slices.Contains(safe, name) && !slices.ContainsFunc(unsafe, func(p string) bool { return covers(p, name) }):
			return &Refusal{"SysctlForbidden", fmt.Sprintf("forbidden sysctl: %q not allowlisted", name)}
		case pod.Spec.HostNetwork && strings.HasPrefix(name, "net."):
			return &Refusal{"SysctlForbidden", fmt.Sprintf("forbidden sysctl: %q not allowed with host net enabled", name)}
		case pod.Spec.HostIPC && !strings.HasPrefix(name, "net."):
			return &Refusal{"SysctlForbidden", fmt.Sprintf("forbidden sysctl: %q not allowed with host ipc enabled", name)}
		}
	}
	return nil
}

// covers says whether a pattern allows a sysctl.
func covers(pattern, name string) bool {
	pattern = strings.ReplaceAll(pattern, "/", ".")
	if group, is := strings.CutSuffix(pattern, "*"); is {
		return strings.HasPrefix(name, group)
	}
	return pattern == name
}

// security refuses what the engine would silently not enforce.
func security(pod *corev1.Pod, f Features) *Refusal {
	psc := pod.Spec.SecurityContext
	if pod.Spec.HostUsers != nil && !*pod.Spec.HostUsers {
		return &Refusal{"UserNamespacesNotSupported", "user namespaces are not supported by the container engine of this node"}
	}
	armored := func(p *corev1.AppArmorProfile) bool {
		return p != nil && p.Type != corev1.AppArmorProfileTypeUnconfined
	}
	need := psc != nil && armored(psc.AppArmorProfile)
	for c := range podspec.Containers(pod) {
		need = need || c.SecurityContext != nil && armored(c.SecurityContext.AppArmorProfile)
	}
	if need && !f.AppArmor {
		return &Refusal{"AppArmor", "Cannot enforce AppArmor: AppArmor is not enabled on the host"}
	}
	return nil
}

// Room returns nil if node has the resources that pod asks for beside active.
func Room(pod *corev1.Pod, node *corev1.Node, active []*corev1.Pod) *Refusal {
	missing := shortages(pod, node, active)
	if len(missing) == 0 {
		return nil
	}
	s := missing[0]
	return &Refusal{"OutOf" + string(s.name), fmt.Sprintf("Node didn't have enough resource: %s, requested: %d, used: %d, capacity: %d", s.name, s.requested, s.used, s.capacity)}
}

// shortage is a resource of which a pod requests more than is left; of CPU in thousandths.
type shortage struct {
	name                      corev1.ResourceName
	requested, used, capacity int64
}

// amount is how much is missing.
func (s shortage) amount() int64 { return s.requested - (s.capacity - s.used) }

func shortages(pod *corev1.Pod, node *corev1.Node, active []*corev1.Pod) []shortage {
	names := []corev1.ResourceName{corev1.ResourcePods, corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage}
	var extended []corev1.ResourceName
	for name := range requestsOf(pod) {
		if !slices.Contains(names, name) {
			extended = append(extended, name)
		}
	}
	slices.Sort(extended)
	used := map[corev1.ResourceName]int64{}
	for _, p := range active {
		for name, n := range requestsOf(p) {
			used[name] += n
		}
	}
	var missing []shortage
	want := requestsOf(pod)
	for _, name := range append(names, extended...) {
		have, known := node.Status.Allocatable[name]
		if want[name] == 0 || !known && name != corev1.ResourcePods {
			continue // an extended resource that the node does not know is somebody else's to check
		}
		s := shortage{name: name, requested: want[name], used: used[name], capacity: amountOf(name, have)}
		if s.amount() > 0 {
			missing = append(missing, s)
		}
	}
	return missing
}

// requestsOf are the amounts that a pod requests, of pods itself.
func requestsOf(p *corev1.Pod) map[corev1.ResourceName]int64 {
	out := map[corev1.ResourceName]int64{corev1.ResourcePods: 1}
	for name, q := range resource.PodRequests(podspec.Unclaimed(p), resource.PodResourcesOptions{UseStatusResources: true}) {
		out[name] = amountOf(name, q)
	}
	return out
}

func amountOf(name corev1.ResourceName, q apiresource.Quantity) int64 {
	if name == corev1.ResourceCPU {
		return q.MilliValue()
	}
	return q.Value()
}

func affinity(pod *corev1.Pod, node *corev1.Node) *Refusal {
	const text = "node(s) didn't match Pod's node affinity/selector"
	if len(pod.Spec.NodeSelector) > 0 && !labels.SelectorFromSet(pod.Spec.NodeSelector).Matches(labels.Set(node.Labels)) {
		return predicate("NodeAffinity", text)
	}
	ok, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node)
	if err != nil || !ok {
		return predicate("NodeAffinity", text)
	}
	return nil
}

func ports(pod *corev1.Pod, active []*corev1.Pod) *Refusal {
	taken := map[string][]string{} // protocol/port to addresses
	for _, p := range active {
		eachPort(p, func(key, ip string) { taken[key] = append(taken[key], ip) })
	}
	clash := false
	eachPort(pod, func(key, ip string) {
		for _, other := range taken[key] {
			clash = clash || other == ip || other == anyAddress || ip == anyAddress
		}
	})
	if clash {
		return predicate("NodePorts", "node(s) didn't have free ports for the requested pod ports")
	}
	return nil
}

const anyAddress = "0.0.0.0"

func eachPort(pod *corev1.Pod, f func(key, ip string)) {
	visit := func(c *corev1.Container) {
		for _, p := range c.Ports {
			if p.HostPort <= 0 {
				continue
			}
			protocol, ip := p.Protocol, p.HostIP
			if protocol == "" {
				protocol = corev1.ProtocolTCP
			}
			if ip == "" || ip == "::" {
				ip = anyAddress
			}
			f(fmt.Sprintf("%s/%d", protocol, p.HostPort), ip)
		}
	}
	for i := range pod.Spec.InitContainers {
		if podspec.IsSidecar(&pod.Spec.InitContainers[i]) {
			visit(&pod.Spec.InitContainers[i])
		}
	}
	for i := range pod.Spec.Containers {
		visit(&pod.Spec.Containers[i])
	}
}

// taints do not keep the node's own pods away.
func taints(pod *corev1.Pod, node *corev1.Node) *Refusal {
	if podspec.IsStatic(pod) {
		return nil
	}
	_, found := corev1helpers.FindMatchingUntoleratedTaint(klog.Background(), node.Spec.Taints, pod.Spec.Tolerations,
		func(t *corev1.Taint) bool { return t.Effect == corev1.TaintEffectNoExecute }, false)
	if found {
		return predicate("TaintToleration", "node(s) had taints that the pod didn't tolerate")
	}
	return nil
}
