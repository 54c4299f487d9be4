// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package imagepolicywebhook

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	imagepolicyv1alpha1 "k8s.io/api/imagepolicy/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"

	"minik8s.io/minik8s/pkg/apiserver/admission/admissiontest"
)

// server refuses images named "bad", with the reason in the namespace's name, and fails for those named "fail".
type server struct {
	asked atomic.Int32
	last  atomic.Pointer[imagepolicyv1alpha1.ImageReview]
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.asked.Add(1)
	var review imagepolicyv1alpha1.ImageReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.last.Store(review.DeepCopy())
	review.Status.Allowed = true
	for _, c := range review.Spec.Containers {
		switch c.Image {
		case "bad":
			review.Status = imagepolicyv1alpha1.ImageReviewStatus{Reason: "no " + review.Spec.Namespace}
		case "fail":
			http.Error(w, "broken", http.StatusBadRequest) // what is not asked again
			return
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(review)
}

func build(t *testing.T, options string) (admission.Interface, *server) {
	t.Helper()
	s := &server{}
	web := httptest.NewTLSServer(s)
	t.Cleanup(web.Close)
	ca, kubeconfig := filepath.Join(t.TempDir(), "ca.crt"), filepath.Join(t.TempDir(), "kubeconfig")
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: web.Certificate().Raw})
	if err := os.WriteFile(ca, cert, 0o600); err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("clusters: [{name: c, cluster: {server: %q, certificate-authority: %q}}]\ncontexts: [{name: c, context: {cluster: c}}]\ncurrent-context: c\n", web.URL, ca)
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := New(strings.NewReader(fmt.Sprintf("imagePolicy: {kubeConfigFile: %q%s}", kubeconfig, options)))
	if err != nil {
		t.Fatal(err)
	}
	return p, s
}

func request(namespace, image string) (admissiontest.Request, *corev1.Pod) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"x.image-policy.k8s.io/break-glass": "1", "other": "2"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Image: image}}, InitContainers: []corev1.Container{{Image: "init"}}},
	}
	return admissiontest.Request{Resource: "pods", Namespace: namespace, Object: pod}, pod
}

func TestValidate(t *testing.T) {
	for _, tc := range []struct {
		name, image, options, err string
		failedOpen                bool
	}{
		{name: "good", image: "good"},
		{name: "bad", image: "bad", err: "image policy webhook backend denied one or more images: no ns"},
		{name: "failing", image: "fail", err: "forbidden"},
		{name: "failing open", image: "fail", options: ", defaultAllow: true", failedOpen: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, s := build(t, tc.options)
			r, pod := request("ns", tc.image)
			err := admissiontest.Run(p, r.Attributes())
			if (err == nil) != (tc.err == "") || err != nil && (!apierrors.IsForbidden(err) || !strings.Contains(err.Error(), tc.err)) {
				t.Errorf("error = %v, want %q", err, tc.err)
			}
			if (pod.Annotations[corev1.ImagePolicyFailedOpenKey] == "true") != tc.failedOpen {
				t.Errorf("annotations %v, want failed open = %v", pod.Annotations, tc.failedOpen)
			}
			want := imagepolicyv1alpha1.ImageReviewSpec{
				Containers:  []imagepolicyv1alpha1.ImageReviewContainerSpec{{Image: tc.image}, {Image: "init"}},
				Annotations: map[string]string{"x.image-policy.k8s.io/break-glass": "1"},
				Namespace:   "ns",
			}
			if diff := cmp.Diff(want, s.last.Load().Spec); diff != "" {
				t.Errorf("asked (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAnswersAreRemembered(t *testing.T) {
	for options, want := range map[string]int32{"": 3, ", denyTTL: -1": 4} {
		p, s := build(t, options)
		for _, image := range []string{"good", "good", "bad", "bad", "other"} {
			r, _ := request("ns", image)
			if err := admissiontest.Run(p, r.Attributes()); (err != nil) != (image == "bad") {
				t.Errorf("%s: %v", image, err)
			}
		}
		if got := s.asked.Load(); got != want {
			t.Errorf("%q: asked %d times, want %d", options, got, want)
		}
	}
}

func TestOnlyPods(t *testing.T) {
	p, s := build(t, "")
	r, pod := request("ns", "bad")
	r.Subresource = "status"
	other := admissiontest.Request{Resource: "configmaps", Object: &corev1.ConfigMap{}}
	for _, r := range []admissiontest.Request{r, other} {
		if err := admissiontest.Run(p, r.Attributes()); err != nil || s.asked.Load() != 0 {
			t.Errorf("%s/%s: %v, asked %d times", r.Resource, r.Subresource, err, s.asked.Load())
		}
	}
	pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Image: "debug"}}}
	r.Subresource = "ephemeralcontainers"
	if err := admissiontest.Run(p, r.Attributes()); err != nil || s.asked.Load() != 1 {
		t.Errorf("ephemeral containers: %v, asked %d times", err, s.asked.Load())
	}
}

func TestConfiguration(t *testing.T) {
	for _, config := range []string{
		"imagePolicy: {kubeConfigFile: /does/not/exist}", "imagePolicy: {allowTTL: 1801}", "imagePolicy: {denyTTL: -2}", "imagePolicy: {retryBackoff: 300001}", "unknown: 1",
	} {
		if _, err := New(strings.NewReader(config)); err == nil {
			t.Errorf("%s: no error", config)
		}
	}
	if _, err := New(nil); err == nil {
		t.Error("no configuration: no error")
	}
}
