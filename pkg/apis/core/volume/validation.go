// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"cmp"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"minik8s.io/minik8s/pkg/apis/core/downwardapi"
	"minik8s.io/minik8s/pkg/apis/core/image"
	"minik8s.io/minik8s/pkg/apis/core/localpath"
	"minik8s.io/minik8s/pkg/apis/core/persistentvolumeclaim"
	"minik8s.io/minik8s/pkg/apis/core/ratchet"
	"minik8s.io/minik8s/pkg/apis/core/volumesource"
)

// maxInterface is the length of the name that the node gives an iSCSI interface of its own.
const maxInterface = 64

const badMode = "must be a number between 0 and 0777 (octal), both inclusive"

// Validate checks the volumes of a pod and returns the valid ones by name, for the mounts to refer to. pod is the name of
// the pod, which begins those of the claims that its ephemeral volumes get; "" in templates.
func Validate(volumes []corev1.Volume, pod string, path *field.Path) (map[string]corev1.VolumeSource, field.ErrorList) {
	claims := sets.New[string]()
	for _, v := range volumes {
		if pod != "" && v.Ephemeral != nil {
			claims.Insert(pod + "-" + v.Name)
		}
	}
	valid := map[string]corev1.VolumeSource{}
	var errs field.ErrorList
	for i := range volumes {
		v, p := &volumes[i], path.Index(i)
		e := validateSource(v, pod, p)
		if v.Name == "" {
			e = append(e, field.Required(p.Child("name"), ""))
		} else {
			for _, msg := range validation.IsDNS1123Label(v.Name) {
				e = append(e, field.Invalid(p.Child("name"), v.Name, msg))
			}
		}
		if _, dup := valid[v.Name]; dup {
			e = append(e, field.Duplicate(p.Child("name"), v.Name))
		}
		if len(e) == 0 {
			valid[v.Name] = v.VolumeSource
		}
		errs = append(errs, e...)
		if c := v.PersistentVolumeClaim; c != nil && claims.Has(c.ClaimName) {
			errs = append(errs, field.Invalid(p.Child("persistentVolumeClaim", "claimName"), c.ClaimName, "must not reference a PVC that gets created for an ephemeral volume"))
		}
	}
	return valid, errs
}

// source is one of the kinds of volumes.
type source struct {
	// name is that of the field.
	name string
	// at is where upstream reports its errors, if not at its name; again, if it is not the only source.
	at, again string
	set       bool
	check     func(p *field.Path) field.ErrorList
}

