// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "minik8s.io/minik8s/pkg/addons/apis/functions/v1alpha1"
)

func TestTransient(t *testing.T) {
	ending := apierrors.NewForbidden(corev1.Resource("pods"), "p", errors.New("the namespace is being terminated"))
	other := apierrors.NewForbidden(corev1.Resource("pods"), "p", errors.New("exceeded quota"))
	ending.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	for _, tc := range []struct {
		name string
		err  error
		want bool
	}{
		{"none", nil, false},
		{"the user's", fmt.Errorf("reading: %w", &userError{errors.New("no such ConfigMap")}), false},
		{"of a namespace that ends", errors.Join(fmt.Errorf("making: %w", ending)), false},
		{"refused otherwise", errors.Join(fmt.Errorf("making: %w", other)), true},
	} {
		if got := transient(tc.err) != nil; got != tc.want {
			t.Errorf("%s: transient %v, want %v", tc.name, got, tc.want)
		}
	}
}

// unsure fails the first time that it is asked.
type unsure struct {
	client.Reader
	asked int
}

func (u *unsure) Get(_ context.Context, _ client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	if u.asked++; u.asked == 1 {
		return apierrors.NewServiceUnavailable("away")
	}
	obj.(*corev1.ConfigMap).Data = map[string]string{"image.python": "mine"}
	return nil
}

// An API server that is away for a moment does not leave the settings unread until somebody changes them.
func TestReadSettings_Again(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &Reconciler{live: &unsure{}, lifetime: t.Context()}
		r.pool = newPool(nil, r)
		r.readSettings(t.Context(), &corev1.ConfigMap{})
		<-time.After(settingsRetry + time.Second)
		synctest.Wait()
		if s := r.settings.Load(); s == nil || (*s)[v1alpha1.Python].Image != "mine" {
			t.Errorf("the settings are %v", s)
		}
	})
}

func TestAgain(t *testing.T) {
	for _, tc := range []struct {
		name     string
		failures int
		trigger  time.Duration
		want     time.Duration
	}{
		{"at first", 1, 0, 100 * time.Millisecond},
		{"then later", 4, 0, 800 * time.Millisecond},
		{"at last", 10, 0, 30 * time.Second},
		{"for a day", 3000, 0, 30 * time.Second},
		{"a trigger sooner", 3000, 7 * time.Second, 7 * time.Second},
		{"a trigger that is late", 3000, time.Millisecond, 100 * time.Millisecond},
		{"a trigger later", 2, time.Hour, 200 * time.Millisecond},
	} {
		if got := again(tc.failures, tc.trigger); got != tc.want {
			t.Errorf("%s: %s, want %s", tc.name, got, tc.want)
		}
	}
}

func TestOlder(t *testing.T) {
	keep := func(name, version string, second int64) corev1.ConfigMap {
		return corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: version, CreationTimestamp: metav1.Unix(second, 0)}}
	}
	revisions := []corev1.ConfigMap{keep("c", "9", 2), keep("a", "10", 2), keep("b", "8", 2), keep("z", "11", 1), keep("y", "12", 3)}
	var names string
	for _, cm := range slices.SortedFunc(slices.Values(revisions), older) {
		names += cm.Name
	}
	if names != "zbcay" {
		t.Errorf("the order is %s, want zbcay: by the second, then by what was made before", names)
	}
}
