// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"minik8s.io/minik8s/pkg/kubelet/internal/podspec"
	"minik8s.io/minik8s/pkg/kubelet/internal/staticpod"
)

// Manager tells the API server the newest status of each pod, and deletes pods that have been stopped. A status that
// cannot be delivered is tried again until it is, or a newer one takes its place; one that somebody else overwrites is
// written again.
type Manager struct {
	// Delivered is told how long it took, from the first change that it did not know of, until the API server knew the newest status of a
	// pod. It must not block. nil: nobody wants to know. It is set before Start.
	Delivered func(took time.Duration)

	client kubernetes.Interface
	mirror func(*corev1.Pod) *corev1.Pod
	// changed is told of pods that have another status.
	changed func(types.UID)
	queue   workqueue.TypedRateLimitingInterface[types.UID]
	// repairs bounds the quarrel with somebody who overwrites each status, such as a webhook.
	repairs  *flowcontrol.Backoff
	patience time.Duration // with the API server about one pod, after which others have their turn

	mu   sync.Mutex // guards pods and the entries
	pods map[types.UID]*entry
}

type entry struct {
	pod    *corev1.Pod // identity only matters
	status corev1.PodStatus
	// version counts changes of status, reported is the one that the API server has.
	version, reported uint64
	// since is when the first change was set that is not reported, the zero time if all are.
	since time.Time
	// revision is the API's resourceVersion of the last report, 0 if not known, and reportedAt when that was.
	revision   uint64
	reportedAt time.Time
	// remove: the pod's resources are gone, the API object may go too.
	remove bool
}

// firstRepair is when a status is written again that somebody has overwritten, lastRepair when if that goes on and on.
const firstRepair, lastRepair = 100 * time.Millisecond, 10 * time.Second

// lag is how long a watch may tell of what was before a report. Of what it still tells then the API server has no newer version: its
// store was put back to an older state.
const lag = time.Minute

// NewManager returns a Manager that reports through client. The status of a static pod is that of its mirror pod, which mirror
// returns as it was last seen, nil if there is none yet; it does not block. Nor does changed, which is told of each pod that has another status.
func NewManager(client kubernetes.Interface, mirror func(*corev1.Pod) *corev1.Pod, changed func(types.UID)) *Manager {
	return &Manager{
		client: client, mirror: mirror, changed: changed,
		queue: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[types.UID](50*time.Millisecond, 10*time.Second)),
		repairs:  flowcontrol.NewBackOff(firstRepair, lastRepair),
		patience: 30 * time.Second,
		pods:     map[types.UID]*entry{},
	}
}

// Start reports until ctx ends.
func (m *Manager) Start(ctx context.Context) error {
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for m.next(ctx) {
			}
		})
	}
	<-ctx.Done()
	m.queue.ShutDown()
	wg.Wait()
	return nil
}

// Set makes st the status to report for pod. Equal to the last one it does nothing.
func (m *Manager) Set(pod *corev1.Pod, st corev1.PodStatus) {
	if pod.Namespace == "" {
		return // leftovers of a pod of which only the uid is known
	}
	if m.set(pod, st) {
		m.changed(pod.UID)
	}
}

// set says whether the status is another one.
func (m *Manager) set(pod *corev1.Pod, st corev1.PodStatus) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.pods[pod.UID]
	if e == nil {
		e = &entry{}
		m.pods[pod.UID] = e
	}
	e.pod = pod
	if e.version > 0 && equality.Semantic.DeepEqual(st, e.status) {
		return false
	}
	if live := m.live(pod); e.version == 0 && live != nil && equality.Semantic.DeepEqual(st, live.Status) {
		// The API server has it already, as after a restart of the kubelet.
		e.version, e.reported, e.revision, e.reportedAt = 1, 1, revision(live.ResourceVersion), m.repairs.Clock.Now()
		e.status = st
		return true
	}
	e.status = st
	e.version++
	if e.since.IsZero() {
		e.since = m.repairs.Clock.Now()
	}
	m.queue.Add(pod.UID)
	return true
}

// live is a pod as the API server has it: a static pod's mirror, nil if it has none.
func (m *Manager) live(pod *corev1.Pod) *corev1.Pod {
	if staticpod.Is(pod) {
		return m.mirror(pod)
	}
	return pod
}

