// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1alpha1 "minik8s.io/minik8s/pkg/addons/apis/functions/v1alpha1"
	"minik8s.io/minik8s/pkg/addons/functions/internal/activator"
	"minik8s.io/minik8s/pkg/addons/functions/internal/scaler"
)

// shares returns how many percent of the requests each revision gets. The share of one that is not kept goes to the newest that works,
// and unknown names it.
func shares(traffic []v1alpha1.Traffic, ready string, kept []string) (percent map[string]int, unknown string) {
	percent = map[string]int{}
	if len(traffic) == 0 {
		traffic = []v1alpha1.Traffic{{Revision: v1alpha1.Latest, Percent: 100}}
	}
	for _, t := range traffic {
		name := t.Revision
		if name == v1alpha1.Latest {
			name = ready
		} else if !slices.Contains(kept, name) {
			name, unknown = ready, t.Revision
		}
		if name != "" && t.Percent > 0 {
			percent[name] += int(t.Percent)
		}
	}
	return percent, unknown
}

// aim is what a function is to have.
type aim struct {
	// Percent of the requests by revision.
	Percent map[string]int
	// Pods by revision.
	Pods map[string]int
	// Scaling is what the scaler is to know the next time.
	Scaling map[string]scaler.State
}

// situation is what the aim is decided on.
type situation struct {
	Spec *v1alpha1.FunctionSpec
	// Latest is the revision of the spec, Ready the newest that works; "" if there is none.
	Latest, Ready string
	// Kept are the revisions that there are.
	Kept []string
	// Broken are those whose code does not load.
	Broken map[string]string
	// Stats are the requests by revision; those that came before anything was known of the function have no name.
	Stats map[string]activator.Stats
	// Taking is how many pods of each revision take requests.
	Taking map[string]int
	// Scaling is what the scaler left the last time.
	Scaling map[string]scaler.State
	// Has is how many pods of each revision there are.
	Has map[string]int
	// Since is from when revisions are known to work: their pods count as called then.
	Since map[string]time.Time
	Now   time.Time
}

// decide returns what a function is to have, and the revision that its traffic names although it is not kept.
func decide(s situation) (aim, string) {
	percent, unknown := shares(s.Spec.Traffic, s.Ready, s.Kept)
	a := aim{Percent: percent, Pods: map[string]int{}, Scaling: map[string]scaler.State{}}
	spec := scaler.Spec{
		Concurrency: int(s.Spec.Concurrency), Min: int(s.Spec.MinScale), Max: int(s.Spec.MaxScale),
		Idle: time.Duration(s.Spec.IdleSeconds) * time.Second,
	}
	for name := range percent {
		st := s.Stats[name]
		if early, found := s.Stats[""]; found { // is given to a revision with the next routes
			st.Outstanding += early.Outstanding
			st.Held += early.Held
			st.HeldFor = max(st.HeldFor, early.HeldFor)
		}
		last := st.Last
		if last.IsZero() && s.Has[name] > 0 {
			last = s.Since[name]
		}
		before, known := s.Scaling[name]
		if !known { // what was found stays for now, and a revision that takes over needs about as many pods as the one before it
			before.Desired = s.Has[name]
			for _, other := range s.Scaling {
				before.Desired = max(before.Desired, other.Desired)
			}
		}
		state := scaler.Decide(spec, scaler.Observed{
			Now: s.Now, Ready: s.Taking[name], Stable: st.Stable, Panic: st.Panic, Outstanding: st.Outstanding, Held: st.Held, HeldFor: st.HeldFor, Last: last,
		}, before)
		a.Scaling[name] = state
		a.Pods[name] = state.Desired
	}
	if s.Latest != s.Ready && s.Broken[s.Latest] == "" {
		a.Pods[s.Latest] = max(a.Pods[s.Latest], 1) // to see whether it works
	}
	for name := range s.Broken {
		delete(a.Pods, name)
	}
	return a, unknown
}

// surplus returns the pods that go when there are to be n: those that take no requests first, then those with the fewest, then the
// youngest.
func surplus(pods []*podState, n int) []*podState {
	if len(pods) <= n {
		return nil
	}
	sorted := slices.Clone(pods)
	slices.SortStableFunc(sorted, func(a, b *podState) int {
		return cmp.Or(boolean(a.ready, b.ready), cmp.Compare(a.outstanding, b.outstanding), -a.created.Compare(b.created), cmp.Compare(a.name, b.name))
	})
	return sorted[:len(sorted)-n]
}

// boolean orders false before true.
func boolean(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// expired returns the names of revisions to forget of all, which are sorted from the oldest to the newest: those beyond the limit that
// have no use.
func expired(all []string, used map[string]bool, limit int) []string {
	var idle []string
	for _, name := range all {
		if !used[name] {
			idle = append(idle, name)
		}
	}
	if len(idle) <= limit {
		return nil
	}
	return idle[:len(idle)-limit]
}

// trouble says why a pod does not run, if that will not pass by itself; "" if it may.
func trouble(pod *corev1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable {
			return fmt.Sprintf("pod %s finds no node: %s", pod.Name, c.Message)
		}
	}
	for _, c := range pod.Status.ContainerStatuses {
		w := c.State.Waiting
		if w == nil {
			continue
		}
		switch w.Reason {
		case "ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName":
			return fmt.Sprintf("pod %s has no image %s: build or pull it, or name another (kubectl -n kube-system create configmap minik8s-functions "+
				"--from-literal=image.RUNTIME=IMAGE sets that of a runtime): %s", pod.Name, c.Image, w.Message)
		case "CrashLoopBackOff":
			code := int32(0)
			if t := c.LastTerminationState.Terminated; t != nil {
				code = t.ExitCode
			}
			return fmt.Sprintf("pod %s ends again and again, with exit code %d: see kubectl logs %s", pod.Name, code, pod.Name)
		case "CreateContainerConfigError", "CreateContainerError", "RunContainerError":
			return fmt.Sprintf("pod %s does not start: %s: %s", pod.Name, w.Reason, w.Message)
		}
	}
	return ""
}
