// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package nodevolumelimits

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	pt "minik8s.io/minik8s/pkg/scheduler/plugintest"
)

func TestSuite(t *testing.T) {
	pt.Run(t, Name, New, pt.Pod("ebs", inlineEBS("vol-1")))
}

func csiNode(driver string, count int32) *storagev1.CSINode {
	n := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	d := storagev1.CSINodeDriver{Name: driver, NodeID: "a"}
	if count >= 0 {
		d.Allocatable = &storagev1.VolumeNodeResources{Count: &count}
	}
	n.Spec.Drivers = []storagev1.CSINodeDriver{d}
	return n
}

func claim(name, class, volume string) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}}
	c.Spec.StorageClassName, c.Spec.VolumeName = &class, volume
	return c
}

func volume(name string, source corev1.PersistentVolumeSource) *corev1.PersistentVolume {
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
	v.Spec.PersistentVolumeSource = source
	return v
}

func csi(driver, handle string) corev1.PersistentVolumeSource {
	return corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: handle}}
}

func class(name, provisioner string) *storagev1.StorageClass {
	return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: provisioner}
}

func attachment(attacher, node, volume string) *storagev1.VolumeAttachment {
	a := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: attacher + "-" + node + "-" + volume}}
	a.Spec = storagev1.VolumeAttachmentSpec{Attacher: attacher, NodeName: node, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &volume}}
	return a
}

func inlineEBS(id string) pt.PodOption {
	return func(p *corev1.Pod) {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: id, VolumeSource: corev1.VolumeSource{
			AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: id}}})
	}
}

func own(p *corev1.Pod) {
	p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "own", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}})
}

// ownClaim is the claim of a pod "p" that has a volume of its own.
func ownClaim(owner *corev1.Pod) *corev1.PersistentVolumeClaim {
	c := claim("p-own", "k", "")
	if owner != nil {
		c.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, corev1.SchemeGroupVersion.WithKind("Pod"))}
	}
	return c
}

