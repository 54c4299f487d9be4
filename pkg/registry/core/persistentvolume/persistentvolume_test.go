// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package persistentvolume

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"minik8s.io/minik8s/pkg/registry/registrytest"
)

func valid() *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "v"},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:               corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("5Gi")},
			AccessModes:            []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany, corev1.ReadWriteOnce},
			PersistentVolumeSource: corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{Server: "s", Path: "/p"}},
			ClaimRef:               &corev1.ObjectReference{Namespace: "ns", Name: "c"},
			StorageClassName:       "slow",
		},
	}
}

func onNodes(key string) *corev1.VolumeNodeAffinity {
	return &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{"a"}}},
	}}}}
}

func csi(v *corev1.PersistentVolume) {
	v.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "d.example.com", VolumeHandle: "h"}}
}

func TestResource(t *testing.T) {
	source := func(s corev1.PersistentVolumeSource) func(*corev1.PersistentVolume) {
		return func(v *corev1.PersistentVolume) { v.Spec.PersistentVolumeSource = s }
	}
	type refused = registrytest.Invalid[*corev1.PersistentVolume]
	registrytest.Run(t, Resource, registrytest.Case[*corev1.PersistentVolume]{
		AddToScheme:  corev1.AddToScheme,
		Valid:        valid,
		Update:       func(v *corev1.PersistentVolume) { v.Spec.Capacity[corev1.ResourceStorage] = resource.MustParse("6Gi") },
		StatusUpdate: func(v *corev1.PersistentVolume) { v.Status.Phase = corev1.VolumeAvailable },
		Row:          []any{"v", "5Gi", "RWO,RWX", "Retain", "Pending", "ns/c", "slow", "<unset>", ""},
		Invalid: []refused{
			{Name: "no source", Mutate: source(corev1.PersistentVolumeSource{}), Field: "spec"},
			{Name: "two sources", Mutate: func(v *corev1.PersistentVolume) { v.Spec.RBD = &corev1.RBDPersistentVolumeSource{} }, Field: "spec.rbd"},
			{Name: "a FlexVolume beside another", Mutate: func(v *corev1.PersistentVolume) { v.Spec.FlexVolume = &corev1.FlexPersistentVolumeSource{} }, Field: "spec.flexVolume.driver"},
			{Name: "modes", Mutate: func(v *corev1.PersistentVolume) { v.Spec.AccessModes = nil }, Field: "spec.accessModes"},
			{Name: "single pod mode beside another", Mutate: func(v *corev1.PersistentVolume) {
				v.Spec.AccessModes = append(v.Spec.AccessModes, corev1.ReadWriteOncePod)
			}, Field: "spec.accessModes"},
			{Name: "capacity", Mutate: func(v *corev1.PersistentVolume) { v.Spec.Capacity = nil }, Field: "spec.capacity"},
			{Name: "empty capacity", Mutate: func(v *corev1.PersistentVolume) { v.Spec.Capacity[corev1.ResourceStorage] = resource.Quantity{} }, Field: "spec.capacity[storage]"},
			{Name: "policy", Mutate: func(v *corev1.PersistentVolume) { v.Spec.PersistentVolumeReclaimPolicy = "x" }, Field: "spec.persistentVolumeReclaimPolicy"},
			{Name: "recycling the root", Mutate: func(v *corev1.PersistentVolume) {
				source(corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/."}})(v)
				v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRecycle
			}, Field: "spec.persistentVolumeReclaimPolicy"},
			{Name: "mode", Mutate: func(v *corev1.PersistentVolume) { v.Spec.VolumeMode = new(corev1.PersistentVolumeMode("x")) }, Field: "spec.volumeMode"},
			{Name: "class", Mutate: func(v *corev1.PersistentVolume) { v.Spec.StorageClassName = "a b" }, Field: "spec.storageClassName"},
			{Name: "attributes class without driver", Mutate: func(v *corev1.PersistentVolume) { v.Spec.VolumeAttributesClassName = new("x") }, Field: "spec.csi"},
			{Name: "empty affinity", Mutate: func(v *corev1.PersistentVolume) { v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{} }, Field: "spec.nodeAffinity.required"},
			{Name: "local without affinity", Mutate: source(corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "/p"}}), Field: "spec.nodeAffinity"},
			{Name: "local", Mutate: source(corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "/p/.."}}), Field: "spec.local.path"},
			{Name: "NFS", Mutate: func(v *corev1.PersistentVolume) { v.Spec.NFS.Path = "p" }, Field: "spec.nfs.path"},
			{Name: "GCE", Mutate: source(corev1.PersistentVolumeSource{GCEPersistentDisk: &corev1.GCEPersistentDiskVolumeSource{}}), Field: "spec.persistentDisk.pdName"},
			{Name: "AWS", Mutate: source(corev1.PersistentVolumeSource{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "i", Partition: 256}}), Field: "spec.awsElasticBlockStore.partition"},
			{Name: "Glusterfs", Mutate: source(corev1.PersistentVolumeSource{Glusterfs: &corev1.GlusterfsPersistentVolumeSource{EndpointsName: "e", Path: "p", EndpointsNamespace: new("A")}}), Field: "spec.glusterfs.endpointsNamespace"},
			{Name: "Flocker", Mutate: source(corev1.PersistentVolumeSource{Flocker: &corev1.FlockerVolumeSource{DatasetName: "a/b"}}), Field: "spec.flocker.datasetName"},
			{Name: "RBD", Mutate: source(corev1.PersistentVolumeSource{RBD: &corev1.RBDPersistentVolumeSource{RBDImage: "i"}}), Field: "spec.rbd.monitors"},
			{Name: "CephFS", Mutate: source(corev1.PersistentVolumeSource{CephFS: &corev1.CephFSPersistentVolumeSource{}}), Field: "spec.cephfs.monitors"},
			{Name: "Quobyte", Mutate: source(corev1.PersistentVolumeSource{Quobyte: &corev1.QuobyteVolumeSource{Registry: "h", Volume: "v"}}), Field: "spec.quobyte.registry"},
			{Name: "iSCSI name", Mutate: source(corev1.PersistentVolumeSource{ISCSI: &corev1.ISCSIPersistentVolumeSource{TargetPortal: "p", IQN: "iqn.x"}}), Field: "spec.iscsi.iqn"},
			{Name: "iSCSI portal", Mutate: source(corev1.PersistentVolumeSource{ISCSI: &corev1.ISCSIPersistentVolumeSource{
				TargetPortal: strings.Repeat("p", 63), IQN: "iqn.2015-02.example.com:test", InitiatorName: new("iqn.2015-02.example.com:init"),
			}}), Field: "spec.iscsi.targetportal"},
			{Name: "Cinder", Mutate: source(corev1.PersistentVolumeSource{Cinder: &corev1.CinderPersistentVolumeSource{VolumeID: "v", SecretRef: &corev1.SecretReference{Name: "s"}}}), Field: "spec.cinder.secretRef.namespace"},
			{Name: "FC", Mutate: source(corev1.PersistentVolumeSource{FC: &corev1.FCVolumeSource{TargetWWNs: []string{"w"}}}), Field: "spec.fc.lun"},
			{Name: "Flex", Mutate: source(corev1.PersistentVolumeSource{FlexVolume: &corev1.FlexPersistentVolumeSource{Driver: "d", Options: map[string]string{"x.K8s.io/a": ""}}}), Field: "spec.flexVolume.options[x.K8s.io/a]"},
			{Name: "Azure file", Mutate: source(corev1.PersistentVolumeSource{AzureFile: &corev1.AzureFilePersistentVolumeSource{SecretName: "s", ShareName: "s", SecretNamespace: new("")}}), Field: "spec.azureFile.secretNamespace"},
			{Name: "Azure disk", Mutate: source(corev1.PersistentVolumeSource{AzureDisk: &corev1.AzureDiskVolumeSource{DiskName: "d", DataDiskURI: "u"}}), Field: "spec.azureDisk.diskURI"},
			{Name: "vSphere", Mutate: source(corev1.PersistentVolumeSource{VsphereVolume: &corev1.VsphereVirtualDiskVolumeSource{}}), Field: "spec.vsphereVolume.volumePath"},
			{Name: "ScaleIO", Mutate: source(corev1.PersistentVolumeSource{ScaleIO: &corev1.ScaleIOPersistentVolumeSource{}}), Field: "spec.scaleIO.gateway"},
			{Name: "StorageOS", Mutate: source(corev1.PersistentVolumeSource{StorageOS: &corev1.StorageOSPersistentVolumeSource{VolumeName: "A"}}), Field: "spec.storageos.volumeName"},
			{Name: "CSI", Mutate: func(v *corev1.PersistentVolume) { csi(v); v.Spec.CSI.VolumeHandle = "" }, Field: "spec.csi.volumeHandle"},
			{Name: "CSI secret", Mutate: func(v *corev1.PersistentVolume) {
				csi(v)
				v.Spec.CSI.NodePublishSecretRef = &corev1.SecretReference{Name: "A b", Namespace: "ns"}
			}, Field: "spec.csi.nodePublishSecretRef.name"},
			{Name: "mount options", Mutate: func(v *corev1.PersistentVolume) {
				csi(v)
				v.Annotations = map[string]string{corev1.MountOptionAnnotation: "ro"}
			}, Field: "metadata.annotations.volume.beta.kubernetes.io/mount-options"},
		},
		InvalidUpdates: []registrytest.InvalidUpdate[*corev1.PersistentVolume]{
			{Name: "source", Mutate: func(v *corev1.PersistentVolume) { v.Spec.NFS.Path = "/q" }, Field: "spec.persistentvolumesource"},
			{Name: "mode", Mutate: func(v *corev1.PersistentVolume) { v.Spec.VolumeMode = new(corev1.PersistentVolumeBlock) }, Field: "volumeMode"},
			{
				Name: "nodes", From: func(v *corev1.PersistentVolume) { v.Spec.NodeAffinity = onNodes("a") },
				Mutate: func(v *corev1.PersistentVolume) { v.Spec.NodeAffinity = onNodes("b") }, Field: "nodeAffinity",
			},
			{Name: "attributes class taken away", From: func(v *corev1.PersistentVolume) {
				csi(v)
				v.Spec.VolumeAttributesClassName = new("gold")
			}, Mutate: func(v *corev1.PersistentVolume) { v.Spec.VolumeAttributesClassName = nil }, Field: "spec.volumeAttributesClassName"},
		},
	})
}

