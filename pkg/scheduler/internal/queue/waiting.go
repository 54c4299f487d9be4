// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"iter"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

// rejection is by whom pods were rejected: those with the same one are helped by events of the same kinds.
type rejection struct{ scheduler, plugins string }

// waiting are pods that an event may help. They are kept by rejection, so that an event which helps none of thousands that are held back is
// found out to do so at once.
type waiting map[rejection]*rejected

// rejected are pods of the same rejection.
type rejected struct {
	like *corev1.Pod // the first of them
	by   sets.Set[string]
	pods map[types.UID]*Pod
}

func (w waiting) add(p *Pod) {
	p.rejection = rejection{p.Pod.Spec.SchedulerName, strings.Join(sets.List(p.RejectedBy), ",")}
	r := w[p.rejection]
	if r == nil {
		r = &rejected{like: p.Pod, by: p.RejectedBy, pods: map[types.UID]*Pod{}}
		w[p.rejection] = r
	}
	r.pods[p.Pod.UID] = p
}

func (w waiting) remove(p *Pod) {
	pods := w[p.rejection].pods
	if delete(pods, p.Pod.UID); len(pods) == 0 {
		delete(w, p.rejection)
	}
}

// all are the pods in no order. They may be added and removed meanwhile, as with a map.
func (w waiting) all() iter.Seq[*Pod] {
	return func(yield func(*Pod) bool) {
		for _, r := range w {
			for _, p := range r.pods {
				if !yield(p) {
					return
				}
			}
		}
	}
}
