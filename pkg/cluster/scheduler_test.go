// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSchedulerConfig_Read(t *testing.T) {
	t.Parallel()
	const head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
	for _, tc := range []struct {
		name, text string
		profiles   int // as they are given
		want       string
	}{
		{"plain", head, 0, ""},
		{"without profiles", head + "parallelism: 4\n", 0, ""},
		{"profiles", head + "profiles: [{schedulerName: a}, {schedulerName: b}]\n", 2, ""},
		{"a policy of a profile", head + "profiles: [{schedulerName: a, plugins: {multiPoint: {enabled: [{name: Random}]}}}]\n", 1, ""},
		{"no file", "", 0, "scheduler.config: open "},
		{"unknown field", head + "parallel: 4\n", 0, `unknown field "parallel"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "c.yaml")
			if tc.text != "" {
				if err := os.WriteFile(path, []byte(tc.text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got, err := SchedulerConfig{Config: path}.read()
			if tc.want != "" {
				if err == nil || !strings.Contains(err.Error(), tc.want) {
					t.Errorf("error %v, want %q", err, tc.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if len(got.Profiles) != tc.profiles {
				t.Errorf("%d profiles are given to the scheduler, want %d", len(got.Profiles), tc.profiles)
			}
		})
	}
}
