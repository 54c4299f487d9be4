// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package configuration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const providersHead = "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n"

func one(name, more string) string {
	return "- {name: " + name + ", matchImages: [\"*.example.com\"], defaultCacheDuration: 1h, apiVersion: credentialprovider.kubelet.k8s.io/v1" + more + "}\n"
}

func TestCredentialProviders(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		files map[string]string
		want  string // names, in their order
		err   string // part of it
	}{
		{name: "a file", files: map[string]string{"c": providersHead + one("a", ", args: [x], env: [{name: A, value: b}]")}, want: "a"},
		{name: "a folder", files: map[string]string{"c/2.yaml": providersHead + one("b", ""), "c/1.json": providersHead + one("a", ""), "c/note": "x"}, want: "a b"},
		{name: "an earlier version", files: map[string]string{"c": strings.Replace(providersHead, "k8s.io/v1", "k8s.io/v1beta1", 1) + one("a", "")}, want: "a"},
		{name: "tokens", files: map[string]string{"c": providersHead + one("a", ", tokenAttributes: {serviceAccountTokenAudience: x, cacheType: Token, requireServiceAccount: true, requiredServiceAccountAnnotationKeys: [a/b]}")}, want: "a"},
		{name: "an empty folder", files: map[string]string{"c/note": "x"}, err: "no configuration files found"},
		{name: "no providers", files: map[string]string{"c": providersHead}, err: "providers: Required value: at least 1 item"},
		{name: "twice", files: map[string]string{"c/1.yaml": providersHead + one("a", ""), "c/2.yaml": providersHead + one("a", "")}, err: `providers.name: Duplicate value: "a"`},
		{name: "not there", files: map[string]string{"c": providersHead + one("absent", "")}, err: "plugin binary executable"},
		{name: "another folder", files: map[string]string{"c": providersHead + one("../a", "")}, err: "provider name cannot contain '/'"},
		{name: "another kind", files: map[string]string{"c": "apiVersion: v1\nkind: Pod\n"}, err: "it is v1 Pod, want apiVersion: kubelet.config.k8s.io/v1"},
		{name: "no field", files: map[string]string{"c": providersHead + one("a", ", timeout: 1m")}, err: `unknown field "providers[0].timeout"`},
		{name: "nothing said", files: map[string]string{"c": providersHead + "- {name: a}\n"}, err: "[providers.apiVersion: Required value, providers.matchImages: Required value: at least 1 item in matchImages is required, providers.defaultCacheDuration: Required value]"},
		{name: "tokens of which little is said", files: map[string]string{"c": providersHead + one("a", ", tokenAttributes: {optionalServiceAccountAnnotationKeys: [x y]}")},
			err: "[providers.tokenAttributes.serviceAccountTokenAudience: Required value, providers.tokenAttributes.requireServiceAccount: Required value, providers.tokenAttributes.optionalServiceAccountAnnotationKeys: Invalid value"},
		{name: "required of nobody", files: map[string]string{"c": providersHead + one("a", ", tokenAttributes: {serviceAccountTokenAudience: x, cacheType: Image, requireServiceAccount: false, requiredServiceAccountAnnotationKeys: [a]}")},
			err: `requireServiceAccount cannot be false when requiredServiceAccountAnnotationKeys is set, providers.tokenAttributes.cacheType: Unsupported value: "Image"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			dir := files(t, tc.files)
			bin := files(t, map[string]string{"a": "#!/bin/sh\n", "b": "#!/bin/sh\n"})
			for _, name := range []string{"a", "b"} {
				if err := os.Chmod(filepath.Join(bin, name), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			got, hash, err := CredentialProviders(filepath.Join(dir, "c"), bin)
			if err != nil || tc.err != "" {
				if err == nil || tc.err == "" || !strings.Contains(err.Error(), tc.err) {
					t.Fatalf("got error %v, want %q", err, tc.err)
				}
				return
			}
			var names []string
			for _, p := range got {
				names = append(names, p.Name)
			}
			if strings.Join(names, " ") != tc.want {
				t.Errorf("got %v", names)
			}
			if text, one := tc.files["c"]; one && hash != hashOf([][]byte{[]byte(text)}) {
				t.Errorf("the hash is %s", hash)
			}
		})
	}
}

// The hashes are those that upstream's kubelet makes of the same files.
func TestHashOf(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		contents [][]byte
		want     string
	}{
		{[][]byte{[]byte("a\n")}, "sha256:4f1b0d400ca776e55db9fb8d3f9f364c66b4ad96f7ad3be25c8bc7be11781163"},
		{[][]byte{[]byte("a\n"), []byte("b\n")}, "sha256:f68cccefb11aa4dfd18d441f344e742460e633e637ed586a067a53082ebe434f"},
	} {
		if got := hashOf(tc.contents); got != tc.want {
			t.Errorf("%q: %s, want %s", tc.contents, got, tc.want)
		}
	}
}

func TestCredentialProviders_Half(t *testing.T) {
	t.Parallel()
	if got, hash, err := CredentialProviders("", ""); got != nil || hash != "" || err != nil {
		t.Errorf("none: %v, %v", got, err)
	}
	for _, args := range [][2]string{{"/c", ""}, {"", "/b"}, {"/c", filepath.Join(t.TempDir(), "none")}} {
		if _, _, err := CredentialProviders(args[0], args[1]); err == nil {
			t.Errorf("%v: no error", args)
		}
	}
}
