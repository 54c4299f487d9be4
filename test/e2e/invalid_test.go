// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What the API server says to bad input is what upstream says: the code, the reason, and the path of the field.
func TestInvalidObjects(t *testing.T) {
	k := shared(t)
	ns := k.namespace(t, "invalid")
	const (
		pods        = "/api/v1/namespaces/invalid/pods"
		services    = "/api/v1/namespaces/invalid/services"
		deployments = "/apis/apps/v1/namespaces/invalid/deployments"
	)
	tests := []struct {
		name, path, body string
		code             int
		reason           metav1.StatusReason
		field            string // of a cause
		message          string
	}{
		{"not JSON", pods, `{"metadata":`, 400, metav1.StatusReasonBadRequest, "", "unexpected end of JSON input"},
		{"wrong type", pods, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x"},"spec":{"containers":"none"}}`, 400, metav1.StatusReasonBadRequest, "",
			"cannot unmarshal string into Go struct field"},
		{"other kind", pods, `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"x"}}`, 400, metav1.StatusReasonBadRequest, "", "Secret"},
		{"unknown field", pods + "?fieldValidation=Strict", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x"},"spec":{"contaners":[]}}`, 400,
			metav1.StatusReasonBadRequest, "", `strict decoding error: unknown field "spec.contaners"`},
		{"no containers", pods, `{"metadata":{"name":"x"},"spec":{}}`, 422, metav1.StatusReasonInvalid, "spec.containers", "Required value"},
		{"no image", pods, `{"metadata":{"name":"x"},"spec":{"containers":[{"name":"c"}]}}`, 422, metav1.StatusReasonInvalid, "spec.containers[0].image", "Required value"},
		{"bad name", pods, `{"metadata":{"name":"X_1"},"spec":{"containers":[{"name":"c","image":"i"}]}}`, 422, metav1.StatusReasonInvalid, "metadata.name",
			"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters"},
		{"no name", pods, `{"spec":{"containers":[{"name":"c","image":"i"}]}}`, 422, metav1.StatusReasonInvalid, "metadata.name", "name or generateName is required"},
		{"twice the same container", pods, `{"metadata":{"name":"x"},"spec":{"containers":[{"name":"c","image":"i"},{"name":"c","image":"i"}]}}`, 422,
			metav1.StatusReasonInvalid, "spec.containers[1].name", "Duplicate value"},
		{"unknown volume", pods, `{"metadata":{"name":"x"},"spec":{"containers":[{"name":"c","image":"i","volumeMounts":[{"name":"v","mountPath":"/v"}]}]}}`, 422,
			metav1.StatusReasonInvalid, "spec.containers[0].volumeMounts[0].name", "Not found"},
		{"request over limit", pods, `{"metadata":{"name":"x"},"spec":{"containers":[{"name":"c","image":"i","resources":{"requests":{"cpu":"2"},"limits":{"cpu":"1"}}}]}}`,
			422, metav1.StatusReasonInvalid, "spec.containers[0].resources.requests", "must be less than or equal to cpu limit of 1"},
		{"bad quantity", pods, `{"metadata":{"name":"x"},"spec":{"containers":[{"name":"c","image":"i","resources":{"requests":{"cpu":"a lot"}}}]}}`,
			400, metav1.StatusReasonBadRequest, "", "quantities must match the regular expression"},
		{"port out of range", services, `{"metadata":{"name":"x"},"spec":{"ports":[{"port":70000}]}}`, 422, metav1.StatusReasonInvalid, "spec.ports[0].port",
			"must be between 1 and 65535, inclusive"},
		{"selector of others", deployments, `{"metadata":{"name":"x"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"c"}},` +
			`"spec":{"containers":[{"name":"c","image":"i"}]}}}}`, 422, metav1.StatusReasonInvalid, "spec.template.metadata.labels", "`selector` does not match template `labels`"},
		{"no such resource", "/api/v1/namespaces/invalid/things", `{}`, 404, metav1.StatusReasonNotFound, "", "could not find the requested resource"},
		{"no such namespace", "/api/v1/namespaces/none/configmaps", `{"metadata":{"name":"x"}}`, 404, metav1.StatusReasonNotFound, "", `namespaces "none" not found`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			err := k.client.CoreV1().RESTClient().Verb(http.MethodPost).RequestURI(test.path).
				SetHeader("Content-Type", "application/json").Body([]byte(test.body)).Do(t.Context()).Error()
			var status apierrors.APIStatus
			if !errors.As(err, &status) {
				t.Fatalf("got %v, want a Status", err)
			}
			s := status.Status()
			if int(s.Code) != test.code || s.Reason != test.reason {
				t.Errorf("got %d %s, want %d %s: %s", s.Code, s.Reason, test.code, test.reason, s.Message)
			}
			contains(t, s.Message, test.message)
			if test.field != "" && (s.Details == nil || !slices.ContainsFunc(s.Details.Causes, func(c metav1.StatusCause) bool { return c.Field == test.field })) {
				t.Errorf("no cause has the field %s: %+v", test.field, s.Details)
			}
		})
	}

	t.Run("immutable field", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "secret.yaml")
		for i, kind := range []string{"Opaque", "example.com/other"} {
			manifest := "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\ntype: " + kind + "\n"
			if err := os.WriteFile(file, []byte(manifest), 0o600); err != nil {
				t.Fatal(err)
			}
			if i == 0 {
				k.kubectl(t, "-n", ns, "apply", "-f", file)
				continue
			}
			contains(t, k.kubectlFails(t, "-n", ns, "apply", "-f", file), `The Secret "s" is invalid: type: Invalid value`, "field is immutable")
		}
	})
	t.Run("kubectl tells of unknown fields", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "pod.yaml")
		manifest := "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers: [{name: c, image: i, comand: [x]}]\n"
		if err := os.WriteFile(file, []byte(manifest), 0o600); err != nil {
			t.Fatal(err)
		}
		contains(t, k.kubectlFails(t, "-n", ns, "apply", "-f", file), `unknown field "spec.containers[0].comand"`)
	})
	t.Run("stale update", func(t *testing.T) {
		k.kubectl(t, "-n", ns, "create", "configmap", "c")
		c, err := k.client.CoreV1().ConfigMaps(ns).Get(t.Context(), "c", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 2 {
			c.Data = map[string]string{"n": string(rune('0' + i))}
			if _, err = k.client.CoreV1().ConfigMaps(ns).Update(t.Context(), c, metav1.UpdateOptions{}); i == 0 && err != nil {
				t.Fatal(err)
			}
		}
		if !apierrors.IsConflict(err) {
			t.Errorf("got %v, want a conflict", err)
		}
	})
	t.Run("missing image", func(t *testing.T) {
		k.kubectl(t, "-n", ns, "run", "nothing", "--image=minik8s.io/does-not-exist:1", "--image-pull-policy=Never")
		k.kubectl(t, "-n", ns, "wait", "pod/nothing", "--for=jsonpath={.status.containerStatuses[0].state.waiting.reason}=ErrImageNeverPull", "--timeout=30s")
	})
}
