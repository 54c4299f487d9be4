// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package attachdetach

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

const (
	// managedAnnotation is what a kubelet puts on its node that leaves attaching to this controller.
	managedAnnotation = "volumes.kubernetes.io/controller-managed-attach-detach"
	// namePrefix is that of attachments; what follows is a hash.
	namePrefix = "csi-"
	// uniquePrefix is that of CSI volumes in the status of nodes.
	uniquePrefix = "kubernetes.io/csi/"
)

// attachmentName is the name of the attachment of a volume to a node. External attachers and kubelets compute it too.
func attachmentName(csi *corev1.CSIPersistentVolumeSource, node string) string {
	sum := sha256.Sum256([]byte(csi.VolumeHandle + csi.Driver + node))
	return namePrefix + hex.EncodeToString(sum[:])
}

// generated tells whether a name looks like one of attachmentName.
func generated(name string) bool {
	sum, found := strings.CutPrefix(name, namePrefix)
	_, err := hex.DecodeString(sum)
	return found && err == nil && len(sum) == 2*sha256.Size
}

// uniqueName is the name of a volume in the status of nodes.
func uniqueName(csi *corev1.CSIPersistentVolumeSource) corev1.UniqueVolumeName {
	return corev1.UniqueVolumeName(uniquePrefix + csi.Driver + "^" + csi.VolumeHandle)
}

// managed tells whether the volumes of a node are attached by this controller.
func managed(node *corev1.Node) bool {
	return node != nil && node.Annotations[managedAnnotation] == "true"
}

// exclusive tells whether a volume may be attached to one node only. One that says nothing may be refused by its driver.
func exclusive(volume *corev1.PersistentVolume) bool {
	modes := volume.Spec.AccessModes
	return len(modes) > 0 && !slices.Contains(modes, corev1.ReadWriteMany) && !slices.Contains(modes, corev1.ReadOnlyMany)
}

// mayDetach tells whether a volume that nobody has needed for some time can be detached: the node (nil if it is gone) has
// unmounted it, or was shut down for good, or has not been heard of for too long. unique is "" if the volume is gone.
func mayDetach(node *corev1.Node, unique corev1.UniqueVolumeName, since time.Duration) bool {
	switch {
	case node == nil:
		return since >= unmountTimeout
	case unique != "" && !slices.Contains(node.Status.VolumesInUse, unique):
		return true
	case unique == "" && !slices.ContainsFunc(node.Status.VolumesInUse, isCSI):
		return true
	case slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeOutOfService }):
		return true
	}
	return since >= unmountTimeout && !ready(node)
}

func isCSI(name corev1.UniqueVolumeName) bool { return strings.HasPrefix(string(name), uniquePrefix) }

func ready(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// merge replaces the CSI volumes among those of a node's status, sorted, and leaves others as they are.
func merge(have, attached []corev1.AttachedVolume) []corev1.AttachedVolume {
	var out []corev1.AttachedVolume
	for _, v := range have {
		if !isCSI(v.Name) {
			out = append(out, v)
		}
	}
	attached = slices.Clone(attached)
	slices.SortFunc(attached, func(a, b corev1.AttachedVolume) int { return strings.Compare(string(a.Name), string(b.Name)) })
	return append(out, slices.Compact(attached)...)
}

// inUseBy says who keeps a volume on another node, to users of a namespace: they do not learn names from others.
func inUseBy(pods []*corev1.Pod, namespace string) string {
	var names []string
	foreign := 0
	for i := range pods {
		if pods[i].Namespace == namespace {
			names = append(names, pods[i].Name)
		} else {
			foreign++
		}
	}
	switch {
	case len(pods) == 0:
		return "Volume is already exclusively attached to one node, waiting on detach before it can be attached to another node"
	case len(names) == 0:
		return fmt.Sprintf("Volume is already used by %d pod(s) in different namespaces", foreign)
	case foreign > 0:
		return fmt.Sprintf("Volume is already used by pod(s) %s and %d pod(s) in different namespaces", strings.Join(names, ", "), foreign)
	}
	return "Volume is already used by pod(s) " + strings.Join(names, ", ")
}

func sortedKeys(wants map[string]*wanted) []string { return slices.Sorted(maps.Keys(wants)) }