// sources are all kinds, in the order in which the first of several counts.
func sources(v *corev1.VolumeSource) []source {
	return []source{
		{name: "emptyDir", set: v.EmptyDir != nil, check: func(p *field.Path) field.ErrorList { return validateEmptyDir(v.EmptyDir, p) }},
		{name: "hostPath", set: v.HostPath != nil, check: func(p *field.Path) field.ErrorList { return volumesource.ValidateHostPath(v.HostPath, p) }},
		{name: "gitRepo", set: v.GitRepo != nil, check: func(p *field.Path) field.ErrorList {
			return append(required(v.GitRepo.Repository, p.Child("repository")), localpath.ValidateDescending(v.GitRepo.Directory, p.Child("directory"))...)
		}},
		{name: "gcePersistentDisk", at: "persistentDisk", set: v.GCEPersistentDisk != nil, check: func(p *field.Path) field.ErrorList {
			return volumesource.ValidateGCEPersistentDisk(v.GCEPersistentDisk, p)
		}},
		{name: "awsElasticBlockStore", set: v.AWSElasticBlockStore != nil, check: func(p *field.Path) field.ErrorList {
			return volumesource.ValidateAWSElasticBlockStore(v.AWSElasticBlockStore, p)
		}},
		{name: "secret", set: v.Secret != nil, check: func(p *field.Path) field.ErrorList {
			return append(validateKeyed(v.Secret.SecretName, "secretName", v.Secret.DefaultMode, v.Secret.Items, p), validateUser(v.Secret.DefaultUser, p.Child("defaultUser"))...)
		}},
		{name: "nfs", set: v.NFS != nil, check: func(p *field.Path) field.ErrorList { return volumesource.ValidateNFS(v.NFS, p) }},
		{name: "iscsi", set: v.ISCSI != nil, check: func(p *field.Path) field.ErrorList { return validateISCSI(v.ISCSI, p) }},
		{name: "glusterfs", set: v.Glusterfs != nil, check: func(p *field.Path) field.ErrorList {
			return append(required(v.Glusterfs.EndpointsName, p.Child("endpoints")), required(v.Glusterfs.Path, p.Child("path"))...)
		}},
		{name: "flocker", set: v.Flocker != nil, check: func(p *field.Path) field.ErrorList { return volumesource.ValidateFlocker(v.Flocker, p) }},
		{name: "persistentVolumeClaim", set: v.PersistentVolumeClaim != nil, check: func(p *field.Path) field.ErrorList {
			return required(v.PersistentVolumeClaim.ClaimName, p.Child("claimName"))
		}},
		{name: "rbd", set: v.RBD != nil, check: func(p *field.Path) field.ErrorList {
			return append(some(v.RBD.CephMonitors, p.Child("monitors")), required(v.RBD.RBDImage, p.Child("image"))...)
		}},
		{name: "cinder", set: v.Cinder != nil, check: func(p *field.Path) field.ErrorList {
			return append(required(v.Cinder.VolumeID, p.Child("volumeID")), namedSecret(v.Cinder.SecretRef, p.Child("secretRef"))...)
		}},
		{name: "cephfs", again: "cephFS", set: v.CephFS != nil, check: func(p *field.Path) field.ErrorList { return some(v.CephFS.Monitors, p.Child("monitors")) }},
		{name: "quobyte", set: v.Quobyte != nil, check: func(p *field.Path) field.ErrorList { return volumesource.ValidateQuobyte(v.Quobyte, p) }},
		{name: "downwardAPI", again: "downwarAPI", set: v.DownwardAPI != nil, check: func(p *field.Path) field.ErrorList {
			errs := validateMode(v.DownwardAPI.DefaultMode, p.Child("defaultMode"))
			errs = append(errs, validateUser(v.DownwardAPI.DefaultUser, p.Child("defaultUser"))...)
			for i := range v.DownwardAPI.Items {
				errs = append(errs, validateFile(&v.DownwardAPI.Items[i], p)...)
			}
			return errs
		}},
		{name: "fc", set: v.FC != nil, check: func(p *field.Path) field.ErrorList { return volumesource.ValidateFC(v.FC, p) }},
		{name: "flexVolume", set: v.FlexVolume != nil, check: func(p *field.Path) field.ErrorList {
			return volumesource.ValidateFlex(v.FlexVolume.Driver, v.FlexVolume.Options, p)
		}},
		{name: "configMap", set: v.ConfigMap != nil, check: func(p *field.Path) field.ErrorList {
			return append(validateKeyed(v.ConfigMap.Name, "name", v.ConfigMap.DefaultMode, v.ConfigMap.Items, p), validateUser(v.ConfigMap.DefaultUser, p.Child("defaultUser"))...)
		}},
		{name: "azureFile", set: v.AzureFile != nil, check: func(p *field.Path) field.ErrorList {
			return append(required(v.AzureFile.SecretName, p.Child("secretName")), required(v.AzureFile.ShareName, p.Child("shareName"))...)
		}},
		{name: "vsphereVolume", set: v.VsphereVolume != nil, check: func(p *field.Path) field.ErrorList {
			return required(v.VsphereVolume.VolumePath, p.Child("volumePath"))
		}},
		{name: "photonPersistentDisk", set: v.PhotonPersistentDisk != nil, check: func(p *field.Path) field.ErrorList {
			return required(v.PhotonPersistentDisk.PdID, p.Child("pdID"))
		}},
		{name: "portworxVolume", set: v.PortworxVolume != nil, check: func(p *field.Path) field.ErrorList {
			return required(v.PortworxVolume.VolumeID, p.Child("volumeID"))
		}},
		{name: "azureDisk", set: v.AzureDisk != nil, check: func(p *field.Path) field.ErrorList { return volumesource.ValidateAzureDisk(v.AzureDisk, p) }},
		{name: "storageos", set: v.StorageOS != nil, check: func(p *field.Path) field.ErrorList {
			return append(volumesource.ValidateStorageOS(v.StorageOS.VolumeName, v.StorageOS.VolumeNamespace, p), namedSecret(v.StorageOS.SecretRef, p.Child("secretRef"))...)
		}},
		{name: "projected", set: v.Projected != nil, check: func(p *field.Path) field.ErrorList {
			errs := append(validateMode(v.Projected.DefaultMode, p.Child("defaultMode")), validateUser(v.Projected.DefaultUser, p.Child("defaultUser"))...)
			return append(errs, validateProjections(v.Projected.Sources, p)...)
		}},
		{name: "scaleIO", set: v.ScaleIO != nil, check: func(p *field.Path) field.ErrorList {
			errs := append(required(v.ScaleIO.Gateway, p.Child("gateway")), required(v.ScaleIO.System, p.Child("system"))...)
			return append(errs, required(v.ScaleIO.VolumeName, p.Child("volumeName"))...)
		}},
		{name: "csi", set: v.CSI != nil, check: func(p *field.Path) field.ErrorList { return validateCSI(v.CSI, p) }},
		{name: "ephemeral", set: v.Ephemeral != nil, check: func(p *field.Path) field.ErrorList {
			if v.Ephemeral.VolumeClaimTemplate == nil {
				return field.ErrorList{field.Required(p.Child("volumeClaimTemplate"), "")}
			}
			return persistentvolumeclaim.ValidateTemplate(v.Ephemeral.VolumeClaimTemplate, p.Child("volumeClaimTemplate"), persistentvolumeclaim.Leniency{})
		}},
		{name: "image", set: v.Image != nil, check: func(p *field.Path) field.ErrorList {
			errs := ratchet.Mark("image volumes without reference", required(v.Image.Reference, p.Child("reference"))...)
			return append(errs, image.ValidatePullPolicy(v.Image.PullPolicy, p.Child("pullPolicy"))...)
		}},
	}
}

