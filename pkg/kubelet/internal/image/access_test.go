// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"minik8s.io/minik8s/pkg/kubelet/container"
)

const private = "example.com/team/x:1"

// tenants are secrets by namespace: who may pull the private image, who has another login, who has the same in another secret.
func tenants(_ context.Context, namespace, name string) (*corev1.Secret, error) {
	password, ok := map[string]string{"owner": "p", "friend": "p", "stranger": "wrong"}[namespace]
	if !ok || name != "login" {
		return nil, fmt.Errorf("secrets %q not found", name)
	}
	s := secret(corev1.SecretTypeDockerConfigJson, corev1.DockerConfigJsonKey, `{"auths":{"example.com":{"username":"u","password":"`+password+`"}}}`)
	s.ObjectMeta = metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("uid-" + namespace)}
	return s, nil
}

// as makes the fixture's pod that of a tenant.
func (f *fixture) as(namespace string) *fixture {
	f.pod = &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "p", UID: types.UID("pod-" + namespace)},
		Spec:       corev1.PodSpec{ImagePullSecrets: []corev1.LocalObjectReference{{Name: "login"}}},
	}
	f.runtime.ResetCalls()
	return f
}

func TestAccess(t *testing.T) {
	dir := t.TempDir()
	f := newFixture(nil)
	f.restart(dir, tenants)
	f.runtime.Publish(private, &container.RegistryAuth{Username: "u", Password: "p"})
	pulls := func() int { return len(f.runtime.Calls("PullImage")) }
	if _, err := f.as("owner").ensure(t, private, corev1.PullIfNotPresent); err != nil || pulls() != 1 {
		t.Fatalf("who may pull it: %+v, %d pulls", err, pulls())
	}
	for _, restarted := range []bool{false, true} {
		if restarted {
			f.restart(dir, tenants)
		}
		for _, namespace := range []string{"owner", "friend"} {
			if _, err := f.as(namespace).ensure(t, private, corev1.PullIfNotPresent); err != nil || pulls() != 0 {
				t.Errorf("restarted %v: %s: %+v, %d pulls", restarted, namespace, err, pulls())
			}
			if _, err := f.as(namespace).ensure(t, private, corev1.PullNever); err != nil {
				t.Errorf("restarted %v: %s, never: %+v", restarted, namespace, err)
			}
		}
		for _, namespace := range []string{"stranger", "nobody"} {
			const absent = `Container image "` + private + `" is not present with pull policy of Never`
			if _, err := f.as(namespace).ensure(t, private, corev1.PullNever); err == nil || err.Reason != ReasonNeverPull || err.Message != absent {
				t.Errorf("restarted %v: %s, never: %+v", restarted, namespace, err)
			}
			if _, err := f.as(namespace).ensure(t, private, corev1.PullIfNotPresent); err == nil || err.Reason != ReasonPull || pulls() != 1 {
				t.Errorf("restarted %v: %s has another's image: %+v, %d pulls", restarted, namespace, err, pulls())
			}
		}
		if img, err := f.Free(t.Context(), private); !errors.Is(err, container.ErrNotFound) {
			t.Errorf("restarted %v: it is for everybody: %v, %v", restarted, img, err)
		}
	}
}

// TestAccess_Everybody checks images that no registry guards: built here, or pulled without a login.
func TestAccess_Everybody(t *testing.T) {
	f := newFixture(nil)
	f.restart(t.TempDir(), tenants)
	f.runtime.AddImage("built:1", nil)
	f.runtime.Publish("open:1", nil)
	if _, err := f.as("nobody").ensure(t, "open:1", corev1.PullIfNotPresent); err != nil {
		t.Fatal(err)
	}
	for _, image := range []string{"built:1", "open:1"} {
		for _, namespace := range []string{"owner", "nobody"} {
			if _, err := f.as(namespace).ensure(t, image, corev1.PullNever); err != nil {
				t.Errorf("%s: %s: %+v", image, namespace, err)
			}
		}
		if img, err := f.Free(t.Context(), image); err != nil || !slices.Contains(img.RepoTags, image) {
			t.Errorf("%s: %v, %v", image, img, err)
		}
	}
}

// TestAccess_Names checks an image that was pulled, and has another name that somebody on the machine gave it.
func TestAccess_Names(t *testing.T) {
	f := newFixture(nil)
	f.restart(t.TempDir(), tenants)
	f.runtime.Publish(private, &container.RegistryAuth{Username: "u", Password: "p"})
	img, err := f.as("owner").ensure(t, private, corev1.PullIfNotPresent)
	if err != nil {
		t.Fatal(err)
	}
	f.runtime.AddImage("tagged:1", func(i *container.Image) { i.ID, i.RepoTags = img.ID, append(i.RepoTags, private) })
	if _, err := f.as("nobody").ensure(t, "tagged:1", corev1.PullNever); err != nil {
		t.Errorf("by the name of the machine's user: %+v", err)
	}
	for _, name := range []string{private, img.ID, strings.TrimPrefix(img.ID, "sha256:"), "example.com/other@" + img.ID} {
		if _, err := f.as("nobody").ensure(t, name, corev1.PullNever); err == nil {
			t.Errorf("%s is everybody's", name)
		}
	}
}

