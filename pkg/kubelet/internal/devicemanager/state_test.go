// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package devicemanager

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// What an init container had, those after it get first, but for what a sidecar keeps.
func TestReusable(t *testing.T) {
	t.Parallel()
	always := new(corev1.ContainerRestartPolicyAlways)
	p := pod("u", asks("app1", "1"), asks("app2", "1"))
	p.Spec.InitContainers = []corev1.Container{asks("init1", "2"), asks("side", "1"), asks("init2", "3")}
	p.Spec.InitContainers[1].RestartPolicy = always
	s := &state{pods: map[types.UID]map[string]map[string]*allocation{}}
	for _, step := range []struct {
		name string
		want []string // may be used again
		has  []string // is given then
	}{
		{name: "init1", has: []string{"a", "b"}},
		{name: "side", want: []string{"a", "b"}, has: []string{"a"}},
		{name: "init2", want: []string{"b"}, has: []string{"b", "c", "d"}},
		{name: "app1", want: []string{"b", "c", "d"}, has: []string{"b"}},
		{name: "app2", want: []string{"c", "d"}, has: []string{"c"}},
	} {
		if got := s.reusable(p, step.name, res); !slices.Equal(got, step.want) {
			t.Errorf("%s: %v, want %v", step.name, got, step.want)
		}
		s.keep("u", step.name, res, &allocation{Devices: step.has})
	}
}

func TestChoose(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name                         string
		reuse, free, preferred, want []string
		need                         int
	}{
		{name: "in order", free: []string{"a", "b", "c"}, need: 2, want: []string{"a", "b"}},
		{name: "again first", reuse: []string{"c"}, free: []string{"a", "b"}, need: 2, want: []string{"a", "c"}},
		{name: "preferred", free: []string{"a", "b", "c"}, preferred: []string{"c"}, need: 2, want: []string{"a", "c"}},
		{name: "preferred, but not free", free: []string{"a", "b"}, preferred: []string{"x", "b", "b"}, need: 2, want: []string{"a", "b"}},
		{name: "less than may be used again", reuse: []string{"a", "b"}, free: []string{"c"}, need: 1, want: []string{"a"}},
	} {
		if got := choose(tc.reuse, tc.free, tc.preferred, tc.need); !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}

func TestLoad(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state")
	if s, err := load(path, time.Now()); err != nil || len(s.resources)+len(s.pods) > 0 {
		t.Errorf("nothing: %v, %v", s, err)
	}
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if s, err := load(path, time.Now()); err == nil || s.resources == nil || s.pods == nil {
		t.Errorf("half a file: %v, %v", s, err)
	}
}
