// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package noderestriction

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/component-helpers/storage/ephemeral"
	"k8s.io/utils/ptr"

	"minik8s.io/minik8s/pkg/apis/storage/migration"
	"minik8s.io/minik8s/pkg/apiserver/admission/object"
)

// admitToken lets nodes have tokens only that die with a pod of theirs, and that are for whom the pod wants them for
// (KEP-4412).
func (p *Plugin) admitToken(ctx context.Context, name string, a admission.Attributes) error {
	if a.GetOperation() != admission.Create || a.GetSubresource() != "token" {
		return nil
	}
	r, err := object.New[*authenticationv1.TokenRequest](a)
	if err != nil {
		return err
	}
	ref := r.Spec.BoundObjectRef
	switch {
	case ref == nil || ref.APIVersion != "v1" || ref.Kind != "Pod" || ref.Name == "":
		return errors.New("node requested token not bound to a pod")
	case ref.UID == "":
		return errors.New("node requested token with a pod binding without a uid")
	}
	pod, err := p.pod(ctx, a.GetNamespace(), ref.Name, ref.UID, name)
	switch {
	case err != nil:
		return err
	case ref.UID != pod.UID:
		return fmt.Errorf("the UID in the bound object reference (%s) does not match the UID in record. The object might have been deleted and then recreated", ref.UID)
	case pod.Spec.NodeName != name:
		return errors.New("node requested token bound to a pod scheduled on a different node")
	}
	return p.admitAudience(ctx, pod, r.Spec.Audiences, a)
}

func (p *Plugin) admitAudience(ctx context.Context, pod *corev1.Pod, audiences []string, a admission.Attributes) error {
	audience := "" // stands for the API server
	switch len(audiences) {
	case 0:
	case 1:
		audience = audiences[0]
	default:
		return errors.New("node may only request 0 or 1 audiences")
	}
	wanted, err := p.wants(ctx, pod, audience)
	if err != nil {
		return fmt.Errorf("error validating audience %q: %w", audience, err)
	}
	if wanted {
		return nil
	}
	// Rules grant audiences as if they were resources, with the ServiceAccount as the name.
	decision, _, err := p.authorizer.Authorize(ctx, authorizer.AttributesRecord{
		User: a.GetUserInfo(), Verb: "request-serviceaccounts-token-audience", APIGroup: a.GetResource().Group,
		APIVersion: a.GetResource().Version, Resource: audience, Namespace: a.GetNamespace(), Name: a.GetName(), ResourceRequest: true,
	})
	switch {
	case decision == authorizer.DecisionAllow:
		return nil
	case err != nil:
		return fmt.Errorf("error authorizing %s to request tokens for audience %q: %w", a.GetUserInfo().GetName(), audience, err)
	}
	return fmt.Errorf("%s is not authorized to request tokens for audience %q", a.GetUserInfo().GetName(), audience)
}

// wants reports whether a volume of the pod has a token for the audience, or a CSI driver which asks for such tokens. What
// the volume leads to is read from the API: that is rarely needed, and a cache could be behind the pod.
func (p *Plugin) wants(ctx context.Context, pod *corev1.Pod, audience string) (bool, error) {
	var failed []error
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if v.Projected != nil && slices.ContainsFunc(v.Projected.Sources, func(s corev1.VolumeProjection) bool {
			return s.ServiceAccountToken != nil && s.ServiceAccountToken.Audience == audience
		}) {
			return true, nil
		}
		driver, err := p.driver(ctx, pod, v)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		if driver != nil && slices.ContainsFunc(driver.Spec.TokenRequests, func(r storagev1.TokenRequest) bool { return r.Audience == audience }) {
			return true, nil
		}
	}
	return false, errors.Join(failed...)
}

// driver returns the CSI driver of a volume, or nil.
func (p *Plugin) driver(ctx context.Context, pod *corev1.Pod, v *corev1.Volume) (*storagev1.CSIDriver, error) {
	name, claim := "", ""
	switch {
	case v.CSI != nil:
		name = v.CSI.Driver
	case v.PersistentVolumeClaim != nil:
		claim = v.PersistentVolumeClaim.ClaimName
	case v.Ephemeral != nil && v.Ephemeral.VolumeClaimTemplate != nil:
		claim = ephemeral.VolumeClaimName(pod, v)
	default:
		var err error
		if name, err = migrated(inTree(&v.VolumeSource)); err != nil {
			return nil, err
		}
	}
	if claim != "" {
		c, err := p.client.CoreV1().PersistentVolumeClaims(pod.Namespace).Get(ctx, claim, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		volume, err := p.client.CoreV1().PersistentVolumes().Get(ctx, c.Spec.VolumeName, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		if volume.Spec.CSI != nil {
			name = volume.Spec.CSI.Driver
		} else if name, err = migrated(&volume.Spec.PersistentVolumeSource); err != nil {
			return nil, err
		}
	}
	if name == "" {
		return nil, nil
	}
	return p.client.StorageV1().CSIDrivers().Get(ctx, name, metav1.GetOptions{})
}

// migrated is the driver that took over from the volume's plugin, "" if none did. The one of Azure's disks knows managed ones only.
func migrated(s *corev1.PersistentVolumeSource) (string, error) {
	if s.AzureDisk != nil {
		if kind := ptr.Deref(s.AzureDisk.Kind, corev1.AzureManagedDisk); !strings.EqualFold(string(kind), string(corev1.AzureManagedDisk)) {
			return "", fmt.Errorf("kind(%v) is not supported in csi migration", kind)
		}
	}
	return migration.Driver(migration.Plugin(s)), nil
}

// inTree is what a volume of a pod would be as one without a pod, as far as its plugin tells.
func inTree(v *corev1.VolumeSource) *corev1.PersistentVolumeSource {
	s := &corev1.PersistentVolumeSource{
		AWSElasticBlockStore: v.AWSElasticBlockStore, AzureDisk: v.AzureDisk, GCEPersistentDisk: v.GCEPersistentDisk,
		PortworxVolume: v.PortworxVolume, VsphereVolume: v.VsphereVolume,
	}
	if v.AzureFile != nil {
		s.AzureFile = &corev1.AzureFilePersistentVolumeSource{}
	}
	if v.Cinder != nil {
		s.Cinder = &corev1.CinderPersistentVolumeSource{}
	}
	return s
}