// stands says whether live, an object of the name of pod, is the one whose status is that of pod.
func stands(live, pod *corev1.Pod) bool {
	if staticpod.Is(pod) {
		return staticpod.IsMirrorOf(live, pod)
	}
	return live.UID == pod.UID
}

// Seen takes the pod as the API server has it, or a static one whose mirror pod it has. If somebody else has written another status since the last report, that is
// written again: the node controller declares pods of a node that it cannot hear not ready, and nobody but the kubelet can say
// that they are (upstream: needsReconcile).
func (m *Manager) Seen(pod *corev1.Pod) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, live := m.pods[pod.UID], m.live(pod)
	if e == nil || live == nil || e.version == 0 {
		return
	}
	if e.version != e.reported {
		if staticpod.Is(pod) {
			m.queue.Add(pod.UID) // perhaps there was no mirror before
		}
		return
	}
	now := m.repairs.Clock.Now()
	if seen := revision(live.ResourceVersion); seen > 0 && seen <= e.revision && now.Sub(e.reportedAt) < lag {
		return // from before the report
	}
	if equality.Semantic.DeepEqual(merge(&live.Status, e.status), live.Status) {
		return
	}
	id := string(pod.UID)
	m.repairs.Next(id, now)
	m.repairs.GC()
	e.version++
	m.queue.AddAfter(pod.UID, m.repairs.Get(id))
}

