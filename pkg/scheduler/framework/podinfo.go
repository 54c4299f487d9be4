// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	schedulinghelper "k8s.io/component-helpers/scheduling/corev1"
)

// PodInfo is a pod with all that is derived from it once and used many times.
// It is immutable after NewPodInfo.
type PodInfo struct {
	Pod *corev1.Pod
	// Requests is what the pod takes from its node.
	Requests Resource
	// NonZeroRequests is Requests with defaults for containers that ask for nothing.
	NonZeroRequests Resource
	// Ports are the host ports of the pod.
	Ports []HostPort

	RequiredAffinity      []AffinityTerm
	RequiredAntiAffinity  []AffinityTerm
	PreferredAffinity     []WeightedAffinityTerm
	PreferredAntiAffinity []WeightedAffinityTerm
	// ParseError tells of selectors in the affinity that are not valid.
	ParseError error
}

// NewPodInfo derives everything from a pod.
func NewPodInfo(pod *corev1.Pod) *PodInfo {
	p := &PodInfo{Pod: pod, Ports: hostPorts(pod)}
	p.Requests, p.NonZeroRequests = podRequests(pod)
	a := pod.Spec.Affinity
	if a == nil {
		return p
	}
	var errs []error
	required := func(in []corev1.PodAffinityTerm) (out []AffinityTerm) {
		for i := range in {
			t, err := newAffinityTerm(pod, &in[i])
			if err != nil {
				errs = append(errs, err)
				continue
			}
			out = append(out, t)
		}
		return out
	}
	preferred := func(in []corev1.WeightedPodAffinityTerm) (out []WeightedAffinityTerm) {
		for i := range in {
			t, err := newAffinityTerm(pod, &in[i].PodAffinityTerm)
			if err != nil {
				errs = append(errs, err)
				continue
			}
			out = append(out, WeightedAffinityTerm{AffinityTerm: t, Weight: int64(in[i].Weight)})
		}
		return out
	}
	if a.PodAffinity != nil {
		p.RequiredAffinity = required(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
		p.PreferredAffinity = preferred(a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if a.PodAntiAffinity != nil {
		p.RequiredAntiAffinity = required(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
		p.PreferredAntiAffinity = preferred(a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	p.ParseError = errors.Join(errs...)
	return p
}

// WithNode returns a copy whose pod is on a node. The pod's nested data is
// shared: nobody changes it.
func (p *PodInfo) WithNode(node string) *PodInfo {
	c, pod := *p, *p.Pod
	pod.Spec.NodeName = node
	c.Pod = &pod
	return &c
}

// Priority is the pod's priority, zero if it has none.
func (p *PodInfo) Priority() int32 { return schedulinghelper.PodPriority(p.Pod) }

// HasAffinity tells whether the pod has any term on other pods.
func (p *PodInfo) HasAffinity() bool {
	return len(p.RequiredAffinity)+len(p.RequiredAntiAffinity)+len(p.PreferredAffinity)+len(p.PreferredAntiAffinity) > 0
}

// AffinityTerm is a parsed PodAffinityTerm.
type AffinityTerm struct {
	Namespaces        sets.Set[string]
	NamespaceSelector labels.Selector
	Selector          labels.Selector
	TopologyKey       string
}

// WeightedAffinityTerm is a preferred term.
type WeightedAffinityTerm struct {
	AffinityTerm
	Weight int64
}

// Matches tells whether the term selects a pod; nsLabels are the labels of the
// pod's namespace.
func (t *AffinityTerm) Matches(pod *corev1.Pod, nsLabels labels.Set) bool {
	if !t.Namespaces.Has(pod.Namespace) && !t.NamespaceSelector.Matches(nsLabels) {
		return false
	}
	return t.Selector.Matches(labels.Set(pod.Labels))
}

func newAffinityTerm(pod *corev1.Pod, in *corev1.PodAffinityTerm) (AffinityTerm, error) {
	selector, err := metav1.LabelSelectorAsSelector(in.LabelSelector)
	if err != nil {
		return AffinityTerm{}, fmt.Errorf("parsing label selector of affinity term: %w", err)
	}
	nsSelector, err := metav1.LabelSelectorAsSelector(in.NamespaceSelector)
	if err != nil {
		return AffinityTerm{}, fmt.Errorf("parsing namespace selector of affinity term: %w", err)
	}
	namespaces := sets.New(in.Namespaces...)
	if len(in.Namespaces) == 0 && in.NamespaceSelector == nil {
		namespaces.Insert(pod.Namespace)
	}
	return AffinityTerm{Namespaces: namespaces, NamespaceSelector: nsSelector, Selector: selector, TopologyKey: in.TopologyKey}, nil
}

// HostPort is a port of the node that a pod occupies. IP "0.0.0.0" is any address.
type HostPort struct {
	IP       string
	Protocol corev1.Protocol
	Port     int32
}

const anyIP = "0.0.0.0"

// Conflicts tells whether both ports cannot be held at the same time.
func (h HostPort) Conflicts(o HostPort) bool {
	return h.Port == o.Port && h.Protocol == o.Protocol && (h.IP == o.IP || h.IP == anyIP || o.IP == anyIP)
}

func hostPorts(pod *corev1.Pod) (out []HostPort) {
	collect := func(c *corev1.Container) {
		for _, p := range c.Ports {
			if p.HostPort <= 0 {
				continue
			}
			h := HostPort{IP: p.HostIP, Protocol: p.Protocol, Port: p.HostPort}
			if h.IP == "" {
				h.IP = anyIP
			}
			if h.Protocol == "" {
				h.Protocol = corev1.ProtocolTCP
			}
			out = append(out, h)
		}
	}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			collect(c)
		}
	}
	for i := range pod.Spec.Containers {
		collect(&pod.Spec.Containers[i])
	}
	return out
}
