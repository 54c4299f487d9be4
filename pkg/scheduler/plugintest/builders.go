// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package plugintest

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// PodOption changes a pod under construction.
type PodOption func(*corev1.Pod)

// Pod returns a pod of namespace "default" with one container; its UID is its name.
func Pod(name string, options ...PodOption) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(name)},
		Spec: corev1.PodSpec{
			SchedulerName: corev1.DefaultSchedulerName,
			Containers:    []corev1.Container{{Name: "main", Image: "image"}},
		},
	}
	for _, o := range options {
		o(p)
	}
	return p
}

// Requests sets what the container asks for, by pairs of resource and quantity.
func Requests(pairs ...string) PodOption {
	return func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests = quantities(pairs) }
}

// On puts the pod on a node.
func On(node string) PodOption { return func(p *corev1.Pod) { p.Spec.NodeName = node } }

// Labels sets the pod's labels by pairs.
func Labels(pairs ...string) PodOption {
	return func(p *corev1.Pod) { p.Labels = stringMap(pairs) }
}

// Namespace sets the pod's namespace.
func Namespace(ns string) PodOption { return func(p *corev1.Pod) { p.Namespace = ns } }

// Priority sets the pod's priority.
func Priority(n int32) PodOption { return func(p *corev1.Pod) { p.Spec.Priority = &n } }

// HostPort makes the container ask for a port of the node.
func HostPort(ip string, protocol corev1.Protocol, port int32) PodOption {
	return func(p *corev1.Pod) {
		p.Spec.Containers[0].Ports = append(p.Spec.Containers[0].Ports, corev1.ContainerPort{HostIP: ip, Protocol: protocol, HostPort: port})
	}
}

// Tolerate adds tolerations.
func Tolerate(t ...corev1.Toleration) PodOption {
	return func(p *corev1.Pod) { p.Spec.Tolerations = append(p.Spec.Tolerations, t...) }
}

// Affinity sets the pod's affinity.
func Affinity(a *corev1.Affinity) PodOption { return func(p *corev1.Pod) { p.Spec.Affinity = a } }

// Spread adds topology spread constraints.
func Spread(c ...corev1.TopologySpreadConstraint) PodOption {
	return func(p *corev1.Pod) {
		p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, c...)
	}
}

// Claim adds a volume backed by a claim.
func Claim(name string) PodOption {
	return func(p *corev1.Pod) {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name},
		}})
	}
}

// NodeOption changes a node under construction.
type NodeOption func(*corev1.Node)

// Node returns a node with 4 CPUs, 8Gi of memory, room for 110 pods and its
// hostname label.
func Node(name string, options ...NodeOption) *corev1.Node {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("node-" + name), Labels: map[string]string{corev1.LabelHostname: name}},
	}
	n.Status.Allocatable = quantities([]string{"cpu", "4", "memory", "8Gi", "pods", "110"})
	for _, o := range options {
		o(n)
	}
	return n
}

// Allocatable replaces amounts of the node's resources by pairs.
func Allocatable(pairs ...string) NodeOption {
	return func(n *corev1.Node) { maps.Copy(n.Status.Allocatable, quantities(pairs)) }
}

// NodeLabels adds labels by pairs.
func NodeLabels(pairs ...string) NodeOption {
	return func(n *corev1.Node) { maps.Copy(n.Labels, stringMap(pairs)) }
}

// Taint adds a taint.
func Taint(key, value string, effect corev1.TaintEffect) NodeOption {
	return func(n *corev1.Node) {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key, Value: value, Effect: effect})
	}
}

// Cordoned marks the node unschedulable.
func Cordoned() NodeOption { return func(n *corev1.Node) { n.Spec.Unschedulable = true } }

// Boot sets which start of which machine the node is on.
func Boot(id string) NodeOption { return func(n *corev1.Node) { n.Status.NodeInfo.BootID = id } }

// Image puts an image on the node.
func Image(name string, bytes int64) NodeOption {
	return func(n *corev1.Node) {
		n.Status.Images = append(n.Status.Images, corev1.ContainerImage{Names: []string{name}, SizeBytes: bytes})
	}
}

func quantities(pairs []string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for i := 0; i+1 < len(pairs); i += 2 {
		out[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return out
}

func stringMap(pairs []string) map[string]string {
	out := map[string]string{}
	for i := 0; i+1 < len(pairs); i += 2 {
		out[pairs[i]] = pairs[i+1]
	}
	return out
}

// Select returns a selector of one label.
func Select(key, value string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
}

// NearTo requires a pod with the label in the same domain.
func NearTo(key, value, topology string) *corev1.Affinity {
	return &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
		{LabelSelector: Select(key, value), TopologyKey: topology},
	}}}
}

// AwayFrom forbids a pod with the label in the same domain.
func AwayFrom(key, value, topology string) *corev1.Affinity {
	return &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
		{LabelSelector: Select(key, value), TopologyKey: topology},
	}}}
}
