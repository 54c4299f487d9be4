// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"minik8s.io/minik8s/pkg/kubelet/internal/podsapi"
)

// newPodsAPI makes what tells other programs of the node of its pods.
func (k *Kubelet) newPodsAPI() *podsapi.Server {
	var first settling
	return podsapi.New(podsapi.Config{
		RootDir: k.cfg.RootDir, Intercept: k.metrics.PodsAPI, InterceptStream: k.metrics.PodsAPIStream,
		Ready: func() bool {
			r := k.running.Load()
			return r != nil && r.begun() &&
				first.over(k.cfg.Clock.Now(), func() bool { return !slices.ContainsFunc(r.workers.Pods(), k.unseen) })
		},
		Pods: func() []*corev1.Pod {
			if r := k.running.Load(); r != nil {
				return r.workers.Pods()
			}
			return nil
		},
		Pod: func(uid types.UID) *corev1.Pod {
			if r := k.running.Load(); r != nil {
				return r.workers.Pod(uid)
			}
			return nil
		},
		Status: func(pod *corev1.Pod) (corev1.PodStatus, bool) {
			_, own := k.status.Get(pod.UID)
			return k.status.Base(pod), own
		},
	})
}

// begun says whether all pods that were there at the start have been taken.
func (r *running) begun() bool {
	select {
	case <-r.intake.Begun():
		return true
	default:
		return false
	}
}

// unseen says whether a pod is ready by an earlier process's word only.
func (k *Kubelet) unseen(pod *corev1.Pod) bool {
	if _, own := k.status.Get(pod.UID); own {
		return false
	}
	return slices.ContainsFunc(k.status.Base(pod).Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// settlePatience is how long a pod that cannot be looked at holds up what is told of others.
const settlePatience = 10 * time.Second

// settling is the time in which the pods that were there at the start are looked at. A program that is told of them meanwhile would take a
// pod that is ready for one that is not. Safe for concurrent use.
type settling struct {
	mu    sync.Mutex
	since time.Time // guarded by mu, as is done; zero before anybody has asked
	done  bool
}

// over says whether it is over, which it stays: all have been looked at, or somebody has asked for long enough.
func (s *settling) over(now time.Time, all func() bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.since.IsZero() {
		s.since = now
	}
	s.done = s.done || now.Sub(s.since) >= settlePatience || all()
	return s.done
}
