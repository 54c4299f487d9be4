// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package podsecurity

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/component-base/metrics/legacyregistry"

	"minik8s.io/minik8s/pkg/apiserver/admission/admissiontest"
)

func namespace(name string, labels map[string]string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
}

func TestValidate(t *testing.T) {
	p, err := New(nil)
	if err != nil {
		t.Fatal(err)
	}
	admissiontest.Initialize(t, p,
		namespace("open", nil),
		namespace("baseline", map[string]string{"pod-security.kubernetes.io/enforce": "baseline"}))
	meta := metav1.ObjectMeta{Name: "x"}
	privileged := corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i", SecurityContext: &corev1.SecurityContext{Privileged: new(true)}}}}
	plain := corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}
	for _, tc := range []struct {
		name string
		r    admissiontest.Request
		want string
	}{
		{"privileged where nothing is asked", admissiontest.Request{Resource: "pods", Namespace: "open", Name: "x", Object: &corev1.Pod{ObjectMeta: meta, Spec: privileged}}, ""},
		{"privileged in baseline", admissiontest.Request{Resource: "pods", Namespace: "baseline", Name: "x", Object: &corev1.Pod{ObjectMeta: meta, Spec: privileged}},
			`pods "x" is forbidden: violates PodSecurity "baseline:latest": privileged (container "c" must not set securityContext.privileged=true)`},
		{"plain in baseline", admissiontest.Request{Resource: "pods", Namespace: "baseline", Name: "x", Object: &corev1.Pod{ObjectMeta: meta, Spec: plain}}, ""},
		{"templates are only warned about", admissiontest.Request{Group: "apps", Resource: "deployments", Namespace: "baseline", Name: "x",
			Object: &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{Spec: privileged}}}}, ""},
		{"bad label", admissiontest.Request{Resource: "namespaces", Namespace: "n", Name: "n", Object: namespace("n", map[string]string{"pod-security.kubernetes.io/enforce": "lax"})},
			"must be one of privileged, baseline, restricted"},
		{"other resources", admissiontest.Request{Resource: "configmaps", Namespace: "baseline", Object: &corev1.ConfigMap{}}, ""},
		{"status", admissiontest.Request{Resource: "pods", Subresource: "status", Namespace: "baseline", Name: "x", Operation: admission.Update,
			Object: &corev1.Pod{ObjectMeta: meta, Spec: privileged}, Old: &corev1.Pod{ObjectMeta: meta, Spec: privileged}}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := admissiontest.Run(p, tc.r.Attributes())
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error = %v, want %q", err, tc.want)
			}
		})
	}
}

// TestAudit: the audit log tells of evaluations by upstream's keys.
func TestAudit(t *testing.T) {
	p, err := New(nil)
	if err != nil {
		t.Fatal(err)
	}
	admissiontest.Initialize(t, p, namespace("baseline", map[string]string{"pod-security.kubernetes.io/enforce": "baseline"}))
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	ctx := audit.WithAuditContext(t.Context())
	if err := p.(*Plugin).Validate(ctx, admissiontest.Request{Resource: "pods", Namespace: "baseline", Object: pod}.Attributes(), nil); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"pod-security.kubernetes.io/enforce-policy": "baseline:latest"}
	if diff := cmp.Diff(want, audit.AuditContextFrom(ctx).GetEventAnnotations()); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
}

func TestMetrics(t *testing.T) {
	for range 2 { // two servers in a process
		p, err := New(nil)
		if err != nil {
			t.Fatal(err)
		}
		admissiontest.Initialize(t, p, namespace("measured", map[string]string{"pod-security.kubernetes.io/enforce": "baseline"}))
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Spec: corev1.PodSpec{HostNetwork: true, Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
		if err := admissiontest.Run(p, admissiontest.Request{Resource: "pods", Namespace: "measured", Name: "x", Object: pod}.Attributes()); err == nil {
			t.Fatal("the pod is allowed")
		}
	}
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.Metric {
			for _, l := range m.Label {
				if f.GetName() == "pod_security_evaluations_total" && l.GetName() == "decision" && l.GetValue() == "deny" && m.Counter.GetValue() >= 2 {
					return
				}
			}
		}
	}
	t.Error("pod_security_evaluations_total does not count both refusals")
}
