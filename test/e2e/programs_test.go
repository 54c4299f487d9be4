// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// example builds a program of examples/ and returns the command that runs it against the cluster.
func (k *kube) example(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	program := filepath.Join(t.TempDir(), name)
	build := exec.Command("go", "build", "-o", program, "./examples/"+name)
	build.Dir = suite.root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building examples/%s: %v\n%s", name, err, out)
	}
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+k.kubeconfig)
	return cmd
}

func TestInformer(t *testing.T) {
	k := shared(t)
	ns := k.namespace(t, "informer")
	out := background(t, k.example(t, "informer", "-namespace", ns))
	out.await(t, 20*time.Second, "synced")
	k.kubectl(t, "-n", ns, "run", "web", "--image="+frontendImage, "--", "static", "/")
	out.await(t, 10*time.Second, "ADDED informer/web phase=Pending")
	out.await(t, 30*time.Second, "MODIFIED informer/web phase=Running ready=1/1 restarts=0 node=")
	k.kubectl(t, "-n", ns, "delete", "pod", "web")
	out.await(t, 10*time.Second, "DELETED informer/web")
}

func TestOperator(t *testing.T) {
	k := shared(t)
	ns := k.namespace(t, "operator")
	operator := background(t, k.example(t, "operator", "-leader-elect"))
	operator.await(t, 30*time.Second, "Starting workers")

	k.kubectl(t, "-n", ns, "create", "configmap", "site", "--from-literal=index.html=first")
	k.kubectl(t, "-n", ns, "label", "configmap", "site", "example.minik8s.io/website=true")
	k.kubectl(t, "-n", ns, "annotate", "configmap", "site", "example.minik8s.io/replicas=2")
	k.kubectl(t, "-n", ns, "wait", "configmap/site", `--for=jsonpath={.metadata.annotations.example\.minik8s\.io/available}=2`, "--timeout=60s")
	serves := func(want string) func(context.Context) error {
		return func(ctx context.Context) error {
			service, err := k.client.CoreV1().Services(ns).Get(ctx, "site", metav1.GetOptions{})
			if err != nil {
				return err
			}
			got, err := fetch(ctx, http.MethodGet, "http://"+service.Spec.ClusterIP+"/index.html", "")
			if err == nil && got != want {
				err = fmt.Errorf("got %q", got)
			}
			return err
		}
	}
	eventually(t, 20*time.Second, "the page", serves("first"))
	contains(t, k.kubectl(t, "-n", ns, "get", "events"), "Published", "Created deployment site")

	// New content rolls out; what somebody else changes is set right.
	k.kubectl(t, "-n", ns, "patch", "configmap", "site", "--type=merge", "-p", `{"data":{"index.html":"second"}}`)
	eventually(t, 60*time.Second, "the new page", serves("second"))
	k.kubectl(t, "-n", ns, "scale", "deployment/site", "--replicas=0")
	eventually(t, 20*time.Second, "two replicas again", func(ctx context.Context) error {
		d, err := k.client.AppsV1().Deployments(ns).Get(ctx, "site", metav1.GetOptions{})
		if err == nil && *d.Spec.Replicas != 2 {
			err = fmt.Errorf("%d replicas", *d.Spec.Replicas)
		}
		return err
	})

	// What the ConfigMap owns goes with it.
	k.kubectl(t, "-n", ns, "delete", "configmap", "site")
	eventually(t, 60*time.Second, "deployment and service collected", func(ctx context.Context) error {
		if _, err := k.client.AppsV1().Deployments(ns).Get(ctx, "site", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the deployment: %w", orThere(err))
		}
		if _, err := k.client.CoreV1().Services(ns).Get(ctx, "site", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the service: %w", orThere(err))
		}
		return nil
	})
}

// The patch kinds that client libraries send.
func TestPatchKinds(t *testing.T) {
	k := shared(t)
	ns := k.namespace(t, "patch")
	k.kubectl(t, "-n", ns, "create", "configmap", "c", "--from-literal=a=1")
	tests := []struct {
		name  string
		kind  types.PatchType
		patch string
		want  map[string]string
	}{
		{"merge", types.MergePatchType, `{"data":{"b":"2"}}`, map[string]string{"a": "1", "b": "2"}},
		{"JSON", types.JSONPatchType, `[{"op":"remove","path":"/data/a"},{"op":"add","path":"/data/c","value":"3"}]`, map[string]string{"b": "2", "c": "3"}},
		{"strategic", types.StrategicMergePatchType, `{"data":{"b":null}}`, map[string]string{"c": "3"}},
		{"apply", types.ApplyYAMLPatchType, `{"apiVersion":"v1","kind":"ConfigMap","data":{"d":"4"}}`, map[string]string{"c": "3", "d": "4"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			options := metav1.PatchOptions{FieldManager: "e2e"}
			got, err := k.client.CoreV1().ConfigMaps(ns).Patch(t.Context(), "c", test.kind, []byte(test.patch), options)
			if err != nil {
				t.Fatal(err)
			}
			if fmt.Sprint(got.Data) != fmt.Sprint(test.want) {
				t.Errorf("got %v, want %v", got.Data, test.want)
			}
		})
	}
}

func orThere(err error) error {
	if err == nil {
		return fmt.Errorf("is still there")
	}
	return err
}
