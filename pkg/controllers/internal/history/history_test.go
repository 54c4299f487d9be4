// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"minik8s.io/minik8s/pkg/controllers/controllertest"
	"minik8s.io/minik8s/pkg/controllers/internal/pods"
)

func template(image string) *corev1.PodTemplateSpec {
	return &corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: image}}},
	}
}

func patch(t *testing.T, image string) []byte {
	t.Helper()
	data, err := Patch(template(image))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func revision(name string, number int64, data []byte) *appsv1.ControllerRevision {
	return &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name), Labels: map[string]string{"app": "web", HashLabel: name}},
		Data:       runtime.RawExtension{Raw: data}, Revision: number,
	}
}

func names(revisions []*appsv1.ControllerRevision) []string {
	var list []string
	for _, r := range revisions {
		list = append(list, r.Name)
	}
	return list
}

// kubectl rollout undo applies the data of a revision to the object.
func TestPatch_RestoresTheTemplate(t *testing.T) {
	current := &appsv1.DaemonSet{Spec: appsv1.DaemonSetSpec{MinReadySeconds: 7, Template: *template("new")}}
	current.Spec.Template.Spec.NodeSelector = map[string]string{"added": "later"}
	before, err := json.Marshal(current)
	if err != nil {
		t.Fatal(err)
	}
	after, err := strategicpatch.StrategicMergePatch(before, patch(t, "old"), appsv1.DaemonSet{})
	if err != nil {
		t.Fatal(err)
	}
	var got appsv1.DaemonSet
	if err := json.Unmarshal(after, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(appsv1.DaemonSetSpec{MinReadySeconds: 7, Template: *template("old")}, got.Spec); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
}

func TestSplit(t *testing.T) {
	now, old := patch(t, "now"), patch(t, "old")
	tests := []struct {
		name       string
		all        []*appsv1.ControllerRevision
		current    string
		duplicates []string
		old        []string
		next       int64
	}{
		{name: "first", next: 1},
		{name: "new template", all: []*appsv1.ControllerRevision{revision("a", 4, old)}, old: []string{"a"}, next: 5},
		{name: "known template", all: []*appsv1.ControllerRevision{revision("a", 1, now), revision("b", 2, old)}, current: "a", old: []string{"b"}, next: 3},
		{name: "duplicates", all: []*appsv1.ControllerRevision{revision("a", 1, now), revision("b", 2, now)}, current: "b", duplicates: []string{"a"}, next: 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, next := Split(tt.all, now)
			current := ""
			if got.Current != nil {
				current = got.Current.Name
			}
			if current != tt.current || next != tt.next {
				t.Errorf("current %q, next number %d", current, next)
			}
			if diff := cmp.Diff([][]string{tt.duplicates, tt.old}, [][]string{names(got.Duplicates), names(got.Old)}); diff != "" {
				t.Errorf("duplicates and old ones (-want +got):\n%s", diff)
			}
		})
	}
}

func TestExpired(t *testing.T) {
	old := []*appsv1.ControllerRevision{revision("c", 3, nil), revision("a", 1, nil), revision("b", 2, nil)}
	tests := []struct {
		name  string
		limit int
		live  map[string]bool
		want  []string
	}{
		{name: "room for all", limit: 3},
		{name: "oldest first", limit: 1, want: []string{"a", "b"}},
		{name: "in use", limit: 1, live: map[string]bool{"a": true}, want: []string{"b", "c"}},
		{name: "none kept", limit: 0, want: []string{"a", "b", "c"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, names(Expired(old, tt.limit, tt.live))); diff != "" {
				t.Errorf("expired (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSync(t *testing.T) {
	ds := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "ds", Annotations: map[string]string{"kubernetes.io/change-cause": "why"}}}
	kind := appsv1.SchemeGroupVersion.WithKind("DaemonSet")
	workload := Workload{Object: ds, Kind: kind, Selector: labels.SelectorFromSet(labels.Set{"app": "web"}), Template: template("now")}
	name := "web-" + pods.TemplateHash(workload.Template, nil)
	owned := func(r *appsv1.ControllerRevision, uid types.UID) *appsv1.ControllerRevision {
		r.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(&metav1.ObjectMeta{Name: "web", UID: uid}, kind)}
		return r
	}
	unlabeled := owned(revision("web-old", 1, patch(t, "old")), "ds")
	delete(unlabeled.Labels, HashLabel)
	tests := []struct {
		name     string
		existing []client.Object
		want     string
		number   int64
		collides bool
	}{
		{name: "new", want: name, number: 1},
		{name: "next", existing: []client.Object{owned(revision("old", 3, patch(t, "old")), "ds")}, want: name, number: 4},
		{name: "back again", existing: []client.Object{owned(revision("a", 1, patch(t, "now")), "ds"), owned(revision("b", 2, patch(t, "old")), "ds")}, want: "a", number: 3},
		{name: "adopted", existing: []client.Object{revision("orphan", 2, patch(t, "now"))}, want: "orphan", number: 2},
		{name: "without label", existing: []client.Object{unlabeled}, want: name, number: 2},
		{name: "collision", existing: []client.Object{owned(revision(name, 1, patch(t, "foreign")), "other")}, collides: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := controllertest.NewClientBuilder().WithObjects(append(tt.existing, ds.DeepCopy())...).Build()
			got, err := Keeper{Client: c, Live: c}.Sync(t.Context(), workload)
			if tt.collides {
				if _, ok := errors.AsType[*CollisionError](err); !ok {
					t.Errorf("error %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got.Current.Name != tt.want || got.Current.Revision != tt.number || !metav1.IsControlledBy(got.Current, ds) {
				t.Errorf("current is %q, number %d, owners %v", got.Current.Name, got.Current.Revision, got.Current.OwnerReferences)
			}
			for _, r := range append(got.Old, got.Current) {
				if r.Labels[HashLabel] == "" {
					t.Errorf("%q has no hash", r.Name)
				}
			}
		})
	}
}

func TestTemplate_ReversesPatch(t *testing.T) {
	got, err := Template(patch(t, "a"))
	if diff := cmp.Diff(template("a"), got); err != nil || diff != "" {
		t.Errorf("error %v (-want +got):\n%s", err, diff)
	}
	for _, data := range []string{"", "{}", "[]"} {
		if _, err := Template([]byte(data)); err == nil {
			t.Errorf("%q: no error", data)
		}
	}
}
