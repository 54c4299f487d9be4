// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// An image that a volume shows on any of the nodes that share an engine stays, also while nobody knows what one of them shows.
func TestImagePulls_Volumes(t *testing.T) {
	t.Parallel()
	own := func() ([]string, error) { return []string{"sha256:own"}, nil }
	broken := errors.New("broken")
	first, second, none := t.TempDir(), t.TempDir(), t.TempDir()
	show(t, first, "sha256-one")
	show(t, second, "sha256-two")
	for _, tc := range []struct {
		name  string
		own   func() ([]string, error)
		roots func() ([]string, error)
		want  []string // nil: an error
	}{
		{"a node alone", own, nil, []string{"sha256:own"}},
		{"several", own, func() ([]string, error) { return []string{first, none, second}, nil }, []string{"sha256:own", "sha256:one", "sha256:two"}},
		{"own that cannot be read", func() ([]string, error) { return nil, broken }, func() ([]string, error) { return []string{first}, nil }, nil},
		{"nodes that are not known", own, func() ([]string, error) { return nil, broken }, nil},
		{"another that cannot be read", own, func() ([]string, error) { return []string{first, file(t)}, nil }, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			pulls, err := OpenImagePulls(t.TempDir(), tc.roots)
			if err != nil {
				t.Fatal(err)
			}
			got, err := pulls.volumes(tc.own)
			if diff := cmp.Diff(tc.want, got); diff != "" || (err != nil) != (tc.want == nil) {
				t.Errorf("%v, (-want +got):\n%s", err, diff)
			}
		})
	}
}

// show makes the root directory of a kubelet whose pod has a volume of an image.
func show(t *testing.T, root, image string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(root, "pods", "uid", "volumes", "kubernetes.io~image", "v", image), 0o700); err != nil {
		t.Fatal(err)
	}
}

// file is a root directory whose pods cannot be listed.
func file(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "pods"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return root
}
