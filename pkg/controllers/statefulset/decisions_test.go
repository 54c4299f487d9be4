// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package statefulset

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"minik8s.io/minik8s/pkg/controllers/internal/history"
)

func TestNewPod(t *testing.T) {
	s := set(3, claims("Retain", "Retain"))
	tmpl := template("new")
	tmpl.Spec.Volumes = []corev1.Volume{{Name: "scratch"}, {Name: "data"}}
	p := NewPod(s, &tmpl, "web-abc", 2)
	want := map[string]string{
		"app": "web", "statefulset.kubernetes.io/pod-name": "web-2", "apps.kubernetes.io/pod-index": "2", "controller-revision-hash": "web-abc",
	}
	if diff := cmp.Diff(want, p.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if p.Name != "web-2" || p.GenerateName != "web-" || p.Spec.Hostname != "web-2" || p.Spec.Subdomain != "nginx" {
		t.Errorf("name %q, generated from %q, host %q.%q", p.Name, p.GenerateName, p.Spec.Hostname, p.Spec.Subdomain)
	}
	if len(p.Spec.Volumes) != 2 || p.Spec.Volumes[0].PersistentVolumeClaim.ClaimName != "data-web-2" || p.Spec.Volumes[1].Name != "scratch" {
		t.Errorf("volumes %v", p.Spec.Volumes)
	}
	if !isIdentified(p) || !hasClaims(s, p) {
		t.Error("the pod would be changed at once")
	}
	if diff := cmp.Diff(map[string]string{"app": "web", "own": "label"}, claimsOf(s, p)[0].Labels); diff != "" {
		t.Errorf("labels of the claim (-want +got):\n%s", diff)
	}
}

func TestMember(t *testing.T) {
	for name, want := range map[string]string{
		"web-0": "web 0", "web-10": "web 10", "a-1-2": "a-1 2", "web": " -1", "web-x": " -1", "web-99999999999": "web -1", "-3": " 3",
	} {
		set, ordinal := member(name)
		if got := fmt.Sprint(set, " ", ordinal); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
}

func TestUsesClaim(t *testing.T) {
	s := set(3, claims("Retain", "Retain"))
	for name, want := range map[string]bool{"data-web-0": true, "data-web-12": true, "data-web": false, "data-web-x": false, "logs-web-0": false, "data-other-0": false} {
		if got := UsesClaim(s, name); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// describe writes steps as "name action action".
func describe(steps []Step) string {
	names := map[Action]string{Create: "create", Provide: "provide", Settle: "settle", Release: "release", Delete: "delete"}
	var all []string
	for _, step := range steps {
		text := step.Pod.Name
		for _, a := range step.Actions {
			text += " " + names[a]
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

func TestManage(t *testing.T) {
	slow := func(s *appsv1.StatefulSet) { s.Spec.MinReadySeconds = 30 }
	pending := phase(corev1.PodPending)
	tests := []struct {
		name                string
		set                 *appsv1.StatefulSet
		pods                []*corev1.Pod
		replicas, condemned string
		complete            bool
	}{
		{name: "none yet", set: set(3), replicas: "web-0 create"},
		{name: "none yet, parallel", set: set(3, parallel), replicas: "web-0 create, web-1 create, web-2 create", complete: true},
		{name: "the first is pending", set: set(3), pods: []*corev1.Pod{pod(0, "new", pending)}, replicas: "web-0 provide release"},
		{name: "the first is pending, parallel", set: set(2, parallel), pods: []*corev1.Pod{pod(0, "new", pending)}, replicas: "web-0 provide settle, web-1 create", complete: true},
		{name: "the first is not ready", set: set(3), pods: []*corev1.Pod{pod(0, "new", unready)}},
		{name: "the first is not ready for long", set: set(3, slow), pods: []*corev1.Pod{pod(0, "new", readySince(time.Second))}},
		{name: "the first is going", set: set(3), pods: []*corev1.Pod{pod(0, "new", deleted)}},
		{name: "the first is ready", set: set(3), pods: []*corev1.Pod{pod(0, "new")}, replicas: "web-0 settle, web-1 create"},
		{name: "a gap", set: set(3), pods: []*corev1.Pod{pod(0, "new"), pod(2, "new")}, replicas: "web-0 settle, web-1 create"},
		{name: "failed", set: set(2), pods: []*corev1.Pod{pod(0, "new", phase(corev1.PodFailed)), pod(1, "new")}, replicas: "web-0 delete"},
		{name: "failed and going", set: set(2), pods: []*corev1.Pod{pod(0, "new", phase(corev1.PodFailed), deleted)}},
		{name: "ended, parallel", set: set(2, parallel), pods: []*corev1.Pod{pod(0, "new", phase(corev1.PodSucceeded)), pod(1, "new", phase(corev1.PodFailed), deleted)}, replicas: "web-0 delete", complete: true},
		{name: "all there", set: set(2), pods: []*corev1.Pod{pod(0, "new"), pod(1, "new")}, replicas: "web-0 settle, web-1 settle", complete: true},
		{name: "two too many", set: set(1), pods: []*corev1.Pod{pod(0, "new"), pod(1, "new"), pod(2, "new")}, replicas: "web-0 settle", condemned: "web-2 release delete, web-1 release"},
		{name: "two too many, parallel", set: set(1, parallel), pods: []*corev1.Pod{pod(0, "new"), pod(1, "new"), pod(2, "new", deleted)}, replicas: "web-0 settle", condemned: "web-2 release, web-1 release delete", complete: true},
		{name: "too many, one going", set: set(0), pods: []*corev1.Pod{pod(0, "new"), pod(1, "new", deleted)}, condemned: "web-1 release, web-0 release"},
		{name: "too many, the highest broken", set: set(0), pods: []*corev1.Pod{pod(0, "new"), pod(1, "new", unready)}, condemned: "web-1 release delete, web-0 release"},
		{name: "too many, both broken", set: set(0), pods: []*corev1.Pod{pod(0, "new", unready), pod(1, "new", unready)}, condemned: "web-1 release, web-0 release"},
		{name: "too many, one wanted broken", set: set(1), pods: []*corev1.Pod{pod(0, "new", unready), pod(1, "new")}},
		{name: "moved up", set: set(1, start(1)), pods: []*corev1.Pod{pod(0, "new"), pod(1, "new")}, replicas: "web-1 settle", condemned: "web-0 release delete"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			revision := Revision{Name: "web-new", Template: new(template("new"))}
			plan := Manage(tt.set, Arrange(tt.set, Revisions{Current: revision, Update: revision}, tt.pods), now)
			got := []any{describe(plan.Replicas), describe(plan.Condemned), plan.Complete}
			if diff := cmp.Diff([]any{tt.replicas, tt.condemned, tt.complete}, got); diff != "" {
				t.Errorf("replicas, condemned, complete (-want +got):\n%s", diff)
			}
		})
	}
}

// The template of a new pod depends on its place relative to the partition.
func TestArrange_Templates(t *testing.T) {
	bare := func(s *appsv1.StatefulSet) {
		s.Spec.UpdateStrategy.RollingUpdate = nil
		s.Status.CurrentReplicas = 2
	}
	for name, tt := range map[string]struct {
		set  *appsv1.StatefulSet
		want string
	}{
		"no partition":               {set(3), "new new new"},
		"partition":                  {set(3, partition(1)), "old new new"},
		"partition with start":       {set(3, partition(1), start(4)), "old new new"},
		"partition above all":        {set(3, partition(9)), "old old old"},
		"without parameters":         {set(3, bare), "old old new"},
		"on delete":                  {set(3, onDelete), "new new new"},
		"on delete, formerly rolled": {set(3, onDelete, func(s *appsv1.StatefulSet) { s.Status.CurrentReplicas = 3 }), "new new new"},
	} {
		t.Run(name, func(t *testing.T) {
			revisions := Revisions{Current: Revision{"web-old", new(template("old"))}, Update: Revision{"web-new", new(template("new"))}}
			var got []string
			for _, p := range Arrange(tt.set, revisions, nil).Replicas {
				got = append(got, p.Spec.Containers[0].Image)
				if p.Labels[appsv1.StatefulSetRevisionLabel] != "web-"+p.Spec.Containers[0].Image {
					t.Errorf("labels %v", p.Labels)
				}
			}
			if strings.Join(got, " ") != tt.want {
				t.Errorf("got %v, want %s", got, tt.want)
			}
		})
	}
}

func TestRoll(t *testing.T) {
	all := func(pods ...*corev1.Pod) []*corev1.Pod { return pods }
	two, half := unavailable(intstr.FromInt32(2)), unavailable(intstr.FromString("50%"))
	tests := []struct {
		name string
		set  *appsv1.StatefulSet
		pods []*corev1.Pod
		want string
	}{
		{"the highest first", set(3), all(pod(0, "old"), pod(1, "old"), pod(2, "old")), "web-2"},
		{"the next", set(3), all(pod(0, "old"), pod(1, "old"), pod(2, "new")), "web-1"},
		{"done", set(2), all(pod(0, "new"), pod(1, "new")), ""},
		{"one is away", set(3), all(pod(0, "old"), pod(1, "old"), pod(2, "old", deleted)), ""},
		{"down to the partition", set(3, partition(2)), all(pod(0, "old"), pod(1, "old"), pod(2, "new")), ""},
		{"partition above all", set(2, partition(5)), all(pod(0, "old"), pod(1, "old")), ""},
		{"on delete", set(2, onDelete), all(pod(0, "old"), pod(1, "old")), ""},
		{"two at a time", set(3, two), all(pod(0, "old"), pod(1, "old"), pod(2, "old")), "web-2 web-1"},
		{"half, rounded down", set(3, half), all(pod(0, "old"), pod(1, "old"), pod(2, "old")), "web-2"},
		{"half of one is one", set(1, half), all(pod(0, "old")), "web-0"},
		{"parallel", set(3, parallel), all(pod(0, "old"), pod(1, "old"), pod(2, "old")), "web-2"},
		{"parallel, broken ones cost nothing", set(4, parallel), all(pod(0, "old", unready), pod(1, "old"), pod(2, "old", unready), pod(3, "old")), "web-2 web-0"},
		{"parallel, broken and sound ones", set(4, parallel, two), all(pod(0, "old"), pod(1, "old"), pod(2, "old", unready), pod(3, "old")), "web-2 web-3"},
		{"parallel, broken below the partition", set(2, parallel, partition(1)), all(pod(0, "old", unready), pod(1, "old")), ""},
		{"parallel, new ones are not there yet", set(2, parallel, two), all(pod(0, "old"), pod(1, "new", func(p *corev1.Pod) { p.UID = ""; unready(p) })), "web-0"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Roll(tt.set, tt.pods, revisionOf("new", 0).Name, now)
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, p := range got {
				names = append(names, p.Name)
			}
			if strings.Join(names, " ") != tt.want {
				t.Errorf("got %v, want %s", names, tt.want)
			}
		})
	}
	if _, err := Roll(set(1, unavailable(intstr.FromString("x"))), nil, "", now); err == nil {
		t.Error("no error about what is no percentage")
	}
}

func TestOwn(t *testing.T) {
	ref := func(kind, name, uid string, controls bool) metav1.OwnerReference {
		gv := map[string]string{"StatefulSet": "apps/v1", "Pod": "v1", "Backup": "example.com/v1"}[kind]
		r := metav1.OwnerReference{APIVersion: gv, Kind: kind, Name: name, UID: types.UID(uid)}
		if controls {
			r.Controller = new(true)
		}
		return r
	}
	ofSet, ofPod := ref("StatefulSet", "web", "set-uid", true), ref("Pod", "web-0", "web-0", true)
	const keep, drop = appsv1.RetainPersistentVolumeClaimRetentionPolicyType, appsv1.DeletePersistentVolumeClaimRetentionPolicyType
	tests := []struct {
		name            string
		deleted, scaled appsv1.PersistentVolumeClaimRetentionPolicyType
		replicas        int32
		refs            []metav1.OwnerReference
		want            string
		change          bool
		conflict        bool
	}{
		{name: "keep all", deleted: keep, scaled: keep, replicas: 1},
		{name: "keep all, formerly not", deleted: keep, scaled: keep, replicas: 1, refs: []metav1.OwnerReference{ofSet, ofPod}, change: true},
		{name: "keep all, others own it", deleted: keep, scaled: keep, replicas: 1, refs: []metav1.OwnerReference{ref("Backup", "b", "b", true)}, want: "b"},
		{name: "with the set", deleted: drop, scaled: keep, replicas: 1, want: "web", change: true},
		{name: "with the set, done", deleted: drop, scaled: keep, replicas: 1, refs: []metav1.OwnerReference{ofSet}, want: "web"},
		{name: "with the set, scaled away", deleted: drop, scaled: keep, replicas: 0, refs: []metav1.OwnerReference{ofSet}, want: "web"},
		{name: "with the set, no controller", deleted: drop, scaled: keep, replicas: 1, refs: []metav1.OwnerReference{ref("StatefulSet", "web", "set-uid", false)}, want: "web", change: true},
		{name: "with the pod, not scaled", deleted: keep, scaled: drop, replicas: 1},
		{name: "with the pod", deleted: keep, scaled: drop, replicas: 0, want: "web-0", change: true},
		{name: "with the pod, scaled back", deleted: keep, scaled: drop, replicas: 1, refs: []metav1.OwnerReference{ofPod}, change: true},
		{name: "with either", deleted: drop, scaled: drop, replicas: 0, refs: []metav1.OwnerReference{ofSet}, want: "web-0", change: true},
		{name: "with either, not scaled", deleted: drop, scaled: drop, replicas: 1, refs: []metav1.OwnerReference{ofPod}, want: "web", change: true},
		{name: "beside an owner", deleted: drop, scaled: keep, replicas: 1, refs: []metav1.OwnerReference{ref("Backup", "b", "b", false)}, want: "b web", change: true},
		{name: "somebody else's", deleted: drop, scaled: keep, replicas: 1, refs: []metav1.OwnerReference{ref("Backup", "b", "b", true)}, want: "b", conflict: true},
		{name: "somebody else's and ours", deleted: drop, scaled: keep, replicas: 1, refs: []metav1.OwnerReference{ofSet, ref("Backup", "b", "b", true)}, want: "b", change: true, conflict: true},
		{name: "an earlier pod's", deleted: drop, scaled: drop, replicas: 1, refs: []metav1.OwnerReference{ref("Pod", "web-0", "earlier", true)}, want: "web-0", conflict: true},
		{name: "an earlier set's", deleted: keep, scaled: keep, replicas: 1, refs: []metav1.OwnerReference{ref("StatefulSet", "web", "earlier", true)}, want: "web"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{OwnerReferences: tt.refs}}
			own := Own(set(tt.replicas, claims(tt.deleted, tt.scaled)), pod(0, "new"), claim)
			var names []string
			for _, r := range own.References {
				names = append(names, r.Name)
			}
			if got := strings.Join(names, " "); got != tt.want || own.Change != tt.change || own.Conflict != tt.conflict {
				t.Errorf("owners %q, change %v, conflict %v", got, own.Change, own.Conflict)
			}
		})
	}
}

func TestFind(t *testing.T) {
	a, b, c := revisionOf("a", 1), revisionOf("b", 2), revisionOf("c", 3)
	// An old API server wrote fields that mean nothing.
	spelled := revisionOf("d", 4)
	spelled.Data = runtime.RawExtension{Raw: []byte(strings.Replace(string(spelled.Data.Raw), `"metadata":{`, `"metadata":{"creationTimestamp":null,`, 1))}
	tests := []struct {
		name   string
		all    []*appsv1.ControllerRevision
		image  string
		want   *appsv1.ControllerRevision
		number int64
	}{
		{"empty history", nil, "a", nil, 1},
		{"unchanged", []*appsv1.ControllerRevision{a, b, c}, "c", c, 3},
		{"new", []*appsv1.ControllerRevision{a, b, c}, "x", nil, 4},
		{"rollback", []*appsv1.ControllerRevision{a, b, c}, "a", a, 4},
		{"spelled otherwise", []*appsv1.ControllerRevision{a, spelled}, "d", spelled, 4},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tmpl := template(tt.image)
			data, err := history.Patch(&tmpl)
			if err != nil {
				t.Fatal(err)
			}
			if got, number := Find(tt.all, data, &tmpl); got != tt.want || number != tt.number {
				t.Errorf("got %v with number %d", got, number)
			}
		})
	}
}

func TestExpired(t *testing.T) {
	all := []*appsv1.ControllerRevision{revisionOf("a", 1), revisionOf("b", 2), revisionOf("c", 3), revisionOf("d", 4), revisionOf("e", 5)}
	revisions := Revisions{Current: Revision{Name: all[3].Name}, Update: Revision{Name: all[4].Name}, All: all}
	for limit, want := range map[int]int{0: 2, 1: 1, 2: 0, -1: 0} {
		got := Expired(revisions, []*corev1.Pod{pod(0, "a")}, limit)
		if len(got) != want || len(got) > 0 && got[0] != all[1] {
			t.Errorf("limit %d: %d revisions expire", limit, len(got))
		}
	}
}

// The hash is the same as upstream's, so that a set which it has made keeps its pods.
func TestHash(t *testing.T) {
	data := []byte(`{"spec":{"template":{"$patch":"replace","metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"image":"new","name":"c","resources":{}}]}}}}`)
	tmpl := template("new")
	if got, err := history.Patch(&tmpl); err != nil || string(got) != string(data) {
		t.Fatalf("data %s, error %v", got, err)
	}
	// FNV-1 of 32 bits over the data and the count in decimal, its decimal digits spelled in the safe alphabet.
	for collisions, want := range map[int32]string{0: "58dfcb6bc8", 1: "58dfcb6bc9"} {
		if got := Hash(data, collisions); got != want {
			t.Errorf("%d collisions: hash %q, want %q", collisions, got, want)
		}
	}
}

func TestStatus(t *testing.T) {
	older, newer := Revision{Name: revisionOf("old", 0).Name}, Revision{Name: revisionOf("new", 0).Name}
	slow := func(s *appsv1.StatefulSet) { s.Spec.MinReadySeconds = 30 }
	leaving := pod(1, "old")
	claimed := []*corev1.Pod{
		pod(0, "old"), leaving, pod(2, "old", deleted), pod(3, "new", readySince(time.Second)), pod(4, "new", unready),
		pod(5, "new", func(p *corev1.Pod) { p.Name = "web-99999999999" }),
	}
	got := Status(set(5, slow), Revisions{Current: older, Update: newer, Collisions: 2}, claimed, []*corev1.Pod{leaving}, now)
	want := appsv1.StatefulSetStatus{
		ObservedGeneration: 2, CurrentRevision: older.Name, UpdateRevision: newer.Name, CollisionCount: new(int32(2)),
		Replicas: 5, ReadyReplicas: 4, AvailableReplicas: 3, CurrentReplicas: 1, UpdatedReplicas: 2,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
