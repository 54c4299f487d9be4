// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package volumebinding

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	volumehelper "k8s.io/component-helpers/storage/volume"
	fwk "k8s.io/kube-scheduler/framework"

	"minik8s.io/minik8s/pkg/scheduler/framework"
	pt "minik8s.io/minik8s/pkg/scheduler/plugintest"
)

func TestSuite(t *testing.T) { pt.Run(t, Name, New) }

func claim(name, class, volume string) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(name)}}
	c.Spec.StorageClassName = &class
	c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	if volume != "" {
		c.Spec.VolumeName = volume
		c.Annotations = map[string]string{volumehelper.AnnBindCompleted: "yes"}
	}
	return c
}

func volume(name, class, node string) *corev1.PersistentVolume {
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
	v.Spec.StorageClassName = class
	v.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	v.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	v.Status.Phase = corev1.VolumeAvailable
	v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}},
	}}}}
	return v
}

func class(name, provisioner string, mode storagev1.VolumeBindingMode) *storagev1.StorageClass {
	return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: provisioner, VolumeBindingMode: &mode}
}

func TestFilter(t *testing.T) {
	const late, now = storagev1.VolumeBindingWaitForFirstConsumer, storagev1.VolumeBindingImmediate
	lost := claim("c", "k", "gone")
	lost.Status.Phase = corev1.ClaimLost
	going := claim("c", "k", "v")
	going.DeletionTimestamp, going.Finalizers = &metav1.Time{}, []string{"f"}
	selected := claim("c", "k", "")
	selected.Annotations = map[string]string{volumehelper.AnnSelectedNode: "b"}
	for _, tc := range []struct {
		name    string
		objects []runtime.Object
		a, b    string
	}{
		{"missing claim", nil, `persistentvolumeclaim "c" not found`, `persistentvolumeclaim "c" not found`},
		{"lost claim", []runtime.Object{lost}, `persistentvolumeclaim "c" bound to non-existent persistentvolume "gone"`, `persistentvolumeclaim "c" bound to non-existent persistentvolume "gone"`},
		{"claim being deleted", []runtime.Object{going}, `persistentvolumeclaim "c" is being deleted`, `persistentvolumeclaim "c" is being deleted`},
		{"immediate claim", []runtime.Object{claim("c", "k", ""), class("k", "p", now)}, ErrReasonUnbound, ErrReasonUnbound},
		{"bound to a local volume", []runtime.Object{claim("c", "k", "v"), volume("v", "k", "a")}, "", ErrReasonNodeConflict},
		{"bound to a missing volume", []runtime.Object{claim("c", "k", "v")}, ErrReasonMissing, ErrReasonMissing},
		{"late claim, a volume on one node", []runtime.Object{claim("c", "k", ""), class("k", volumehelper.NotSupportedProvisioner, late), volume("v", "k", "a")}, "", ErrReasonNoVolume},
		{"late claim with a provisioner", []runtime.Object{claim("c", "k", ""), class("k", "p", late)}, "", ""},
		{"late claim whose node is selected", []runtime.Object{selected, class("k", "p", late)}, ErrReasonNoVolume, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := pt.NewHandle(pt.Nodes([]*corev1.Node{pt.Node("a"), pt.Node("b")}), tc.objects...)
			got := pt.Filter(t, h, pt.NewPlugin(t, h, New), pt.Pod("p", pt.Claim("c")))
			if diff := cmp.Diff(map[string]string{"a": tc.a, "b": tc.b}, got); diff != "" {
				t.Errorf("reasons (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReserve_TwoPodsOneVolume(t *testing.T) {
	const late = storagev1.VolumeBindingWaitForFirstConsumer
	h := pt.NewHandle(pt.Nodes([]*corev1.Node{pt.Node("a")}),
		claim("c", "k", ""), claim("d", "k", ""), class("k", volumehelper.NotSupportedProvisioner, late), volume("v", "k", "a"))
	p := pt.NewPlugin(t, h, New).(*VolumeBinding)
	first, state := pt.Pod("p", pt.Claim("c")), framework.NewCycleState(nil)
	if _, s := p.PreFilter(t.Context(), state, first, h.Snapshot.Nodes()); !s.IsSuccess() {
		t.Fatal(s.AsError())
	}
	if s := p.Reserve(t.Context(), state, first, "a"); !s.IsSuccess() {
		t.Fatal(s.AsError())
	}
	second := pt.Pod("q", pt.Claim("d"))
	if got := pt.Filter(t, h, p, second); got["a"] != ErrReasonNoVolume {
		t.Errorf("the volume is promised, got %q", got["a"])
	}
	p.Unreserve(t.Context(), state, first, "a")
	if got := pt.Filter(t, h, p, second); got["a"] != "" {
		t.Errorf("the volume is free again, got %q", got["a"])
	}
}

func TestPreBind_SelectsNode(t *testing.T) {
	const late = storagev1.VolumeBindingWaitForFirstConsumer
	node, pod, state := pt.Node("a"), pt.Pod("p", pt.Claim("c")), framework.NewCycleState(nil)
	h := pt.NewHandle(pt.Nodes([]*corev1.Node{node}), node, pod, claim("c", "k", ""), class("k", "p", late))
	p := pt.NewPlugin(t, h, New).(*VolumeBinding)
	if _, s := p.PreFilter(t.Context(), state, pod, h.Snapshot.Nodes()); !s.IsSuccess() {
		t.Fatal(s.AsError())
	}
	if s := p.Reserve(t.Context(), state, pod, "a"); !s.IsSuccess() {
		t.Fatal(s.AsError())
	}
	done := make(chan *fwk.Status, 1)
	go func() { done <- p.PreBind(t.Context(), state, pod, "a") }()
	claims := h.Fake.CoreV1().PersistentVolumeClaims("default")
	w, err := claims.Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	c, err := claims.Get(t.Context(), "c", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for c.Annotations[volumehelper.AnnSelectedNode] != "a" {
		e := <-w.ResultChan()
		c = e.Object.(*corev1.PersistentVolumeClaim)
	}
	if _, err := h.Fake.CoreV1().PersistentVolumes().Create(t.Context(), volume("provisioned", "k", "a"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c = c.DeepCopy()
	c.Spec.VolumeName, c.Status.Phase = "provisioned", corev1.ClaimBound
	if _, err := claims.Update(t.Context(), c, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if s := <-done; !s.IsSuccess() {
		t.Error(s.AsError())
	}
}

// What cannot become of a binding any more ends the wait for it.
func TestPreBind_Fails(t *testing.T) {
	const late = storagev1.VolumeBindingWaitForFirstConsumer
	core := corev1.SchemeGroupVersion
	gone := func(resource, namespace, name string) func(clienttesting.ObjectTracker) error {
		return func(api clienttesting.ObjectTracker) error {
			return api.Delete(core.WithResource(resource), namespace, name)
		}
	}
	becomes := func(c *corev1.PersistentVolumeClaim) func(clienttesting.ObjectTracker) error {
		return func(api clienttesting.ObjectTracker) error {
			return api.Update(core.WithResource("persistentvolumeclaims"), c, c.Namespace)
		}
	}
	made := func(node string) func(clienttesting.ObjectTracker) error {
		return func(api clienttesting.ObjectTracker) error {
			if err := api.Add(volume("made", "k", node)); err != nil {
				return err
			}
			return becomes(claim("c", "k", "made"))(api)
		}
	}
	givenUp := claim("c", "k", "")
	givenUp.ResourceVersion, givenUp.Annotations = "1", map[string]string{"other": "yes"}
	for _, tc := range []struct {
		name        string
		provisioner string
		volumes     []runtime.Object
		// then is what happens when the plugin has written its decision
		then func(clienttesting.ObjectTracker) error
		want string
	}{
		{"a volume for the node", "p", nil, made("a"), ""},
		{"a volume for another node", "p", nil, made("b"), `pv "made" node affinity doesn't match node "a"`},
		{"the provisioner gives up", "p", nil, becomes(givenUp), `provisioning failed for PVC "c"`},
		{"the node is gone", "p", nil, gone("nodes", "", "a"), `failed to get node "a"`},
		{"the pod is gone", "p", nil, gone("pods", "default", "p"), "pod does not exist any more"},
		{"the volume is gone", volumehelper.NotSupportedProvisioner, []runtime.Object{volume("v", "k", "a")}, gone("persistentvolumes", "", "v"), "failed to check binding"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			node, pod, state := pt.Node("a"), pt.Pod("p", pt.Claim("c")), framework.NewCycleState(nil)
			objects := append([]runtime.Object{node, pod, claim("c", "k", ""), class("k", tc.provisioner, late)}, tc.volumes...)
			h := pt.NewHandle(pt.Nodes([]*corev1.Node{node}), objects...)
			h.Fake.PrependReactor("update", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
				return true, a.(clienttesting.UpdateAction).GetObject(), tc.then(h.Fake.Tracker())
			})
			counted := h.Count(t)
			p := pt.NewPlugin(t, h, New).(*VolumeBinding)
			p.timeout = 20 * time.Second
			if _, s := p.PreFilter(t.Context(), state, pod, h.Snapshot.Nodes()); !s.IsSuccess() {
				t.Fatal(s.AsError())
			}
			if s := p.Reserve(t.Context(), state, pod, "a"); !s.IsSuccess() {
				t.Fatal(s.AsError())
			}
			s := p.PreBind(t.Context(), state, pod, "a")
			if s.IsSuccess() != (tc.want == "") || !strings.Contains(s.Message(), tc.want) {
				t.Errorf("PreBind says %q, want %q", s.Message(), tc.want)
			}
			const errors = "scheduler_volume_scheduling_stage_error_total bind"
			if n := counted(errors); (n == 1) != (tc.want != "") || n > 1 {
				t.Errorf("%s is %v", errors, n)
			}
		})
	}
}