// TestAccess_Nodes checks two nodes with one store: what one has pulled is not everybody's on the other.
func TestAccess_Nodes(t *testing.T) {
	f := newFixture(nil)
	f.restart(t.TempDir(), tenants)
	f.runtime.Publish(private, &container.RegistryAuth{Username: "u", Password: "p"})
	if _, err := f.as("owner").ensure(t, private, corev1.PullIfNotPresent); err != nil {
		t.Fatal(err)
	}
	config := f.config
	config.Records, config.Dir = f.records, t.TempDir()
	other, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	f.Puller = other
	if _, err := f.as("nobody").ensure(t, private, corev1.PullNever); err == nil {
		t.Error("it is everybody's on another node")
	}
	if _, err := f.as("friend").ensure(t, private, corev1.PullNever); err != nil {
		t.Errorf("who has a login: %+v", err)
	}
}

// TestAccess_Killed checks a kubelet that was killed between the pull and the note of it: the image is nobody's for sure.
func TestAccess_Killed(t *testing.T) {
	dir := t.TempDir()
	f := newFixture(nil)
	f.restart(dir, tenants)
	if err := f.records.begin(private); err != nil {
		t.Fatal(err)
	}
	f.runtime.AddImage(private, nil)
	lost := f.runtime.AddImage("example.com/team/lost:1", nil)
	for _, junk := range []string{"pulled/.tmp-sha256-half", "pulled/" + fileOf(lost.ID)} {
		if err := os.WriteFile(filepath.Join(dir, junk), []byte(`{"kind":`), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f.restart(dir, tenants)
	if _, err := f.as("nobody").ensure(t, "example.com/team/lost:1", corev1.PullNever); err == nil {
		t.Error("an image whose record is lost is everybody's")
	}
	if _, err := f.as("nobody").ensure(t, private, corev1.PullNever); err == nil {
		t.Error("who has no login has the image")
	}
	f.runtime.Publish(private, &container.RegistryAuth{Username: "u", Password: "p"})
	if _, err := f.as("owner").ensure(t, private, corev1.PullIfNotPresent); err != nil {
		t.Errorf("who may pull it: %+v", err)
	}
	if left, err := os.ReadDir(filepath.Join(dir, "pulling")); err != nil || len(left) > 0 {
		t.Errorf("it still counts as being pulled: %v, %v", left, err)
	}
}

// TestAccess_DiskFull checks that a pull which cannot be noted is none, and leaves nothing behind when there is room again.
func TestAccess_DiskFull(t *testing.T) {
	dir := t.TempDir()
	f := newFixture(nil)
	f.restart(dir, tenants)
	f.runtime.AddImage("built:1", nil)
	f.runtime.Publish("built:1", nil)
	if err := os.RemoveAll(filepath.Join(dir, "pulling")); err != nil { // nothing can be written there
		t.Fatal(err)
	}
	if _, err := f.as("nobody").ensure(t, "built:1", corev1.PullAlways); err == nil || len(f.runtime.Calls("PullImage")) > 0 {
		t.Errorf("pulled without a note: %+v", err)
	}
	if err := os.Mkdir(filepath.Join(dir, "pulling"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := f.as("nobody").ensure(t, "built:1", corev1.PullNever); err != nil {
		t.Errorf("what was built here: %+v", err)
	}
}

func TestRecords_Prune(t *testing.T) {
	dir := t.TempDir()
	r, err := OpenRecords(dir)
	if err != nil {
		t.Fatal(err)
	}
	pull := func(id string) {
		t.Helper()
		if err := r.begin("x"); err != nil {
			t.Fatal(err)
		}
		if err := r.end("x", id, &login{}, metav1.Now()); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range []string{"a", "b", "c"} {
		pull(id)
	}
	if err := r.prune(func() (map[string]bool, error) { pull("c"); return map[string]bool{"a": true}, nil }); err != nil {
		t.Fatal(err)
	}
	again, err := OpenRecords(dir)
	if err != nil || len(again.pulled) != 2 || again.pulled["a"] == nil || again.pulled["c"] == nil || len(again.pulling) != 0 {
		t.Errorf("%v, %v, %v", again.pulled, again.pulling, err)
	}
}