func TestValidUpdates(t *testing.T) {
	for name, tc := range map[string]struct {
		from, mutate func(*corev1.PersistentVolume)
	}{
		"affinity for the first time": {nil, func(v *corev1.PersistentVolume) { v.Spec.NodeAffinity = onNodes("a") }},
		"a label by its new name": {
			func(v *corev1.PersistentVolume) { v.Spec.NodeAffinity = onNodes(corev1.LabelFailureDomainBetaZone) },
			func(v *corev1.PersistentVolume) { v.Spec.NodeAffinity = onNodes(corev1.LabelTopologyZone) },
		},
		"a secret for growing": {csi, func(v *corev1.PersistentVolume) {
			v.Spec.CSI.ControllerExpandSecretRef = &corev1.SecretReference{Name: "s", Namespace: "ns"}
		}},
		"an old value that no label can have": {
			func(v *corev1.PersistentVolume) {
				v.Spec.NodeAffinity = onNodes("a")
				v.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values = []string{"-"}
			},
			func(v *corev1.PersistentVolume) { v.Labels = map[string]string{"a": "b"} },
		},
	} {
		t.Run(name, func(t *testing.T) {
			old := valid()
			if tc.from != nil {
				tc.from(old)
			}
			now := old.DeepCopy()
			tc.mutate(now)
			if errs := validateUpdate(t.Context(), now, old); len(errs) > 0 {
				t.Error(errs.ToAggregate())
			}
		})
	}
}

