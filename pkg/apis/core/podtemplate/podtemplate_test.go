// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package podtemplate

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	featuregatetesting "k8s.io/component-base/featuregate/testing"

	"minik8s.io/minik8s/pkg/apis/feature"
)

func template(mutate func(*corev1.PodTemplateSpec)) *corev1.PodTemplateSpec {
	t := &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	mutate(t)
	SetDefaults(t)
	return t
}

func TestValidate(t *testing.T) {
	runtime := corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}
	tests := []struct {
		name   string
		mutate func(*corev1.PodTemplateSpec)
		want   []string // fields of errors
	}{
		{name: "valid", mutate: func(*corev1.PodTemplateSpec) {}},
		{name: "label", mutate: func(t *corev1.PodTemplateSpec) { t.Labels = map[string]string{"a b": ""} }, want: []string{"template.labels"}},
		{name: "mirror pod without node", mutate: func(t *corev1.PodTemplateSpec) {
			t.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
		}, want: []string{"template.annotations[kubernetes.io/config.mirror]"}},
		{name: "deletion cost", mutate: func(t *corev1.PodTemplateSpec) {
			t.Annotations = map[string]string{corev1.PodDeletionCost: "+1"}
		}, want: []string{"template.annotations[controller.kubernetes.io/pod-deletion-cost]"}},
		{name: "negative deletion cost", mutate: func(t *corev1.PodTemplateSpec) {
			t.Annotations = map[string]string{corev1.PodDeletionCost: "-10"}
		}},
		{name: "tolerations annotation", mutate: func(t *corev1.PodTemplateSpec) {
			t.Annotations = map[string]string{corev1.TolerationsAnnotationKey: `[{"effect":"x","operator":"Exists"}]`}
		}, want: []string{"template.annotations.scheduler.alpha.kubernetes.io/tolerations[0].effect"}},
		{name: "no tolerations in the annotation", mutate: func(t *corev1.PodTemplateSpec) {
			t.Annotations = map[string]string{corev1.TolerationsAnnotationKey: "x"}
		}, want: []string{"template.annotations"}},
		{name: "profile of no container", mutate: func(t *corev1.PodTemplateSpec) {
			t.Annotations = map[string]string{corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix + "x": "runtime/default"}
		}, want: []string{"template.annotations[container.apparmor.security.beta.kubernetes.io/x]"}},
		{name: "profiles differ", mutate: func(t *corev1.PodTemplateSpec) {
			t.Annotations = map[string]string{corev1.SeccompPodAnnotationKey: "unconfined"}
			t.Spec.SecurityContext = &corev1.PodSecurityContext{SeccompProfile: &runtime}
		}, want: []string{"template.spec.securityContext.seccompProfile.type"}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			var got []string
			for _, err := range Validate(template(tc.mutate), nil, field.NewPath("template")) {
				got = append(got, err.Field)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDropDisabled(t *testing.T) {
	tpl := template(func(t *corev1.PodTemplateSpec) {
		t.Annotations = map[string]string{"pod.beta.kubernetes.io/init-containers": "x", "a": "b"}
		t.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{}
	})
	DropDisabled(tpl, nil)
	if diff := cmp.Diff(map[string]string{"a": "b"}, tpl.Annotations); diff != "" || tpl.Spec.SchedulingGroup != nil {
		t.Errorf("left: %v (annotations -want +got:\n%s)", tpl.Spec.SchedulingGroup, diff)
	}
}

func TestDropDisabled_SchedulingGroup(t *testing.T) {
	with := func(name string) *corev1.PodTemplateSpec {
		return &corev1.PodTemplateSpec{Spec: corev1.PodSpec{SchedulingGroup: &corev1.PodSchedulingGroup{PodGroupName: &name}}}
	}
	for _, tc := range []struct {
		name string
		on   bool
		old  *corev1.PodTemplateSpec
		kept bool
	}{
		{"new", false, nil, false},
		{"of one that has none", false, &corev1.PodTemplateSpec{}, false},
		{"of one that has one", false, with("a"), true},
		{"gate on", true, nil, true},
		{"gate on, of one that has none", true, &corev1.PodTemplateSpec{}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			featuregatetesting.SetFeatureGateDuringTest(t, feature.Gates, feature.GenericWorkload, tc.on)
			tpl := with("b")
			DropDisabled(tpl, tc.old)
			if kept := tpl.Spec.SchedulingGroup != nil; kept != tc.kept {
				t.Errorf("kept: %t, want %t", kept, tc.kept)
			}
		})
	}
}

func TestWarnings(t *testing.T) {
	negative := int64(-1)
	got := Warnings(&metav1.ObjectMeta{Annotations: map[string]string{
		corev1.SeccompPodAnnotationKey: "unconfined", "security.alpha.kubernetes.io/sysctls": "a=b",
	}}, &corev1.PodSpec{
		NodeSelector:                  map[string]string{"beta.kubernetes.io/os": "linux"},
		TerminationGracePeriodSeconds: &negative,
		TopologySpreadConstraints:     []corev1.TopologySpreadConstraint{{}},
		Affinity: &corev1.Affinity{
			NodeAffinity: &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{
				{Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "k", Values: []string{"-"}}}}},
			}},
			PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{}}},
		},
		HostAliases:      []corev1.HostAlias{{IP: "10.0.0.1"}, {IP: "10.0.0.1"}},
		ImagePullSecrets: []corev1.LocalObjectReference{{}},
		Volumes: []corev1.Volume{
			{Name: "old", VolumeSource: corev1.VolumeSource{GitRepo: &corev1.GitRepoVolumeSource{}}},
			{Name: "keys", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s", Items: []corev1.KeyToPath{{Path: "a"}, {Path: "a/b"}, {Path: "ab"}}}}},
			{Name: "all", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
				{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "t/"}}, {ConfigMap: &corev1.ConfigMapProjection{Items: []corev1.KeyToPath{{Path: "t"}}}},
			}}}},
		},
		Containers: []corev1.Container{{
			Env: []corev1.EnvVar{{Name: "A"}, {Name: "A"}, {Name: "A", Value: "$(A):x"}},
			Ports: []corev1.ContainerPort{
				{Name: "p", ContainerPort: 80}, {ContainerPort: 80}, {Name: "p", ContainerPort: 80, HostPort: 8080},
				{ContainerPort: 80, HostPort: 8080, HostIP: "10.0.0.1"}, {ContainerPort: 81, HostIP: "10.0.0.1"},
			},
		}},
	}, nil)
	want := []string{
		`spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use "kubernetes.io/os" instead`,
		`spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference.matchExpressions[0].values[0]: - is invalid, ` +
			validation.IsValidLabelValue("-")[0],
		`spec.topologySpreadConstraints[0].labelSelector: a null labelSelector results in matching no pod`,
		`metadata.annotations[security.alpha.kubernetes.io/sysctls]: non-functional in v1.11+; use the "sysctls" field instead`,
		`spec.volumes[0].gitRepo: deprecated in v1.11, and disabled by default in v1.33+`,
		`volume "keys" (Secret "s"): overlapping paths: "a/b" with "a"`,
		`volume "all" (Projected): overlapping paths: "t" (ConfigMap "") with "t" (ServiceAccountToken)`,
		`spec.hostAliases[1].ip: duplicate ip "10.0.0.1"`,
		`spec.imagePullSecrets[0].name: invalid empty name ""`,
		`metadata.annotations[seccomp.security.alpha.kubernetes.io/pod]: non-functional in v1.27+; use the "seccompProfile" field instead`,
		`spec.containers[0].env[1]: hides previous definition of "A", which may be dropped when using apply`,
		`spec.containers[0].ports[1]: duplicate port definition with spec.containers[0].ports[0]`,
		`spec.containers[0].ports[2]: overlapping port definition with spec.containers[0].ports[0]`,
		`spec.containers[0].ports[2]: overlapping port definition with spec.containers[0].ports[1]`,
		`spec.containers[0].ports[3]: overlapping port definition with spec.containers[0].ports[0]`,
		`spec.containers[0].ports[3]: overlapping port definition with spec.containers[0].ports[1]`,
		`spec.containers[0].ports[3]: dangerously ambiguous port definition with spec.containers[0].ports[2]`,
		`spec.containers[0].ports[4]: hostIP set without hostPort: {Name: HostPort:0 ContainerPort:81 Protocol: HostIP:10.0.0.1}`,
		`spec.containers[0].ports[2]: duplicate port name "p" with spec.containers[0].ports[0], services and probes that select ports by name will use spec.containers[0].ports[0]`,
		`spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1`,
		`spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector: a null labelSelector results in matching no pod`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}
