// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// website is a small operator: a ConfigMap named site gets a Deployment of two pods, which it owns.
type website struct{ client.Client }

func (w website) Reconcile(ctx context.Context, r ctrl.Request) (ctrl.Result, error) {
	var site corev1.ConfigMap
	if err := w.Get(ctx, r.NamespacedName, &site); err != nil || site.Name != "site" || site.DeletionTimestamp != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	labels, replicas := map[string]string{"app": site.Name}, int32(2)
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: site.Name, Namespace: site.Namespace},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web"}}},
			},
		},
	}
	if err := ctrl.SetControllerReference(&site, d, w.Scheme()); err != nil {
		return ctrl.Result{}, err
	}
	err := w.Create(ctx, d)
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return ctrl.Result{}, nil
	}
	return ctrl.Result{}, client.IgnoreAlreadyExists(err)
}

// The programs of envtest, with the controllers that upstream's lack there: what an operator makes comes to life as far as
// pods, is collected with its owner, and a namespace goes with all that is in it.
func TestEnvtest_Controllers(t *testing.T) {
	enabled(t)
	log.SetLogger(klog.Background())
	dir := filepath.Join(t.TempDir(), "assets")
	out, err := exec.CommandContext(t.Context(), binary("minik8s"), "envtest-assets", dir).CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != dir {
		t.Fatalf("envtest-assets: %v\n%s", err, out)
	}
	env := &envtest.Environment{BinaryAssetsDirectory: dir}
	env.ControlPlane.GetAPIServer().Configure().Append("controllers", "*")
	config, err := env.Start()
	if err != nil {
		t.Fatal(err)
	}
	stopped := false
	stop := func() {
		if stopped {
			return
		}
		stopped = true
		begin := time.Now()
		if err := env.Stop(); err != nil {
			t.Errorf("stopping after %s: %v", time.Since(begin), err)
		}
	}
	defer stop()

	mgr, err := ctrl.NewManager(config, manager.Options{Metrics: metricsserver.Options{BindAddress: "0"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := ctrl.NewControllerManagedBy(mgr).For(&corev1.ConfigMap{}).Owns(&appsv1.Deployment{}).Complete(website{mgr.GetClient()}); err != nil {
		t.Fatal(err)
	}
	running, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(running) }()

	c, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"collected", "terminated"} {
		if err := c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			t.Fatal(err)
		}
		if err := c.Create(t.Context(), site(name)); err != nil {
			t.Fatal(err)
		}
		eventually(t, 30*time.Second, "a ReplicaSet and two pods in "+name, left(c, name, 1, 1, 2))
		eventually(t, 30*time.Second, "what every namespace has", func(ctx context.Context) error {
			if err := c.Get(ctx, client.ObjectKey{Namespace: name, Name: "default"}, &corev1.ServiceAccount{}); err != nil {
				return err
			}
			return c.Get(ctx, client.ObjectKey{Namespace: name, Name: "kube-root-ca.crt"}, &corev1.ConfigMap{})
		})
	}

	if err := c.Delete(t.Context(), site("collected")); err != nil {
		t.Fatal(err)
	}
	eventually(t, 30*time.Second, "nothing left of the deleted owner", left(c, "collected", 0, 0, 0))

	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "terminated"}}
	if err := c.Delete(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	eventually(t, 30*time.Second, "the namespace gone", func(ctx context.Context) error {
		err := c.Get(ctx, client.ObjectKeyFromObject(ns), ns)
		if err == nil {
			return fmt.Errorf("it is %s: %v", ns.Status.Phase, ns.Status.Conditions)
		}
		return client.IgnoreNotFound(err)
	})
	if err := left(c, "terminated", 0, 0, 0)(t.Context()); err != nil {
		t.Error(err)
	}

	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	stop()
}

func site(namespace string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "site", Namespace: namespace}}
}

// left tells whether a namespace has exactly so many Deployments, ReplicaSets and pods.
func left(c client.Client, namespace string, deployments, replicaSets, pods int) func(context.Context) error {
	return func(ctx context.Context) error {
		var (
			d appsv1.DeploymentList
			r appsv1.ReplicaSetList
			p corev1.PodList
		)
		for _, list := range []client.ObjectList{&d, &r, &p} {
			if err := c.List(ctx, list, client.InNamespace(namespace)); err != nil {
				return err
			}
		}
		if len(d.Items) != deployments || len(r.Items) != replicaSets || len(p.Items) != pods {
			return fmt.Errorf("%d Deployments, %d ReplicaSets, %d pods", len(d.Items), len(r.Items), len(p.Items))
		}
		return nil
	}
}
