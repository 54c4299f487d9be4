// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package revision

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "minik8s.io/minik8s/pkg/addons/apis/functions/v1alpha1"
)

func spec() *v1alpha1.FunctionSpec {
	return &v1alpha1.FunctionSpec{Runtime: v1alpha1.Python, Handler: "func.main", Source: v1alpha1.Source{Inline: "x"}, TimeoutSeconds: 60, Concurrency: 10}
}

var code = map[string][]byte{"func.py": []byte("x"), "lib/a.py": {0, 1, 2}}

func TestNew(t *testing.T) {
	t.Parallel()
	base, err := New(spec(), code)
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name   string
		change func(*v1alpha1.FunctionSpec) map[string][]byte
		same   bool
	}{
		{"nothing", func(*v1alpha1.FunctionSpec) map[string][]byte { return code }, true},
		{"concurrency", func(s *v1alpha1.FunctionSpec) map[string][]byte { s.Concurrency = 1; return code }, true},
		{"scale", func(s *v1alpha1.FunctionSpec) map[string][]byte { s.MinScale = 1; return code }, true},
		{"code", func(*v1alpha1.FunctionSpec) map[string][]byte { return map[string][]byte{"func.py": []byte("y")} }, false},
		{"handler", func(s *v1alpha1.FunctionSpec) map[string][]byte { s.Handler = "func.other"; return code }, false},
		{"environment", func(s *v1alpha1.FunctionSpec) map[string][]byte { s.Env = []corev1.EnvVar{{Name: "A"}}; return code }, false},
		{"time-out", func(s *v1alpha1.FunctionSpec) map[string][]byte { s.TimeoutSeconds = 1; return code }, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := spec()
			got, err := New(s, test.change(s))
			if err != nil || (got.Name == base.Name) != test.same {
				t.Errorf("got %s, %v; the one before is %s", got.Name, err, base.Name)
			}
		})
	}
	for _, at := range []string{"/etc/passwd", "../x", "a/../../x", "", "."} {
		if _, err := New(spec(), map[string][]byte{at: nil}); err == nil {
			t.Errorf("the path %q is taken", at)
		}
	}
	if _, err := New(spec(), map[string][]byte{"a": make([]byte, MaxBytes)}); err == nil {
		t.Error("code that is too large is taken")
	}
}

func TestKeepAndRead(t *testing.T) {
	t.Parallel()
	s := spec()
	s.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")}
	want, err := New(s, code)
	if err != nil {
		t.Fatal(err)
	}
	fn := &v1alpha1.Function{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "f", UID: "u"}}
	cm, err := want.Keep(fn)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Read(cm)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if _, err := Read(&corev1.ConfigMap{}); err == nil {
		t.Error("any ConfigMap is one of a revision")
	}
}

func TestFromConfigMap(t *testing.T) {
	t.Parallel()
	cm := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "c", Annotations: map[string]string{AnnotationPaths: `{"half":"lib/half.py"}`}},
		Data:       map[string]string{"func.py": "x"}, BinaryData: map[string][]byte{"half": []byte("y")},
	}
	got, err := FromConfigMap(cm)
	if diff := cmp.Diff(map[string][]byte{"func.py": []byte("x"), "lib/half.py": []byte("y")}, got); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
	if _, err := FromConfigMap(&corev1.ConfigMap{}); err == nil {
		t.Error("a ConfigMap without files is code")
	}
	if diff := cmp.Diff(map[string][]byte{"a/b.js": []byte("t")}, Inline(v1alpha1.Node, "a.b.main", "t")); diff != "" {
		t.Error(diff)
	}
}

func TestPoolable(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		t    Template
		want bool
	}{
		{"plain", Template{}, true},
		{"environment", Template{Env: []corev1.EnvVar{{Name: "A", Value: "b"}}}, true},
		{"environment of others", Template{Env: []corev1.EnvVar{{Name: "A", Value: "$(B)"}}}, false},
		{"a secret", Template{Env: []corev1.EnvVar{{Name: "A", ValueFrom: &corev1.EnvVarSource{}}}}, false},
		{"secrets", Template{EnvFrom: []corev1.EnvFromSource{{}}}, false},
		{"an image", Template{Image: "i"}, false},
		{"an account", Template{ServiceAccountName: "s"}, false},
		{"limits", Template{Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"cpu": resource.MustParse("1")}}}, false},
	}
	for _, test := range tests {
		if got := test.t.Poolable(); got != test.want {
			t.Errorf("%s: got %v, want %v", test.name, got, test.want)
		}
	}
}
