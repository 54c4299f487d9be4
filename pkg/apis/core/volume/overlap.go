// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// file is what a volume puts at a path, and where it comes from if that is in doubt.
type file struct{ path, source string }

func (f file) String() string {
	if f.source == "" {
		return fmt.Sprintf("%q", f.path)
	}
	return fmt.Sprintf("%q (%s)", f.path, f.source)
}

// Overlaps warns of files in a volume that are in one another's way: two of the same name, or one where another needs a
// directory.
func Overlaps(v *corev1.Volume) []string {
	var out []string
	warn := func(what string, files []file) {
		for i, f := range files {
			for _, earlier := range files[:i] {
				if overlap(f.path, earlier.path) {
					out = append(out, fmt.Sprintf("volume %q (%s): overlapping paths: %s with %s", v.Name, what, f, earlier))
				}
			}
		}
	}
	if v.ConfigMap != nil {
		warn(fmt.Sprintf("ConfigMap %q", v.ConfigMap.Name), keyFiles(v.ConfigMap.Items, ""))
	}
	if v.Secret != nil {
		warn(fmt.Sprintf("Secret %q", v.Secret.SecretName), keyFiles(v.Secret.Items, ""))
	}
	if v.DownwardAPI != nil {
		warn("DownwardAPI", fieldFiles(v.DownwardAPI.Items, ""))
	}
	if v.Projected == nil {
		return out
	}
	var all []file
	for i := range v.Projected.Sources {
		s := &v.Projected.Sources[i]
		if *s == (corev1.VolumeProjection{}) {
			out = append(out, fmt.Sprintf("volume %q (Projected) has no sources provided", v.Name))
		}
		all = append(all, projectedFiles(s)...)
	}
	warn("Projected", all)
	return out
}

func overlap(a, b string) bool {
	if a == "" || b == "" {
		return false
	}
	return strings.HasPrefix(a+"/", b+"/") || strings.HasPrefix(b+"/", a+"/")
}

func keyFiles(items []corev1.KeyToPath, source string) []file {
	var files []file
	for _, item := range items {
		files = append(files, file{strings.TrimRight(item.Path, "/"), source})
	}
	return files
}

func fieldFiles(items []corev1.DownwardAPIVolumeFile, source string) []file {
	var files []file
	for _, item := range items {
		files = append(files, file{strings.TrimRight(item.Path, "/"), source})
	}
	return files
}

func projectedFiles(s *corev1.VolumeProjection) []file {
	one := func(path, source string) []file {
		if path = strings.TrimRight(path, "/"); path == "" {
			return nil
		}
		return []file{{path, source}}
	}
	switch {
	case s.ConfigMap != nil && s.ConfigMap.Items != nil:
		return keyFiles(s.ConfigMap.Items, fmt.Sprintf("ConfigMap %q", s.ConfigMap.Name))
	case s.Secret != nil && s.Secret.Items != nil:
		return keyFiles(s.Secret.Items, fmt.Sprintf("Secret %q", s.Secret.Name))
	case s.DownwardAPI != nil && s.DownwardAPI.Items != nil:
		return fieldFiles(s.DownwardAPI.Items, "DownwardAPI")
	case s.ServiceAccountToken != nil:
		return one(s.ServiceAccountToken.Path, "ServiceAccountToken")
	case s.ClusterTrustBundle != nil:
		name := s.ClusterTrustBundle.Name
		if name == nil {
			name = s.ClusterTrustBundle.SignerName
		}
		if name == nil {
			return nil
		}
		return one(s.ClusterTrustBundle.Path, fmt.Sprintf("ClusterTrustBundle %q", *name))
	case s.PodCertificate != nil:
		c := s.PodCertificate
		files := append(one(c.CertificateChainPath, "PodCertificate chain"), one(c.KeyPath, "PodCertificate key")...)
		return append(files, one(c.CredentialBundlePath, "PodCertificate credential bundle")...)
	}
	return nil
}
