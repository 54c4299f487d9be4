// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package defaulttolerationseconds

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"minik8s.io/minik8s/pkg/apiserver/admission/admissiontest"
)

func TestAdmit(t *testing.T) {
	def := func(key string) corev1.Toleration {
		return corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(300))}
	}
	own := corev1.Toleration{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(0))}
	all := corev1.Toleration{Operator: corev1.TolerationOpExists}
	schedule := corev1.Toleration{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule}
	for _, tc := range []struct {
		name     string
		in, want []corev1.Toleration
		sub      string
	}{
		{name: "none", want: []corev1.Toleration{def(corev1.TaintNodeNotReady), def(corev1.TaintNodeUnreachable)}},
		{name: "one of its own", in: []corev1.Toleration{own}, want: []corev1.Toleration{own, def(corev1.TaintNodeUnreachable)}},
		{name: "everything", in: []corev1.Toleration{all}, want: []corev1.Toleration{all}},
		{name: "another effect", in: []corev1.Toleration{schedule}, want: []corev1.Toleration{schedule, def(corev1.TaintNodeNotReady), def(corev1.TaintNodeUnreachable)}},
		{name: "subresource", sub: "status"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := &corev1.Pod{Spec: corev1.PodSpec{Tolerations: tc.in}}
			if err := admissiontest.Run(New(), admissiontest.Request{Resource: "pods", Subresource: tc.sub, Object: pod}.Attributes()); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, pod.Spec.Tolerations); diff != "" {
				t.Errorf("tolerations (-want +got):\n%s", diff)
			}
		})
	}
	p, pod := New(), &corev1.Pod{}
	Seconds{NotReady: 5, Unreachable: 0}.Initialize(p)
	if err := admissiontest.Run(p, admissiontest.Request{Resource: "pods", Object: pod}.Attributes()); err != nil {
		t.Fatal(err)
	}
	want := []corev1.Toleration{def(corev1.TaintNodeNotReady), def(corev1.TaintNodeUnreachable)}
	*want[0].TolerationSeconds, *want[1].TolerationSeconds = 5, 0
	if diff := cmp.Diff(want, pod.Spec.Tolerations); diff != "" {
		t.Errorf("tolerations of other seconds (-want +got):\n%s", diff)
	}
	if err := admissiontest.Run(New(), admissiontest.Request{Resource: "pods", Object: &corev1.Node{}}.Attributes()); err == nil {
		t.Error("an object of another type passes")
	}
}
