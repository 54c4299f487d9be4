// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package resolvconf

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestFor(t *testing.T) {
	host := Config{Nameservers: []string{"1.1.1.1"}, Searches: []string{"corp"}, Options: []string{"edns0"}}
	cluster := Config{
		Nameservers: []string{"10.96.0.10"},
		Searches:    []string{"ns.svc.cluster.local", "svc.cluster.local", "cluster.local", "corp"},
		Options:     []string{"ndots:5"},
	}
	var many []string
	for i := range 40 {
		many = append(many, fmt.Sprintf("d%d", i))
	}
	long := []string{strings.Repeat("a", 128)} // 2048 characters as a line
	for i := range 15 {
		long = append(long, fmt.Sprintf("%0127d", i))
	}
	tests := []struct {
		name        string
		policy      corev1.DNSPolicy
		hostNetwork bool
		noDNS       bool
		config      *corev1.PodDNSConfig
		want        Config
		exceeds     string
	}{
		{name: "cluster first", policy: corev1.DNSClusterFirst, want: cluster},
		{name: "never defaulted", want: cluster},
		{name: "cluster first on the host network is the host's", policy: corev1.DNSClusterFirst, hostNetwork: true, want: host},
		{name: "cluster first with host net", policy: corev1.DNSClusterFirstWithHostNet, hostNetwork: true, want: cluster},
		{name: "default", policy: corev1.DNSDefault, want: host},
		{name: "no cluster DNS", policy: corev1.DNSClusterFirst, noDNS: true, want: host},
		{
			name: "none", policy: corev1.DNSNone,
			config: &corev1.PodDNSConfig{Nameservers: []string{"9.9.9.9"}, Searches: []string{"a"}, Options: []corev1.PodDNSConfigOption{{Name: "ndots", Value: new("2")}, {Name: "edns0"}}},
			want:   Config{Nameservers: []string{"9.9.9.9"}, Searches: []string{"a"}, Options: []string{"ndots:2", "edns0"}},
		},
		{
			name: "config is merged, its options win", policy: corev1.DNSClusterFirst,
			config: &corev1.PodDNSConfig{Nameservers: []string{"9.9.9.9", "10.96.0.10"}, Searches: []string{"a", "corp"}, Options: []corev1.PodDNSConfigOption{{Name: "ndots", Value: new("1")}}},
			want: Config{
				Nameservers: []string{"10.96.0.10", "9.9.9.9"},
				Searches:    []string{"ns.svc.cluster.local", "svc.cluster.local", "cluster.local", "corp", "a"},
				Options:     []string{"ndots:1"},
			},
		},
		{
			name: "too many servers", policy: corev1.DNSNone,
			config:  &corev1.PodDNSConfig{Nameservers: []string{"1.0.0.1", "1.0.0.2", "1.0.0.3", "1.0.0.4"}},
			want:    Config{Nameservers: []string{"1.0.0.1", "1.0.0.2", "1.0.0.3"}},
			exceeds: "Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: 1.0.0.1 1.0.0.2 1.0.0.3",
		},
		{
			name: "too many searches", policy: corev1.DNSNone, config: &corev1.PodDNSConfig{Searches: many},
			want:    Config{Searches: many[:32]},
			exceeds: "Search Line limits were exceeded, some search paths have been omitted, the applied search line is: " + strings.Join(many[:32], " "),
		},
		{
			name: "too many of both", policy: corev1.DNSNone,
			config: &corev1.PodDNSConfig{Nameservers: []string{"1.0.0.1", "1.0.0.2", "1.0.0.3", "1.0.0.4"}, Searches: many},
			want:   Config{Nameservers: []string{"1.0.0.1", "1.0.0.2", "1.0.0.3"}, Searches: many[:32]},
			exceeds: "Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: 1.0.0.1 1.0.0.2 1.0.0.3\n" +
				"Search Line limits were exceeded, some search paths have been omitted, the applied search line is: " + strings.Join(many[:32], " "),
		},
		{
			name: "a search path that is too long", policy: corev1.DNSNone, config: &corev1.PodDNSConfig{Searches: []string{"a", strings.Repeat("b", 254), "c"}},
			want:    Config{Searches: []string{"a", "c"}},
			exceeds: "Search Line limits were exceeded, some search paths have been omitted, the applied search line is: a c",
		},
		{
			name: "a search line that is just not too long", policy: corev1.DNSNone, config: &corev1.PodDNSConfig{Searches: long},
			want: Config{Searches: long},
		},
		{
			name: "a search line that is too long", policy: corev1.DNSNone, config: &corev1.PodDNSConfig{Searches: append(slices.Clone(long), "b")},
			want:    Config{Searches: long},
			exceeds: "Search Line limits were exceeded, some search paths have been omitted, the applied search line is: " + strings.Join(long, " "),
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns"},
				Spec: corev1.PodSpec{DNSPolicy: tc.policy, HostNetwork: tc.hostNetwork, DNSConfig: tc.config}}
			dns := []string{"10.96.0.10"}
			if tc.noDNS {
				dns = nil
			}
			got, omitted := For(pod, dns, "cluster.local", host)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("unexpected configuration (-want +got):\n%s", diff)
			}
			if got := strings.Join(omitted, "\n"); got != tc.exceeds {
				t.Errorf("omitted: %q, want %q", got, tc.exceeds)
			}
		})
	}
}

