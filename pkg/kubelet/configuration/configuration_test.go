// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package configuration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	kubeletconfigv1beta1 "k8s.io/kubelet/config/v1beta1"
)

const head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"

// files writes files into a new folder. Names may have folders in them.
func files(t *testing.T, content map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range content {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestRead(t *testing.T) {
	t.Parallel()
	changed := func(change func(*kubeletconfigv1beta1.KubeletConfiguration)) *kubeletconfigv1beta1.KubeletConfiguration {
		c := Default()
		change(c)
		return c
	}
	for _, tc := range []struct {
		name  string
		files map[string]string
		want  *kubeletconfigv1beta1.KubeletConfiguration
		err   string // part of it
	}{
		{name: "no file", want: Default()},
		{name: "nothing said", files: map[string]string{"main": head}, want: Default()},
		{
			name:  "fields",
			files: map[string]string{"main": head + "maxPods: 7\nclusterDNS: [10.0.0.10]\nallowedUnsafeSysctls: [kernel.msg*, net/core/somaxconn]\npodPidsLimit: 100\n"},
			want: changed(func(c *kubeletconfigv1beta1.KubeletConfiguration) {
				c.MaxPods, c.ClusterDNS, c.PodPidsLimit = 7, []string{"10.0.0.10"}, new(int64(100))
				c.AllowedUnsafeSysctls = []string{"kernel.msg*", "net/core/somaxconn"}
			}),
		},
		{
			name: "drop-ins in their order, other files left alone",
			files: map[string]string{
				"main": head + "maxPods: 1\nclusterDNS: [10.0.0.1, 10.0.0.2]\n", "d/20.conf": head + "maxPods: 3\n",
				"d/10.conf": head + "maxPods: 2\nclusterDNS: [10.0.0.3]\n", "d/30.yaml": "no: settings\n", "d/sub/40.conf": head + "clusterDomain: x.y\n",
			},
			want: changed(func(c *kubeletconfigv1beta1.KubeletConfiguration) {
				c.MaxPods, c.ClusterDNS, c.ClusterDomain = 3, []string{"10.0.0.3"}, "x.y"
			}),
		},
		{name: "the only value", files: map[string]string{"main": head + "failSwapOn: false\nauthorization: {mode: Webhook}\nauthentication: {anonymous: {enabled: false}}\n"}, want: Default()},
		{name: "another value", files: map[string]string{"main": head + "failSwapOn: true\n"}, err: `failSwapOn: Unsupported value: "true": supported values: "false"`},
		{name: "anonymous", files: map[string]string{"main": head + "authentication: {anonymous: {enabled: true}}\n"}, err: "authentication: Unsupported value"},
		{name: "a field that is not honoured", files: map[string]string{"main": head + "cpuManagerPolicy: static\ntopologyManagerScope: pod\n"}, err: "[cpuManagerPolicy: Forbidden: not supported by this kubelet, topologyManagerScope: Forbidden"},
		{name: "no field", files: map[string]string{"main": head + "maxpods: 1\n"}, err: `unknown field "maxpods"`},
		{name: "twice", files: map[string]string{"main": head + "maxPods: 1\nmaxPods: 2\n"}, err: `key "maxPods" already set in map`},
		{name: "another kind", files: map[string]string{"main": "apiVersion: v1\nkind: Pod\n"}, err: "it is v1 Pod, want apiVersion: kubelet.config.k8s.io/v1beta1, kind: KubeletConfiguration"},
		{name: "no object", files: map[string]string{"main": "[]"}, err: "cannot unmarshal array"},
		{name: "empty", files: map[string]string{"main": ""}, err: "want apiVersion"},
		{name: "invalid", files: map[string]string{"main": head + "maxPods: -1\npodPidsLimit: 0\nresolvConf: x\nallowedUnsafeSysctls: [vm.swappiness]\n"}, err: "maxPods: Invalid value: -1: must be at least 1"},
		{name: "a sysctl of the node", files: map[string]string{"main": head + "allowedUnsafeSysctls: [vm.swappiness]\n"}, err: `the sysctls "vm.swappiness" are not known to be namespaced`},
		{name: "all sysctls", files: map[string]string{"main": head + "allowedUnsafeSysctls: ['*']\n"}, err: "neither the name of a sysctl"},
		{name: "logs", files: map[string]string{"main": head + "containerLogMaxSize: none\ncontainerLogMaxFiles: 1\n"}, err: `[containerLogMaxSize: Invalid value: "none": must be a positive quantity, containerLogMaxFiles: Invalid value: 1: must be at least 2]`},
		{name: "no number of logs", files: map[string]string{"main": head + "containerLogMaxFiles: null\n"}, err: "containerLogMaxFiles: Invalid value"},
		{
			name:  "eviction: what a file names holds as a whole",
			files: map[string]string{"main": head + "evictionHard: {memory.available: 1Gi}\nimageGCHighThresholdPercent: 85\n", "d/1.conf": head + "evictionHard: {pid.available: '100'}\nsystemReserved: {cpu: 500m}\n"},
			want: changed(func(c *kubeletconfigv1beta1.KubeletConfiguration) {
				c.EvictionHard = map[string]string{"memory.available": "1Gi", "pid.available": "100"}
				c.ImageGCHighThresholdPercent, c.SystemReserved = new(int32(85)), map[string]string{"cpu": "500m"}
			}),
		},
		{
			name: "eviction: merged", files: map[string]string{"main": head + "mergeDefaultEvictionSettings: true\nevictionHard: {memory.available: 1Gi, imagefs.available: 0%}\n"},
			want: changed(func(c *kubeletconfigv1beta1.KubeletConfiguration) {
				c.MergeDefaultEvictionSettings = new(true)
				c.EvictionHard = map[string]string{"memory.available": "1Gi", "nodefs.available": "100Mi", "nodefs.inodesFree": "1%", "imagefs.available": "0%", "imagefs.inodesFree": "1%"}
			}),
		},
		{name: "eviction: no signal", files: map[string]string{"main": head + "evictionHard: {disk: 1Gi}\n"}, err: "evictionHard: Invalid value: {\"disk\":\"1Gi\"}: unsupported eviction signal disk"},
		{name: "eviction: soft without grace", files: map[string]string{"main": head + "evictionSoft: {memory.available: 1Gi}\n"}, err: "grace period must be specified"},
		{name: "images: low above high", files: map[string]string{"main": head + "imageGCHighThresholdPercent: 80\n"}, err: "imageGCLowThresholdPercent: Invalid value: 80: must be less than imageGCHighThresholdPercent"},
		{name: "images: ages", files: map[string]string{"main": head + "imageMaximumGCAge: 1m\n"}, err: "must be greater than imageMinimumGCAge"},
		{name: "reserved process ids", files: map[string]string{"main": head + "kubeReserved: {pid: '100'}\n"}, err: `cannot reserve "pid"`},
		{name: "reserved less than nothing", files: map[string]string{"main": head + "kubeReserved: {cpu: '-1'}\n"}, err: `resource quantity for "cpu" cannot be negative: -1`},
		{
			name:  "static pods",
			files: map[string]string{"main": head + "staticPodPath: /m\nstaticPodURL: https://h/m\nstaticPodURLHeader: {X-A: [b]}\nfileCheckFrequency: 0s\nhttpCheckFrequency: 5s\n"},
			want: changed(func(c *kubeletconfigv1beta1.KubeletConfiguration) {
				c.StaticPodPath, c.StaticPodURL, c.StaticPodURLHeader = "/m", "https://h/m", map[string][]string{"X-A": {"b"}}
				c.FileCheckFrequency.Duration, c.HTTPCheckFrequency.Duration = 0, 5*time.Second
			}),
		},
		{name: "manifests at no path", files: map[string]string{"main": head + "staticPodPath: m\n"}, err: "staticPodPath: Invalid value"},
		{name: "manifests at no URL", files: map[string]string{"main": head + "staticPodURL: file:///m\n"}, err: "staticPodURL: Invalid value"},
		{name: "no header, whose value is not told", files: map[string]string{"main": head + "staticPodURLHeader: {X-A: [\"s\\n\"]}\n"}, err: `staticPodURLHeader: Invalid value: "<masked>": "X-A": a value must not`},
		{name: "no name of a header", files: map[string]string{"main": head + "staticPodURLHeader: {\"X A\": [s]}\n"}, err: "staticPodURLHeader: Invalid value"},
		{name: "a frequency below zero", files: map[string]string{"main": head + "fileCheckFrequency: -1s\n"}, err: "fileCheckFrequency: Invalid value"},
		{name: "null", files: map[string]string{"main": head + "resolvConf: null\n"}, want: changed(func(c *kubeletconfigv1beta1.KubeletConfiguration) { c.ResolverConfig = nil })},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			dir, main, parts := files(t, tc.files), "", ""
			if _, is := tc.files["main"]; is {
				main = filepath.Join(dir, "main")
			}
			if _, err := os.Stat(filepath.Join(dir, "d")); err == nil {
				parts = filepath.Join(dir, "d")
			}
			got, err := Read(main, parts)
			if err != nil || tc.err != "" {
				if err == nil || tc.err == "" || !strings.Contains(err.Error(), tc.err) {
					t.Fatalf("got error %v, want %q", err, tc.err)
				}
				return
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestRead_Missing(t *testing.T) {
	t.Parallel()
	none := filepath.Join(t.TempDir(), "none")
	for _, args := range [][2]string{{none, ""}, {"", none}} {
		if _, err := Read(args[0], args[1]); err == nil || !strings.Contains(err.Error(), none) {
			t.Errorf("%v: %v", args, err)
		}
	}
}

// Each name is one of the type's, and said once.
func TestFields(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for name := range fixed {
		seen[name] = true
	}
	for _, f := range fields {
		if seen[f.name] {
			t.Errorf("%s is there twice", f.name)
		}
		seen[f.name] = true
	}
	for name := range seen {
		if valueOf(Default(), name) == nil {
			t.Errorf("%s is no field", name)
		}
	}
	if problems := Validate(Default()); len(problems) > 0 {
		t.Error(problems)
	}
}
