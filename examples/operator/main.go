// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Command operator is a controller-runtime operator as one would write it for any Kubernetes: every ConfigMap with the
// label example.minik8s.io/website=true becomes a web site, that is a Deployment and a Service which the ConfigMap owns.
// Touch it to show another thing that operators do.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

func main() {
	image := flag.String("image", "minik8s.io/guestbook-frontend:1", "image with a web server, called with: static DIR")
	metrics := flag.String("metrics-bind-address", "0", "where to serve metrics; 0 is nowhere")
	election := flag.Bool("leader-elect", false, "wait for the Lease website-operator, so that one of several operators works")
	flag.Parse()
	ctrl.SetLogger(klog.Background())
	if err := run(ctrl.SetupSignalHandler(), *image, *metrics, *election); err != nil {
		fmt.Fprintf(os.Stderr, "error: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, image, metrics string, election bool) error {
	config, err := ctrl.GetConfig() // --kubeconfig, KUBECONFIG, or the service account of a pod
	if err != nil {
		return err
	}
	websites := labels.SelectorFromSet(labels.Set{websiteLabel: "true"})
	m, err := ctrl.NewManager(config, ctrl.Options{
		Metrics:                       server.Options{BindAddress: metrics},
		LeaderElection:                election,
		LeaderElectionID:              "website-operator",
		LeaderElectionNamespace:       "default",
		LeaderElectionReleaseOnCancel: true,
		// Of all ConfigMaps only those that are web sites are kept in memory.
		Cache: cache.Options{ByObject: map[client.Object]cache.ByObject{&corev1.ConfigMap{}: {Label: websites}}},
	})
	if err != nil {
		return fmt.Errorf("building the manager: %w", err)
	}
	r := &Reconciler{Client: m.GetClient(), Recorder: m.GetEventRecorder("website-operator"), Image: image}
	err = ctrl.NewControllerManagedBy(m).Named("website").For(&corev1.ConfigMap{}).Owns(&appsv1.Deployment{}).Owns(&corev1.Service{}).Complete(r)
	if err != nil {
		return fmt.Errorf("building the controller: %w", err)
	}
	return m.Start(ctx)
}
