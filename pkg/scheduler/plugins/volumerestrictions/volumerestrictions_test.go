// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package volumerestrictions

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	"minik8s.io/minik8s/pkg/scheduler/framework"
	pt "minik8s.io/minik8s/pkg/scheduler/plugintest"
)

func TestSuite(t *testing.T) {
	pt.Run(t, Name, New, pt.Pod("disk", disk(gce("d", false))))
}

func claim(name string, mode corev1.PersistentVolumeAccessMode) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}}
	c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{mode}
	return c
}

func disk(source corev1.VolumeSource) pt.PodOption {
	return func(p *corev1.Pod) {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "disk", VolumeSource: source})
	}
}

func gce(name string, readOnly bool) corev1.VolumeSource {
	return corev1.VolumeSource{GCEPersistentDisk: &corev1.GCEPersistentDiskVolumeSource{PDName: name, ReadOnly: readOnly}}
}

func ebs(id string) corev1.VolumeSource {
	return corev1.VolumeSource{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: id, ReadOnly: true}}
}

func iscsi(iqn string, readOnly bool) corev1.VolumeSource {
	return corev1.VolumeSource{ISCSI: &corev1.ISCSIVolumeSource{IQN: iqn, ReadOnly: readOnly}}
}

func rbd(image string, readOnly bool, monitors ...string) corev1.VolumeSource {
	return corev1.VolumeSource{RBD: &corev1.RBDVolumeSource{CephMonitors: monitors, RBDPool: "pool", RBDImage: image, ReadOnly: readOnly}}
}

