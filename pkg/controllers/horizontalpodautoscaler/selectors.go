// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package horizontalpodautoscaler

import (
	"cmp"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// key is an autoscaler as upstream writes it in the message about ambiguous selectors.
type key struct{ Name, Namespace string }

// selectors are those of the scales that autoscalers have looked at, by namespace: nothing else tells that two of them scale by the
// same pods. Safe for concurrent use.
type selectors struct {
	mu sync.Mutex
	// of is guarded by mu.
	of map[string]map[key]labels.Selector
}

// put notes the selector of an autoscaler's scale.
func (s *selectors) put(name types.NamespacedName, selector labels.Selector) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of == nil {
		s.of = map[string]map[key]labels.Selector{}
	}
	if s.of[name.Namespace] == nil {
		s.of[name.Namespace] = map[key]labels.Selector{}
	}
	s.of[name.Namespace][key{name.Name, name.Namespace}] = selector
}

// drop forgets an autoscaler.
func (s *selectors) drop(name types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.of[name.Namespace], key{name.Name, name.Namespace})
	if len(s.of[name.Namespace]) == 0 {
		delete(s.of, name.Namespace)
	}
}

// selecting returns the autoscalers of a namespace whose selectors select some of these pods of it, by name.
func (s *selectors) selecting(namespace string, selected []*corev1.Pod) []key {
	distinct := map[string]labels.Set{}
	for _, pod := range selected {
		set := labels.Set(pod.Labels)
		distinct[set.String()] = set
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []key
	for k, selector := range s.of[namespace] {
		for _, set := range distinct {
			if selector.Matches(set) {
				found = append(found, k)
				break
			}
		}
	}
	slices.SortFunc(found, func(a, b key) int { return cmp.Compare(a.Name, b.Name) })
	return found
}
