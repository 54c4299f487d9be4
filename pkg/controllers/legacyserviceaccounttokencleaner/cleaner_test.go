// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package legacyserviceaccounttokencleaner

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/controllertest"
)

var now = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

func token(change ...func(*corev1.Secret)) *corev1.Secret {
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "token", UID: "s", CreationTimestamp: metav1.NewTime(now.AddDate(-3, 0, 0)), Labels: map[string]string{},
			Annotations: map[string]string{corev1.ServiceAccountNameKey: "robot", corev1.ServiceAccountUIDKey: "u"},
		},
		Type: corev1.SecretTypeServiceAccountToken,
	}
	for _, f := range change {
		f(s)
	}
	return s
}

func label(name, value string) func(*corev1.Secret) {
	return func(s *corev1.Secret) { s.Labels[name] = value }
}

func account(secrets ...string) *corev1.ServiceAccount {
	a := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "robot", UID: "u"}}
	for _, name := range secrets {
		a.Secrets = append(a.Secrets, corev1.ObjectReference{Name: name})
	}
	return a
}

func tracking(since string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: trackingName}, Data: map[string]string{trackingSince: since}}
}

func TestIdle(t *testing.T) {
	for name, tt := range map[string]struct {
		secret *corev1.Secret
		want   bool
	}{
		"never used":         {token(), true},
		"young":              {token(func(s *corev1.Secret) { s.CreationTimestamp = metav1.NewTime(now.AddDate(0, -11, 0)) }), false},
		"used long ago":      {token(label(LastUsedLabel, "2025-05-31")), true},
		"used a year ago":    {token(label(LastUsedLabel, "2025-06-01")), false},
		"used, who knows":    {token(label(LastUsedLabel, "yesterday")), false},
		"another secret":     {token(func(s *corev1.Secret) { s.Type = corev1.SecretTypeOpaque }), false},
		"on its way already": {token(func(s *corev1.Secret) { s.DeletionTimestamp = &metav1.Time{Time: now} }), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := idle(tt.secret, now); got != tt.want {
				t.Errorf("idle is %t, want %t", got, tt.want)
			}
		})
	}
}

func TestGenerated(t *testing.T) {
	for name, tt := range map[string]struct {
		secret  *corev1.Secret
		account *corev1.ServiceAccount
		want    bool
	}{
		"entered":         {token(), account("token"), true},
		"not entered":     {token(), account("other"), false},
		"another account": {token(func(s *corev1.Secret) { s.Annotations[corev1.ServiceAccountUIDKey] = "former" }), account("token"), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := generated(tt.secret, tt.account); got != tt.want {
				t.Errorf("generated is %t, want %t", got, tt.want)
			}
		})
	}
}

func TestUses(t *testing.T) {
	ref := &corev1.LocalObjectReference{Name: "token"}
	env := []corev1.EnvVar{{Name: "plain"}, {ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: *ref}}}}
	from := []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: *ref}}}
	volume := func(source corev1.VolumeSource) corev1.PodSpec {
		return corev1.PodSpec{Volumes: []corev1.Volume{{VolumeSource: source}}}
	}
	for name, spec := range map[string]corev1.PodSpec{
		"pull secret":         {ImagePullSecrets: []corev1.LocalObjectReference{*ref}},
		"container":           {Containers: []corev1.Container{{Env: env}}},
		"init container":      {InitContainers: []corev1.Container{{EnvFrom: from}}},
		"ephemeral container": {EphemeralContainers: []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Env: env}}}},
		"volume":              volume(corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "token"}}),
		"projection": volume(corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
			Sources: []corev1.VolumeProjection{{}, {Secret: &corev1.SecretProjection{LocalObjectReference: *ref}}},
		}}),
		"csi":        volume(corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{NodePublishSecretRef: ref}}),
		"azure file": volume(corev1.VolumeSource{AzureFile: &corev1.AzureFileVolumeSource{SecretName: "token"}}),
		"ceph":       volume(corev1.VolumeSource{CephFS: &corev1.CephFSVolumeSource{SecretRef: ref}}),
		"cinder":     volume(corev1.VolumeSource{Cinder: &corev1.CinderVolumeSource{SecretRef: ref}}),
		"flex":       volume(corev1.VolumeSource{FlexVolume: &corev1.FlexVolumeSource{SecretRef: ref}}),
		"iscsi":      volume(corev1.VolumeSource{ISCSI: &corev1.ISCSIVolumeSource{SecretRef: ref}}),
		"rbd":        volume(corev1.VolumeSource{RBD: &corev1.RBDVolumeSource{SecretRef: ref}}),
		"scaleio":    volume(corev1.VolumeSource{ScaleIO: &corev1.ScaleIOVolumeSource{SecretRef: ref}}),
		"storageos":  volume(corev1.VolumeSource{StorageOS: &corev1.StorageOSVolumeSource{SecretRef: ref}}),
	} {
		t.Run(name, func(t *testing.T) {
			if !uses(&corev1.Pod{Spec: spec}, "token") || uses(&corev1.Pod{Spec: spec}, "other") {
				t.Error("the secret is not found, or another one is")
			}
		})
	}
	if uses(&corev1.Pod{Spec: volume(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}})}, "token") {
		t.Error("an empty directory uses a secret")
	}
}

