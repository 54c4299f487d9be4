// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package serviceaccount

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"

	"minik8s.io/minik8s/pkg/apiserver/admission/admissiontest"
)

func account(name string, change ...func(*corev1.ServiceAccount)) *corev1.ServiceAccount {
	a := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
	for _, f := range change {
		f(a)
	}
	return a
}

func newPlugin(t *testing.T) *Plugin {
	t.Helper()
	p := New().(*Plugin)
	names := []string{"kube-api-access-taken", "kube-api-access-free"}
	p.volumeName = func(string) string {
		name := names[0]
		if len(names) > 1 {
			names = names[1:]
		}
		return name
	}
	admissiontest.Initialize(t, p,
		account("default", func(a *corev1.ServiceAccount) { a.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "pull"}} }),
		account("shy", func(a *corev1.ServiceAccount) { a.AutomountServiceAccountToken = new(false) }),
		account("strict", func(a *corev1.ServiceAccount) {
			a.Annotations = map[string]string{enforceAnnotation: "true"}
			a.Secrets = []corev1.ObjectReference{{Name: "mine"}}
		}))
	return p
}

func TestMount(t *testing.T) {
	m := corev1.VolumeMount{Name: "kube-api-access-taken", ReadOnly: true, MountPath: "/var/run/secrets/kubernetes.io/serviceaccount"}
	own := corev1.VolumeMount{Name: "own", MountPath: m.MountPath}
	volume := corev1.Volume{Name: m.Name, VolumeSource: corev1.VolumeSource{Projected: credentials()}}
	pull := []corev1.LocalObjectReference{{Name: "pull"}}
	for _, tc := range []struct {
		name     string
		in, want corev1.PodSpec
	}{
		{
			name: "everything is added",
			in:   corev1.PodSpec{InitContainers: []corev1.Container{{Name: "i"}}, Containers: []corev1.Container{{Name: "c"}}},
			want: corev1.PodSpec{
				InitContainers:     []corev1.Container{{Name: "i", VolumeMounts: []corev1.VolumeMount{m}}},
				Containers:         []corev1.Container{{Name: "c", VolumeMounts: []corev1.VolumeMount{m}}},
				ServiceAccountName: "default", DeprecatedServiceAccount: "default", ImagePullSecrets: pull, Volumes: []corev1.Volume{volume},
			},
		},
		{
			name: "a container that mounts there itself",
			in:   corev1.PodSpec{Containers: []corev1.Container{{VolumeMounts: []corev1.VolumeMount{own}}}},
			want: corev1.PodSpec{
				Containers:         []corev1.Container{{VolumeMounts: []corev1.VolumeMount{own}}},
				ServiceAccountName: "default", DeprecatedServiceAccount: "default", ImagePullSecrets: pull,
			},
		},
		{
			name: "pod says no",
			in:   corev1.PodSpec{Containers: []corev1.Container{{}}, AutomountServiceAccountToken: new(false)},
			want: corev1.PodSpec{
				Containers: []corev1.Container{{}}, AutomountServiceAccountToken: new(false),
				ServiceAccountName: "default", DeprecatedServiceAccount: "default", ImagePullSecrets: pull,
			},
		},
		{
			name: "account says no",
			in:   corev1.PodSpec{ServiceAccountName: "shy", Containers: []corev1.Container{{}}},
			want: corev1.PodSpec{ServiceAccountName: "shy", Containers: []corev1.Container{{}}},
		},
		{
			name: "pod overrules the account",
			in:   corev1.PodSpec{ServiceAccountName: "shy", AutomountServiceAccountToken: new(true), Containers: []corev1.Container{{}}},
			want: corev1.PodSpec{
				ServiceAccountName: "shy", AutomountServiceAccountToken: new(true),
				Containers: []corev1.Container{{VolumeMounts: []corev1.VolumeMount{m}}}, Volumes: []corev1.Volume{volume},
			},
		},
		{
			name: "a volume that is there, and own pull secrets",
			in: corev1.PodSpec{
				Containers: []corev1.Container{{}}, Volumes: []corev1.Volume{volume}, ImagePullSecrets: []corev1.LocalObjectReference{{Name: "other"}},
			},
			want: corev1.PodSpec{
				Containers: []corev1.Container{{VolumeMounts: []corev1.VolumeMount{m}}}, Volumes: []corev1.Volume{volume},
				ServiceAccountName: "default", DeprecatedServiceAccount: "default", ImagePullSecrets: []corev1.LocalObjectReference{{Name: "other"}},
			},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := &corev1.Pod{Spec: tc.in}
			if err := admissiontest.Run(newPlugin(t), admissiontest.Request{Resource: "pods", Object: pod}.Attributes()); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, pod.Spec); diff != "" {
				t.Errorf("pod (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCredentials(t *testing.T) {
	s := credentials()
	if *s.DefaultMode != 0o644 || *s.Sources[0].ServiceAccountToken.ExpirationSeconds != 3607 || s.Sources[0].ServiceAccountToken.Path != "token" ||
		s.Sources[1].ConfigMap.Name != "kube-root-ca.crt" || s.Sources[2].DownwardAPI.Items[0].FieldRef.FieldPath != "metadata.namespace" {
		t.Errorf("credentials are %+v", s)
	}
}

func TestRefuses(t *testing.T) {
	mirror := metav1.ObjectMeta{Annotations: map[string]string{corev1.MirrorPodAnnotationKey: "x"}}
	secret := []corev1.Volume{{VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "foreign"}}}}
	env := []corev1.EnvVar{{Name: "E", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "foreign"}}}}}
	for _, tc := range []struct {
		name string
		r    admissiontest.Request
		want string
	}{
		{"no such account", admissiontest.Request{Object: &corev1.Pod{Spec: corev1.PodSpec{ServiceAccountName: "x"}}},
			`error looking up service account ns/x: serviceaccount "x" not found`},
		{"mirror pod", admissiontest.Request{Object: &corev1.Pod{ObjectMeta: mirror}}, ""},
		{"mirror pod with an account", admissiontest.Request{Object: &corev1.Pod{ObjectMeta: mirror, Spec: corev1.PodSpec{ServiceAccountName: "default"}}},
			"a mirror pod may not reference service accounts"},
		{"mirror pod with a secret", admissiontest.Request{Object: &corev1.Pod{ObjectMeta: mirror, Spec: corev1.PodSpec{Volumes: secret}}},
			"a mirror pod may not reference secrets"},
		{"mirror pod with a token", admissiontest.Request{Object: &corev1.Pod{ObjectMeta: mirror, Spec: corev1.PodSpec{Volumes: []corev1.Volume{{VolumeSource: corev1.VolumeSource{Projected: credentials()}}}}}},
			"a mirror pod may not use ServiceAccountToken volume projections"},
		{"foreign volume", admissiontest.Request{Object: &corev1.Pod{Spec: corev1.PodSpec{ServiceAccountName: "strict", Volumes: secret}}},
			`volume with secret.secretName="foreign" is not allowed because service account strict does not reference that secret`},
		{"foreign environment", admissiontest.Request{Object: &corev1.Pod{Spec: corev1.PodSpec{ServiceAccountName: "strict", Containers: []corev1.Container{{Name: "c", Env: env}}}}},
			`container c with envVar E referencing secret.secretName="foreign" is not allowed`},
		{"foreign pull secret", admissiontest.Request{Object: &corev1.Pod{Spec: corev1.PodSpec{ServiceAccountName: "strict", ImagePullSecrets: []corev1.LocalObjectReference{{Name: "foreign"}}}}},
			`imagePullSecrets[0].name="foreign" is not allowed`},
		{"own secret", admissiontest.Request{Object: &corev1.Pod{Spec: corev1.PodSpec{ServiceAccountName: "strict", Volumes: []corev1.Volume{{VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "mine"}}}}}}}, ""},
		{"ephemeral container", admissiontest.Request{Operation: admission.Update, Subresource: "ephemeralcontainers", Object: &corev1.Pod{Spec: corev1.PodSpec{ServiceAccountName: "strict",
			EphemeralContainers: []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "e", Env: env}}}}}},
			`ephemeral container e with envVar E`},
		{"ephemeral container beside a foreign volume of before", admissiontest.Request{Operation: admission.Update, Subresource: "ephemeralcontainers", Object: &corev1.Pod{Spec: corev1.PodSpec{
			ServiceAccountName: "strict", Volumes: secret, Containers: []corev1.Container{{Name: "c", Env: env}},
			EphemeralContainers: []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "e"}}}}}}, ""},
		{"no account", admissiontest.Request{Operation: admission.Update, Subresource: "ephemeralcontainers", Object: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}}},
			"no service account specified for pod ns/p"},
		{"update", admissiontest.Request{Operation: admission.Update, Object: &corev1.Pod{Spec: corev1.PodSpec{ServiceAccountName: "gone"}}}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.r.Resource = "pods"
			err := admissiontest.Run(newPlugin(t), tc.r.Attributes())
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error = %v, want %q", err, tc.want)
			}
		})
	}
}

// TestWaitsForDefaultAccount: the account of a new namespace is made while a pod is already asked for.
func TestWaitsForDefaultAccount(t *testing.T) {
	p := New().(*Plugin)
	admissiontest.Initialize(t, p)
	done := make(chan error, 1)
	go func() {
		done <- admissiontest.Run(p, admissiontest.Request{Resource: "pods", Object: &corev1.Pod{}}.Attributes())
	}()
	if _, err := p.client.CoreV1().ServiceAccounts("ns").Create(context.Background(), account("default"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}
