// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package groups

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"minik8s.io/minik8s/pkg/registry"
	"minik8s.io/minik8s/pkg/registry/registrytest"
)

// TestAll serves everything at once, as the real server does.
func TestAll(t *testing.T) {
	client := kubernetes.NewForConfigOrDie(registrytest.Serve(t, registry.Config{}, All()...))
	ctx := t.Context()

	t.Run("discovery", func(t *testing.T) {
		_, lists, err := client.Discovery().ServerGroupsAndResources()
		if err != nil {
			t.Fatal(err)
		}
		served := map[string][]string{}
		for _, l := range lists {
			for _, r := range l.APIResources {
				served[l.GroupVersion] = append(served[l.GroupVersion], r.Name)
			}
		}
		for _, g := range All() {
			for _, v := range g.Versions {
				gv := g.Name + "/" + v.Name
				if g.Name == "" {
					gv = v.Name
				}
				for _, d := range v.Resources {
					if !slices.Contains(served[gv], d.Info().Name) {
						t.Errorf("%s %s is listed and not served", gv, d.Info().Name)
					}
				}
			}
		}
		for gv, want := range map[string][]string{
			"v1":      {"namespaces/finalize", "namespaces/status", "nodes/proxy", "services/proxy", "replicationcontrollers/scale"},
			"apps/v1": {"deployments/scale", "deployments/status", "replicasets/scale"},
		} {
			for _, name := range want {
				if !slices.Contains(served[gv], name) {
					t.Errorf("%s %s is not served", gv, name)
				}
			}
		}
	})

	t.Run("one event in two spellings", func(t *testing.T) {
		modern := &eventsv1.Event{
			ObjectMeta:          metav1.ObjectMeta{Name: "e", Namespace: "default"},
			EventTime:           metav1.NowMicro(),
			ReportingController: "example.com/c", ReportingInstance: "c-0", Action: "Act", Reason: "Because", Note: "text", Type: "Normal",
			Regarding: corev1.ObjectReference{Kind: "Pod", Namespace: "default", Name: "p"},
		}
		events := client.EventsV1().Events("default")
		watch, err := events.Watch(ctx, metav1.ListOptions{FieldSelector: "regarding.name=p"})
		if err != nil {
			t.Fatal(err)
		}
		defer watch.Stop()
		if _, err := events.Create(ctx, modern, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		seen, ok := (<-watch.ResultChan()).Object.(*eventsv1.Event)
		if !ok || seen.Note != "text" {
			t.Errorf("watched %+v", seen)
		}
		old, err := client.CoreV1().Events("default").List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=p,reason=Because"})
		if err != nil || len(old.Items) != 1 {
			t.Fatalf("core events: %v, %v", old, err)
		}
		if e := old.Items[0]; e.Message != "text" || e.InvolvedObject.Name != "p" || e.ReportingController != "example.com/c" {
			t.Errorf("core event is %+v", e)
		}
		invalid := modern.DeepCopy()
		invalid.Name, invalid.Type = "f", "Strange"
		if _, err := events.Create(ctx, invalid, metav1.CreateOptions{}); !apierrors.IsInvalid(err) {
			t.Errorf("strange type: %v, want invalid", err)
		}
		older := &corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{Name: "g", Namespace: "default"},
			InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "default", Name: "q"},
			Reason:         "R", Message: "m", Count: 3, Source: corev1.EventSource{Component: "kubelet"},
		}
		if _, err := client.CoreV1().Events("default").Create(ctx, older, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		e, err := events.Get(ctx, "g", metav1.GetOptions{})
		if err != nil || e.Note != "m" || e.DeprecatedCount != 3 || e.DeprecatedSource.Component != "kubelet" {
			t.Errorf("modern event is %+v, %v", e, err)
		}
	})
}
