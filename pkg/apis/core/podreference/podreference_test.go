// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package podreference

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

// setOne gives one pointer field of a struct an empty value.
func setOne(structure reflect.Value, i int) {
	structure.Field(i).Set(reflect.New(structure.Field(i).Type().Elem()))
}

// Every kind of volume and of projection that the library knows is judged: a new one fails here.
func TestVolumeReference(t *testing.T) {
	want := map[string]string{
		"ConfigMap": "configmaps (via configmap volumes)", "Secret": "secrets (via secret volumes)", "CSI": "csidrivers (via CSI volumes)",
		"Glusterfs": "endpoints (via glusterFS volumes)", "PersistentVolumeClaim": "persistentvolumeclaims",
		"Ephemeral": "persistentvolumeclaims (via ephemeral volumes)", "AzureFile": "secrets (via azureFile volumes)",
	}
	for i, kind := 0, reflect.TypeFor[corev1.VolumeSource](); i < kind.NumField(); i++ {
		name := kind.Field(i).Name
		t.Run(name, func(t *testing.T) {
			var v corev1.Volume
			setOne(reflect.ValueOf(&v.VolumeSource).Elem(), i)
			if got, err := Resource(&corev1.Pod{Spec: corev1.PodSpec{Volumes: []corev1.Volume{v}}}); got != want[name] || err != nil {
				t.Errorf("Resource = %q, %v, want %q", got, err, want[name])
			}
			v.HostPath = &corev1.HostPathVolumeSource{}
			if got, err := volumeReference(&v); got != want[name] || err != nil {
				t.Errorf("with another source beside it: %q, %v, want %q", got, err, want[name])
			}
		})
	}
	if _, err := volumeReference(&corev1.Volume{Name: "v"}); err == nil {
		t.Error("an unknown volume is let through")
	}
}

func TestProjectionReference(t *testing.T) {
	want := map[string]string{
		"ConfigMap": "configmaps (via projected volumes)", "Secret": "secrets (via projected volumes)",
		"ServiceAccountToken": "serviceaccounts (via projected volumes)", "ClusterTrustBundle": "clustertrustbundles", "PodCertificate": "podcertificates",
	}
	for i, kind := 0, reflect.TypeFor[corev1.VolumeProjection](); i < kind.NumField(); i++ {
		name := kind.Field(i).Name
		t.Run(name, func(t *testing.T) {
			var s corev1.VolumeProjection
			setOne(reflect.ValueOf(&s).Elem(), i)
			p := &corev1.Pod{Spec: corev1.PodSpec{Volumes: []corev1.Volume{{VolumeSource: corev1.VolumeSource{
				Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{DownwardAPI: &corev1.DownwardAPIProjection{}}, s}},
			}}}}}
			if got, err := Resource(p); got != want[name] || err != nil {
				t.Errorf("Resource = %q, %v, want %q", got, err, want[name])
			}
		})
	}
	if _, err := projectionReference("v", &corev1.VolumeProjection{}); err == nil {
		t.Error("an unknown source is let through")
	}
}

func TestResource(t *testing.T) {
	from := func(c corev1.EnvVarSource) []corev1.EnvVar { return []corev1.EnvVar{{Name: "A", ValueFrom: &c}} }
	secret := from(corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "s"}}})
	configMap := from(corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "c"}}})
	claim := "c"
	for _, tc := range []struct {
		name string
		spec corev1.PodSpec
		want string
	}{
		{"nothing", corev1.PodSpec{Containers: []corev1.Container{{Env: from(corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{}})}}}, ""},
		{"account", corev1.PodSpec{ServiceAccountName: "a"}, "serviceaccounts"},
		{"pull secret", corev1.PodSpec{ImagePullSecrets: []corev1.LocalObjectReference{{Name: "s"}}}, "secrets"},
		{"secret of a container", corev1.PodSpec{Containers: []corev1.Container{{Env: secret}}}, "secrets"},
		{"secret of an init container", corev1.PodSpec{InitContainers: []corev1.Container{{Env: secret}}}, "secrets"},
		{"secret of an ephemeral container", corev1.PodSpec{EphemeralContainers: []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Env: secret}}}}, "secrets"},
		{"secret before config map", corev1.PodSpec{InitContainers: []corev1.Container{{Env: configMap}}, Containers: []corev1.Container{{Env: secret}}}, "secrets"},
		{"config map", corev1.PodSpec{Containers: []corev1.Container{{Env: configMap}}}, "configmaps"},
		{"resource claim", corev1.PodSpec{ResourceClaims: []corev1.PodResourceClaim{{Name: "x", ResourceClaimName: &claim}}}, "resourceclaims"},
		{"resource claim by a template", corev1.PodSpec{ResourceClaims: []corev1.PodResourceClaim{{Name: "x", ResourceClaimTemplateName: &claim}}}, "resourceclaims"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got, err := Resource(&corev1.Pod{Spec: tc.spec}); got != tc.want || err != nil {
				t.Errorf("Resource = %q, %v, want %q", got, err, tc.want)
			}
		})
	}
	// Every way in which a volume names a Secret is one that the node authorizer knows.
	for i, kind := 0, reflect.TypeFor[corev1.VolumeSource](); i < kind.NumField(); i++ {
		source := reflect.New(kind).Elem()
		setOne(source, i)
		refs := sets.New("SecretRef", "NodePublishSecretRef")
		for j := range kind.Field(i).Type.Elem().NumField() {
			f := kind.Field(i).Type.Elem().Field(j)
			if !refs.Has(f.Name) {
				continue
			}
			source.Field(i).Elem().Field(j).Set(reflect.ValueOf(&corev1.LocalObjectReference{Name: "s"}))
			v := corev1.Volume{VolumeSource: source.Interface().(corev1.VolumeSource)}
			if got, err := Resource(&corev1.Pod{Spec: corev1.PodSpec{Volumes: []corev1.Volume{v}}}); got != "secrets" || err != nil {
				t.Errorf("%s.%s: Resource = %q, %v, want secrets", kind.Field(i).Name, f.Name, got, err)
			}
		}
	}
}
