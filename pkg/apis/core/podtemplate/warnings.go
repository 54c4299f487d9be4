// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package podtemplate

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"minik8s.io/minik8s/pkg/apis/core/nodelabel"
	"minik8s.io/minik8s/pkg/apis/core/persistentvolumeclaim"
	"minik8s.io/minik8s/pkg/apis/core/podspec"
	"minik8s.io/minik8s/pkg/apis/core/volume"
)

// warnings are gathered, each with the field that it is about.
type warnings []string

func (w *warnings) add(p *field.Path, format string, args ...any) {
	*w = append(*w, fmt.Sprintf("%s: %s", p, fmt.Sprintf(format, args...)))
}

// Warnings tells what is valid in a pod or a template and yet surely not meant; path is that of the template, nil for a
// pod.
func Warnings(m *metav1.ObjectMeta, s *corev1.PodSpec, path *field.Path) []string {
	var w warnings
	spec := path.Child("spec")
	w.nodeLabels(s, spec)
	for i, c := range s.TopologySpreadConstraints {
		p := spec.Child("topologySpreadConstraints").Index(i)
		if msg, ok := nodelabel.Deprecation(c.TopologyKey); ok {
			w.add(p.Child("topologyKey"), "%s is %s", c.TopologyKey, msg)
		}
		w.nullSelector(c.LabelSelector, p)
	}
	w.annotations(m.Annotations, path)
	w.volumes(s.Volumes, spec.Child("volumes"))
	w.duplicates(s, spec)
	w.fractions(s.Overhead, spec.Child("overhead"))
	w.profiles(m.Annotations, s, path)
	for p, c := range podspec.All(s, spec) {
		w.fractions(c.Resources.Limits, p.Child("resources", "limits"))
		w.fractions(c.Resources.Requests, p.Child("resources", "requests"))
		w.variables(c.Env, p.Child("env"))
	}
	w.ports(s, spec)
	if g := s.TerminationGracePeriodSeconds; g != nil && *g < 0 {
		w.add(spec.Child("terminationGracePeriodSeconds"), "must be >= 0; negative values are invalid and will be treated as 1")
	}
	w.podAffinity(s.Affinity, spec.Child("affinity"))
	if s.DNSConfig != nil {
		for i, ns := range s.DNSConfig.Nameservers {
			w = append(w, validation.GetWarningsForIP(spec.Child("dnsConfig", "nameservers").Index(i), ns)...)
		}
	}
	for i, a := range s.HostAliases {
		w = append(w, validation.GetWarningsForIP(spec.Child("hostAliases").Index(i).Child("ip"), a.IP)...)
	}
	return w
}

// nodeLabels warns of labels that have a successor, and of preferences for values that no label can have.
func (w *warnings) nodeLabels(s *corev1.PodSpec, spec *field.Path) {
	for key := range s.NodeSelector {
		if msg, ok := nodelabel.Deprecation(key); ok {
			w.add(spec.Child("nodeSelector").Key(key), "%s", msg)
		}
	}
	if s.Affinity == nil || s.Affinity.NodeAffinity == nil {
		return
	}
	a, path := s.Affinity.NodeAffinity, spec.Child("affinity", "nodeAffinity")
	if required := a.RequiredDuringSchedulingIgnoredDuringExecution; required != nil {
		*w = append(*w, nodelabel.TermWarnings(required.NodeSelectorTerms, path.Child("requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms"))...)
	}
	for i, t := range a.PreferredDuringSchedulingIgnoredDuringExecution {
		p := path.Child("preferredDuringSchedulingIgnoredDuringExecution").Index(i).Child("preference", "matchExpressions")
		for j, r := range t.Preference.MatchExpressions {
			if msg, ok := nodelabel.Deprecation(r.Key); ok {
				w.add(p.Index(j).Child("key"), "%s is %s", r.Key, msg)
			}
			for k, v := range r.Values {
				for _, msg := range validation.IsValidLabelValue(v) {
					w.add(p.Index(j).Child("values").Index(k), "%s is invalid, %s", v, msg)
				}
			}
		}
	}
}

func (w *warnings) nullSelector(s *metav1.LabelSelector, p *field.Path) {
	if s == nil {
		w.add(p.Child("labelSelector"), "a null labelSelector results in matching no pod")
	}
}