// revision is a resourceVersion as a number, 0 if it is none.
func revision(resourceVersion string) uint64 {
	n, err := strconv.ParseUint(resourceVersion, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// Base returns the pod's status as the API has it, or will have it: what was last set, with what others wrote. The
// next status is computed from it, because the watch lags behind.
func (m *Manager) Base(pod *corev1.Pod) corev1.PodStatus {
	m.mu.Lock()
	defer m.mu.Unlock()
	st := &pod.Status
	if live := m.live(pod); live != nil && (live == pod || !podspec.IsTerminal(live)) {
		st = &live.Status // the end of a mirror is not that of its pod
	}
	if e := m.pods[pod.UID]; e != nil && e.version > 0 {
		return merge(st, e.status)
	}
	return *st
}

// Get returns the newest status of a pod, whether reported or not.
func (m *Manager) Get(uid types.UID) (corev1.PodStatus, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.pods[uid]; e != nil && e.version > 0 {
		return e.status, true
	}
	return corev1.PodStatus{}, false
}

// Delete removes the pod from the API once its last status is reported. Call it when nothing of the pod is left here. Mirror pods
// are not the Manager's to remove.
func (m *Manager) Delete(pod *corev1.Pod) {
	if pod.Namespace == "" || staticpod.Is(pod) {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.pods[pod.UID]
	if e == nil {
		e = &entry{pod: pod}
		m.pods[pod.UID] = e
	}
	e.remove = true
	m.queue.Add(pod.UID)
}

// Forget drops a pod that the API server no longer has.
func (m *Manager) Forget(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.pods, uid)
}

func (m *Manager) next(ctx context.Context) bool {
	uid, stop := m.queue.Get()
	if stop {
		return false
	}
	defer m.queue.Done(uid)
	if err := m.sync(ctx, uid); err != nil {
		if ctx.Err() == nil {
			klog.FromContext(ctx).V(2).Info("Reporting pod status failed", "uid", uid, "err", err)
		}
		m.queue.AddRateLimited(uid)
		return true
	}
	m.queue.Forget(uid)
	return true
}

func (m *Manager) sync(ctx context.Context, uid types.UID) error {
	m.mu.Lock()
	e := m.pods[uid]
	if e == nil {
		m.mu.Unlock()
		return nil
	}
	pod, st, version, remove := e.pod, *e.status.DeepCopy(), e.version, e.remove
	stale := e.reported != version
	m.mu.Unlock()

	ctx, cancel := context.WithTimeout(ctx, m.patience)
	defer cancel()
	pods := m.client.CoreV1().Pods(pod.Namespace)
	if stale {
		live, err := pods.Get(ctx, pod.Name, metav1.GetOptions{})
		switch {
		case staticpod.Is(pod) && (apierrors.IsNotFound(err) || err == nil && !stands(live, pod)):
			return nil // Seen tells of its mirror when there is one
		case apierrors.IsNotFound(err) || err == nil && !stands(live, pod):
			// The pod, or this incarnation of it, is gone; its watch event ends it here too.
			m.reported(uid, version, "")
			return nil
		case err != nil:
			return fmt.Errorf("getting pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
		patch, changed, err := patchFor(live, merge(&live.Status, st))
		if err != nil {
			return err
		}
		if changed {
			patched, err := pods.Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
			if apierrors.IsNotFound(err) {
				if !staticpod.Is(pod) {
					m.reported(uid, version, "")
				}
				return nil
			}
			if err != nil {
				return fmt.Errorf("patching status of pod %s/%s: %w", pod.Namespace, pod.Name, err)
			}
			live = patched
		}
		m.reported(uid, version, live.ResourceVersion)
	}
	if !remove {
		return nil
	}
	err := pods.Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0)), Preconditions: &metav1.Preconditions{UID: &uid}})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("deleting pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

// reported notes that the API server knows a version of a pod's status, or, without a resourceVersion, that it has no such pod.
func (m *Manager) reported(uid types.UID, version uint64, resourceVersion string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.pods[uid]
	if e == nil {
		return
	}
	e.reported = max(e.reported, version)
	now := m.repairs.Clock.Now()
	if r := revision(resourceVersion); r > 0 {
		e.revision, e.reportedAt = r, now
	}
	if e.reported < e.version || e.since.IsZero() {
		return
	}
	if m.Delivered != nil && resourceVersion != "" {
		m.Delivered(now.Sub(e.since))
	}
	e.since = time.Time{}
}

// owned are the conditions that the kubelet writes; all others belong to whoever wrote them.
var owned = map[corev1.PodConditionType]bool{
	corev1.PodReadyToStartContainers: true, corev1.PodInitialized: true, corev1.PodReady: true,
	corev1.ContainersReady: true, corev1.PodScheduled: true,
	corev1.PodResizePending: true, corev1.PodResizeInProgress: true, corev1.AllContainersRestarting: true,
}

// merge lays the kubelet's status over the live one: foreign fields and conditions stay, as the order does, and a terminal phase
// is final.
func merge(live *corev1.PodStatus, st corev1.PodStatus) corev1.PodStatus {
	if live.Phase == corev1.PodSucceeded || live.Phase == corev1.PodFailed {
		st.Phase, st.Reason, st.Message = live.Phase, live.Reason, live.Message
	}
	conditions := slices.DeleteFunc(slices.Clone(live.Conditions), func(c corev1.PodCondition) bool { return owned[c.Type] && condition(st.Conditions, c.Type) < 0 })
	for _, c := range st.Conditions {
		switch i := condition(conditions, c.Type); {
		case !owned[c.Type] && !disrupted(c):
		case i < 0:
			conditions = append(conditions, c)
		default:
			conditions[i] = c
		}
	}
	st.Conditions = conditions
	st.NominatedNodeName = live.NominatedNodeName
	st.ResourceClaimStatuses = live.ResourceClaimStatuses
	st.ExtendedResourceClaimStatus = live.ExtendedResourceClaimStatus
	if st.StartTime == nil {
		st.StartTime = live.StartTime
	}
	return st
}

// condition is where a condition is, -1 if there is none of that type.
func condition(all []corev1.PodCondition, t corev1.PodConditionType) int {
	return slices.IndexFunc(all, func(c corev1.PodCondition) bool { return c.Type == t })
}

// patchFor is the strategic merge patch from the live status to want. It carries the uid, so that a pod of the same
// name made meanwhile is not touched (the API server answers with a conflict).
func patchFor(live *corev1.Pod, want corev1.PodStatus) (patch []byte, changed bool, err error) {
	if equality.Semantic.DeepEqual(live.Status, want) {
		return nil, false, nil
	}
	before, err := json.Marshal(corev1.Pod{Status: live.Status})
	if err != nil {
		return nil, false, fmt.Errorf("encoding live status: %w", err)
	}
	after, err := json.Marshal(corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: live.UID}, Status: want})
	if err != nil {
		return nil, false, fmt.Errorf("encoding new status: %w", err)
	}
	patch, err = strategicpatch.CreateTwoWayMergePatch(before, after, corev1.Pod{})
	if err != nil {
		return nil, false, fmt.Errorf("computing status patch: %w", err)
	}
	return patch, true, nil
}
