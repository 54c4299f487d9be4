// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package persistentvolume

import (
	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"minik8s.io/minik8s/pkg/apis/core/localpath"
	"minik8s.io/minik8s/pkg/apis/core/volumesource"
)

// maxISCSIVolume is how long the name of a volume, a colon and its portal may be together if they name the session.
const maxISCSIVolume = 64

// source is one place that a volume may come from.
type source struct {
	name     string
	set      bool
	validate func(path *field.Path) field.ErrorList
}

func of[T any](name string, v *T, validate func(v *T, path *field.Path) field.ErrorList) source {
	return source{name, v != nil, func(path *field.Path) field.ErrorList { return validate(v, path) }}
}

// at is the name under which upstream reports what is wrong inside of a source.
func (s source) at() string {
	switch s.name {
	case "gcePersistentDisk":
		return "persistentDisk"
	case "cephFS":
		return "cephfs"
	}
	return s.name
}

// sources are all places, in the order in which the first one that is set counts. name is that of the volume.
func sources(s *corev1.PersistentVolumeSource, name string) []source {
	return []source{
		of("hostPath", s.HostPath, volumesource.ValidateHostPath),
		of("gcePersistentDisk", s.GCEPersistentDisk, volumesource.ValidateGCEPersistentDisk),
		of("awsElasticBlockStore", s.AWSElasticBlockStore, volumesource.ValidateAWSElasticBlockStore),
		of("glusterfs", s.Glusterfs, validateGlusterfs),
		of("flocker", s.Flocker, volumesource.ValidateFlocker),
		of("nfs", s.NFS, volumesource.ValidateNFS),
		of("rbd", s.RBD, validateRBD),
		of("quobyte", s.Quobyte, volumesource.ValidateQuobyte),
		of("cephFS", s.CephFS, validateCephFS),
		of("iscsi", s.ISCSI, func(i *corev1.ISCSIPersistentVolumeSource, p *field.Path) field.ErrorList {
			return validateISCSI(i, name, p)
		}),
		of("cinder", s.Cinder, validateCinder),
		of("fc", s.FC, volumesource.ValidateFC),
		of("flexVolume", s.FlexVolume, validateFlex),
		of("azureFile", s.AzureFile, validateAzureFile),
		of("vsphereVolume", s.VsphereVolume, validateVsphere),
		of("photonPersistentDisk", s.PhotonPersistentDisk, validatePhoton),
		of("portworxVolume", s.PortworxVolume, validatePortworx),
		of("azureDisk", s.AzureDisk, volumesource.ValidateAzureDisk),
		of("scaleIO", s.ScaleIO, validateScaleIO),
		of("local", s.Local, validateLocal),
		of("storageos", s.StorageOS, validateStorageOS),
		of("csi", s.CSI, validateCSI),
	}
}

func validateGlusterfs(g *corev1.GlusterfsPersistentVolumeSource, path *field.Path) field.ErrorList {
	errs := append(volumesource.Required(g.EndpointsName, path.Child("endpoints")), volumesource.Required(g.Path, path.Child("path"))...)
	if g.EndpointsNamespace == nil {
		return errs
	}
	p := path.Child("endpointsNamespace")
	if *g.EndpointsNamespace == "" {
		return append(errs, field.Invalid(p, "", "if the endpointnamespace is set, it must be a valid namespace name"))
	}
	for _, msg := range apivalidation.ValidateNamespaceName(*g.EndpointsNamespace, false) {
		errs = append(errs, field.Invalid(p, *g.EndpointsNamespace, msg))
	}
	return errs
}

func validateRBD(r *corev1.RBDPersistentVolumeSource, path *field.Path) field.ErrorList {
	return append(validateMonitors(r.CephMonitors, path), volumesource.Required(r.RBDImage, path.Child("image"))...)
}

func validateCephFS(c *corev1.CephFSPersistentVolumeSource, path *field.Path) field.ErrorList {
	return validateMonitors(c.Monitors, path)
}

func validateMonitors(monitors []string, path *field.Path) field.ErrorList {
	if len(monitors) == 0 {
		return field.ErrorList{field.Required(path.Child("monitors"), "")}
	}
	return nil
}

func validateISCSI(i *corev1.ISCSIPersistentVolumeSource, volume string, path *field.Path) field.ErrorList {
	errs := volumesource.ISCSI{
		TargetPortal: i.TargetPortal, IQN: i.IQN, Lun: i.Lun, InitiatorName: i.InitiatorName,
		CHAP: i.DiscoveryCHAPAuth || i.SessionCHAPAuth, HasSecret: i.SecretRef != nil,
	}.Validate(path)
	if i.InitiatorName != nil && len(volume+":"+i.TargetPortal) > maxISCSIVolume {
		errs = append(errs, field.Invalid(path.Child("targetportal"), i.TargetPortal,
			"Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified."))
	}
	if i.SecretRef != nil {
		errs = append(errs, volumesource.Required(i.SecretRef.Name, path.Child("secretRef", "name"))...)
	}
	return errs
}

