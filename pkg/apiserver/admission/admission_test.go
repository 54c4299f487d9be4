// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestEnabled(t *testing.T) {
	byDefault := []string{
		"NamespaceLifecycle", "LimitRanger", "ServiceAccount", "NodeRestriction", "TaintNodesByCondition", "PodSecurity", "Priority",
		"DefaultTolerationSeconds", "DefaultStorageClass", "StorageObjectInUseProtection", "PodGroupProtection", "PersistentVolumeClaimResize", "RuntimeClass",
		"CertificateApproval", "CertificateSigning", "ClusterTrustBundleAttest",
		"CertificateSubjectRestriction", "DefaultIngressClass", "PodTopologyLabels", "NodeDeclaredFeatureValidator", "PodResizeValidator", "MutatingAdmissionPolicy", "MutatingAdmissionWebhook", "ValidatingAdmissionPolicy",
		"ValidatingAdmissionWebhook", "ResourceQuota",
	}
	with := func(after, name string) []string {
		return slices.Insert(slices.Clone(byDefault), slices.Index(byDefault, after)+1, name)
	}
	without := func(name string) []string {
		return slices.DeleteFunc(slices.Clone(byDefault), func(n string) bool { return n == name })
	}
	for _, tc := range []struct {
		name            string
		enable, disable []string
		want            []string
		err             string
	}{
		{name: "defaults", want: byDefault},
		{name: "one more, in its place", enable: []string{"AlwaysPullImages"}, want: with("TaintNodesByCondition", "AlwaysPullImages")},
		{name: "on anyway", enable: []string{"Priority"}, want: byDefault},
		{name: "one less", disable: []string{"LimitRanger"}, want: without("LimitRanger")},
		{name: "off anyway", disable: []string{"AlwaysPullImages"}, want: byDefault},
		{name: "upstream's, not here, off", disable: []string{"AlwaysAdmit"}, want: byDefault},
		{name: "upstream's, not here, on", enable: []string{"AlwaysAdmit"}, err: `enable-admission-plugins plugin "AlwaysAdmit" is not supported`},
		{name: "unknown on", enable: []string{"X"}, err: `enable-admission-plugins plugin "X" is unknown`},
		{name: "unknown off", disable: []string{"X"}, err: `disable-admission-plugins plugin "X" is unknown`},
		{name: "both", enable: []string{"Priority"}, disable: []string{"Priority"}, err: "Priority in enable-admission-plugins and disable-admission-plugins overlapped"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := enabled(tc.enable, tc.disable)
			if (err == nil) != (tc.err == "") || err != nil && err.Error() != tc.err {
				t.Fatalf("error = %v, want %q", err, tc.err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("plugins (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNamesAreUnique(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range plugins {
		if seen[p.name] || elsewhere.Has(p.name) {
			t.Errorf("%s is listed twice", p.name)
		}
		seen[p.name] = true
		if p.name == "EventRateLimit" || p.name == "ImagePolicyWebhook" {
			continue // they have no default
		}
		built, err := p.build(nil)
		if err != nil || built == nil {
			t.Errorf("building %s: %v, %v", p.name, built, err)
		}
	}
}

// A configuration that is given is read, or refused: each plugin fails with one that cannot be right.
func TestNoConfigurationIsDropped(t *testing.T) {
	for _, p := range plugins {
		if built, err := p.build(strings.NewReader("{nonsense: [")); err == nil {
			t.Errorf("%s: built %v with a broken configuration", p.name, built)
		}
	}
}

// The configuration file reaches the plugins that it names.
func TestConfigurationFile(t *testing.T) {
	const quota = `{"apiVersion":"apiserver.config.k8s.io/v1","kind":"ResourceQuotaConfiguration","limitedResources":[{}]}`
	for _, tc := range []struct{ name, configuration, want string }{
		{"ResourceQuota", quota, "the configuration of ResourceQuota is invalid: limitedResources[0].resource: Required value"},
		{"TaintNodesByCondition", `{}`, "this plugin has no configuration"},
		{"PodSecurity", `{"apiVersion":"pod-security.admission.config.k8s.io/v1","kind":"PodSecurityConfiguration","default":1}`, "reading the configuration of PodSecurity"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "admission.yaml")
			text := `{"apiVersion":"apiserver.config.k8s.io/v1","kind":"AdmissionConfiguration","plugins":[{"name":"` + tc.name + `","configuration":` + tc.configuration + `}]}`
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			c := Config{File: file}
			for _, p := range plugins {
				if p.name != tc.name && !p.off {
					c.Disable = append(c.Disable, p.name)
				}
			}
			if _, err := New(c); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error = %v, want %q", err, tc.want)
			}
		})
	}
}

// TestEveryFolderIsListed fails for a plugin that has a folder and never runs.
func TestEveryFolderIsListed(t *testing.T) {
	list, err := os.ReadFile("admission.go")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(source), "\nconst Name = ") {
			continue
		}
		found++
		if folder := filepath.Dir(file); !strings.Contains(string(list), "name: "+folder+".Name") {
			t.Errorf("the plugin in %s is not in the list of plugins", folder)
		}
	}
	if found < 9 {
		t.Errorf("only %d plugins were found: the test looks in the wrong place", found)
	}
}
