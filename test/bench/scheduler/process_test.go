// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	configv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"minik8s.io/minik8s/pkg/scheduler/configuration"
)

// written is what a scheduler reads of settings.
func written(t *testing.T, settings *configv1.KubeSchedulerConfiguration) *configv1.KubeSchedulerConfiguration {
	t.Helper()
	file := filepath.Join(t.TempDir(), "scheduler.yaml")
	if err := configure(file, "/kubeconfig", settings); err != nil {
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
	return c
}

func TestConfigure(t *testing.T) {
	dir := t.TempDir()
	text := "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles: [{schedulerName: other}]\n"
	if err := os.WriteFile(filepath.Join(dir, "own.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"": "", "own.yaml": "other"} {
		settings, err := (&testCase{folder: dir, SchedulerConfigPath: path}).configuration()
		if err != nil {
			t.Fatal(err)
		}
		c := written(t, settings)
		got := ""
		for _, p := range c.Profiles {
			got = *p.SchedulerName
		}
		if got != want || *c.LeaderElection.LeaderElect || c.ClientConnection.Kubeconfig != "/kubeconfig" || c.ClientConnection.QPS >= 0 {
			t.Errorf("the profile %q of %q wanted; written: %+v", want, path, c)
		}
	}
	if _, err := (&testCase{folder: dir, SchedulerConfigPath: "missing.yaml"}).configuration(); err == nil {
		t.Error("a configuration that is not there")
	}
}

// Our scheduler takes a configuration by which nothing is bound, and its plugin says so of each pod.
func TestUnbound(t *testing.T) {
	made := filepath.Join(t.TempDir(), "decisions")
	settings, err := unbound(made)
	if err != nil {
		t.Fatal(err)
	}
	parsed := written(t, settings)
	plugin, err := newUnbind(t.Context(), &runtime.Unknown{Raw: parsed.Profiles[0].PluginConfig[0].Args.Raw}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if s := plugin.(fwk.BindPlugin).Bind(t.Context(), nil, nil, ""); !s.IsSuccess() {
			t.Fatal(s)
		}
	}
	if got, err := os.ReadFile(made); len(got) != 3 || err != nil {
		t.Errorf("%q, %v after three pods", got, err)
	}
}