func validateCinder(c *corev1.CinderPersistentVolumeSource, path *field.Path) field.ErrorList {
	return append(volumesource.Required(c.VolumeID, path.Child("volumeID")), validateSecret(c.SecretRef, path.Child("secretRef"))...)
}

func validateFlex(f *corev1.FlexPersistentVolumeSource, path *field.Path) field.ErrorList {
	return volumesource.ValidateFlex(f.Driver, f.Options, path)
}

func validateAzureFile(a *corev1.AzureFilePersistentVolumeSource, path *field.Path) field.ErrorList {
	errs := append(volumesource.Required(a.SecretName, path.Child("secretName")), volumesource.Required(a.ShareName, path.Child("shareName"))...)
	if a.SecretNamespace != nil {
		errs = append(errs, volumesource.Required(*a.SecretNamespace, path.Child("secretNamespace"))...)
	}
	return errs
}

func validateVsphere(v *corev1.VsphereVirtualDiskVolumeSource, path *field.Path) field.ErrorList {
	return volumesource.Required(v.VolumePath, path.Child("volumePath"))
}

func validatePhoton(p *corev1.PhotonPersistentDiskVolumeSource, path *field.Path) field.ErrorList {
	return volumesource.Required(p.PdID, path.Child("pdID"))
}

func validatePortworx(p *corev1.PortworxVolumeSource, path *field.Path) field.ErrorList {
	return volumesource.Required(p.VolumeID, path.Child("volumeID"))
}

func validateScaleIO(s *corev1.ScaleIOPersistentVolumeSource, path *field.Path) field.ErrorList {
	errs := append(volumesource.Required(s.Gateway, path.Child("gateway")), volumesource.Required(s.System, path.Child("system"))...)
	return append(errs, volumesource.Required(s.VolumeName, path.Child("volumeName"))...)
}

func validateLocal(l *corev1.LocalVolumeSource, path *field.Path) field.ErrorList {
	return append(volumesource.Required(l.Path, path.Child("path")), localpath.ValidateNoBacksteps(l.Path, path.Child("path"))...)
}

func validateStorageOS(s *corev1.StorageOSPersistentVolumeSource, path *field.Path) field.ErrorList {
	errs := volumesource.ValidateStorageOS(s.VolumeName, s.VolumeNamespace, path)
	if r := s.SecretRef; r != nil {
		errs = append(errs, validateSecret(&corev1.SecretReference{Name: r.Name, Namespace: r.Namespace}, path.Child("secretRef"))...)
	}
	return errs
}

// validateSecret asks of a reference no more than to be complete.
func validateSecret(r *corev1.SecretReference, path *field.Path) field.ErrorList {
	if r == nil {
		return nil
	}
	return append(volumesource.Required(r.Name, path.Child("name")), volumesource.Required(r.Namespace, path.Child("namespace"))...)
}

func validateCSI(c *corev1.CSIPersistentVolumeSource, path *field.Path) field.ErrorList {
	errs := volumesource.ValidateDriverName(c.Driver, path.Child("driver"))
	errs = append(errs, volumesource.Required(c.VolumeHandle, path.Child("volumeHandle"))...)
	for _, s := range []struct {
		name string
		ref  *corev1.SecretReference
	}{
		{"controllerPublishSecretRef", c.ControllerPublishSecretRef},
		{"controllerExpandSecretRef", c.ControllerExpandSecretRef},
		{"nodePublishSecretRef", c.NodePublishSecretRef},
		{"nodeExpandSecretRef", c.NodeExpandSecretRef},
	} {
		errs = append(errs, validateCSISecret(s.ref, path.Child(s.name))...)
	}
	return errs
}

// validateCSISecret asks of a reference to be complete and to name what can exist.
func validateCSISecret(r *corev1.SecretReference, path *field.Path) field.ErrorList {
	errs := validateSecret(r, path)
	if r == nil {
		return nil
	}
	if r.Name != "" {
		for _, msg := range validation.IsDNS1123Subdomain(r.Name) {
			errs = append(errs, field.Invalid(path.Child("name"), r.Name, msg))
		}
	}
	if r.Namespace != "" {
		for _, msg := range validation.IsDNS1123Label(r.Namespace) {
			errs = append(errs, field.Invalid(path.Child("namespace"), r.Namespace, msg))
		}
	}
	return errs
}
