// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"minik8s.io/minik8s/pkg/controllers/internal/pods"
)

// burst is the largest number of pods created, and of those deleted, in one pass, so that a big Job does not keep the
// others waiting.
const burst = 500

// plan is what a pass does to the pods of a Job that goes on. It either removes pods or creates some.
type plan struct {
	remove []*corev1.Pod
	// create has the index of each pod to be created, noIndex in Jobs without.
	create []int
	// wait is how long it takes until a failed pod may be replaced, 0 when there is none to wait for.
	wait time.Duration
	// did is what the pass is counted as: also when there is no pod to remove, or none may be created yet.
	did action
}

// manage decides which pods to create or to remove.
func (s *state) manage(now time.Time) plan {
	if isSuspended(s.job) {
		return plan{did: podsDeleted, remove: s.live}
	}
	wanted := s.wanted()
	if remove := s.surplus(len(s.live)-wanted, now); len(remove) > 0 {
		return plan{did: podsDeleted, remove: remove[:min(len(remove), burst)]}
	}
	missing := wanted - len(s.live)
	if replacesOnlyFailed(s.job) {
		missing -= int(s.terminating)
	}
	if missing <= 0 {
		return plan{did: tracking}
	}
	if s.job.Spec.BackoffLimitPerIndex == nil {
		if wait := s.failures.wait(now); wait > 0 {
			return plan{did: podsCreated, wait: wait}
		}
	}
	missing = min(missing, burst)
	if !isIndexed(s.job) {
		return plan{did: podsCreated, create: slices.Repeat([]int{noIndex}, missing)}
	}
	return s.due(s.pending(missing), now)
}

// wanted returns how many pods shall run now.
func (s *state) wanted() int {
	parallelism := int(*s.job.Spec.Parallelism)
	if s.job.Spec.Completions == nil {
		if s.succeeded > 0 {
			return len(s.live)
		}
		return parallelism
	}
	return max(0, min(int(*s.job.Spec.Completions)-s.succeeded, parallelism))
}

// surplus returns at least count live pods to remove, and with them all which share an index with a better one or have
// no index below completions.
func (s *state) surplus(count int, now time.Time) []*corev1.Pod {
	var remove, rest []*corev1.Pod
	if isIndexed(s.job) {
		remove, rest = s.duplicates(now)
	} else {
		rest = slices.Clone(s.live)
	}
	if more := count - len(remove); more > 0 {
		pods.SortForDeletion(rest, nil, now)
		remove = append(remove, rest[:more]...)
	}
	return remove
}

// duplicates keeps the best live pod of each valid index.
func (s *state) duplicates(now time.Time) (remove, keep []*corev1.Pod) {
	for live := s.live; len(live) > 0; {
		// They are in order of their index.
		n := slices.IndexFunc(live, func(pod *corev1.Pod) bool { return indexOf(pod) != indexOf(live[0]) })
		if n < 0 {
			n = len(live)
		}
		same := slices.Clone(live[:n])
		live = live[n:]
		if !s.isValid(same[0]) {
			remove = append(remove, same...)
			continue
		}
		pods.SortForDeletion(same, nil, now)
		remove, keep = append(remove, same[:n-1]...), append(keep, same[n-1])
	}
	return remove, keep
}

// pending returns the first indexes, at most limit, which nobody works on.
func (s *state) pending(limit int) []int {
	settled := s.completed.union(s.failedIndexes).union(indexesOf(s.live))
	if replacesOnlyFailed(s.job) {
		var terminating []*corev1.Pod
		for _, pod := range s.pods {
			if pods.IsTerminating(pod) {
				terminating = append(terminating, pod)
			}
		}
		settled = settled.union(indexesOf(terminating))
	}
	return settled.missing(limit, int(*s.job.Spec.Completions))
}

// due plans to create pods for those of the indexes whose last pod has failed long enough ago.
func (s *state) due(indexes []int, now time.Time) plan {
	p := plan{did: podsCreated}
	for _, i := range indexes {
		var wait time.Duration
		if last := s.retained[i]; last != nil {
			wait = failures{count: int(triesOf(last)) + 1, last: endOf(last)}.wait(now)
		}
		if wait == 0 {
			p.create = append(p.create, i)
		} else {
			p.wait = sooner(p.wait, wait)
		}
	}
	return p
}

// sooner returns the smaller of two times to wait, of which 0 means that there is none.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
