// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// A small store of a cluster is filled: the check of the cluster says so, the server stays ready, and deletions end it.
func TestCheck_FullStore(t *testing.T) {
	r, admin := serve(t, "etcd: {quotaBackendBytes: 16777216}\n")
	client := kubernetes.NewForConfigOrDie(admin)
	eventually(t, "a cluster that is well", func(ctx context.Context) error {
		// Nobody makes this one here: there are no controllers.
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
		if _, err := client.CoreV1().ServiceAccounts("default").Create(ctx, account, metav1.CreateOptions{}); err != nil {
			return err
		}
		return checkStore(ctx, admin)
	})
	maps := client.CoreV1().ConfigMaps("default")
	var err error
	for n := 0; err == nil && n < 100; n++ {
		full := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("m", n)}, Data: map[string]string{"k": strings.Repeat("v", 512<<10)}}
		_, err = maps.Create(t.Context(), full, metav1.CreateOptions{})
	}
	if err == nil || err.Error() != "etcdserver: mvcc: database space exceeded" {
		t.Fatalf("filling the store ends with %v", err)
	}
	if err := checkStore(t.Context(), admin); !errors.Is(err, ErrStore) || !strings.Contains(err.Error(), "database space exceeded") {
		t.Errorf("when full: %v", err)
	}
	if err := waitReady(t.Context(), admin, r.config, time.Now(), func(string) {}); err != nil {
		t.Errorf("when full, it is not ready: %v", err)
	}
	if err := maps.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
	eventually(t, "after deletions", func(ctx context.Context) error { return checkStore(ctx, admin) })
}