func TestFilter(t *testing.T) {
	base := []runtime.Object{
		class("k", "d"), class("old", "kubernetes.io/aws-ebs"), class("other", "e"),
		claim("new", "k", ""), claim("newer", "k", ""), claim("old", "old", ""), claim("other", "other", ""),
		claim("one", "k", "one"), volume("one", csi("d", "1")),
		claim("two", "k", "two"), volume("two", csi("d", "2")),
		claim("gone", "k", "gone"),
		claim("ebs", "old", "ebs"), volume("ebs", corev1.PersistentVolumeSource{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "aws://zone/vol-1"}}),
		claim("nfs", "k", "nfs"), volume("nfs", corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{}}),
	}
	for _, tc := range []struct {
		name    string
		objects []runtime.Object
		there   []*corev1.Pod
		pod     *corev1.Pod
		want    string
	}{
		{"no CSINode", nil, nil, pt.Pod("p", pt.Claim("one")), ""},
		{"no limit", []runtime.Object{csiNode("d", -1)}, nil, pt.Pod("p", pt.Claim("one"), pt.Claim("two")), ""},
		{"limit of another driver", []runtime.Object{csiNode("e", 0)}, nil, pt.Pod("p", pt.Claim("one")), ""},
		{"within the limit", []runtime.Object{csiNode("d", 2)}, []*corev1.Pod{pt.Pod("o", pt.On("a"), pt.Claim("one"))}, pt.Pod("p", pt.Claim("two")), ""},
		{"above the limit", []runtime.Object{csiNode("d", 1)}, []*corev1.Pod{pt.Pod("o", pt.On("a"), pt.Claim("one"))}, pt.Pod("p", pt.Claim("two")), ErrReason},
		{"a volume that is there", []runtime.Object{csiNode("d", 1)}, []*corev1.Pod{pt.Pod("o", pt.On("a"), pt.Claim("one"))}, pt.Pod("p", pt.Claim("one")), ""},
		{"two at once", []runtime.Object{csiNode("d", 1)}, nil, pt.Pod("p", pt.Claim("one"), pt.Claim("new")), ErrReason},
		{"a claim without volume counts by its class", []runtime.Object{csiNode("d", 1)}, []*corev1.Pod{pt.Pod("o", pt.On("a"), pt.Claim("new"))}, pt.Pod("p", pt.Claim("newer")), ErrReason},
		{"the same claim without volume", []runtime.Object{csiNode("d", 1)}, []*corev1.Pod{pt.Pod("o", pt.On("a"), pt.Claim("new"))}, pt.Pod("p", pt.Claim("new")), ""},
		{"a claim whose volume is missing", []runtime.Object{csiNode("d", 0)}, nil, pt.Pod("p", pt.Claim("gone")), ErrReason},
		{"a class of another driver", []runtime.Object{csiNode("d", 0)}, nil, pt.Pod("p", pt.Claim("other")), ""},
		{"no volume of CSI", []runtime.Object{csiNode("d", 0)}, nil, pt.Pod("p", pt.Claim("nfs")), ""},
		{"missing claim", []runtime.Object{csiNode("d", 1)}, nil, pt.Pod("p", pt.Claim("none")), `looking up PVC default/none: persistentvolumeclaim "none" not found`},
		{"a pod that has lost its claim", []runtime.Object{csiNode("d", 1)}, []*corev1.Pod{pt.Pod("o", pt.On("a"), pt.Claim("none"))}, pt.Pod("p", pt.Claim("one")), ""},

		{"still attached", []runtime.Object{csiNode("d", 1), attachment("d", "a", "one")}, nil, pt.Pod("p", pt.Claim("two")), ErrReason},
		{"attached elsewhere", []runtime.Object{csiNode("d", 1), attachment("d", "b", "one")}, nil, pt.Pod("p", pt.Claim("two")), ""},
		{"attached by another driver", []runtime.Object{csiNode("d", 1), attachment("e", "a", "one")}, nil, pt.Pod("p", pt.Claim("two")), ""},
		{"attached for a pod that is there", []runtime.Object{csiNode("d", 2), attachment("d", "a", "one")}, []*corev1.Pod{pt.Pod("o", pt.On("a"), pt.Claim("one"))}, pt.Pod("p", pt.Claim("two")), ""},
		{"attached for the pod", []runtime.Object{csiNode("d", 1), attachment("d", "a", "one")}, nil, pt.Pod("p", pt.Claim("one")), ""},

		{"the pod's own claim", []runtime.Object{csiNode("d", 0), ownClaim(pt.Pod("p"))}, nil, pt.Pod("p", own), ErrReason},
		{"the pod's own claim is to come", []runtime.Object{csiNode("d", 1)}, nil, pt.Pod("p", own), `looking up PVC default/p-own: persistentvolumeclaim "p-own" not found`},

		{"disk in the pod", []runtime.Object{csiNode(ebs, 0)}, nil, pt.Pod("p", inlineEBS("vol-2")), ErrReason},
		{"disk in the pod, no CSINode", nil, nil, pt.Pod("p", inlineEBS("vol-2")), ""},
		{"disk in the pod, and the same by a claim", []runtime.Object{csiNode(ebs, 1)}, []*corev1.Pod{pt.Pod("o", pt.On("a"), pt.Claim("ebs"))}, pt.Pod("p", inlineEBS("vol-1")), ""},
		{"a class of old", []runtime.Object{csiNode(ebs, 0)}, nil, pt.Pod("p", pt.Claim("old")), ErrReason},

		{"driver is missing", []runtime.Object{driver("d", true), csiNode("e", 1)}, nil, pt.Pod("p", pt.Claim("one")), "d CSI driver is not installed on the node"},
		{"driver is missing, no CSINode", []runtime.Object{driver("d", true)}, nil, pt.Pod("p", pt.Claim("new")), "d CSI driver is not installed on the node"},
		{"driver is missing and does not mind", []runtime.Object{driver("d", false)}, nil, pt.Pod("p", pt.Claim("one")), ""},
		{"driver is there", []runtime.Object{driver("d", true), csiNode("d", 1)}, nil, pt.Pod("p", pt.Claim("one")), ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := pt.NewHandle(pt.Nodes([]*corev1.Node{pt.Node("a")}, tc.there...), append(tc.objects, base...)...)
			got := pt.Filter(t, h, pt.NewPlugin(t, h, New), tc.pod)
			if diff := cmp.Diff(map[string]string{"a": tc.want}, got); diff != "" {
				t.Errorf("reasons (-want +got):\n%s", diff)
			}
		})
	}
}

// A claim that only looks like the pod's own is an error, not a reason to wait.
func TestFilter_ClaimOfAnother(t *testing.T) {
	h := pt.NewHandle(pt.Nodes([]*corev1.Node{pt.Node("a")}), csiNode("d", 1), ownClaim(nil))
	s := pt.NewPlugin(t, h, New).(*NodeVolumeLimits).Filter(t.Context(), nil, pt.Pod("p", own), h.Snapshot.Node("a"))
	if s.Code() != fwk.Error {
		t.Errorf("got %v, want an error", s)
	}
}

func driver(name string, prevent bool) *storagev1.CSIDriver {
	return &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagev1.CSIDriverSpec{PreventPodSchedulingIfMissing: &prevent}}
}

// Two profiles share the informer, and so the index.
func TestNew_Twice(t *testing.T) {
	h := pt.NewHandle(nil)
	pt.NewPlugin(t, h, New)
	if _, err := New(t.Context(), nil, h); err != nil {
		t.Error(err)
	}
}

