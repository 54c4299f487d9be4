// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
)

const number = "1e-99999999"

func TestBombs(t *testing.T) {
	t.Parallel()
	same := regexp.MustCompile(`[0-9.][eE][+-]?[0-9]{5,}`)
	r := rand.New(rand.NewPCG(1, 2))
	found := 0
	for range 20000 {
		body := make([]byte, r.IntN(40))
		for i := range body {
			body[i] = "00000123459.eE+-x"[r.IntN(17)]
		}
		var got [][]int
		for from, to := range bombs(body) {
			got = append(got, []int{from, to})
		}
		if diff := cmp.Diff(same.FindAllIndex(body, -1), got); diff != "" {
			t.Fatalf("bombs of %q (-want +got):\n%s", body, diff)
		}
		found += len(got)
	}
	if found < 1000 {
		t.Errorf("only %d were found: the bodies do not try much", found)
	}
}

func TestExpensive(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		mediaType, body string
		want            bool
	}{
		"request":           {"application/json", `{"spec":{"containers":[{"resources":{"requests":{"cpu":"` + number + `"}}}]}}`, true},
		"as a number":       {"application/json", `{"spec":{"capacity":{"storage":1e99999999}}}`, true},
		"size limit":        {"application/json", `{"spec":{"volumes":[{"emptyDir":{"sizeLimit":"` + number + `"}}]}}`, true},
		"yaml":              {"application/apply-patch+yaml", "spec:\n  hard:\n    pods: \"" + number + "\"\n", true},
		"patch":             {"application/json-patch+json", `[{"op":"add","path":"/spec/hard/pods","value":"` + number + `"}]`, true},
		"patch of a map":    {"application/json-patch+json", `[{"op":"add","path":"/spec/hard","value":{"pods":"` + number + `"}}]`, true},
		"target":            {"application/json", `{"spec":{"metrics":[{"resource":{"target":{"value":"` + number + `"}}}]}}`, true},
		"large but usual":   {"application/json", `{"spec":{"hard":{"pods":"1e3"}}}`, false},
		"label":             {"application/json", `{"metadata":{"labels":{"commit":"4e1234567"}}}`, false},
		"selector":          {"application/json", `{"spec":{"selector":{"matchLabels":{"commit":"4e1234567"}}}}`, false},
		"environment":       {"application/json", `{"spec":{"containers":[{"env":[{"name":"COMMIT","value":"4e1234567"}]}]}}`, false},
		"patch of a label":  {"application/json-patch+json", `[{"op":"add","path":"/metadata/labels/commit","value":"4e1234567"}]`, false},
		"data":              {"application/json", `{"data":{"cpu":"` + number + `"}}`, false},
		"longer text":       {"application/json", `{"spec":{"hard":{"pods":"see 1e99999999"}}}`, false},
		"no object, broken": {"application/json", `1e99999999`, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := expensive(tc.mediaType, []byte(tc.body)); (got != "") != tc.want {
				t.Errorf("expensive is %q, want any: %v", got, tc.want)
			}
		})
	}
}

func TestExpensiveProtobuf(t *testing.T) {
	t.Parallel()
	// A stand-in of the same length is encoded, as the library could not write the number itself.
	standIn := resource.MustParse("99999999991")
	if len(standIn.String()) != len(number) {
		t.Fatalf("%s is not as long as %s", standIn.String(), number)
	}
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": standIn}}}}}}
	scaler := &autoscalingv2.HorizontalPodAutoscaler{Spec: autoscalingv2.HorizontalPodAutoscalerSpec{Metrics: []autoscalingv2.MetricSpec{{
		Resource: &autoscalingv2.ResourceMetricSource{Target: autoscalingv2.MetricTarget{AverageValue: &standIn}},
	}}}}
	labelled := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"commit": standIn.String(), standIn.String(): "commit"}}}
	for name, tc := range map[string]struct {
		obj  interface{ Marshal() ([]byte, error) }
		want bool
	}{"pod": {pod, true}, "scaler": {scaler, true}, "label": {labelled, false}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data, err := tc.obj.Marshal()
			if err != nil {
				t.Fatal(err)
			}
			body := strings.ReplaceAll(string(data), standIn.String(), number)
			if got := expensive("application/vnd.kubernetes.protobuf", []byte(body)); (got == number) != tc.want {
				t.Errorf("expensive is %q, want it found: %v", got, tc.want)
			}
		})
	}
}

func TestCheckQuantities(t *testing.T) {
	t.Parallel()
	read := func(body string) (string, error) {
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		checkQuantities(r, &apirequest.RequestInfo{Verb: "create"})
		data, err := io.ReadAll(r.Body)
		return string(data), err
	}
	fine := `{"spec":{"hard":{"pods":"10"}},"metadata":{"labels":{"commit":"4e1234567"}}}`
	if got, err := read(fine); err != nil || got != fine {
		t.Errorf("read %q, %v", got, err)
	}
	large := strings.Repeat("x", maxBody+100)
	if got, err := read(large); err != nil || got != large {
		t.Errorf("read %d bytes of %d, %v", len(got), len(large), err)
	}
	if _, err := read(`{"spec":{"hard":{"pods":"` + number + `"}}}`); !apierrors.IsBadRequest(err) {
		t.Errorf("error is %v, want a bad request", err)
	}
}
