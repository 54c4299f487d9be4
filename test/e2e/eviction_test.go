// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A pod that writes more into its volume than it may is ended, and nothing that it has written stays.
func TestEviction_EmptyDirLimit(t *testing.T) {
	k := shared(t)
	ns := k.namespace(t, "eviction")
	limit := resource.MustParse("64Ki")
	k.runStore(t, ns, storePod("writer", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: &limit}}))
	k.runStore(t, ns, storePod("other", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}))
	message := `{"text":"` + strings.Repeat("x", 4000) + `"}`
	for _, name := range []string{"writer", "other"} {
		p, err := k.client.CoreV1().Pods(ns).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for range 20 {
			post(t, p.Status.PodIP, message)
		}
	}
	eventually(t, time.Minute, "the writer evicted", func(ctx context.Context) error {
		p, err := k.client.CoreV1().Pods(ns).Get(ctx, "writer", metav1.GetOptions{})
		if err == nil && p.Status.Phase != corev1.PodSucceeded { // which a store that is told to stop says of itself
			err = fmt.Errorf("it is %s", p.Status.Phase)
		}
		return err
	})
	eventually(t, 20*time.Second, "its event", func(ctx context.Context) error {
		r, err := k.run(ctx, "-n", ns, "describe", "pod", "writer")
		if want := `Usage of EmptyDir volume "data" exceeds the limit "64Ki".`; err == nil && (!strings.Contains(r.Stdout, "Warning  Evicted") || !strings.Contains(r.Stdout, want)) {
			err = errors.New(r.Stdout)
		}
		return err
	})
	other, err := k.client.CoreV1().Pods(ns).Get(t.Context(), "other", metav1.GetOptions{})
	if err != nil || !isReady(other) {
		t.Errorf("the other pod: %v, %v", other.Status, err)
	}
}

// post gives a message to a store.
func post(t *testing.T, address, message string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+address+":8080/v1/messages", strings.NewReader(message))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer token")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode/100 != 2 {
		t.Fatalf("the store answers %s", answer.Status)
	}
}