func TestMigrated(t *testing.T) {
	zones := func(value string) map[string]string { return map[string]string{corev1.LabelTopologyZone: value} }
	pd := corev1.PersistentVolumeSource{GCEPersistentDisk: &corev1.GCEPersistentDiskVolumeSource{PDName: "d"}}
	for _, tc := range []struct {
		name   string
		labels map[string]string
		source corev1.PersistentVolumeSource
		want   *attachable
	}{
		{"GCE", nil, pd, &attachable{gce, "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d"}},
		{"GCE in a zone", zones("us-central1-a"), pd, &attachable{gce, "projects/UNSPECIFIED/zones/us-central1-a/disks/d"}},
		{"GCE in zones", zones("us-central1-a__us-central1-b"), pd, &attachable{gce, "projects/UNSPECIFIED/regions/us-central1/disks/d"}},
		{"EBS", nil, corev1.PersistentVolumeSource{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "vol-1"}}, &attachable{ebs, "vol-1"}},
		{"Azure", nil, corev1.PersistentVolumeSource{AzureDisk: &corev1.AzureDiskVolumeSource{DataDiskURI: "u"}}, &attachable{azure, "u"}},
		{"Cinder", nil, corev1.PersistentVolumeSource{Cinder: &corev1.CinderPersistentVolumeSource{VolumeID: "c"}}, &attachable{cinder, "c"}},
		{"Portworx", nil, corev1.PersistentVolumeSource{PortworxVolume: &corev1.PortworxVolumeSource{VolumeID: "w"}}, &attachable{portworx, "w"}},
		{"none of them", nil, corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{}}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v := volume("v", tc.source)
			v.Labels = tc.labels
			if diff := cmp.Diff(tc.want, migrated(v), cmp.AllowUnexported(attachable{})); diff != "" {
				t.Errorf("volume (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRequeue(t *testing.T) {
	event := func(r fwk.EventResource, a fwk.ActionType) fwk.ClusterEvent {
		return fwk.ClusterEvent{Resource: r, ActionType: a}
	}
	for _, tc := range []struct {
		name     string
		pod      *corev1.Pod
		event    fwk.ClusterEvent
		old, new any
		want     bool
	}{
		{"a new CSINode", pt.Pod("p", pt.Claim("c")), event(fwk.CSINode, fwk.Add), nil, csiNode("d", 1), true},
		{"a higher limit", pt.Pod("p", pt.Claim("c")), event(fwk.CSINode, fwk.Update), csiNode("d", 1), csiNode("d", 2), true},
		{"a lower limit", pt.Pod("p", pt.Claim("c")), event(fwk.CSINode, fwk.Update), csiNode("d", 2), csiNode("d", 1), false},
		{"a new driver", pt.Pod("p", pt.Claim("c")), event(fwk.CSINode, fwk.Update), csiNode("d", 1), csiNode("e", 1), true},
		{"a new driver without a limit", pt.Pod("p", pt.Claim("c")), event(fwk.CSINode, fwk.Update), csiNode("d", 1), csiNode("e", -1), true},
		{"no limit any more", pt.Pod("p", pt.Claim("c")), event(fwk.CSINode, fwk.Update), csiNode("d", 1), csiNode("d", -1), true},
		{"a limit", pt.Pod("p", pt.Claim("c")), event(fwk.CSINode, fwk.Update), csiNode("d", -1), csiNode("d", 5), false},
		{"a driver that may be missing", pt.Pod("p", pt.Claim("c")), event(fwk.CSIDriver, fwk.Update), driver("d", true), driver("d", false), true},
		{"a driver that may not be missing", pt.Pod("p", pt.Claim("c")), event(fwk.CSIDriver, fwk.Update), driver("d", false), driver("d", true), false},
		{"a driver is gone", pt.Pod("p", pt.Claim("c")), event(fwk.CSIDriver, fwk.Delete), driver("d", true), nil, true},
		{"a pod with a claim is gone", pt.Pod("p", pt.Claim("c")), event(fwk.AssignedPod, fwk.Delete), pt.Pod("o", pt.On("a"), pt.Claim("x")), nil, true},
		{"a pod without volumes is gone", pt.Pod("p", pt.Claim("c")), event(fwk.AssignedPod, fwk.Delete), pt.Pod("o", pt.On("a")), nil, false},
		{"a pod without a node is gone", pt.Pod("p", pt.Claim("c")), event(fwk.AssignedPod, fwk.Delete), pt.Pod("o", pt.Claim("x")), nil, false},
		{"the claim is there", pt.Pod("p", pt.Claim("c")), event(fwk.PersistentVolumeClaim, fwk.Add), nil, claim("c", "k", ""), true},
		{"the pod's own claim is there", pt.Pod("p", own), event(fwk.PersistentVolumeClaim, fwk.Add), nil, ownClaim(nil), true},
		{"another claim is there", pt.Pod("p", pt.Claim("c")), event(fwk.PersistentVolumeClaim, fwk.Add), nil, claim("d", "k", ""), false},
		{"detached", pt.Pod("p", pt.Claim("c")), event(fwk.VolumeAttachment, fwk.Delete), attachment("d", "a", "one"), nil, true},
		{"detached by the disk's driver", pt.Pod("p", inlineEBS("vol-1")), event(fwk.VolumeAttachment, fwk.Delete), attachment(ebs, "a", "one"), nil, true},
		{"detached by another driver", pt.Pod("p", inlineEBS("vol-1")), event(fwk.VolumeAttachment, fwk.Delete), attachment("d", "a", "one"), nil, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := pt.NewHandle(nil)
			if got := pt.Helps(t, pt.NewPlugin(t, h, New), tc.pod, tc.event, tc.old, tc.new); got != tc.want {
				t.Errorf("helps = %v, want %v", got, tc.want)
			}
		})
	}
}
