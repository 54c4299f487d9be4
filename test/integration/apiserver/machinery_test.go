// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/server/options/encryptionconfig/controller"

	"minik8s.io/minik8s/pkg/apiserver"
	"minik8s.io/minik8s/pkg/apiserver/encryption"
	"minik8s.io/minik8s/pkg/etcd"
	"minik8s.io/minik8s/test/integration/framework"
)

func TestAudit(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	audit := options.NewAuditOptions()
	audit.LogOptions.Path = filepath.Join(dir, "audit.log")
	audit.PolicyFile = write(t, filepath.Join(dir, "policy.yaml"), `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: RequestResponse
  resources: [{group: "", resources: [configmaps]}]
- level: None
`)
	c := framework.Start(t, framework.Options{APIServer: func(c *apiserver.Config) { c.Machinery = audit.ApplyTo }})
	if _, err := c.Client.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "watched"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Client.CoreV1().Secrets("default").Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "unwatched"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(audit.LogOptions.Path)
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for line := range strings.Lines(string(data)) {
		var e auditv1.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if e.ObjectRef == nil || e.ObjectRef.Resource != "configmaps" {
			t.Errorf("an event about %v, which the policy leaves out", e.ObjectRef)
			continue
		}
		if e.ObjectRef.Name == "watched" && e.Verb == "create" {
			found = true
			if e.User.Username != "kubernetes-admin" || e.ResponseStatus == nil || e.ResponseStatus.Code != 201 || e.ResponseObject == nil || e.Annotations["authorization.k8s.io/decision"] != "allow" {
				t.Errorf("event is %s", line)
			}
		}
	}
	if !found {
		t.Errorf("no event about the creation:\n%s", data)
	}
}

// encryptionConfig encrypts secrets with the first of the named keys.
func encryptionConfig(names ...string) string {
	var keys []string
	for _, name := range names {
		secret := base64.StdEncoding.EncodeToString([]byte(strings.Repeat(name, 32)[:32]))
		keys = append(keys, fmt.Sprintf(`{"name": %q, "secret": %q}`, name, secret))
	}
	return fmt.Sprintf(`{"apiVersion": "apiserver.config.k8s.io/v1", "kind": "EncryptionConfiguration", "resources": [
{"resources": ["secrets"], "providers": [{"secretbox": {"keys": [%s]}}, {"identity": {}}]}]}`, strings.Join(keys, ","))
}

func TestEncryption(t *testing.T) {
	t.Parallel()
	controller.EncryptionConfigFileChangePollDuration = 100 * time.Millisecond // no other test follows such a file
	file := write(t, filepath.Join(t.TempDir(), "encryption.json"), encryptionConfig("old"))
	var backend etcd.Backend
	c := framework.Start(t, framework.Options{APIServer: func(c *apiserver.Config) {
		backend = c.Backend
		c.Machinery = func(g *genericapiserver.Config) error { return encryption.Apply(g, file, true) }
	}})
	client := backend.NewClient()
	defer client.Close()
	secrets := c.Client.CoreV1().Secrets("default")
	// store makes a secret and returns what etcd has of it.
	store := func(ctx context.Context, name string) ([]byte, error) {
		if _, err := secrets.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: map[string]string{"k": "plain text of " + name}}, metav1.CreateOptions{}); err != nil {
			return nil, err
		}
		got, err := client.Get(ctx, "/registry/secrets/default/"+name)
		if err != nil || len(got.Kvs) != 1 {
			return nil, fmt.Errorf("etcd has %v: %w", got, err)
		}
		return got.Kvs[0].Value, nil
	}
	raw, err := store(t.Context(), "first")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.HasPrefix(raw, []byte("k8s:enc:secretbox:v1:old:")) || bytes.Contains(raw, []byte("plain text")) {
		t.Errorf("etcd has %q", raw)
	}

	write(t, file, encryptionConfig("new", "old"))
	n := 0
	err = wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		n++
		raw, err := store(ctx, fmt.Sprintf("after-%d", n))
		return bytes.HasPrefix(raw, []byte("k8s:enc:secretbox:v1:new:")), err
	})
	if err != nil {
		t.Fatalf("the new key is not used: %v", err)
	}
	for _, name := range []string{"first", fmt.Sprintf("after-%d", n)} {
		got, err := secrets.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if string(got.Data["k"]) != "plain text of "+name {
			t.Errorf("%s reads as %q", name, got.Data["k"])
		}
	}
}
