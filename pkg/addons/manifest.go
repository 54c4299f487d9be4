// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package addons

import (
	"fmt"
	"io"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/yaml"

	"minik8s.io/minik8s/pkg/addons/addon"
)

// Namespace has the add-ons that run as pods.
const Namespace = "minik8s-system"

// Manifest returns all that runs an add-on as a Deployment, on any Kubernetes. image has minik8s as /minik8s.
func Manifest(a addon.Addon, image string) ([]client.Object, error) {
	labels := map[string]string{Label: a.Name}
	name := "minik8s-" + a.Name
	meta := metav1.ObjectMeta{Namespace: Namespace, Name: name, Labels: labels}
	account := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: Namespace, Name: name}
	objects, err := Objects(a, account)
	if err != nil {
		return nil, err
	}
	watch := metav1.ObjectMeta{Name: roleOf(a) + ":watch", Labels: labels}
	before := []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: Namespace}},
		&corev1.ServiceAccount{ObjectMeta: meta},
		&rbacv1.ClusterRole{ObjectMeta: watch, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{definitionsResource.Group}, Resources: []string{definitionsResource.Resource}, Verbs: []string{"list", "watch"}},
		}},
		&rbacv1.ClusterRoleBinding{ObjectMeta: watch, Subjects: []rbacv1.Subject{account}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: watch.Name}},
	}
	return append(append(before, objects...), deployment(meta, a, image)), nil
}

func deployment(meta metav1.ObjectMeta, a addon.Addon, image string) *appsv1.Deployment {
	pod := corev1.PodSpec{
		ServiceAccountName: meta.Name,
		SecurityContext:    &corev1.PodSecurityContext{RunAsNonRoot: new(true), RunAsUser: new(int64(65532)), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
		Containers: []corev1.Container{{
			Name: "addon", Image: image, Command: []string{"/minik8s", "addons", "run", a.Name},
			// The name of the pod is that of the process, and the pod's address where Functions are called.
			Env:             []corev1.EnvVar{{Name: "POD_NAME", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}}},
			Resources:       corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("64Mi")}},
			SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}},
			VolumeMounts:    []corev1.VolumeMount{{Name: "tmp", MountPath: "/tmp"}},
		}},
		Volumes: []corev1.Volume{{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
	}
	return &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{
		Replicas: new(int32(1)), Selector: &metav1.LabelSelector{MatchLabels: meta.Labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: meta.Labels}, Spec: pod},
	}}
}

// WriteManifest writes objects as a stream of YAML documents.
func WriteManifest(w io.Writer, objects []client.Object) error {
	scheme, err := installerScheme()
	if err != nil {
		return err
	}
	for _, o := range objects {
		gvk, err := apiutil.GVKForObject(o, scheme)
		if err != nil {
			return err
		}
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
		if err != nil {
			return err
		}
		fields["apiVersion"], fields["kind"] = gvk.GroupVersion().String(), gvk.Kind
		delete(fields, "status")
		text, err := yaml.Marshal(fields)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w, "---\n%s", text); err != nil {
			return err
		}
	}
	return nil
}
