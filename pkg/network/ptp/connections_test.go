// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package ptp

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestConnections: the numbers are upstream's, of small and of large machines.
func TestConnections(t *testing.T) {
	t.Parallel()
	for processors, want := range map[int]string{1: "131072 32768", 4: "131072 32768", 8: "262144 65536", 32: "1048576 262144", 256: "1048576 262144"} {
		list := connections(processors)
		if got := fmt.Sprint(list[0].want, " ", list[1].want); got != want {
			t.Errorf("%d processors: %s, want %s", processors, got, want)
		}
	}
}

// TestSetting_Next: nothing is lowered but the kernel's own value of what is to be less.
func TestSetting_Next(t *testing.T) {
	t.Parallel()
	more, other := setting{want: 100}, setting{want: 100, kernels: 500}
	for _, tc := range []struct {
		name    string
		setting setting
		now     string
		want    string
	}{
		{"less", more, "99", "100"},
		{"as wanted", more, "100", ""},
		{"more", more, "101", ""},
		{"what nobody knows", more, "auto", ""},
		{"the kernel's own", other, "500", "100"},
		{"somebody's, less", other, "50", ""},
		{"somebody's, more", other, "501", ""},
	} {
		got, ok := tc.setting.next(tc.now)
		if got != tc.want || ok != (tc.want != "") {
			t.Errorf("%s: %q, %t, want %q", tc.name, got, ok, tc.want)
		}
	}
}

// rememberedConnections checks that connections are remembered as long as upstream has it while there is a cluster, and otherwise if somebody
// wants that.
func rememberedConnections(t *testing.T, config Config) {
	t.Helper()
	for _, test := range []struct{ name, setting, before, meanwhile string }{
		{"the kernel's time", halfClosed, "60", "3600"},
		{"somebody's", halfClosed, "7200", "7200"},
		{"the kernel's time of silence", established, strconv.Itoa(kernelsEstablished), "86400"},
		{"somebody's, shorter", established, "600", "600"},
		{"somebody's, longer", established, "500000", "500000"},
	} {
		p, err := New(config)
		if err != nil {
			t.Fatal(err)
		}
		for _, step := range []struct {
			name string
			do   func() error
			want string
		}{
			{"before", func() error { return setSysctl(test.setting, test.before) }, test.before},
			{"meanwhile", p.prepare, test.meanwhile},
			{"after a purge", func() error { return p.Purge(t.Context()) }, test.before},
		} {
			if err := step.do(); err != nil {
				t.Fatal(err)
			}
			if got, err := readSysctl(test.setting); err != nil || got != step.want {
				t.Errorf("%s, %s: it is %q, %v; want %q", test.name, step.name, got, err, step.want)
			}
		}
	}
}

// stubborn checks what comes of a setting that nobody may change here, for it is the machine's: it keeps nothing else, and nothing is kept of
// it that a purge would take for this cluster's.
func stubborn(t *testing.T, config Config) {
	t.Helper()
	now, err := readSysctl(most)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(now)
	if err != nil {
		t.Fatal(err)
	}
	if err := setSysctl("net/ipv4/ip_forward", "0"); err != nil {
		t.Fatal(err)
	}
	p, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	p.connections = []setting{{name: most, want: n + 1, machine: true}}
	if err := p.prepare(); err != nil {
		t.Errorf("no pod can be connected: %v", err)
	}
	if !p.stays[most] {
		t.Error("nobody has been told")
	}
	kept, err := readChanges(p.recordFile())
	if err != nil {
		t.Fatal(err)
	}
	if _, is := kept[most]; is || kept["net/ipv4/ip_forward"].Since != "1" {
		t.Errorf("what is kept: %v", kept)
	}
	// One that was changed, and can be no more: the others are restored, and it is not forgotten.
	kept[most] = change{Before: "1", Since: now}
	if err := writeChanges(p.recordFile(), kept); err != nil {
		t.Fatal(err)
	}
	if err := p.Purge(t.Context()); err == nil || !strings.Contains(err.Error(), most) {
		t.Errorf("a purge says %v", err)
	}
	expectForwarding(t, "beside a setting that cannot be restored", "0")
	left, err := readChanges(p.leftFile())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]change{most: kept[most]}, left); diff != "" {
		t.Errorf("what is left (-want +got):\n%s", diff)
	}
	if err := os.Remove(p.leftFile()); err != nil {
		t.Fatal(err)
	}
}

// alone checks that rules are put back also while another cluster holds the settings, or they cannot be locked at all.
func alone(t *testing.T, config Config) {
	t.Helper()
	p, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	p.config.RunDir = filepath.Join(t.TempDir(), "absent")
	if err := p.ensure(); err == nil || !strings.Contains(iptablesSave(t), hash(config.Name, 8)) {
		t.Errorf("without a lock: %v, and the rules are not there", err)
	}
	p.config.RunDir = config.RunDir
	if err := p.Purge(t.Context()); err != nil {
		t.Error(err)
	}
}
