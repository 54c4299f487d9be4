// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package volumesource checks the places that volumes come from, as far as pods and PersistentVolumes name them alike, and
// fills in their defaults. Touch it when such a place gets another field.
package volumesource

import (
	"net"
	"path"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"minik8s.io/minik8s/pkg/apis/core/localpath"
)

const maxDriverName = 63

var (
	partitionRange = validation.InclusiveRangeError(1, 255)
	lunRange       = validation.InclusiveRangeError(0, 255)

	// iscsiNames are the forms of names in iSCSI (RFC 3720, 3.2.6.3) by their beginning.
	iscsiNames = map[string]*regexp.Regexp{
		"iqn": regexp.MustCompile(`iqn\.\d{4}-\d{2}\.([[:alnum:]-.]+)(:[^,;*&$|\s]+)$`),
		"eui": regexp.MustCompile(`^eui.[[:alnum:]]{16}$`),
		"naa": regexp.MustCompile(`^naa.[[:alnum:]]{32}$`),
	}

	hostPathTypes = sets.New(
		corev1.HostPathUnset, corev1.HostPathBlockDev, corev1.HostPathCharDev, corev1.HostPathDirectory,
		corev1.HostPathDirectoryOrCreate, corev1.HostPathFile, corev1.HostPathFileOrCreate, corev1.HostPathSocket,
	)
	cachingModes = sets.New(corev1.AzureDataDiskCachingNone, corev1.AzureDataDiskCachingReadOnly, corev1.AzureDataDiskCachingReadWrite)
	diskKinds    = sets.New(corev1.AzureSharedBlobDisk, corev1.AzureDedicatedBlobDisk, corev1.AzureManagedDisk)
)

// Required complains of an empty value.
func Required(value string, path *field.Path) field.ErrorList {
	if value == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	return nil
}

// ValidateHostPath checks a path of the node.
func ValidateHostPath(h *corev1.HostPathVolumeSource, path *field.Path) field.ErrorList {
	if h.Path == "" {
		return field.ErrorList{field.Required(path.Child("path"), "")}
	}
	errs := localpath.ValidateNoBacksteps(h.Path, path.Child("path"))
	if h.Type != nil && !hostPathTypes.Has(*h.Type) {
		errs = append(errs, field.NotSupported(path.Child("type"), *h.Type, sets.List(hostPathTypes)))
	}
	return errs
}

// ValidateGCEPersistentDisk checks a disk of Google's cloud.
func ValidateGCEPersistentDisk(d *corev1.GCEPersistentDiskVolumeSource, path *field.Path) field.ErrorList {
	return append(Required(d.PDName, path.Child("pdName")), validatePartition(d.Partition, path.Child("partition"))...)
}

// ValidateAWSElasticBlockStore checks a disk of Amazon's cloud.
func ValidateAWSElasticBlockStore(d *corev1.AWSElasticBlockStoreVolumeSource, path *field.Path) field.ErrorList {
	return append(Required(d.VolumeID, path.Child("volumeID")), validatePartition(d.Partition, path.Child("partition"))...)
}

func validatePartition(n int32, path *field.Path) field.ErrorList {
	if n < 0 || n > 255 {
		return field.ErrorList{field.Invalid(path, n, partitionRange)}
	}
	return nil
}

// ValidateNFS checks an NFS export.
func ValidateNFS(n *corev1.NFSVolumeSource, p *field.Path) field.ErrorList {
	errs := append(Required(n.Server, p.Child("server")), Required(n.Path, p.Child("path"))...)
	if !path.IsAbs(n.Path) {
		errs = append(errs, field.Invalid(p.Child("path"), n.Path, "must be an absolute path"))
	}
	return errs
}

// ValidateQuobyte checks a Quobyte volume.
func ValidateQuobyte(q *corev1.QuobyteVolumeSource, path *field.Path) field.ErrorList {
	const pairs = "must be a host:port pair or multiple pairs separated by commas"
	var errs field.ErrorList
	switch {
	case q.Registry == "":
		errs = append(errs, field.Required(path.Child("registry"), pairs))
	case len(q.Tenant) > 64:
		errs = append(errs, field.Required(path.Child("tenant"), "must be a UUID and may not exceed a length of 64 characters"))
	default:
		for pair := range strings.SplitSeq(q.Registry, ",") {
			if _, _, err := net.SplitHostPort(pair); err != nil {
				errs = append(errs, field.Invalid(path.Child("registry"), q.Registry, pairs))
			}
		}
	}
	return append(errs, Required(q.Volume, path.Child("volume"))...)
}

// ValidateFlocker checks a Flocker dataset.
func ValidateFlocker(f *corev1.FlockerVolumeSource, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch {
	case f.DatasetName == "" && f.DatasetUUID == "":
		errs = append(errs, field.Required(path, "one of datasetName and datasetUUID is required"))
	case f.DatasetName != "" && f.DatasetUUID != "":
		errs = append(errs, field.Invalid(path, "resource", "datasetName and datasetUUID can not be specified simultaneously"))
	}
	if strings.Contains(f.DatasetName, "/") {
		errs = append(errs, field.Invalid(path.Child("datasetName"), f.DatasetName, "must not contain '/'"))
	}
	return errs
}