// Where the node's file is set to none, pods that would have it ask nobody, and others lose nothing.
func TestNone(t *testing.T) {
	for _, tc := range []struct {
		name   string
		ips    []string
		policy corev1.DNSPolicy
		want   Config
	}{
		{"of a node", []string{"192.0.2.1"}, corev1.DNSDefault, Config{Nameservers: []string{"127.0.0.1"}, Searches: []string{"."}}},
		{"of one with both families", []string{"2001:db8::1", "192.0.2.1"}, corev1.DNSDefault, Config{Nameservers: []string{"::1", "127.0.0.1"}, Searches: []string{"."}}},
		{"of one without address", nil, corev1.DNSDefault, Config{Nameservers: []string{"127.0.0.1"}, Searches: []string{"."}}},
		{"cluster first", []string{"192.0.2.1"}, corev1.DNSClusterFirst, Config{
			Nameservers: []string{"10.96.0.10"}, Searches: []string{"ns.svc.cluster.local", "svc.cluster.local", "cluster.local"}, Options: []string{"ndots:5"},
		}},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns"}, Spec: corev1.PodSpec{DNSPolicy: tc.policy}}
		got, _ := For(pod, []string{"10.96.0.10"}, "cluster.local", None(tc.ips))
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
}

func TestCheck(t *testing.T) {
	path := filepath.Join(t.TempDir(), "resolv.conf")
	if got, want := Check(path, ""), "open "+path+": no such file or directory"; got != want {
		t.Errorf("a missing file: %q", got)
	}
	domains := func(n, length int) string {
		var list []string
		for i := range n {
			list = append(list, fmt.Sprintf("%0*d", length, i))
		}
		return "search " + strings.Join(list, " ")
	}
	for _, tc := range []struct{ name, text, domain, want string }{
		{"few", "search a b\n", "cluster.local", ""},
		{"as many as fit beside the cluster's", domains(29, 2), "cluster.local", ""},
		{"more", domains(30, 2), "cluster.local", "Resolv.conf file '" + path + "' contains search line consisting of more than 29 domains!"},
		{"without a domain", domains(32, 2), "", ""},
		{"too many", domains(33, 2), "", "Resolv.conf file '" + path + "' contains search line consisting of more than 32 domains!"},
		{"a long one", domains(1, 254), "", `Resolv.conf file "` + path + `" contains a search path which length is more than allowed 253 chars!`},
		{"together too long", domains(10, 250), "", "Resolv.conf file '" + path + "' contains search line which length is more than allowed 2048 chars!"},
	} {
		if err := os.WriteFile(path, []byte(tc.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := Check(path, tc.domain); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}

func TestRenderParse(t *testing.T) {
	text := "search a b\nnameserver 1.1.1.1\nnameserver ::1\noptions ndots:5 edns0\n"
	c, err := Parse("# x\ndomain z\nsearch old\n" + text)
	if got := c.Render(); err != nil || got != text {
		t.Errorf("got %q, %v; want %q", got, err, text)
	}
}

// TestParse has upstream's cases.
func TestParse(t *testing.T) {
	for text, want := range map[string]Config{
		"":                                     {},
		"\t\n\t#comment\n":                     {},
		"nameserver \t 1.2.3.4 #comment":       {Nameservers: []string{"1.2.3.4"}},
		"nameserver 1.2.3.4\nnameserver ::1":   {Nameservers: []string{"1.2.3.4", "::1"}},
		"search .":                             {},
		"search foo. .  bar":                   {Searches: []string{"foo", "bar"}},
		"search foo\nsearch bar":               {Searches: []string{"bar"}},
		"options ndots:1 edns0 ndots:5":        {Options: []string{"ndots:5", "edns0"}},
		"options ndots:1 a:3\noptions ndots:5": {Options: []string{"ndots:5", "a:3"}},
	} {
		got, err := Parse(text)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%q: %v (-want +got):\n%s", text, err, diff)
		}
	}
	for _, text := range []string{"nameserver", "nameserver 1.2.3.4\n nameserver \n"} {
		if _, err := Parse(text); err == nil || err.Error() != "nameserver list is empty " {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestReadHost(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	uplinks := write("uplinks", "nameserver 192.0.2.53\n")
	missing := filepath.Join(dir, "none")
	tests := []struct{ name, path, want, err string }{
		{name: "plain", path: write("plain", "nameserver 8.8.8.8\n"), want: "8.8.8.8"},
		{name: "local stub", path: write("stub", "nameserver 127.0.0.53\n"), want: "192.0.2.53"},
		{name: "local and other", path: write("mixed", "nameserver 127.0.0.1\nnameserver 8.8.8.8\n"), want: "127.0.0.1 8.8.8.8"},
		{name: "missing", path: missing, err: "open " + missing + ": no such file or directory"},
		{name: "broken", path: write("broken", "nameserver\n"), err: "Encountered error while parsing resolv conf file. Error: nameserver list is empty "},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			c, err := readHost(tc.path, uplinks)
			if strings.Join(c.Nameservers, " ") != tc.want || err == nil && tc.err != "" || err != nil && err.Error() != tc.err {
				t.Errorf("got %v, %v; want %q, %q", c, err, tc.want, tc.err)
			}
		})
	}
}