func TestNoteTransition(t *testing.T) {
	before, said := metav1.NewTime(time.Unix(1, 0)), metav1.NewTime(time.Unix(2, 0))
	for name, tc := range map[string]struct {
		phase corev1.PersistentVolumePhase
		at    *metav1.Time
		want  *metav1.Time // nil: now
	}{
		"same phase":                   {corev1.VolumePending, nil, &before},
		"same phase, client's time":    {corev1.VolumePending, &said, &said},
		"another phase":                {corev1.VolumeBound, nil, nil},
		"another phase, old time":      {corev1.VolumeBound, &before, nil},
		"another phase, client's time": {corev1.VolumeBound, &said, &said},
	} {
		t.Run(name, func(t *testing.T) {
			old := &corev1.PersistentVolume{Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumePending, LastPhaseTransitionTime: &before}}
			v := &corev1.PersistentVolume{Status: corev1.PersistentVolumeStatus{Phase: tc.phase, LastPhaseTransitionTime: tc.at}}
			noteTransition(t.Context(), v, old)
			got := v.Status.LastPhaseTransitionTime
			if tc.want != nil && !got.Equal(tc.want) || tc.want == nil && time.Since(got.Time) > time.Minute {
				t.Errorf("time is %v, want %v", got, tc.want)
			}
		})
	}
}

func TestWarnings(t *testing.T) {
	v := valid()
	v.Annotations = map[string]string{corev1.BetaStorageClassAnnotation: "x"}
	v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRecycle
	v.Spec.NodeAffinity = onNodes("beta.kubernetes.io/os")
	v.Spec.RBD = &corev1.RBDPersistentVolumeSource{}
	want := []string{
		`metadata.annotations[volume.beta.kubernetes.io/storage-class]: deprecated since v1.8; use "storageClassName" attribute instead`,
		"spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning.",
		`spec.nodeAffinity.required.nodeSelectorTerms[0].matchExpressions[0].key: beta.kubernetes.io/os is deprecated since v1.14; use "kubernetes.io/os" instead`,
		"spec.rbd: deprecated in v1.28, non-functional in v1.31+",
	}
	if got := warnings(t.Context(), v, nil); !slices.Equal(got, want) {
		t.Errorf("warnings are %q", got)
	}
}