func validateSource(v *corev1.Volume, pod string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	first := ""
	for _, s := range sources(&v.VolumeSource) {
		if !s.set {
			continue
		}
		if first != "" {
			errs = append(errs, field.Forbidden(path.Child(cmp.Or(s.again, s.name)), "may not specify more than 1 volume type"))
			continue
		}
		first = s.name
		errs = append(errs, s.check(path.Child(cmp.Or(s.at, s.name)))...)
	}
	if first == "" {
		errs = append(errs, field.Required(path, "must specify a volume type"))
	}
	if i := v.ISCSI; i != nil && i.InitiatorName != nil && len(v.Name+":"+i.TargetPortal) > maxInterface {
		errs = append(errs, field.Invalid(path.Child("name"), v.Name, fmt.Sprintf("Total length of <volume name>:<iscsi.targetPortal> must be under %d characters if iscsi.initiatorName is specified.", maxInterface)))
	}
	if first == "ephemeral" && pod != "" && v.Name != "" {
		claim := pod + "-" + v.Name
		for _, msg := range apivalidation.NameIsDNSSubdomain(claim, false) {
			errs = append(errs, field.Invalid(path.Child("name"), v.Name, fmt.Sprintf("PVC name %q: %v", claim, msg)))
		}
	}
	return errs
}

func validateEmptyDir(e *corev1.EmptyDirVolumeSource, path *field.Path) field.ErrorList {
	if e.SizeLimit != nil && e.SizeLimit.Sign() < 0 {
		return field.ErrorList{field.Forbidden(path.Child("sizeLimit"), "SizeLimit field must be a valid resource quantity")}
	}
	return nil
}

