// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package bootstrap

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
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
		{"one class is not", priorityClasses, []runtime.Object{priorityClass("system-cluster-critical")}, true, []string{"system-node-critical"}},
		{"no class is", priorityClasses, nil, true, []string{"system-node-critical", "system-cluster-critical"}},
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

// TestStart_Refused: a server serves for the want of what is refused, which is made once it is not any more.
func TestStart_Refused(t *testing.T) {
	// One of the handlers of errors sleeps by the time at which the process began, which a bubble is far from.
	all := utilruntime.ErrorHandlers
	utilruntime.ErrorHandlers = all[:1]
	defer func() { utilruntime.ErrorHandlers = all }()
	for _, tc := range []struct {
		name  string
		every time.Duration
		runs  int // within an hour after the first that succeeds
	}{{"once", 0, 1}, {"again", 20 * time.Minute, 4}} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				var refused, made atomic.Int32
				until := time.Now().Add(10 * time.Minute)
				h := Hook{Name: "hook", Every: tc.every, Run: func(context.Context, kubernetes.Interface, Config) error {
					if time.Now().Before(until) {
						refused.Add(1)
						return errors.New("refused")
					}
					made.Add(1)
					return nil
				}}
				begin := time.Now()
				if err := Start(ctx, h, nil, Config{}); err != nil || time.Since(begin) > time.Minute {
					t.Errorf("the start takes %s and ends with: %v", time.Since(begin), err)
				}
				for made.Load() == 0 && time.Since(begin) < time.Hour {
					time.Sleep(time.Second) //nolint:forbidigo // in a bubble, where it costs nothing
				}
				time.Sleep(time.Hour + time.Second) //nolint:forbidigo // in a bubble, where it costs nothing
				if got := int(made.Load()); got != tc.runs {
					t.Errorf("it ran %d times, after %d that were refused, want %d", got, refused.Load(), tc.runs)
				}
				cancel()
				if err := Start(ctx, h, nil, Config{}); err == nil {
					t.Error("the end of the server is not told")
				}
			})
		})
	}
}
