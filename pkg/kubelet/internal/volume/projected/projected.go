// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package projected is the volume that joins several sources in one directory, service account tokens among them;
// touch it when the API gains a source.
package projected

import (
	"context"
	"errors"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"minik8s.io/minik8s/pkg/kubelet/internal/podspec"
	"minik8s.io/minik8s/pkg/kubelet/internal/volume/atomicwriter"
	"minik8s.io/minik8s/pkg/kubelet/internal/volume/downwardapi"
	"minik8s.io/minik8s/pkg/kubelet/internal/volume/emptydir"
	"minik8s.io/minik8s/pkg/kubelet/internal/volume/mount"
	"minik8s.io/minik8s/pkg/kubelet/internal/volume/plugin"
	"minik8s.io/minik8s/pkg/kubelet/internal/volume/podcertificate"
)

// Tokens issues service account tokens bound to a pod.
type Tokens interface {
	Get(ctx context.Context, pod *corev1.Pod, p *corev1.ServiceAccountTokenProjection) (string, error)
}

// TrustBundles are the trust anchors of the cluster.
type TrustBundles interface {
	Get(ctx context.Context, pod types.UID, p *corev1.ClusterTrustBundleProjection) ([]byte, error)
}

// Certificates are those of pods, one for each source of a volume.
type Certificates interface {
	Get(ctx context.Context, pod *corev1.Pod, volume string, source int, p *corev1.PodCertificateProjection) (podcertificate.Credentials, error)
}

// Projected is the plugin.
type Projected struct {
	Objects         plugin.Objects
	Tokens          Tokens
	TrustBundles    TrustBundles
	Certificates    Certificates
	Mounts          mount.Interface
	NodeAllocatable func() corev1.ResourceList
}

// Name implements plugin.Plugin.
func (p *Projected) Name() string { return "kubernetes.io/projected" }

// Supports implements plugin.Plugin.
func (p *Projected) Supports(v *corev1.Volume) bool { return v.Projected != nil }

// HostPath implements plugin.Plugin.
func (p *Projected) HostPath(m plugin.Mount) string { return m.Dir }

// ReadOnly implements plugin.Plugin.
func (p *Projected) ReadOnly(plugin.Mount) bool { return true }

// SetUp implements plugin.Plugin.
func (p *Projected) SetUp(ctx context.Context, m plugin.Mount) error {
	all := map[string]atomicwriter.File{}
	var errs []error
	for i := range m.Volume.Projected.Sources {
		files, err := p.source(ctx, m, i)
		if err != nil {
			errs = append(errs, err)
		}
		maps.Copy(all, files)
	}
	if err := utilerrors.NewAggregate(errs); err != nil {
		return err
	}
	if err := emptydir.InMemory(p.Mounts, m, 0); err != nil {
		return err
	}
	return m.Write(all)
}

func (p *Projected) source(ctx context.Context, m plugin.Mount, index int) (map[string]atomicwriter.File, error) {
	s, mode := &m.Volume.Projected.Sources[index], m.Volume.Projected.DefaultMode
	switch {
	case s.ConfigMap != nil:
		q := plugin.Projection{Items: s.ConfigMap.Items, DefaultMode: mode, Optional: s.ConfigMap.Optional}
		return q.ConfigMap(ctx, p.Objects, m.Pod.Namespace, s.ConfigMap.Name)
	case s.Secret != nil:
		q := plugin.Projection{Items: s.Secret.Items, DefaultMode: mode, Optional: s.Secret.Optional}
		return q.Secret(ctx, p.Objects, m.Pod.Namespace, s.Secret.Name)
	case s.DownwardAPI != nil:
		return downwardapi.Files(m, s.DownwardAPI.Items, mode, p.NodeAllocatable)
	case s.ServiceAccountToken != nil:
		token, err := p.Tokens.Get(ctx, m.Pod, s.ServiceAccountToken)
		if err != nil {
			return nil, err
		}
		return owned(m, map[string][]byte{s.ServiceAccountToken.Path: []byte(token)}), nil
	case s.ClusterTrustBundle != nil:
		anchors, err := p.TrustBundles.Get(ctx, m.Pod.UID, s.ClusterTrustBundle)
		if err != nil {
			return nil, err
		}
		return owned(m, map[string][]byte{s.ClusterTrustBundle.Path: anchors}), nil
	case s.PodCertificate != nil:
		c, err := p.Certificates.Get(ctx, m.Pod, m.Volume.Name, index, s.PodCertificate)
		if err != nil {
			return nil, err
		}
		files := map[string][]byte{
			s.PodCertificate.CredentialBundlePath: slices.Concat(c.Key, c.Chain), s.PodCertificate.KeyPath: c.Key,
			s.PodCertificate.CertificateChainPath: c.Chain,
		}
		delete(files, "") // what is not asked for
		return owned(m, files), nil
	}
	return nil, errors.New("projected volume source is not supported by this kubelet")
}

// owned are files that belong to who runs the pod, and that nobody else reads then.
func owned(m plugin.Mount, data map[string][]byte) map[string]atomicwriter.File {
	files := map[string]atomicwriter.File{}
	user := onlyUser(m.Pod)
	for path, d := range data {
		f := atomicwriter.File{Data: d, Mode: plugin.Mode(nil, m.Volume.Projected.DefaultMode), User: user}
		if user != nil || m.FSGroup() != nil {
			f.Mode = 0o600
		}
		files[path] = f
	}
	return files
}

// onlyUser is the user that all containers run as, nil if they do not all say the same. It may own the token, which
// then nobody else can read. See KEP-2451.
func onlyUser(pod *corev1.Pod) *int64 {
	var byDefault, only *int64
	if sc := pod.Spec.SecurityContext; sc != nil {
		byDefault = sc.RunAsUser
	}
	for c := range podspec.Containers(pod) {
		user := byDefault
		if sc := c.SecurityContext; sc != nil && sc.RunAsUser != nil {
			user = sc.RunAsUser
		}
		if user == nil || only != nil && *only != *user {
			return nil
		}
		only = user
	}
	return only
}