func TestFilter_Disks(t *testing.T) {
	for _, tc := range []struct {
		name       string
		there, pod corev1.VolumeSource
		want       string
	}{
		{"disk of GCE", gce("d", false), gce("d", true), ErrReasonDiskConflict},
		{"disk of GCE, read by both", gce("d", true), gce("d", true), ""},
		{"another disk of GCE", gce("d", false), gce("e", false), ""},
		{"disk of EBS, read by both", ebs("d"), ebs("d"), ErrReasonDiskConflict},
		{"another disk of EBS", ebs("d"), ebs("e"), ""},
		{"target of iSCSI", iscsi("d", true), iscsi("d", false), ErrReasonDiskConflict},
		{"target of iSCSI, read by both", iscsi("d", true), iscsi("d", true), ""},
		{"image of RBD", rbd("d", false, "m", "n"), rbd("d", false, "n", "o"), ErrReasonDiskConflict},
		{"image of RBD, read by both", rbd("d", true, "m"), rbd("d", true, "m"), ""},
		{"image of another RBD", rbd("d", false, "m"), rbd("d", false, "n"), ""},
		{"another kind", ebs("d"), gce("d", false), ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := pt.NewHandle(pt.Nodes([]*corev1.Node{pt.Node("a"), pt.Node("b")}, pt.Pod("there", pt.On("a"), disk(tc.there))))
			got := pt.Filter(t, h, pt.NewPlugin(t, h, New), pt.Pod("p", disk(tc.pod)))
			if diff := cmp.Diff(map[string]string{"a": tc.want, "b": ""}, got); diff != "" {
				t.Errorf("reasons (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFilter_Claims(t *testing.T) {
	for _, tc := range []struct {
		name    string
		objects []runtime.Object
		there   []*corev1.Pod
		want    string // on both nodes
	}{
		{"missing", nil, nil, `persistentvolumeclaim "c" not found`},
		{"nobody has it", []runtime.Object{claim("c", corev1.ReadWriteOncePod)}, nil, ""},
		{"a pod has it", []runtime.Object{claim("c", corev1.ReadWriteOncePod)}, []*corev1.Pod{pt.Pod("o", pt.On("a"), pt.Claim("c"))}, ErrReasonOncePod},
		{"a pod has it, which does not matter", []runtime.Object{claim("c", corev1.ReadWriteOnce)}, []*corev1.Pod{pt.Pod("o", pt.On("a"), pt.Claim("c"))}, ""},
		{"a pod of another namespace has one of the name", []runtime.Object{claim("c", corev1.ReadWriteOncePod)}, []*corev1.Pod{pt.Pod("o", pt.Namespace("other"), pt.On("a"), pt.Claim("c"))}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := pt.NewHandle(pt.Nodes([]*corev1.Node{pt.Node("a"), pt.Node("b")}, tc.there...), tc.objects...)
			got := pt.Filter(t, h, pt.NewPlugin(t, h, New), pt.Pod("p", pt.Claim("c")))
			if diff := cmp.Diff(map[string]string{"a": tc.want, "b": tc.want}, got); diff != "" {
				t.Errorf("reasons (-want +got):\n%s", diff)
			}
		})
	}
}

// What preemption tries: only without the pod that has the claim there is room.
func TestExtensions(t *testing.T) {
	holder, namesake := pt.Pod("holder", pt.On("a"), pt.Claim("c")), pt.Pod("namesake", pt.Namespace("other"), pt.On("a"), pt.Claim("c"))
	h := pt.NewHandle(pt.Nodes([]*corev1.Node{pt.Node("a")}, holder, namesake), claim("c", corev1.ReadWriteOncePod))
	p, pod := pt.NewPlugin(t, h, New).(*VolumeRestrictions), pt.Pod("p", pt.Claim("c"))
	for _, tc := range []struct {
		name           string
		removed, added []*corev1.Pod
		want           fwk.Code
	}{
		{"nobody is removed", nil, nil, fwk.Unschedulable},
		{"the holder is removed", []*corev1.Pod{holder}, nil, fwk.Success},
		{"the holder is removed and comes back", []*corev1.Pod{holder}, []*corev1.Pod{holder}, fwk.Unschedulable},
		{"one with a claim of the same name is removed", []*corev1.Pod{namesake}, nil, fwk.Unschedulable},
	} {
		t.Run(tc.name, func(t *testing.T) {
			state, node := framework.NewCycleState(framework.NewPodInfo(pod)), h.Snapshot.Node("a")
			if _, s := p.PreFilter(t.Context(), state, pod, h.Snapshot.Nodes()); !s.IsSuccess() {
				t.Fatal(s.AsError())
			}
			for _, r := range tc.removed {
				if s := p.RemovePod(t.Context(), state, pod, framework.NewPodInfo(r), node); !s.IsSuccess() {
					t.Fatal(s.AsError())
				}
			}
			for _, a := range tc.added {
				if s := p.AddPod(t.Context(), state, pod, framework.NewPodInfo(a), node); !s.IsSuccess() {
					t.Fatal(s.AsError())
				}
			}
			if got := p.Filter(t.Context(), state, pod, node).Code(); got != tc.want {
				t.Errorf("Filter says %v, want %v", got, tc.want)
			}
		})
	}
}

func TestRequeue(t *testing.T) {
	gone, added := fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.Delete}, fwk.ClusterEvent{Resource: fwk.PersistentVolumeClaim, ActionType: fwk.Add}
	other := claim("c", corev1.ReadWriteOncePod)
	other.Namespace = "other"
	for _, tc := range []struct {
		name     string
		pod      *corev1.Pod
		event    fwk.ClusterEvent
		old, new any
		want     bool
	}{
		{"the claim's user is gone", pt.Pod("p", pt.Claim("c")), gone, pt.Pod("o", pt.Claim("c")), nil, true},
		{"another claim's user is gone", pt.Pod("p", pt.Claim("c")), gone, pt.Pod("o", pt.Claim("d")), nil, false},
		{"a pod of another namespace is gone", pt.Pod("p", pt.Claim("c")), gone, pt.Pod("o", pt.Namespace("other"), pt.Claim("c")), nil, false},
		{"the disk's user is gone", pt.Pod("p", disk(ebs("d"))), gone, pt.Pod("o", disk(ebs("d"))), nil, true},
		{"the claim is there", pt.Pod("p", pt.Claim("c")), added, nil, claim("c", corev1.ReadWriteOncePod), true},
		{"another claim is there", pt.Pod("p", pt.Claim("c")), added, nil, claim("d", corev1.ReadWriteOncePod), false},
		{"one of another namespace is there", pt.Pod("p", pt.Claim("c")), added, nil, other, false},
		{"a new node", pt.Pod("p", pt.Claim("c")), fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add}, nil, pt.Node("n"), true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := pt.NewHandle(nil)
			if got := pt.Helps(t, pt.NewPlugin(t, h, New), tc.pod, tc.event, tc.old, tc.new); got != tc.want {
				t.Errorf("helps = %v, want %v", got, tc.want)
			}
		})
	}
}
