// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package ownerreferencespermissionenforcement

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"

	"minik8s.io/minik8s/pkg/apiserver/admission/admissiontest"
)

func TestValidate(t *testing.T) {
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(appsv1.SchemeGroupVersion.WithKind("ReplicaSet"), meta.RESTScopeNamespace)
	owner := func(name string, block bool) metav1.OwnerReference {
		return metav1.OwnerReference{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: name, UID: "1", BlockOwnerDeletion: new(block)}
	}
	pod := func(owners ...metav1.OwnerReference) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{OwnerReferences: owners}}
	}
	unknown := owner("rs", true)
	unknown.Kind = "Unknown"
	type rules = admissiontest.Rules
	for _, tc := range []struct {
		name        string
		allowed     rules
		subresource string
		// old is nil on create.
		old, pod runtime.Object
		err      string
	}{
		{name: "no owner", pod: pod()},
		{name: "owner of a new object", pod: pod(owner("rs", false))},
		{name: "other owner, without rights", old: pod(), pod: pod(owner("rs", false)), err: "cannot set an ownerRef on a resource you can't delete"},
		{name: "one owner less, without rights", old: pod(owner("rs", false)), pod: pod(), err: "cannot set an ownerRef on a resource you can't delete"},
		{name: "other owner, of what one may delete", allowed: rules{"delete pods p": true}, old: pod(), pod: pod(owner("rs", false))},
		{name: "the same owner", old: pod(owner("rs", true)), pod: pod(owner("rs", true))},
		{name: "status", subresource: "status", old: pod(), pod: pod(owner("rs", true))},
		{name: "blocking, without rights", pod: pod(owner("rs", true)), err: "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on"},
		{name: "blocking, with rights on the owner", allowed: rules{"update replicasets rs": true}, pod: pod(owner("rs", true))},
		{name: "blocking, with all rights", allowed: rules{"update * *": true}, pod: pod(unknown)},
		{name: "blocking, unknown kind", pod: pod(unknown), err: "cannot find RESTMapping for APIVersion apps/v1 Kind Unknown"},
		{name: "blocks now", allowed: rules{"delete pods p": true}, old: pod(owner("rs", false)), pod: pod(owner("rs", true)), err: "you can't set finalizers on"},
		{name: "blocked before", allowed: rules{"delete pods p": true}, old: pod(owner("rs", true)), pod: pod(owner("other", true))},
		{name: "no object", pod: &metav1.Status{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := &plugin{Handler: admission.NewHandler(admission.Create, admission.Update)}
			p.SetUnconditionalAuthorizer(tc.allowed)
			p.SetRESTMapper(mapper)
			if err := p.ValidateInitialization(); err != nil {
				t.Fatal(err)
			}
			r := admissiontest.Request{Resource: "pods", Subresource: tc.subresource, Name: "p", Object: tc.pod}
			if tc.old != nil {
				r.Operation, r.Old = admission.Update, tc.old
			}
			err := admissiontest.Run(p, r.Attributes())
			if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Errorf("error = %v, want %q", err, tc.err)
			}
		})
	}
}
