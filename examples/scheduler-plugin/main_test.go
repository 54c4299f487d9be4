// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"minik8s.io/minik8s/examples/scheduler-plugin/crew"
	"minik8s.io/minik8s/pkg/scheduler/configuration"
	"minik8s.io/minik8s/test/integration/framework"
)

// startBoth runs the cluster's own scheduler and this program beside it, with its configuration but less patience.
func startBoth(t *testing.T, nodes ...string) *framework.Cluster {
	t.Helper()
	c := framework.Start(t, framework.Options{Controllers: []string{"nodelifecycle"}, Scheduler: true})
	for _, name := range nodes {
		c.AddNode(t, framework.FakeNode{Name: name})
	}
	data, err := os.ReadFile("scheduler.yaml")
	if err != nil {
		t.Fatal(err)
	}
	settings, err := configuration.Parse([]byte(strings.Replace(string(data), "waitSeconds: 30", "waitSeconds: 2", 1)))
	if err != nil {
		t.Fatal(err)
	}
	settings.PodMaxBackoffSeconds = new(int64(1))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- run(ctx, c.Admin(), settings) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the program ended: %v", err)
		}
	})
	return c
}

type suite struct {
	*testing.T
	c  *framework.Cluster
	ns string
}

func (s suite) member(name, of, size string) {
	s.Helper()
	p := framework.Pod(name, name)
	p.Spec.SchedulerName = "crew-scheduler"
	if of != "" {
		p.Labels[crew.Label], p.Annotations = of, map[string]string{crew.SizeAnnotation: size}
	}
	if _, err := s.c.Client.CoreV1().Pods(s.ns).Create(s.Context(), p, metav1.CreateOptions{}); err != nil {
		s.Fatal(err)
	}
}

func (s suite) pod(name string) *corev1.Pod {
	s.Helper()
	p, err := s.c.Client.CoreV1().Pods(s.ns).Get(s.Context(), name, metav1.GetOptions{})
	if err != nil {
		s.Fatal(err)
	}
	return p
}

func (s suite) awaitNode(name string) (node string) {
	s.Helper()
	framework.Eventually(s.T, "pod "+name+" has a node", func() error {
		if node = s.pod(name).Spec.NodeName; node == "" {
			return fmt.Errorf("conditions are %+v", s.pod(name).Status.Conditions)
		}
		return nil
	})
	return node
}

func (s suite) awaitEvent(pod, reason, note string) {
	s.Helper()
	framework.Eventually(s.T, fmt.Sprintf("event %s of pod %s", reason, pod), func() error {
		list, err := s.c.Client.EventsV1().Events(s.ns).List(s.Context(), metav1.ListOptions{FieldSelector: "regarding.name=" + pod})
		if err != nil {
			return err
		}
		var notes []string
		for _, e := range list.Items {
			if e.Reason == reason && e.ReportingController == "crew-scheduler" && strings.HasPrefix(e.Note, note) {
				return nil
			}
			notes = append(notes, e.Reason+": "+e.Note)
		}
		return fmt.Errorf("want %q, there are %q", note, notes)
	})
}

func TestCrew(t *testing.T) {
	c := startBoth(t, "a", "b")
	s := suite{t, c, c.Namespace(t)}

	// Two of three wait with their room, and hold up nobody else.
	s.member("one", "red", "3")
	s.member("two", "red", "3")
	s.member("alone", "", "")
	s.awaitNode("alone")
	for _, name := range []string{"one", "two"} {
		if node := s.pod(name).Spec.NodeName; node != "" {
			t.Fatalf("pod %s of an incomplete crew is on %s", name, node)
		}
	}

	// The third completes the crew. A node likes two of it and takes no more.
	s.member("three", "red", "3")
	nodes, ranks := map[string]int{}, []string{}
	for _, name := range []string{"one", "two", "three"} {
		nodes[s.awaitNode(name)]++
		ranks = append(ranks, s.pod(name).Annotations[crew.RankAnnotation])
		s.awaitEvent(name, "Joined", "Number ")
	}
	if nodes["a"]+nodes["b"] != 3 || nodes["a"] == 3 || nodes["b"] == 3 {
		t.Errorf("pods by node: %v, want two on one and one on the other", nodes)
	}
	if slices.Sort(ranks); !slices.Equal(ranks, []string{"0", "1", "2"}) {
		t.Errorf("numbers are %v", ranks)
	}
}

func TestCrew_Rejects(t *testing.T) {
	c := startBoth(t, "a")
	s := suite{t, c, c.Namespace(t)}

	const malformed = "0/1 nodes are available: annotation example.minik8s.io/crew-size must say how many pods the crew has."
	s.member("lost", "blue", "some")
	s.awaitEvent("lost", "FailedScheduling", malformed)

	// A node takes two, so that the third finds no room, and those who wait for it give theirs back.
	for _, name := range []string{"one", "two", "three"} {
		s.member(name, "green", "3")
	}
	s.awaitEvent("three", "FailedScheduling", "0/1 nodes are available: 1 node(s) had enough pods of the crew.")
	s.awaitEvent("one", "FailedScheduling", "0/1 nodes are available: 1 ")
	for _, name := range []string{"one", "two", "three"} {
		if node := s.pod(name).Spec.NodeName; node != "" {
			t.Errorf("pod %s of a crew that does not fit is on %s", name, node)
		}
	}

	// Another node helps them, and what the pod says of itself helps it.
	c.AddNode(t, framework.FakeNode{Name: "b"})
	for _, name := range []string{"one", "two", "three"} {
		s.awaitNode(name)
	}
	lost := s.pod("lost")
	lost.Annotations[crew.SizeAnnotation] = "1"
	if _, err := c.Client.CoreV1().Pods(s.ns).Update(t.Context(), lost, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.awaitNode("lost")
}
