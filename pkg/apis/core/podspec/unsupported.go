// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package podspec

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateSupported refuses what Kubernetes has and the kubelet cannot do yet, so that nobody waits for it in vain. A
// line leaves this list with the change that makes it work.
func validateSupported(s *corev1.PodSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	no := func(used bool, what string, p *field.Path) {
		if used {
			errs = append(errs, field.Forbidden(p, fmt.Sprintf("not supported by minik8s yet: %s", what)))
		}
	}
	no(len(s.ResourceClaims) > 0, "dynamic resource allocation", path.Child("resourceClaims"))
	no(s.HostUsers != nil && !*s.HostUsers, "user namespaces", path.Child("hostUsers"))
	no(s.RuntimeClassName != nil && *s.RuntimeClassName != "", "runtime classes", path.Child("runtimeClassName"))
	no(s.SchedulingGroup != nil, "scheduling groups", path.Child("schedulingGroup"))
	no(len(s.EvictionResponders) > 0, "eviction responders", path.Child("evictionResponders"))
	no(s.Resources != nil, "pod-level resources", path.Child("resources"))
	no(s.OS != nil && s.OS.Name == corev1.Windows, "Windows", path.Child("os", "name"))
	if sc := s.SecurityContext; sc != nil {
		p := path.Child("securityContext")
		no(sc.WindowsOptions != nil, "Windows", p.Child("windowsOptions"))
		no(sc.SupplementalGroupsPolicy != nil && *sc.SupplementalGroupsPolicy == corev1.SupplementalGroupsPolicyStrict, "strict supplemental groups", p.Child("supplementalGroupsPolicy"))
	}
	for i := range s.Volumes {
		volumeSupported(&s.Volumes[i], path.Child("volumes").Index(i), no)
	}
	for p, c := range All(s, path) {
		containerSupported(c, p, no)
	}
	return errs
}

func volumeSupported(v *corev1.Volume, path *field.Path, no func(bool, string, *field.Path)) {
	const plugin = "this type of volume"
	no(v.PersistentVolumeClaim != nil, plugin, path.Child("persistentVolumeClaim"))
	no(v.Ephemeral != nil, plugin, path.Child("ephemeral"))
	no(v.CSI != nil, plugin, path.Child("csi"))
	no(v.Image != nil, plugin, path.Child("image"))
	no(v.NFS != nil, plugin, path.Child("nfs"))
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
	const user = "the owner of files in volumes"
	if e := v.EmptyDir; e != nil {
		no(e.Medium != corev1.StorageMediumDefault && e.Medium != corev1.StorageMediumMemory, "huge pages", path.Child("emptyDir", "medium"))
		no(e.Mode != nil, "the mode of emptyDir volumes", path.Child("emptyDir", "mode"))
	}
	no(v.Secret != nil && v.Secret.DefaultUser != nil, user, path.Child("secret", "defaultUser"))
	no(v.ConfigMap != nil && v.ConfigMap.DefaultUser != nil, user, path.Child("configMap", "defaultUser"))
	no(v.DownwardAPI != nil && v.DownwardAPI.DefaultUser != nil, user, path.Child("downwardAPI", "defaultUser"))
	if v.Projected == nil {
		return
	}
	no(v.Projected.DefaultUser != nil, user, path.Child("projected", "defaultUser"))
	for i, s := range v.Projected.Sources {
		p := path.Child("projected", "sources").Index(i)
		no(s.ClusterTrustBundle != nil, "cluster trust bundles", p.Child("clusterTrustBundle"))
		no(s.PodCertificate != nil, "pod certificates", p.Child("podCertificate"))
		no(s.ServiceAccountToken != nil && s.ServiceAccountToken.User != nil, user, p.Child("serviceAccountToken", "user"))
	}
}

func containerSupported(c *corev1.Container, path *field.Path, no func(bool, string, *field.Path)) {
	no(len(c.VolumeDevices) > 0, "block devices", path.Child("volumeDevices"))
	no(len(c.Resources.Claims) > 0, "dynamic resource allocation", path.Child("resources", "claims"))
	no(c.SecurityContext != nil && c.SecurityContext.WindowsOptions != nil, "Windows", path.Child("securityContext", "windowsOptions"))
	for i, r := range c.RestartPolicyRules {
		no(r.Action == corev1.ContainerRestartRuleActionRestartAllContainers, "restarting all containers", path.Child("restartPolicyRules").Index(i).Child("action"))
	}
	for i, m := range c.VolumeMounts {
		p := path.Child("volumeMounts").Index(i)
		no(m.RecursiveReadOnly != nil && *m.RecursiveReadOnly == corev1.RecursiveReadOnlyEnabled, "recursive read-only mounts", p.Child("recursiveReadOnly"))
		no(len(m.BindMountOptions) > 0, "bind mount options", p.Child("bindMountOptions"))
	}
	probeSupported(c.LivenessProbe, path.Child("livenessProbe"), no)
	probeSupported(c.ReadinessProbe, path.Child("readinessProbe"), no)
	probeSupported(c.StartupProbe, path.Child("startupProbe"), no)
}

func probeSupported(p *corev1.Probe, path *field.Path, no func(bool, string, *field.Path)) {
	if p == nil {
		return
	}
	no(p.HTTPGet != nil && p.HTTPGet.Protocol != nil && *p.HTTPGet.Protocol != corev1.HTTPProtocolHTTP1, "HTTP/2 probes", path.Child("httpGet", "protocol"))
	no(p.GRPC != nil && p.GRPC.Mode != nil && *p.GRPC.Mode != corev1.GRPCProbeModePlaintext, "gRPC probes over TLS", path.Child("grpc", "mode"))
}