// ValidateFC checks a Fibre Channel volume.
func ValidateFC(f *corev1.FCVolumeSource, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	p := path.Child("targetWWNs")
	if len(f.TargetWWNs) == 0 && len(f.WWIDs) == 0 {
		errs = append(errs, field.Required(p, "must specify either targetWWNs or wwids, but not both"))
	}
	if len(f.TargetWWNs) == 0 {
		return errs
	}
	if len(f.WWIDs) > 0 {
		errs = append(errs, field.Invalid(p, f.TargetWWNs, "targetWWNs and wwids can not be specified simultaneously"))
	}
	if f.Lun == nil {
		return append(errs, field.Required(path.Child("lun"), "lun is required if targetWWNs is specified"))
	}
	return append(errs, validateLUN(*f.Lun, path.Child("lun"))...)
}

func validateLUN(n int32, path *field.Path) field.ErrorList {
	if n < 0 || n > 255 {
		return field.ErrorList{field.Invalid(path, n, lunRange)}
	}
	return nil
}

// ISCSI is what pods and PersistentVolumes say alike of an iSCSI volume.
type ISCSI struct {
	TargetPortal, IQN string
	Lun               int32
	// CHAP is set if discovery or sessions authenticate by CHAP; HasSecret, if there is a reference to a Secret.
	CHAP, HasSecret bool
	InitiatorName   *string
	// OfPod makes refusals of names say how these may begin, as upstream's do only there.
	OfPod bool
}

// Validate checks an iSCSI volume.
func (i ISCSI) Validate(path *field.Path) field.ErrorList {
	errs := Required(i.TargetPortal, path.Child("targetPortal"))
	if i.IQN == "" {
		errs = append(errs, field.Required(path.Child("iqn"), ""))
	} else {
		errs = append(errs, i.name(i.IQN, path.Child("iqn"))...)
	}
	errs = append(errs, validateLUN(i.Lun, path.Child("lun"))...)
	if i.CHAP && !i.HasSecret {
		errs = append(errs, field.Required(path.Child("secretRef"), ""))
	}
	if i.InitiatorName != nil {
		errs = append(errs, i.name(*i.InitiatorName, path.Child("initiatorname"))...)
	}
	return errs
}

func (i ISCSI) name(name string, path *field.Path) field.ErrorList {
	for prefix, form := range iscsiNames {
		if strings.HasPrefix(name, prefix) {
			if !form.MatchString(name) {
				return field.ErrorList{field.Invalid(path, name, "must be valid format")}
			}
			return nil
		}
	}
	if !i.OfPod {
		return field.ErrorList{field.Invalid(path, name, "must be valid format")}
	}
	return field.ErrorList{field.Invalid(path, name, "must be valid format starting with iqn, eui, or naa")}
}

// ValidateFlex checks the driver and the options of a FlexVolume.
func ValidateFlex(driver string, options map[string]string, path *field.Path) field.ErrorList {
	errs := Required(driver, path.Child("driver"))
	for key := range options {
		domain, _, _ := strings.Cut(key, "/")
		domain = "." + strings.ToLower(domain)
		if strings.HasSuffix(domain, ".kubernetes.io") || strings.HasSuffix(domain, ".k8s.io") {
			errs = append(errs, field.Invalid(path.Child("options").Key(key), key, "kubernetes.io and k8s.io namespaces are reserved"))
		}
	}
	return errs
}

// ValidateAzureDisk checks a disk of Microsoft's cloud.
func ValidateAzureDisk(d *corev1.AzureDiskVolumeSource, path *field.Path) field.ErrorList {
	errs := append(Required(d.DiskName, path.Child("diskName")), Required(d.DataDiskURI, path.Child("diskURI"))...)
	if d.CachingMode != nil && !cachingModes.Has(*d.CachingMode) {
		errs = append(errs, field.NotSupported(path.Child("cachingMode"), *d.CachingMode, sets.List(cachingModes)))
	}
	if d.Kind == nil {
		return errs
	}
	if !diskKinds.Has(*d.Kind) {
		errs = append(errs, field.NotSupported(path.Child("kind"), *d.Kind, sets.List(diskKinds)))
	}
	prefix, form := "https://", "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"
	if *d.Kind == corev1.AzureManagedDisk {
		prefix, form = "/subscriptions/", "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"
	}
	if !strings.HasPrefix(d.DataDiskURI, prefix) {
		errs = append(errs, field.NotSupported(path.Child("diskURI"), d.DataDiskURI, []string{form}))
	}
	return errs
}

// ValidateStorageOS checks the names of a StorageOS volume.
func ValidateStorageOS(volume, namespace string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if volume == "" {
		errs = append(errs, field.Required(path.Child("volumeName"), ""))
	} else {
		errs = append(errs, validateLabel(volume, path.Child("volumeName"))...)
	}
	if namespace != "" {
		errs = append(errs, validateLabel(namespace, path.Child("volumeNamespace"))...)
	}
	return errs
}

func validateLabel(s string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, msg := range validation.IsDNS1123Label(s) {
		errs = append(errs, field.Invalid(path, s, msg))
	}
	return errs
}

// ValidateDriverName checks the name of a CSI driver.
func ValidateDriverName(name string, path *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	var errs field.ErrorList
	if len(name) > maxDriverName {
		errs = append(errs, field.TooLong(path, "", maxDriverName))
	}
	for _, msg := range validation.IsDNS1123Subdomain(strings.ToLower(name)) {
		errs = append(errs, field.Invalid(path, name, msg))
	}
	return errs
}
