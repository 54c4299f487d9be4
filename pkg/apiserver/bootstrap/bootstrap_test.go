// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package bootstrap

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

func namespace(name string) runtime.Object {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func priorityClass(name string) runtime.Object {
	return &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// TestHooks_Refused has a policy of users' that refuses whatever is to be made, as one whose webhook does not run yet. Of what is there nothing
// is to be made, and one that is refused is no reason not to make the others.
func TestHooks_Refused(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		run   func(context.Context, kubernetes.Interface, Config) error
		there []runtime.Object
		fails bool
		asked []string // what was tried to be made
	}{
		{"namespaces are there", namespaces, []runtime.Object{namespace("kube-system"), namespace("kube-public"), namespace("kube-node-lease"), namespace("default")}, false, nil},
		{"two are not", namespaces, []runtime.Object{namespace("kube-system"), namespace("default")}, true, []string{"kube-public", "kube-node-lease"}},
		{"classes are there", priorityClasses, []runtime.Object{priorityClass("system-node-critical"), priorityClass("system-cluster-critical")}, false, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			client := fake.NewClientset(tc.there...)
			var asked []string
			client.PrependReactor("create", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
				asked = append(asked, action.(clienttesting.CreateAction).GetObject().(metav1.Object).GetName())
				return true, nil, errors.New("failed calling webhook")
			})
			if err := tc.run(t.Context(), client, Config{}); (err != nil) != tc.fails {
				t.Errorf("the error is %v, want one: %t", err, tc.fails)
			}
			if !slices.Equal(asked, tc.asked) {
				t.Errorf("tried to make %q, want %q", asked, tc.asked)
			}
		})
	}
}

// TestRun_Refused: a server does not end for the want of what it makes again later.
func TestRun_Refused(t *testing.T) {
	for _, tc := range []struct {
		name  string
		every time.Duration
		fails bool
	}{{"once", 0, true}, {"again", time.Minute, false}} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := Hook{Name: "hook", Every: tc.every, Run: func(context.Context, kubernetes.Interface, Config) error { return errors.New("refused") }}
				if err := Run(t.Context(), h, nil, Config{}); (err != nil) != tc.fails {
					t.Errorf("the error is %v, want one: %t", err, tc.fails)
				}
				ended, cancel := context.WithCancel(t.Context())
				cancel()
				if err := Run(ended, h, nil, Config{}); err == nil {
					t.Error("the end of the server is not told")
				}
			})
		})
	}
}