func (w *warnings) podAffinity(a *corev1.Affinity, path *field.Path) {
	if a == nil {
		return
	}
	terms := func(must []corev1.PodAffinityTerm, prefer []corev1.WeightedPodAffinityTerm, p *field.Path) {
		for i := range must {
			w.nullSelector(must[i].LabelSelector, p.Child("requiredDuringSchedulingIgnoredDuringExecution").Index(i))
		}
		for i := range prefer {
			w.nullSelector(prefer[i].PodAffinityTerm.LabelSelector, p.Child("preferredDuringSchedulingIgnoredDuringExecution").Index(i).Child("podAffinityTerm"))
		}
	}
	if t := a.PodAffinity; t != nil {
		terms(t.RequiredDuringSchedulingIgnoredDuringExecution, t.PreferredDuringSchedulingIgnoredDuringExecution, path.Child("podAffinity"))
	}
	if t := a.PodAntiAffinity; t != nil {
		terms(t.RequiredDuringSchedulingIgnoredDuringExecution, t.PreferredDuringSchedulingIgnoredDuringExecution, path.Child("podAntiAffinity"))
	}
}

func (w *warnings) annotations(annotations map[string]string, path *field.Path) {
	for _, old := range []struct{ key, msg string }{
		{"scheduler.alpha.kubernetes.io/critical-pod", `non-functional in v1.16+; use the "priorityClassName" field instead`},
		{"security.alpha.kubernetes.io/sysctls", `non-functional in v1.11+; use the "sysctls" field instead`},
		{"security.alpha.kubernetes.io/unsafe-sysctls", `non-functional in v1.11+; use the "sysctls" field instead`},
	} {
		if _, ok := annotations[old.key]; ok {
			w.add(path.Child("metadata", "annotations").Key(old.key), "%s", old.msg)
		}
	}
}

// profiles warns of annotations that choose a profile where no field does. Of AppArmor's a pod is warned when it is made,
// before the fields are filled in from them.
func (w *warnings) profiles(annotations map[string]string, s *corev1.PodSpec, path *field.Path) {
	const seccomp = `non-functional in v1.27+; use the "seccompProfile" field instead`
	has := func(key string) bool { _, ok := annotations[key]; return ok }
	at := path.Child("metadata", "annotations")
	var pod corev1.PodSecurityContext
	if s.SecurityContext != nil {
		pod = *s.SecurityContext
	}
	if pod.SeccompProfile == nil && has(corev1.SeccompPodAnnotationKey) {
		w.add(at.Key(corev1.SeccompPodAnnotationKey), seccomp)
	}
	for _, c := range podspec.All(s, nil) {
		var sc corev1.SecurityContext
		if c.SecurityContext != nil {
			sc = *c.SecurityContext
		}
		if key := corev1.SeccompContainerAnnotationKeyPrefix + c.Name; sc.SeccompProfile == nil && has(key) {
			w.add(at.Key(key), seccomp)
		}
		key := corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix + c.Name
		if path == nil || sc.AppArmorProfile != nil || !has(key) {
			continue
		}
		if pod.AppArmorProfile == nil || !apiequality.Semantic.DeepEqual(pod.AppArmorProfile, podspec.AppArmorProfile(annotations[key])) {
			w.add(at.Key(key), ObsoleteAppArmor)
		}
	}
}

// ObsoleteAppArmor is what to say of an annotation that chooses an AppArmor profile.
const ObsoleteAppArmor = `deprecated since v1.30; use the "appArmorProfile" field instead`

func (w *warnings) volumes(volumes []corev1.Volume, path *field.Path) {
	for i := range volumes {
		v, p := &volumes[i], path.Index(i)
		for _, gone := range []struct {
			name, msg string
			set       bool
		}{
			{"photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+", v.PhotonPersistentDisk != nil},
			{"gitRepo", "deprecated in v1.11, and disabled by default in v1.33+", v.GitRepo != nil},
			{"scaleIO", "deprecated in v1.16, non-functional in v1.22+", v.ScaleIO != nil},
			{"flocker", "deprecated in v1.22, non-functional in v1.25+", v.Flocker != nil},
			{"storageOS", "deprecated in v1.22, non-functional in v1.25+", v.StorageOS != nil},
			{"quobyte", "deprecated in v1.22, non-functional in v1.25+", v.Quobyte != nil},
			{"glusterfs", "deprecated in v1.25, non-functional in v1.26+", v.Glusterfs != nil},
		} {
			if gone.set {
				w.add(p.Child(gone.name), "%s", gone.msg)
			}
		}
		if v.Ephemeral != nil && v.Ephemeral.VolumeClaimTemplate != nil {
			*w = append(*w, persistentvolumeclaim.Warnings(&v.Ephemeral.VolumeClaimTemplate.Spec, p.Child("ephemeral", "volumeClaimTemplate", "spec"))...)
		}
		if v.CephFS != nil {
			w.add(p.Child("cephfs"), "deprecated in v1.28, non-functional in v1.31+")
		}
		if v.RBD != nil {
			w.add(p.Child("rbd"), "deprecated in v1.28, non-functional in v1.31+")
		}
	}
	for i := range volumes {
		*w = append(*w, volume.Overlaps(&volumes[i])...)
	}
}

