// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	schedulinghelper "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/storage/ephemeral"
	fwk "k8s.io/kube-scheduler/framework"
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
	// Claims are the keys (namespace/name) of the claims behind its volumes.
	Claims []string

	RequiredAffinity      []fwk.AffinityTerm
	RequiredAntiAffinity  []fwk.AffinityTerm
	PreferredAffinity     []fwk.WeightedAffinityTerm
	PreferredAntiAffinity []fwk.WeightedAffinityTerm
	// ParseError tells of selectors in the affinity that are not valid.
	ParseError error
}

// NewPodInfo derives everything from a pod.
func NewPodInfo(pod *corev1.Pod) *PodInfo {
	p := &PodInfo{Pod: pod, Ports: hostPorts(pod), Claims: claims(pod)}
	p.Requests, p.NonZeroRequests = podRequests(pod)
	a := pod.Spec.Affinity
	if a == nil {
		return p
	}
	var errs [4]error
	if a.PodAffinity != nil {
		p.RequiredAffinity, errs[0] = fwk.GetAffinityTerms(pod, a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
		p.PreferredAffinity, errs[1] = fwk.GetWeightedAffinityTerms(pod, a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if a.PodAntiAffinity != nil {
		p.RequiredAntiAffinity, errs[2] = fwk.GetAffinityTerms(pod, a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
		p.PreferredAntiAffinity, errs[3] = fwk.GetWeightedAffinityTerms(pod, a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if err := errors.Join(errs[:]...); err != nil {
		p.ParseError = fmt.Errorf("parsing affinity terms: %w", err)
	}
	return p
}

var _ fwk.PodInfo = (*PodInfo)(nil)

// AsPodInfo returns a pod's info as ours, derived anew if it is another's.
func AsPodInfo(p fwk.PodInfo) *PodInfo {
	if ours, ok := p.(*PodInfo); ok {
		return ours
	}
	return NewPodInfo(p.GetPod())
}

// GetPod implements fwk.PodInfo.
func (p *PodInfo) GetPod() *corev1.Pod { return p.Pod }

// GetRequiredAffinityTerms implements fwk.PodInfo.
func (p *PodInfo) GetRequiredAffinityTerms() []fwk.AffinityTerm { return p.RequiredAffinity }

// GetRequiredAntiAffinityTerms implements fwk.PodInfo.
func (p *PodInfo) GetRequiredAntiAffinityTerms() []fwk.AffinityTerm { return p.RequiredAntiAffinity }

// GetPreferredAffinityTerms implements fwk.PodInfo.
func (p *PodInfo) GetPreferredAffinityTerms() []fwk.WeightedAffinityTerm { return p.PreferredAffinity }

// GetPreferredAntiAffinityTerms implements fwk.PodInfo.
func (p *PodInfo) GetPreferredAntiAffinityTerms() []fwk.WeightedAffinityTerm {
	return p.PreferredAntiAffinity
}

// CalculateResource implements fwk.PodInfo; it was calculated once.
func (p *PodInfo) CalculateResource() fwk.PodResource {
	return fwk.PodResource{Resource: &p.Requests, Non0CPU: p.NonZeroRequests.MilliCPU, Non0Mem: p.NonZeroRequests.Memory}
}

// WithPod returns a copy for a newer version of the pod that asks for the same.
func (p *PodInfo) WithPod(pod *corev1.Pod) *PodInfo {
	c := *p
	c.Pod = pod
	return &c
}

// Renew returns the info of a newer version of the pod: derived anew only if that version may ask for something else. A pod of before
// there were generations (KEP-5067) has none.
func (p *PodInfo) Renew(pod *corev1.Pod) *PodInfo {
	if pod.Generation != 0 && pod.Generation == p.Pod.Generation && !ResourcesMayDiffer(p.Pod, pod) {
		return p.WithPod(pod)
	}
	return NewPodInfo(pod)
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

// HostPort is a port of the node that a pod occupies. IP "0.0.0.0" is any address.
type HostPort struct {
	IP       string
	Protocol corev1.Protocol
	Port     int32
}

func hostPorts(pod *corev1.Pod) (out []HostPort) {
	collect := func(c *corev1.Container) {
		for _, p := range c.Ports {
			if p.HostPort <= 0 {
				continue
			}
			h := HostPort{IP: p.HostIP, Protocol: p.Protocol, Port: p.HostPort}
			if h.IP == "" {
				h.IP = fwk.DefaultBindAllHostIP
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

func claims(pod *corev1.Pod) (out []string) {
	for i := range pod.Spec.Volumes {
		switch v := &pod.Spec.Volumes[i]; {
		case v.PersistentVolumeClaim != nil:
			out = append(out, pod.Namespace+"/"+v.PersistentVolumeClaim.ClaimName)
		case v.Ephemeral != nil:
			out = append(out, pod.Namespace+"/"+ephemeral.VolumeClaimName(pod, v))
		}
	}
	return out
}
