// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package podtemplate

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"minik8s.io/minik8s/pkg/apis/core/nodelabel"
	"minik8s.io/minik8s/pkg/apis/core/podspec"
	"minik8s.io/minik8s/pkg/apis/core/quantity"
)

// Warnings tells what is valid in a pod or a template and yet surely not meant; path is that of the template, nil for a
// pod.
func Warnings(m *metav1.ObjectMeta, s *corev1.PodSpec, path *field.Path) []string {
	var out []string
	warn := func(p *field.Path, format string, args ...any) {
		out = append(out, fmt.Sprintf("%s: %s", p, fmt.Sprintf(format, args...)))
	}
	spec := path.Child("spec")
	for key := range s.NodeSelector {
		if msg, ok := nodelabel.Deprecation(key); ok {
			warn(spec.Child("nodeSelector").Key(key), "%s", msg)
		}
	}
	warnAffinity(s.Affinity, spec.Child("affinity", "nodeAffinity"), warn)
	for i, c := range s.TopologySpreadConstraints {
		p := spec.Child("topologySpreadConstraints").Index(i)
		if msg, ok := nodelabel.Deprecation(c.TopologyKey); ok {
			warn(p.Child("topologyKey"), "%s is %s", c.TopologyKey, msg)
		}
		if c.LabelSelector == nil {
			warn(p.Child("labelSelector"), "a null labelSelector results in matching no pod")
		}
	}
	for key := range m.Annotations {
		p := path.Child("metadata", "annotations").Key(key)
		switch {
		case key == corev1.SeccompPodAnnotationKey:
			warn(p, `non-functional in v1.27+; use the "seccompProfile" field instead`)
		case strings.HasPrefix(key, corev1.SeccompContainerAnnotationKeyPrefix):
			warn(p, `non-functional in v1.27+; use the "seccompProfile" field instead`)
		case strings.HasPrefix(key, corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix):
			warn(p, `deprecated since v1.30; use the "appArmorProfile" field instead`)
		}
	}
	ips := sets.New[string]()
	for i, a := range s.HostAliases {
		if ips.Has(a.IP) {
			warn(spec.Child("hostAliases").Index(i).Child("ip"), "duplicate ip %q", a.IP)
		}
		ips.Insert(a.IP)
	}
	secrets := sets.New[string]()
	for i, r := range s.ImagePullSecrets {
		p := spec.Child("imagePullSecrets").Index(i)
		if r.Name == "" {
			warn(p, "invalid empty name %q", r.Name)
		} else if secrets.Has(r.Name) {
			warn(p, "duplicate name %q", r.Name)
		}
		secrets.Insert(r.Name)
	}
	if g := s.TerminationGracePeriodSeconds; g != nil && *g < 0 {
		warn(spec.Child("terminationGracePeriodSeconds"), "must be >= 0; negative values are invalid and will be treated as 1")
	}
	for p, c := range podspec.All(s, spec) {
		warnContainer(c, p, warn)
	}
	return out
}

func warnAffinity(a *corev1.Affinity, path *field.Path, warn func(*field.Path, string, ...any)) {
	if a == nil || a.NodeAffinity == nil {
		return
	}
	term := func(t *corev1.NodeSelectorTerm, p *field.Path) {
		for i, r := range t.MatchExpressions {
			if msg, ok := nodelabel.Deprecation(r.Key); ok {
				warn(p.Child("matchExpressions").Index(i).Child("key"), "%s is %s", r.Key, msg)
			}
		}
	}
	if required := a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution; required != nil {
		for i := range required.NodeSelectorTerms {
			term(&required.NodeSelectorTerms[i], path.Child("requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms").Index(i))
		}
	}
	preferred := a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution
	for i := range preferred {
		term(&preferred[i].Preference, path.Child("preferredDuringSchedulingIgnoredDuringExecution").Index(i).Child("preference"))
	}
}

func warnContainer(c *corev1.Container, path *field.Path, warn func(*field.Path, string, ...any)) {
	names := sets.New[string]()
	for i, v := range c.Env {
		if names.Has(v.Name) {
			warn(path.Child("env").Index(i), "hides previous definition of %q, which may be dropped when using apply", v.Name)
		}
		names.Insert(v.Name)
	}
	fractions := func(list corev1.ResourceList, p *field.Path) {
		for _, name := range quantity.Names(list) {
			q := list[name]
			if (name == corev1.ResourceMemory || name == corev1.ResourceEphemeralStorage) && q.MilliValue()%1000 != 0 {
				warn(p.Key(string(name)), "fractional byte value %q is invalid, must be an integer", q.String())
			}
		}
	}
	fractions(c.Resources.Limits, path.Child("resources", "limits"))
	fractions(c.Resources.Requests, path.Child("resources", "requests"))
	type endpoint struct {
		port     int32
		protocol corev1.Protocol
		hostIP   string
		hostPort int32
	}
	seen := map[endpoint]int{}
	for i, p := range c.Ports {
		at := endpoint{p.ContainerPort, p.Protocol, p.HostIP, p.HostPort}
		if first, ok := seen[at]; ok {
			warn(path.Child("ports").Index(i), "duplicate port definition with %s", path.Child("ports").Index(first))
			continue
		}
		seen[at] = i
	}
}
