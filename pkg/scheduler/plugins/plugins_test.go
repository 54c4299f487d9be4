// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package plugins

import (
	"os"
	"reflect"
	"runtime"
	"strings"
	"testing"

	configv1 "k8s.io/kube-scheduler/config/v1"

	"minik8s.io/minik8s/pkg/scheduler/configuration"
	"minik8s.io/minik8s/pkg/scheduler/framework"
	pt "minik8s.io/minik8s/pkg/scheduler/plugintest"
)

// Every folder is a plugin in the list; add a missing one to Registry.
func TestRegistry_ListsEveryFolder(t *testing.T) {
	listed := map[string]bool{}
	for _, factory := range Registry() {
		// the factory's full name is <module>/plugins/<folder>.New
		name := runtime.FuncForPC(reflect.ValueOf(factory).Pointer()).Name()
		folder := name[strings.LastIndex(name, "/")+1:]
		listed[folder[:strings.Index(folder, ".")]] = true
	}
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() && !listed[e.Name()] {
			t.Errorf("folder %s is not listed in Registry", e.Name())
		}
	}
}

func TestDefault_IsAProfile(t *testing.T) {
	cfg := &configv1.KubeSchedulerConfiguration{}
	configuration.Default(cfg)
	if _, err := framework.NewProfile(t.Context(), pt.NewHandle(nil).Services, Registry(), cfg.Profiles[0]); err != nil {
		t.Fatal(err)
	}
}