// duplicates warns of host aliases and pull secrets that are there twice.
func (w *warnings) duplicates(s *corev1.PodSpec, spec *field.Path) {
	ips := sets.New[string]()
	for i, a := range s.HostAliases {
		if ips.Has(a.IP) {
			w.add(spec.Child("hostAliases").Index(i).Child("ip"), "duplicate ip %q", a.IP)
		}
		ips.Insert(a.IP)
	}
	secrets := sets.New[string]()
	for i, r := range s.ImagePullSecrets {
		if secrets.Has(r.Name) {
			w.add(spec.Child("imagePullSecrets").Index(i).Child("name"), "duplicate name %q", r.Name)
		}
		secrets.Insert(r.Name)
	}
	for i, r := range s.ImagePullSecrets {
		if r.Name == "" {
			w.add(spec.Child("imagePullSecrets").Index(i).Child("name"), "invalid empty name %q", r.Name)
		}
	}
}

func (w *warnings) fractions(list corev1.ResourceList, path *field.Path) {
	for _, name := range []corev1.ResourceName{corev1.ResourceMemory, corev1.ResourceEphemeralStorage} {
		if q, ok := list[name]; ok && q.MilliValue()%1000 != 0 {
			w.add(path.Key(string(name)), "fractional byte value %q is invalid, must be an integer", q.String())
		}
	}
}

// variables warns of variables that hide one of the same name, unless their value begins from that one's.
func (w *warnings) variables(vars []corev1.EnvVar, path *field.Path) {
	names := sets.New[string]()
	for i, v := range vars {
		ref := "$(" + v.Name + ")"
		if names.Has(v.Name) && (v.ValueFrom != nil || v.Value == ref || !strings.Contains(v.Value, ref)) {
			w.add(path.Index(i), "hides previous definition of %q, which may be dropped when using apply", v.Name)
		}
		names.Insert(v.Name)
	}
}

// ports warns of ports that overlap or have the same name, in all containers together.
func (w *warnings) ports(s *corev1.PodSpec, spec *field.Path) {
	type block struct {
		at   *field.Path
		port corev1.ContainerPort
	}
	type endpoint struct {
		number   int32
		protocol corev1.Protocol
	}
	taken := map[endpoint][]block{}
	for p, c := range podspec.All(s, spec) {
		for i, port := range c.Ports {
			at := p.Child("ports").Index(i)
			if port.HostIP != "" && port.HostPort == 0 {
				w.add(at, "hostIP set without hostPort: %s", spellPort(port))
			}
			key := endpoint{port.ContainerPort, port.Protocol}
			for _, other := range taken[key] {
				switch o := other.port; {
				case port.HostIP == o.HostIP && port.HostPort == o.HostPort:
					w.add(at, "duplicate port definition with %s", other.at)
				case port.HostPort == 0 || o.HostPort == 0:
					w.add(at, "overlapping port definition with %s", other.at)
				case port.HostPort == o.HostPort && (port.HostIP == "") != (o.HostIP == ""):
					w.add(at, "dangerously ambiguous port definition with %s", other.at)
				}
			}
			taken[key] = append(taken[key], block{at, port})
		}
	}
	names := map[string]*field.Path{}
	for p, c := range podspec.All(s, spec) {
		for i, port := range c.Ports {
			at := p.Child("ports").Index(i)
			if first, ok := names[port.Name]; ok {
				w.add(at, "duplicate port name %q with %s, services and probes that select ports by name will use %s", port.Name, first, first)
			} else if port.Name != "" {
				names[port.Name] = at
			}
		}
	}
}

// spellPort writes a port in the order of fields that upstream's own type has.
func spellPort(p corev1.ContainerPort) string {
	return fmt.Sprintf("{Name:%s HostPort:%d ContainerPort:%d Protocol:%s HostIP:%s}", p.Name, p.HostPort, p.ContainerPort, p.Protocol, p.HostIP)
}
