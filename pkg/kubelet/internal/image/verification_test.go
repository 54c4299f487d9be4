// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"

	"minik8s.io/minik8s/pkg/kubelet/container"
	"minik8s.io/minik8s/pkg/kubelet/internal/credentialprovider"
)

func TestVerifies(t *testing.T) {
	allow := []string{"example.com/one", "example.com/team/*", "x"}
	for _, test := range []struct {
		policy kubeletv1beta1.ImagePullCredentialsVerificationPolicy
		image  string
		pulled bool
		want   bool
	}{
		{"", "x:1", true, true}, {"", "x:1", false, false},
		{kubeletv1beta1.NeverVerifyPreloadedImages, "x:1", true, true}, {kubeletv1beta1.NeverVerifyPreloadedImages, "x:1", false, false},
		{kubeletv1beta1.NeverVerify, "x:1", true, false}, {kubeletv1beta1.AlwaysVerify, "x:1", false, true},
		{kubeletv1beta1.NeverVerifyAllowlistedImages, "x:1", true, false}, {kubeletv1beta1.NeverVerifyAllowlistedImages, "y:1", false, true},
		{kubeletv1beta1.NeverVerifyAllowlistedImages, "example.com/one@sha256:0123456789012345678901234567890123456789012345678901234567890123", false, false},
		{kubeletv1beta1.NeverVerifyAllowlistedImages, "example.com/one/more:1", false, true},
		{kubeletv1beta1.NeverVerifyAllowlistedImages, "example.com/team/a/b:1", false, false}, {kubeletv1beta1.NeverVerifyAllowlistedImages, "example.com/teams/a", false, true},
	} {
		if got := (Verification{Policy: test.policy, Allowlist: allow}).verifies(test.image, test.pulled); got != test.want {
			t.Errorf("%s, %s, pulled %v: %v", test.policy, test.image, test.pulled, got)
		}
	}
}

func TestCheckAllowlist(t *testing.T) {
	for pattern, ok := range map[string]bool{
		"x": true, "example.com/x": true, "example.com/*": true, "example.com/a/*": true,
		"": false, "*": false, "/*": false, " x": false, "x:1": false, "example.com/*/x": false, "example.com/x*": false, "X": false,
	} {
		if err := CheckAllowlist([]string{pattern}); (err == nil) != ok {
			t.Errorf("%q: %v", pattern, err)
		}
	}
}

// By policy a pod gets an image that is there, or has to show that it may pull it.
func TestVerification(t *testing.T) {
	for policy, asked := range map[kubeletv1beta1.ImagePullCredentialsVerificationPolicy]struct{ built, pulled bool }{
		kubeletv1beta1.NeverVerify: {false, false}, kubeletv1beta1.NeverVerifyPreloadedImages: {false, true}, kubeletv1beta1.AlwaysVerify: {true, true},
	} {
		f := newFixture(nil)
		f.runtime.AddImage("built:1", nil)
		f.runtime.Publish(private, &container.RegistryAuth{Username: "u", Password: "p"})
		p, err := New(Config{Runtime: f.runtime, Recorder: f.events, Clock: f.clock, Secrets: tenants, Verification: Verification{Policy: policy}})
		if err != nil {
			t.Fatal(err)
		}
		f.Puller = p
		if _, err := f.as("owner").ensure(t, private, corev1.PullIfNotPresent); err != nil {
			t.Fatal(err)
		}
		if _, err := f.as("nobody").ensure(t, private, corev1.PullNever); (err != nil) != asked.pulled {
			t.Errorf("%s: what was pulled: %v", policy, err)
		}
		if _, err := f.as("nobody").ensure(t, "built:1", corev1.PullNever); (err != nil) != asked.built {
			t.Errorf("%s: what was built: %v", policy, err)
		}
		if _, err := f.as("owner").ensure(t, private, corev1.PullNever); err != nil {
			t.Errorf("%s: who has pulled it: %v", policy, err)
		}
	}
}

// What was pulled with the login of a plugin is for the service account whose token it had, or for all if it had none.
func TestAccess_Plugins(t *testing.T) {
	dir := t.TempDir()
	f := newFixture(nil)
	account := func(pod *corev1.Pod) *kubeletv1beta1.ImagePullServiceAccount {
		return &kubeletv1beta1.ImagePullServiceAccount{UID: "uid-" + pod.Spec.ServiceAccountName, Namespace: pod.Namespace, Name: pod.Spec.ServiceAccountName}
	}
	var asked []string
	start := func(all bool) {
		p, err := New(Config{Runtime: f.runtime, Recorder: f.events, Clock: f.clock, Dir: dir,
			Credentials: func(_ context.Context, pod *corev1.Pod, repository string) ([]credentialprovider.Credential, error) {
				asked = append(asked, repository)
				c := credentialprovider.Credential{Pattern: "*.com", Username: "u", Password: "p"}
				if !all {
					if pod.Spec.ServiceAccountName != "owner" {
						return nil, nil
					}
					c.Account = account(pod)
				}
				return []credentialprovider.Credential{{Pattern: "other.org", Username: "x"}, c}, nil
			}})
		if err != nil {
			t.Fatal(err)
		}
		f.Puller = p
	}
	as := func(name string, policy corev1.PullPolicy) *Error {
		f.as("ns").pod.Spec.ServiceAccountName = name
		_, err := f.ensure(t, private, policy)
		return err
	}
	f.runtime.Publish(private, &container.RegistryAuth{Username: "u", Password: "p"})
	start(false)
	if err := as("owner", corev1.PullIfNotPresent); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"example.com/team/x"}, asked); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
	if got := f.runtime.Calls("PullImage")[0].Arg.(*container.RegistryAuth); got.ServerAddress != "example.com" {
		t.Errorf("login %+v", got)
	}
	for _, restarted := range []bool{false, true} {
		if restarted {
			start(false)
		}
		if err := as("owner", corev1.PullNever); err != nil {
			t.Errorf("restarted %v: %v", restarted, err)
		}
		if err := as("stranger", corev1.PullNever); err == nil {
			t.Errorf("restarted %v: a stranger gets it", restarted)
		}
	}
	start(true)
	if err := as("anybody", corev1.PullAlways); err != nil {
		t.Fatal(err)
	}
	start(false)
	if err := as("stranger", corev1.PullNever); err != nil {
		t.Errorf("pulled with a login for all: %v", err)
	}
}
