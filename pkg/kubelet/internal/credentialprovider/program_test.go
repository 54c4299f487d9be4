// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package credentialprovider

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	kubeletconfigv1 "k8s.io/kubelet/config/v1"
	credentialproviderv1 "k8s.io/kubelet/pkg/apis/credentialprovider/v1"
)

const version = "credentialprovider.kubelet.k8s.io/v1"

// program writes a script.
func program(t *testing.T, text string) (Programs, *kubeletconfigv1.CredentialProvider) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "p"), []byte("#!/bin/sh\n"+text), 0o755); err != nil {
		t.Fatal(err)
	}
	return Programs{Dir: dir}, &kubeletconfigv1.CredentialProvider{Name: "p", APIVersion: version, Args: []string{"one", "; touch two"}, Env: []kubeletconfigv1.ExecEnvVar{{Name: "SECRET", Value: "s"}}}
}

func ask(ctx context.Context, d Programs, p *kubeletconfigv1.CredentialProvider) (*credentialproviderv1.CredentialProviderResponse, error) {
	r := &credentialproviderv1.CredentialProviderRequest{Image: "example.com/x"}
	r.APIVersion, r.Kind = version, "CredentialProviderRequest"
	return d.Ask(ctx, p, r)
}

func TestPrograms(t *testing.T) {
	const answer = `{"apiVersion":"` + version + `","kind":"CredentialProviderResponse","cacheKeyType":"Registry","auth":{"example.com":{"username":"u","password":"'"$SECRET"'"}}}`
	for _, test := range []struct{ name, script, err string }{
		{name: "answers", script: `grep -q '"image":"example.com/x"' && [ "$1" = one ] && [ "$2" = "; touch two" ] && echo '` + answer + `'`},
		{name: "fails", script: "echo no login >&2; exit 3", err: "error execing credential provider plugin p for image example.com/x: exit status 3: no login"},
		{name: "says nothing", script: "exit 0", err: "error decoding credential provider plugin response from stdout"},
		{name: "says too much", script: "yes secret | head -c 2000000", err: "answered more than 1048576 bytes"},
		{name: "complains too much", script: "yes no | head -c 2000000 >&2; exit 1", err: "exit status 1"},
		{name: "another version", script: `echo '{"apiVersion":"v1","kind":"CredentialProviderResponse","cacheKeyType":"Image"}'`, err: "did not match expected apiVersion:" + version},
		{name: "another kind", script: `echo '{"apiVersion":"` + version + `","kind":"Pod","cacheKeyType":"Image"}'`, err: `unexpected Kind: "Pod"`},
		{name: "what nobody knows", script: `echo '{"apiVersion":"` + version + `","kind":"CredentialProviderResponse","cacheKeyTipe":"secret"}'`, err: "error decoding credential provider plugin response from stdout"},
	} {
		t.Run(test.name, func(t *testing.T) {
			d, p := program(t, test.script)
			got, err := ask(t.Context(), d, p)
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) || len(err.Error()) > 5000 || strings.Contains(err.Error(), "secret") {
					t.Fatalf("got %v, %v", got, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(map[string]credentialproviderv1.AuthConfig{"example.com": {Username: "u", Password: "s"}}, got.Auth); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A program that hangs is killed with what it has started, which holds its output open.
func TestPrograms_Hang(t *testing.T) {
	d, p := program(t, "sleep 600 & wait")
	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := ask(ctx, d, p); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("it took %v", took)
	}
}

func TestPrograms_Gone(t *testing.T) {
	if _, err := ask(t.Context(), Programs{Dir: t.TempDir()}, &kubeletconfigv1.CredentialProvider{Name: "p"}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}
