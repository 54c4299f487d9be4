// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"testing"

	"minik8s.io/minik8s/pkg/scheduler/configuration"
)

func TestConfigure(t *testing.T) {
	dir := t.TempDir()
	file, own := filepath.Join(dir, "scheduler.yaml"), filepath.Join(dir, "own.yaml")
	text := "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles: [{schedulerName: other}]\n"
	if err := os.WriteFile(own, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"": "", "own.yaml": "other"} {
		if err := configure(file, "/kubeconfig", &testCase{folder: dir, SchedulerConfigPath: path}); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		c, err := configuration.Parse(data)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, p := range c.Profiles {
			got = *p.SchedulerName
		}
		if got != want || *c.LeaderElection.LeaderElect || c.ClientConnection.Kubeconfig != "/kubeconfig" || c.ClientConnection.QPS >= 0 {
			t.Errorf("the profile %q of %q wanted; written:\n%s", want, path, data)
		}
	}
	if err := configure(file, "/kubeconfig", &testCase{folder: dir, SchedulerConfigPath: "missing.yaml"}); err == nil {
		t.Error("a configuration that is not there")
	}
}
