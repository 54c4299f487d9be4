// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package toleration

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func TestMerge(t *testing.T) {
	const exists, equal = corev1.TolerationOpExists, corev1.TolerationOpEqual
	all := corev1.Toleration{Operator: exists}
	foo := corev1.Toleration{Key: "foo", Operator: exists}
	fooBar := corev1.Toleration{Key: "foo", Operator: equal, Value: "bar"}
	fooBarNoSched := corev1.Toleration{Key: "foo", Operator: equal, Value: "bar", Effect: corev1.TaintEffectNoSchedule}
	fooLong := corev1.Toleration{Key: "foo", Operator: exists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(20))}
	fooShort := corev1.Toleration{Key: "foo", Operator: exists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(10))}
	other := corev1.Toleration{Key: "other", Operator: exists}
	type list = []corev1.Toleration
	for _, tc := range []struct {
		name                string
		first, second, want list
		// allowed: second allows first.
		allowed bool
	}{
		{name: "nothing", allowed: true},
		{name: "equal", first: list{foo}, second: list{foo}, want: list{foo}, allowed: true},
		{name: "different", first: list{foo}, second: list{other}, want: list{foo, other}},
		{name: "wider last", first: list{fooBar, other}, second: list{foo}, want: list{other, foo}},
		{name: "wider first", first: list{foo}, second: list{fooBarNoSched}, want: list{foo}},
		{name: "everything", first: list{foo, other}, second: list{all}, want: list{all}, allowed: true},
		{name: "effect", first: list{fooBarNoSched}, second: list{fooBar}, want: list{fooBar}, allowed: true},
		{name: "longer", first: list{fooShort}, second: list{fooLong}, want: list{fooLong}, allowed: true},
		{name: "shorter", first: list{fooLong}, second: list{fooShort}, want: list{fooLong}},
		{name: "everything allowed", first: list{foo}, want: list{foo}, allowed: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Merge(tc.first, tc.second)); diff != "" {
				t.Errorf("merged (-want +got):\n%s", diff)
			}
			if got := Allowed(tc.first, tc.second); got != tc.allowed {
				t.Errorf("allowed = %v", got)
			}
		})
	}
}
