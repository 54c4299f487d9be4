// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// supported refuses what the API has and this kubelet cannot do, so that nobody waits for it in vain. A line leaves this
// list with the change that makes it work.
func supported(pod *corev1.Pod) *Refusal {
	s, path := &pod.Spec, field.NewPath("spec")
	var missing []string
	no := func(used bool, what string, p *field.Path) {
		if used {
			missing = append(missing, fmt.Sprintf("%s (%s)", p, what))
		}
	}
	for i := range s.Volumes {
		volumeSupported(&s.Volumes[i], path.Child("volumes").Index(i), no)
	}
	if missing == nil {
		return nil
	}
	return &Refusal{"PodFeatureUnsupported", "Not supported by this node yet: " + strings.Join(missing, ", ")}
}

func volumeSupported(v *corev1.Volume, path *field.Path, no func(bool, string, *field.Path)) {
	const plugin = "this type of volume"
	no(v.ISCSI != nil, plugin, path.Child("iscsi"))
	no(v.FC != nil, plugin, path.Child("fc"))
	no(v.GitRepo != nil, plugin, path.Child("gitRepo"))
	no(v.FlexVolume != nil, plugin, path.Child("flexVolume"))
	no(v.AWSElasticBlockStore != nil, plugin, path.Child("awsElasticBlockStore"))
	no(v.AzureDisk != nil, plugin, path.Child("azureDisk"))
	no(v.AzureFile != nil, plugin, path.Child("azureFile"))
	no(v.CephFS != nil, plugin, path.Child("cephfs"))
	no(v.Cinder != nil, plugin, path.Child("cinder"))
	no(v.Flocker != nil, plugin, path.Child("flocker"))
	no(v.GCEPersistentDisk != nil, plugin, path.Child("gcePersistentDisk"))
	no(v.Glusterfs != nil, plugin, path.Child("glusterfs"))
	no(v.PhotonPersistentDisk != nil, plugin, path.Child("photonPersistentDisk"))
	no(v.PortworxVolume != nil, plugin, path.Child("portworxVolume"))
	no(v.Quobyte != nil, plugin, path.Child("quobyte"))
	no(v.RBD != nil, plugin, path.Child("rbd"))
	no(v.ScaleIO != nil, plugin, path.Child("scaleIO"))
	no(v.StorageOS != nil, plugin, path.Child("storageos"))
	no(v.VsphereVolume != nil, plugin, path.Child("vsphereVolume"))
}
