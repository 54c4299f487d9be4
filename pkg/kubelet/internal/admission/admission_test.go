// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func pod(change func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}}}}
	if change != nil {
		change(p)
	}
	return p
}

func requests(cpu, memory string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
	}
}

func port(n int32, ip string, proto corev1.Protocol) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: n, HostIP: ip, Protocol: proto}}
	}
}

func TestAdmit(t *testing.T) {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"disk": "ssd", corev1.LabelOSStable: "linux"}},
		Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoSchedule}}},
		Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("1Gi"), corev1.ResourcePods: resource.MustParse("3")}},
	}
	drained := node.DeepCopy()
	drained.Spec.Taints = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoExecute}}
	tests := []struct {
		name     string
		pod      *corev1.Pod
		node     *corev1.Node
		active   []*corev1.Pod
		features Features
		want     *Refusal
	}{
		{name: "plain", pod: pod(nil)},
		{name: "selector matches", pod: pod(func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"disk": "ssd"} })},
		{name: "selector does not match", pod: pod(func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"disk": "hdd"} }),
			want: &Refusal{"NodeAffinity", "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"}},
		{name: "affinity does not match", pod: pod(func(p *corev1.Pod) {
			p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "disk", Operator: corev1.NodeSelectorOpNotIn, Values: []string{"ssd"}}}}}}}}
		}), want: &Refusal{"NodeAffinity", "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"}},
		{name: "cpu", pod: pod(requests("1500m", "1Mi")), active: []*corev1.Pod{pod(requests("600m", "1Mi"))},
			want: &Refusal{"OutOfcpu", "Node didn't have enough resource: cpu, requested: 1500, used: 600, capacity: 2000"}},
		{name: "memory", pod: pod(requests("1", "2Gi")),
			want: &Refusal{"OutOfmemory", "Node didn't have enough resource: memory, requested: 2147483648, used: 0, capacity: 1073741824"}},
		{name: "pods", pod: pod(nil), active: []*corev1.Pod{pod(nil), pod(nil), pod(nil)},
			want: &Refusal{"OutOfpods", "Node didn't have enough resource: pods, requested: 1, used: 3, capacity: 3"}},
		{name: "same port", pod: pod(port(80, "", "")), active: []*corev1.Pod{pod(port(80, "127.0.0.1", corev1.ProtocolTCP))},
			want: &Refusal{"NodePorts", "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports"}},
		{name: "same port of another address", pod: pod(port(80, "10.0.0.1", "")), active: []*corev1.Pod{pod(port(80, "127.0.0.1", ""))}},
		{name: "same port of another protocol", pod: pod(port(80, "", corev1.ProtocolUDP)), active: []*corev1.Pod{pod(port(80, "", ""))}},
		{name: "NoExecute taint", pod: pod(nil), node: drained,
			want: &Refusal{"TaintToleration", "Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate"}},
		{name: "NoExecute taint, static pod", pod: pod(func(p *corev1.Pod) { p.Annotations = map[string]string{"kubernetes.io/config.source": "http"} }), node: drained},
		{name: "safe sysctl", pod: pod(func(p *corev1.Pod) {
			p.Spec.SecurityContext = &corev1.PodSecurityContext{Sysctls: []corev1.Sysctl{{Name: "kernel/shm_rmid_forced", Value: "1"}}}
		})},
		{name: "unsafe sysctl", pod: pod(func(p *corev1.Pod) {
			p.Spec.SecurityContext = &corev1.PodSecurityContext{Sysctls: []corev1.Sysctl{{Name: "kernel.msgmax", Value: "1"}}}
		}), want: &Refusal{"SysctlForbidden", `forbidden sysctl: "kernel.msgmax" not allowlisted`}},
		{name: "unsafe sysctls that are allowed", features: Features{UnsafeSysctls: []string{"kernel.msg*", "net/core/somaxconn"}}, pod: pod(func(p *corev1.Pod) {
			p.Spec.SecurityContext = &corev1.PodSecurityContext{Sysctls: []corev1.Sysctl{{Name: "kernel/msgmax", Value: "1"}, {Name: "net.core.somaxconn", Value: "1"}}}
		})},
		{name: "another unsafe sysctl", features: Features{UnsafeSysctls: []string{"kernel.msgmax", "net.core.somaxconn"}}, pod: pod(func(p *corev1.Pod) {
			p.Spec.SecurityContext = &corev1.PodSecurityContext{Sysctls: []corev1.Sysctl{{Name: "kernel.msgmnb", Value: "1"}}}
		}), want: &Refusal{"SysctlForbidden", `forbidden sysctl: "kernel.msgmnb" not allowlisted`}},
		{name: "a sysctl of the host's IPC", features: Features{UnsafeSysctls: []string{"kernel.msg*"}}, pod: pod(func(p *corev1.Pod) {
			p.Spec.HostIPC = true
			p.Spec.SecurityContext = &corev1.PodSecurityContext{Sysctls: []corev1.Sysctl{{Name: "kernel.msgmax", Value: "1"}}}
		}), want: &Refusal{"SysctlForbidden", `forbidden sysctl: "kernel.msgmax" not allowed with host ipc enabled`}},
		{name: "pod-level resources", features: Features{PodLevelResources: true}, pod: pod(func(p *corev1.Pod) {
			p.Spec.Resources = &corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}}
		})},
		{name: "pod-level resources that are switched off", pod: pod(func(p *corev1.Pod) {
			p.Spec.Resources = &corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}}
		}), want: &Refusal{"PodLevelResourcesNotSupported", "PodLevelResources feature gate is disabled"}},
		{name: "memory pressure", features: Features{Pressure: []corev1.NodeConditionType{corev1.NodeMemoryPressure}}, pod: pod(nil),
			want: &Refusal{"Evicted", "The node had condition: [MemoryPressure]. "}},
		{name: "memory pressure, tolerated", features: Features{Pressure: []corev1.NodeConditionType{corev1.NodeMemoryPressure}}, pod: pod(func(p *corev1.Pod) {
			p.Spec.Tolerations = []corev1.Toleration{{Key: corev1.TaintNodeMemoryPressure, Operator: corev1.TolerationOpExists}}
		})},
		{name: "memory pressure, with a request", features: Features{Pressure: []corev1.NodeConditionType{corev1.NodeMemoryPressure}}, pod: pod(func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1")}
		})},
		{name: "disk pressure besides", features: Features{Pressure: []corev1.NodeConditionType{corev1.NodeDiskPressure, corev1.NodeMemoryPressure}}, pod: pod(func(p *corev1.Pod) {
			p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
		}), want: &Refusal{"Evicted", "The node had condition: [DiskPressure MemoryPressure]. "}},
		{name: "pid pressure, critical", features: Features{Pressure: []corev1.NodeConditionType{corev1.NodePIDPressure}}, pod: pod(func(p *corev1.Pod) { p.Spec.Priority = new(int32(2000000000)) })},
		{name: "windows", pod: pod(func(p *corev1.Pod) { p.Spec.OS = &corev1.PodOS{Name: corev1.Windows} }),
			want: &Refusal{"PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS"}},
		{name: "labelled for windows", pod: pod(func(p *corev1.Pod) { p.Labels = map[string]string{corev1.LabelOSStable: "windows"} }),
			want: &Refusal{"PodOSSelectorNodeLabelDoesNotMatch", "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label"}},
		{name: "selects windows", pod: pod(func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{corev1.LabelOSStable: "windows"} }),
			want: &Refusal{"NodeAffinity", "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"}},
		{name: "user namespace", pod: pod(func(p *corev1.Pod) { p.Spec.HostUsers = new(false) }),
			want: &Refusal{"UserNamespacesNotSupported", "user namespaces are not supported by the container engine of this node"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n := node
			if tt.node != nil {
				n = tt.node
			}
			if diff := cmp.Diff(tt.want, Admit(tt.pod, n, tt.active, tt.features)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// What a claim gives is not taken from the node's own resources.
func TestRequestsOf_Extended(t *testing.T) {
	list := corev1.ResourceList{"v.com/r": resource.MustParse("2"), corev1.ResourceCPU: resource.MustParse("1")}
	p := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a"}, {Name: "b"}}}}
	for i := range p.Spec.Containers {
		p.Spec.Containers[i].Resources.Requests = list.DeepCopy()
	}
	if got := requestsOf(p); got["v.com/r"] != 4 || got[corev1.ResourceCPU] != 2000 {
		t.Errorf("without a claim: %v", got)
	}
	p.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{
		RequestMappings: []corev1.ContainerExtendedResourceRequest{{ContainerName: "b", ResourceName: "v.com/r", RequestName: "x"}},
	}
	if got := requestsOf(p); got["v.com/r"] != 2 || got[corev1.ResourceCPU] != 2000 {
		t.Errorf("with a claim for one container: %v", got)
	}
	if q := p.Spec.Containers[1].Resources.Requests["v.com/r"]; q.Value() != 2 {
		t.Error("the pod has changed")
	}
}

func TestSupported(t *testing.T) {
	pod := func(change func(*corev1.PodSpec)) *corev1.Pod {
		p := &corev1.Pod{Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "c"}},
			Volumes:    []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
		}}
		if change != nil {
			change(&p.Spec)
		}
		return p
	}
	for name, tc := range map[string]struct {
		pod  *corev1.Pod
		want string
	}{
		"plain":        {pod: pod(nil)},
		"block device": {pod: pod(func(s *corev1.PodSpec) { s.Containers[0].VolumeDevices = []corev1.VolumeDevice{{Name: "v"}} })},
		"claims": {pod: pod(func(s *corev1.PodSpec) {
			s.ResourceClaims = []corev1.PodResourceClaim{{Name: "r"}}
			s.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "r"}}
		})},
		"two": {
			pod: pod(func(s *corev1.PodSpec) {
				s.Volumes[0].VolumeSource = corev1.VolumeSource{ISCSI: &corev1.ISCSIVolumeSource{}}
				s.Volumes = append(s.Volumes, corev1.Volume{VolumeSource: corev1.VolumeSource{FC: &corev1.FCVolumeSource{}}})
			}),
			want: "Not supported by this node yet: spec.volumes[0].iscsi (this type of volume), spec.volumes[1].fc (this type of volume)",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if r := supported(tc.pod); r != nil {
				got = r.Message
			}
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
