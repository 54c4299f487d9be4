// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package csi

import (
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"slices"
	"strconv"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"minik8s.io/minik8s/pkg/kubelet/internal/volume/plugin"
)

// volume is what a driver is asked to bring to the node, from a persistent volume or from the spec of a pod.
type volume struct {
	// name is that of the persistent volume, or the one in the pod's spec.
	name           string
	driver, handle string
	lifecycle      storagev1.VolumeLifecycleMode
	block          bool
	fsType         string
	mountOptions   []string
	accessModes    []corev1.PersistentVolumeAccessMode
	attributes     map[string]string
	readOnly       bool

	stageSecret, publishSecret, expandSecret *corev1.SecretReference
	// persistent and claim are nil if the pod's spec has the volume.
	persistent *corev1.PersistentVolume
	claim      *corev1.PersistentVolumeClaim
}

// ofPersistent describes a persistent volume that a driver provides, as a volume of a pod has it.
func ofPersistent(v *corev1.Volume, pv *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) volume {
	source := pv.Spec.CSI
	return volume{
		name: pv.Name, driver: source.Driver, handle: source.VolumeHandle, lifecycle: storagev1.VolumeLifecyclePersistent,
		block:  ptr.Deref(pv.Spec.VolumeMode, corev1.PersistentVolumeFilesystem) == corev1.PersistentVolumeBlock,
		fsType: source.FSType, mountOptions: pv.Spec.MountOptions, accessModes: pv.Spec.AccessModes, attributes: source.VolumeAttributes,
		readOnly:    v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ReadOnly,
		stageSecret: source.NodeStageSecretRef, publishSecret: source.NodePublishSecretRef, expandSecret: source.NodeExpandSecretRef,
		persistent: pv, claim: claim,
	}
}

// ofPod describes a volume that the spec of the pod has itself. No other pod has one of that handle.
func ofPod(pod *corev1.Pod, v *corev1.Volume) volume {
	sum := sha256.Sum256([]byte(string(pod.UID) + v.Name))
	out := volume{
		name: v.Name, driver: v.CSI.Driver, handle: "csi-" + hex.EncodeToString(sum[:]), lifecycle: storagev1.VolumeLifecycleEphemeral,
		fsType: ptr.Deref(v.CSI.FSType, ""), accessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		attributes: v.CSI.VolumeAttributes, readOnly: ptr.Deref(v.CSI.ReadOnly, false),
	}
	if s := v.CSI.NodePublishSecretRef; s != nil {
		out.publishSecret = &corev1.SecretReference{Namespace: pod.Namespace, Name: s.Name}
	}
	return out
}

// capability says how the volume is to be used, in the words of CSI. group is the group that the driver is to give it to, "" for none.
func (v *volume) capability(can capabilities, group string) *csipb.VolumeCapability {
	out := &csipb.VolumeCapability{AccessMode: &csipb.VolumeCapability_AccessMode{Mode: accessMode(v.accessModes, can)}}
	if v.block {
		out.AccessType = &csipb.VolumeCapability_Block{Block: &csipb.VolumeCapability_BlockVolume{}}
		return out
	}
	out.AccessType = &csipb.VolumeCapability_Mount{Mount: &csipb.VolumeCapability_MountVolume{
		FsType: v.fsType, MountFlags: v.mountOptions, VolumeMountGroup: group,
	}}
	return out
}

// accessMode is the first of the modes of a volume: upstream asks for that one.
func accessMode(modes []corev1.PersistentVolumeAccessMode, can capabilities) csipb.VolumeCapability_AccessMode_Mode {
	mode := corev1.ReadWriteOnce
	if len(modes) > 0 {
		mode = modes[0]
	}
	fine := can[csipb.NodeServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER]
	switch {
	case mode == corev1.ReadOnlyMany:
		return csipb.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY
	case mode == corev1.ReadWriteMany:
		return csipb.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER
	case mode == corev1.ReadWriteOncePod && fine:
		return csipb.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER
	case fine:
		return csipb.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER
	}
	return csipb.VolumeCapability_AccessMode_SINGLE_NODE_WRITER
}

// givesGroup says whether the kubelet gives the files of a volume to the group of its pod. info is nil of a driver without CSIDriver.
func (v *volume) givesGroup(info *storagev1.CSIDriver) bool {
	policy := storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy
	if info != nil {
		policy = ptr.Deref(info.Spec.FSGroupPolicy, policy)
	}
	switch {
	case v.block || v.readOnly:
		return false
	case policy == storagev1.FileFSGroupPolicy:
		return true
	case policy != storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy:
		return false
	}
	once := slices.Contains(v.accessModes, corev1.ReadWriteOnce) || slices.Contains(v.accessModes, corev1.ReadWriteOncePod)
	return v.fsType != "" && once
}

// attaches says whether the driver's controller has to attach the volume to the node before.
func (v *volume) attaches(info *storagev1.CSIDriver) bool {
	return v.lifecycle == storagev1.VolumeLifecyclePersistent && attachRequired(info)
}

func attachRequired(info *storagev1.CSIDriver) bool {
	return info == nil || ptr.Deref(info.Spec.AttachRequired, true)
}

// attachmentName is the name of the VolumeAttachment of a volume to a node. The controller and the external attacher compute it too.
func attachmentName(handle, driver, node string) string {
	sum := sha256.Sum256([]byte(handle + driver + node))
	return "csi-" + hex.EncodeToString(sum[:])
}

// uniqueName is the name of a volume in the status of nodes.
func uniqueName(driver, handle string) corev1.UniqueVolumeName {
	return corev1.UniqueVolumeName("kubernetes.io/csi/" + driver + "^" + handle)
}

// kind is the name of the plugin, folder that of the folder of its volumes; the layout is upstream's, because drivers read it.
const kind, folder = "kubernetes.io/csi", "kubernetes.io~csi"

// layout says where things are below the kubelet's root.
type layout struct{ root string }

// pod is the folder of a volume of a pod, with its record.
func (l layout) pod(uid types.UID, name string) string {
	if uid == leftBehind {
		return filepath.Join(l.root, "plugins", kind, "volumeDevices", "left", name)
	}
	return filepath.Join(l.root, "pods", string(uid), "volumes", folder, name)
}

// target is where a volume is published for a pod: a directory, or a device.
func (l layout) target(uid types.UID, name string, block bool) string {
	if block {
		return filepath.Join(l.root, "plugins", kind, "volumeDevices", "publish", name, string(uid))
	}
	return filepath.Join(l.pod(uid, name), "mount")
}

// staging is where a volume is staged for all pods of the node.
func (l layout) staging(r record) string {
	if r.block() {
		return filepath.Join(l.root, "plugins", kind, "volumeDevices", "staging", r.Name)
	}
	sum := sha256.Sum256([]byte(r.Handle))
	return filepath.Join(l.root, "plugins", kind, r.Driver, hex.EncodeToString(sum[:]), "globalmount")
}

// mountGroup is the group of the pod if the driver is to give the volume to it, "" if the kubelet does, or nobody.
func mountGroup(m plugin.Mount, can capabilities) string {
	group := m.FSGroup()
	if group == nil || !can[csipb.NodeServiceCapability_RPC_VOLUME_MOUNT_GROUP] {
		return ""
	}
	return strconv.FormatInt(*group, 10)
}