func cleaner(c client.Client) reconcile.Reconciler {
	cleaner := &Cleaner{Client: c, Live: controllertest.Live(c), Clock: clocktesting.NewFakeClock(now)}
	return reconcile.Func(func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
		if err := cleaner.Live.Get(ctx, client.ObjectKey{Namespace: "kube-system", Name: trackingName}, &corev1.ConfigMap{}); err != nil {
			return reconcile.Result{}, client.IgnoreNotFound(err)
		}
		return reconcile.Result{}, cleaner.Clean(ctx)
	})
}

func TestClean_Writes(t *testing.T) {
	const old = "2023-01-01"
	for _, tt := range []struct {
		name    string
		secret  *corev1.Secret
		invalid string // its label at the end; empty: the Secret is gone
	}{
		{"unused", token(), "2026-06-01"},
		{"with a label that says nothing", token(label(InvalidSinceLabel, "long")), "2026-06-01"},
		{"invalid for long", token(label(InvalidSinceLabel, "2025-05-31")), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			controllertest.Run(t, controllertest.Case{
				Objects: []client.Object{tracking(old), account("token"), tt.secret},
				New:     cleaner,
				Want: func(ctx context.Context, c client.Client) error {
					got := &corev1.Secret{}
					err := c.Get(ctx, client.ObjectKeyFromObject(tt.secret), got)
					if client.IgnoreNotFound(err) != nil || (err == nil) != (tt.invalid != "") || got.Labels[InvalidSinceLabel] != tt.invalid {
						return fmt.Errorf("labels are %v, error %w", got.Labels, err)
					}
					return nil
				},
			})
		})
	}
}

func TestClean_Keeps(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}, Spec: corev1.PodSpec{ImagePullSecrets: []corev1.LocalObjectReference{{Name: "token"}}}}
	const old = "2023-01-01"
	for name, objects := range map[string][]client.Object{
		"uses are not noted for long enough": {tracking("2025-06-01"), account("token"), token()},
		"in use":                             {tracking(old), account("token"), token(), pod},
		"made by people":                     {tracking(old), account(), token()},
		"without account":                    {tracking(old), token()},
		"invalid for a year":                 {tracking(old), account("token"), token(label(InvalidSinceLabel, "2025-06-01"))},
	} {
		t.Run(name, func(t *testing.T) {
			c := fake.NewClientBuilder().WithObjects(objects...).Build()
			if _, err := cleaner(c).Reconcile(t.Context(), reconcile.Request{}); err != nil {
				t.Fatal(err)
			}
			got := &corev1.Secret{}
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(token()), got); err != nil || got.ResourceVersion != "999" {
				t.Errorf("secret is %v, %v", got.Labels, err)
			}
		})
	}
}