func validateISCSI(i *corev1.ISCSIVolumeSource, path *field.Path) field.ErrorList {
	return volumesource.ISCSI{
		TargetPortal: i.TargetPortal, IQN: i.IQN, Lun: i.Lun,
		CHAP: i.DiscoveryCHAPAuth || i.SessionCHAPAuth, HasSecret: i.SecretRef != nil, InitiatorName: i.InitiatorName, OfPod: true,
	}.Validate(path)
}

func validateCSI(c *corev1.CSIVolumeSource, path *field.Path) field.ErrorList {
	errs := volumesource.ValidateDriverName(c.Driver, path.Child("driver"))
	switch s := c.NodePublishSecretRef; {
	case s == nil:
	case s.Name == "":
		errs = append(errs, field.Required(path.Child("nodePublishSecretRef", "name"), ""))
	default:
		for _, msg := range apivalidation.NameIsDNSSubdomain(s.Name, false) {
			errs = append(errs, field.Invalid(path.Child("name"), s.Name, msg)) // where upstream reports it
		}
	}
	return errs
}

// validateKeyed checks a Secret or ConfigMap, named in the given field.
func validateKeyed(name, child string, mode *int32, items []corev1.KeyToPath, path *field.Path) field.ErrorList {
	errs := append(required(name, path.Child(child)), validateMode(mode, path.Child("defaultMode"))...)
	return append(errs, validateKeys(items, path.Child("items"))...)
}

func namedSecret(ref *corev1.LocalObjectReference, path *field.Path) field.ErrorList {
	if ref == nil {
		return nil
	}
	return required(ref.Name, path.Child("name"))
}

func some(values []string, path *field.Path) field.ErrorList {
	if len(values) == 0 {
		return field.ErrorList{field.Required(path, "")}
	}
	return nil
}

func required(value string, path *field.Path) field.ErrorList {
	if value == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	return nil
}

func validateMode(mode *int32, path *field.Path) field.ErrorList {
	if mode != nil && (*mode < 0 || *mode > 0o777) {
		return field.ErrorList{field.Invalid(path, *mode, badMode)}
	}
	return nil
}

// validateUser checks the owner of a file.
func validateUser(id *int64, path *field.Path) field.ErrorList {
	if id == nil {
		return nil
	}
	var errs field.ErrorList
	for _, msg := range validation.IsValidUserID(*id) {
		errs = append(errs, field.Invalid(path, *id, msg))
	}
	return errs
}

func validateKeys(items []corev1.KeyToPath, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, item := range items {
		p := path.Index(i)
		errs = append(errs, required(item.Key, p.Child("key"))...)
		errs = append(errs, required(item.Path, p.Child("path"))...)
		errs = append(errs, localpath.ValidateNonReserved(item.Path, p.Child("path"))...)
		errs = append(errs, validateMode(item.Mode, p.Child("mode"))...)
		errs = append(errs, validateUser(item.User, p.Child("user"))...)
	}
	return errs
}

func validateFile(f *corev1.DownwardAPIVolumeFile, path *field.Path) field.ErrorList {
	errs := required(f.Path, path.Child("path"))
	errs = append(errs, localpath.ValidateNonReserved(f.Path, path.Child("path"))...)
	switch {
	case f.FieldRef != nil:
		errs = append(errs, downwardapi.ValidateField(f.FieldRef, downwardapi.VolumeFields, path.Child("fieldRef"))...)
		if f.ResourceFieldRef != nil {
			errs = append(errs, field.Invalid(path, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously"))
		}
	case f.ResourceFieldRef != nil:
		errs = append(errs, downwardapi.ValidateResource(f.ResourceFieldRef, true, path.Child("resourceFieldRef"))...)
	default:
		errs = append(errs, field.Required(path, "one of fieldRef and resourceFieldRef is required"))
	}
	errs = append(errs, validateMode(f.Mode, path.Child("mode"))...)
	return append(errs, validateUser(f.User, path.Child("user"))...)
}
