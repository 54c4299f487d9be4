// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package meminfo

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	t.Parallel()
	got := Parse("MemTotal:       24606752 kB\nInactive(file):  10 kB\nHugePages_Total:       3\nodd\nBad: x kB\n\n")
	if diff := cmp.Diff(map[string]uint64{"MemTotal": 24606752 << 10, "Inactive(file)": 10 << 10, "HugePages_Total": 3}, got); diff != "" {
		t.Error(diff)
	}
}

func TestRead(t *testing.T) {
	t.Parallel()
	info, err := Read("/")
	if err != nil || info["MemTotal"] < 1<<20 || info["MemTotal"] < info["MemFree"] {
		t.Errorf("%v, %v", info, err)
	}
	if _, err := Read(t.TempDir()); err == nil {
		t.Error("what is not there is read")
	}
}
