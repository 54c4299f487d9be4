// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package defaultbinder

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	fwk "k8s.io/kube-scheduler/framework"

	pt "minik8s.io/minik8s/pkg/scheduler/plugintest"
)

func TestSuite(t *testing.T) { pt.Run(t, Name, New) }

func TestBind(t *testing.T) {
	for _, tc := range []struct {
		name string
		err  error
		want fwk.Code
	}{
		{"bound", nil, fwk.Success},
		{"refused", errors.New("refused"), fwk.Error},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := pt.NewHandle(nil)
			var got *corev1.Binding
			h.Fake.PrependReactor("create", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
				got = a.(clienttesting.CreateAction).GetObject().(*corev1.Binding)
				return true, got, tc.err
			})
			p := pt.NewPlugin(t, h, New).(fwk.BindPlugin)
			if s := p.Bind(t.Context(), nil, pt.Pod("p"), "n"); s.Code() != tc.want {
				t.Errorf("status %v, want %v", s.Code(), tc.want)
			}
			if got == nil || got.Name != "p" || got.UID != "p" || got.Target.Name != "n" {
				t.Errorf("binding %v does not name the pod, its UID and the node", got)
			}
		})
	}
}
