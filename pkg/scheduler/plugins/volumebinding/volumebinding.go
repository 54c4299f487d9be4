// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package volumebinding keeps a pod waiting until its claims can be used, takes
// it to nodes that reach its volumes, and binds claims whose class waits for
// their first consumer. Touch it when claims or volumes constrain placement in a
// new way.
package volumebinding

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	corelisters "k8s.io/client-go/listers/core/v1"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	"k8s.io/component-helpers/storage/ephemeral"
	volumehelper "k8s.io/component-helpers/storage/volume"
	configv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"minik8s.io/minik8s/pkg/scheduler/configuration"
	"minik8s.io/minik8s/pkg/scheduler/framework"
	"minik8s.io/minik8s/pkg/scheduler/internal/metrics"
)

// Name of the plugin; the reasons are what users see.
const (
	Name                  = "VolumeBinding"
	ErrReasonUnbound      = "pod has unbound immediate PersistentVolumeClaims"
	ErrReasonNodeConflict = "node(s) didn't match PersistentVolume's node affinity"
	ErrReasonNoVolume     = "node(s) didn't find available persistent volumes to bind"
	ErrReasonNoSpace      = "node(s) did not have enough free storage"
	ErrReasonMissing      = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"

	filterKey  = "PreFilter" + Name
	reserveKey = "Reserve" + Name

	// pollInterval is for a look into the cache, no request.
	pollInterval = 100 * time.Millisecond
)

// VolumeBinding is the plugin.
type VolumeBinding struct {
	handle  fwk.Handle
	claims  corelisters.PersistentVolumeClaimLister
	volumes corelisters.PersistentVolumeLister
	pods    corelisters.PodLister
	nodes   corelisters.NodeLister
	classes storagelisters.StorageClassLister
	room    room
	shape   framework.Shape // scores storage by its utilization
	timeout time.Duration   // bounds the wait for a provisioner
	count   *metrics.Metrics

	mu       sync.Mutex
	promised map[string]string // guarded by mu; volume to the claim (namespace/name) it is reserved for
}

var (
	_ fwk.PreFilterPlugin   = (*VolumeBinding)(nil)
	_ fwk.FilterPlugin      = (*VolumeBinding)(nil)
	_ fwk.ReservePlugin     = (*VolumeBinding)(nil)
	_ fwk.PreBindPlugin     = (*VolumeBinding)(nil)
	_ fwk.EnqueueExtensions = (*VolumeBinding)(nil)
)

// New returns the plugin.
func New(_ context.Context, obj runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
	args, err := configuration.Args[configv1.VolumeBindingArgs](obj)
	if err != nil {
		return nil, err
	}
	core, storage := h.SharedInformerFactory().Core().V1(), h.SharedInformerFactory().Storage().V1()
	return &VolumeBinding{
		handle:   h,
		count:    framework.CountsOf(h),
		shape:    args.Shape,
		timeout:  time.Duration(*args.BindTimeoutSeconds) * time.Second,
		promised: map[string]string{},
		claims:   core.PersistentVolumeClaims().Lister(),
		volumes:  core.PersistentVolumes().Lister(),
		pods:     core.Pods().Lister(),
		nodes:    core.Nodes().Lister(),
		classes:  storage.StorageClasses().Lister(),
		room:     room{storage.CSIDrivers().Lister(), storage.CSIStorageCapacities().Lister()},
	}, nil
}

// Name returns the plugin's name.
func (*VolumeBinding) Name() string { return Name }

// filterState has the pod's claims by what is still to be done for them.
type filterState struct {
	bound   []*corev1.PersistentVolumeClaim
	delayed []*corev1.PersistentVolumeClaim
	// volumes are all there are, if any claim is delayed.
	volumes []*corev1.PersistentVolume

	mu sync.Mutex
	// decisions on delayed claims, by the nodes that fit. Guarded by mu.
	decisions map[string][]decision
}

// Clone returns s itself: what is decided for a node does not depend on pods.
func (s *filterState) Clone() fwk.StateData { return s }

func (s *filterState) decide(node string, decisions []decision) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.decisions[node] = decisions
}

func (s *filterState) decided(node string) []decision {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.decisions[node]
}

// PreFilter reads the pod's claims and rejects the pod while one cannot be used.
func (v *VolumeBinding) PreFilter(_ context.Context, state fwk.CycleState, pod *corev1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	s := &filterState{decisions: map[string][]decision{}}
	for i := range pod.Spec.Volumes {
		name, own := claimName(pod, &pod.Spec.Volumes[i])
		if name == "" {
			continue
		}
		claim, err := v.claims.PersistentVolumeClaims(pod.Namespace).Get(name)
		if apierrors.IsNotFound(err) {
			if own {
				return nil, reject("waiting for ephemeral volume controller to create the persistentvolumeclaim %q", name)
			}
			return nil, reject("persistentvolumeclaim %q not found", name)
		}
		if err != nil {
			return nil, fwk.AsStatus(fmt.Errorf("getting claim %q: %w", name, err))
		}
		if status := v.sort(s, pod, claim, own); !status.IsSuccess() {
			return nil, status
		}
	}
	if len(s.bound)+len(s.delayed) == 0 {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	if len(s.delayed) > 0 {
		var err error
		if s.volumes, err = v.volumes.List(labels.Everything()); err != nil {
			return nil, fwk.AsStatus(fmt.Errorf("listing volumes: %w", err))
		}
	}
	state.Write(filterKey, s)
	return nil, nil
}

func reject(format string, args ...any) *fwk.Status {
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, fmt.Sprintf(format, args...))
}

// claimName returns the claim behind a volume, and whether it is the pod's own.
func claimName(pod *corev1.Pod, vol *corev1.Volume) (name string, own bool) {
	switch {
	case vol.PersistentVolumeClaim != nil:
		return vol.PersistentVolumeClaim.ClaimName, false
	case vol.Ephemeral != nil:
		return ephemeral.VolumeClaimName(pod, vol), true
	}
	return "", false
}

// sort puts a claim into s or says why the pod has to wait for it.
func (v *VolumeBinding) sort(s *filterState, pod *corev1.Pod, claim *corev1.PersistentVolumeClaim, own bool) *fwk.Status {
	switch {
	case claim.Status.Phase == corev1.ClaimLost:
		return reject("persistentvolumeclaim %q bound to non-existent persistentvolume %q", claim.Name, claim.Spec.VolumeName)
	case claim.DeletionTimestamp != nil:
		return reject("persistentvolumeclaim %q is being deleted", claim.Name)
	}
	if own {
		if err := ephemeral.VolumeIsForPod(pod, claim); err != nil {
			return reject("%v", err)
		}
	}
	if isBound(claim) {
		s.bound = append(s.bound, claim)
		return nil
	}
	delayed, err := volumehelper.IsDelayBindingMode(claim, v.classes)
	if err != nil && !apierrors.IsNotFound(err) {
		return fwk.AsStatus(fmt.Errorf("reading class of claim %q: %w", claim.Name, err))
	}
	if !delayed || claim.Spec.VolumeName != "" {
		return reject(ErrReasonUnbound)
	}
	s.delayed = append(s.delayed, claim)
	return nil
}

func isBound(claim *corev1.PersistentVolumeClaim) bool {
	_, completed := claim.Annotations[volumehelper.AnnBindCompleted]
	return claim.Spec.VolumeName != "" && (completed || claim.Status.Phase == corev1.ClaimBound)
}

// PreFilterExtensions implements fwk.PreFilterPlugin.
func (*VolumeBinding) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// Filter rejects nodes that do not reach a bound volume, or on which a delayed
// claim would get none.
func (v *VolumeBinding) Filter(_ context.Context, state fwk.CycleState, _ *corev1.Pod, node fwk.NodeInfo) *fwk.Status {
	s, ok := framework.ReadState[*filterState](state, filterKey)
	if !ok {
		return nil
	}
	return v.counted(metrics.VolumesFound, v.fits(s, node))
}

// counted counts a status of a stage that is an error.
func (v *VolumeBinding) counted(stage string, status *fwk.Status) *fwk.Status {
	if status.Code() == fwk.Error {
		v.count.VolumesFailed(stage)
	}
	return status
}

func (v *VolumeBinding) fits(s *filterState, node fwk.NodeInfo) *fwk.Status {
	for _, claim := range s.bound {
		volume, err := v.volumes.Get(claim.Spec.VolumeName)
		if apierrors.IsNotFound(err) {
			return reject(ErrReasonMissing)
		}
		if err != nil {
			return fwk.AsStatus(fmt.Errorf("getting volume %q: %w", claim.Spec.VolumeName, err))
		}
		if volumehelper.CheckNodeAffinity(volume, node.Node().Labels) != nil {
			return reject(ErrReasonNodeConflict)
		}
	}
	if len(s.delayed) == 0 {
		return nil
	}
	decisions, status := v.decide(s, node.Node())
	if status.IsSuccess() {
		s.decide(node.Node().Name, decisions)
	}
	return status
}

// decision is what a delayed claim gets on the chosen node.
type decision struct {
	claim *corev1.PersistentVolumeClaim
	// volume is an existing one; nil leaves it to the class's provisioner.
	volume *corev1.PersistentVolume
	// room is what the provisioner makes it of, nil if it does not say.
	room *storagev1.CSIStorageCapacity
}

// decide finds a volume or a provisioner for each claim.
func (v *VolumeBinding) decide(s *filterState, node *corev1.Node) ([]decision, *fwk.Status) {
	var out []decision
	chosen := map[string]*corev1.PersistentVolume{}
	for _, claim := range s.delayed {
		if selected, ok := claim.Annotations[volumehelper.AnnSelectedNode]; ok {
			// Provisioning has begun for another node.
			if selected != node.Name {
				return nil, reject(ErrReasonNoVolume)
			}
			out = append(out, decision{claim: claim})
			continue
		}
		volume, err := volumehelper.FindMatchingVolume(claim, v.unpromised(s.volumes, claim), node, chosen, false, true)
		if err != nil {
			return nil, fwk.AsStatus(fmt.Errorf("matching volumes to claim %q: %w", claim.Name, err))
		}
		if volume != nil {
			chosen[volume.Name] = volume
			out = append(out, decision{claim: claim, volume: volume})
			continue
		}
		class, err := v.classes.Get(volumehelper.GetPersistentVolumeClaimClass(claim))
		if err != nil || class.Provisioner == volumehelper.NotSupportedProvisioner || !reaches(class.AllowedTopologies, node) {
			return nil, reject(ErrReasonNoVolume)
		}
		enough, from, err := v.room.enough(claim, class, node)
		if err != nil {
			return nil, fwk.AsStatus(err)
		}
		if !enough {
			return nil, reject(ErrReasonNoSpace)
		}
		out = append(out, decision{claim: claim, room: from})
	}
	return out, nil
}

func key(claim *corev1.PersistentVolumeClaim) string { return claim.Namespace + "/" + claim.Name }

// unpromised drops the volumes that other claims are about to be bound to.
func (v *VolumeBinding) unpromised(all []*corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) []*corev1.PersistentVolume {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.promised) == 0 {
		return all
	}
	out := make([]*corev1.PersistentVolume, 0, len(all))
	for _, volume := range all {
		if to, ok := v.promised[volume.Name]; !ok || to == key(claim) {
			out = append(out, volume)
		}
	}
	return out
}

// reaches tells whether a node is in one of the allowed topologies; none means all.
func reaches(terms []corev1.TopologySelectorTerm, node *corev1.Node) bool {
	for _, term := range terms {
		match := true
		for _, r := range term.MatchLabelExpressions {
			value, ok := node.Labels[r.Key]
			match = match && ok && sets.New(r.Values...).Has(value)
		}
		if match {
			return true
		}
	}
	return len(terms) == 0
}

// promises are the decisions of a pod that goes to its node.
type promises []decision

// Clone returns p itself, which never changes.
func (p promises) Clone() fwk.StateData { return p }

// Reserve decides for the chosen node and keeps the volumes for the pod.
func (v *VolumeBinding) Reserve(_ context.Context, state fwk.CycleState, _ *corev1.Pod, node string) *fwk.Status {
	s, ok := framework.ReadState[*filterState](state, filterKey)
	if !ok || len(s.delayed) == 0 {
		return nil
	}
	return v.counted(metrics.VolumesAssumed, v.promise(s, state, node))
}

func (v *VolumeBinding) promise(s *filterState, state fwk.CycleState, node string) *fwk.Status {
	info, err := v.handle.SnapshotSharedLister().NodeInfos().Get(node)
	if err != nil {
		return fwk.AsStatus(fmt.Errorf("looking up the chosen node: %w", err))
	}
	decisions, status := v.decide(s, info.Node())
	if !status.IsSuccess() {
		return status
	}
	state.Write(reserveKey, promises(decisions))
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, d := range decisions {
		if d.volume != nil {
			v.promised[d.volume.Name] = key(d.claim)
		}
	}
	return nil
}

// Unreserve lets others have the volumes.
func (v *VolumeBinding) Unreserve(_ context.Context, state fwk.CycleState, _ *corev1.Pod, _ string) {
	if decisions, ok := framework.ReadState[promises](state, reserveKey); ok {
		v.release(decisions)
	}
}

func (v *VolumeBinding) release(decisions promises) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, d := range decisions {
		if d.volume != nil && v.promised[d.volume.Name] == key(d.claim) {
			delete(v.promised, d.volume.Name)
		}
	}
}

// PreBindPreFlight implements fwk.PreBindPlugin.
func (*VolumeBinding) PreBindPreFlight(_ context.Context, state fwk.CycleState, _ *corev1.Pod, _ string) (*fwk.PreBindPreFlightResult, *fwk.Status) {
	if _, ok := framework.ReadState[promises](state, reserveKey); !ok {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	return &fwk.PreBindPreFlightResult{AllowParallel: true}, nil
}

// PreBind binds volumes, asks provisioners for the missing ones, and waits until
// all claims are bound.
func (v *VolumeBinding) PreBind(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, node string) *fwk.Status {
	decisions, ok := framework.ReadState[promises](state, reserveKey)
	if !ok {
		return nil
	}
	return v.counted(metrics.VolumesBound, v.bind(ctx, decisions, pod, node))
}

func (v *VolumeBinding) bind(ctx context.Context, decisions promises, pod *corev1.Pod, node string) *fwk.Status {
	core := v.handle.ClientSet().CoreV1()
	for _, d := range decisions {
		if d.volume != nil {
			volume, dirty, err := volumehelper.GetBindVolumeToClaim(d.volume, d.claim)
			if err != nil {
				return fwk.AsStatus(fmt.Errorf("binding volume %q: %w", d.volume.Name, err))
			}
			if !dirty {
				continue
			}
			if _, err := core.PersistentVolumes().Update(ctx, volume, metav1.UpdateOptions{}); err != nil {
				return fwk.AsStatus(fmt.Errorf("binding volume %q: %w", d.volume.Name, err))
			}
			continue
		}
		if d.claim.Annotations[volumehelper.AnnSelectedNode] == node {
			continue
		}
		claim := d.claim.DeepCopy()
		metav1.SetMetaDataAnnotation(&claim.ObjectMeta, volumehelper.AnnSelectedNode, node)
		if _, err := core.PersistentVolumeClaims(claim.Namespace).Update(ctx, claim, metav1.UpdateOptions{}); err != nil {
			return fwk.AsStatus(fmt.Errorf("selecting node of claim %q: %w", claim.Name, err))
		}
	}
	err := wait.PollUntilContextTimeout(ctx, pollInterval, v.timeout, true, func(context.Context) (bool, error) {
		return v.allBound(decisions, pod, node)
	})
	if err != nil {
		return fwk.AsStatus(fmt.Errorf("binding volumes: %w", err))
	}
	v.release(decisions)
	return nil
}

// allBound tells whether all claims are bound to volumes that the node reaches. An error says why that will not come about, so that
// the pod need not wait until its time is up.
func (v *VolumeBinding) allBound(decisions promises, pod *corev1.Pod, on string) (bool, error) {
	if _, err := v.pods.Pods(pod.Namespace).Get(pod.Name); apierrors.IsNotFound(err) {
		return false, fmt.Errorf("pod does not exist any more: %w", err)
	}
	node, err := v.nodes.Get(on)
	if err != nil {
		return false, fmt.Errorf("failed to get node %q: %w", on, err)
	}
	for _, d := range decisions {
		claim, err := v.claims.PersistentVolumeClaims(d.claim.Namespace).Get(d.claim.Name)
		if err != nil {
			return false, fmt.Errorf("getting claim %q: %w", d.claim.Name, err)
		}
		if !isBound(claim) {
			return false, v.failed(d, claim, node)
		}
		volume, err := v.volumes.Get(claim.Spec.VolumeName)
		if apierrors.IsNotFound(err) {
			return false, nil // not seen yet, or the claim is going to be lost
		}
		if err != nil {
			return false, fmt.Errorf("getting volume %q: %w", claim.Spec.VolumeName, err)
		}
		if err := volumehelper.CheckNodeAffinity(volume, node.Labels); err != nil {
			return false, fmt.Errorf("pv %q node affinity doesn't match node %q: %w", volume.Name, node.Name, err)
		}
	}
	return true, nil
}

// failed says why a claim will not be bound as was decided; nil if it may still be. The version on which it was decided is older than
// what was written since.
func (v *VolumeBinding) failed(d decision, claim *corev1.PersistentVolumeClaim, node *corev1.Node) error {
	if d.volume == nil {
		if claim.ResourceVersion != d.claim.ResourceVersion && claim.Annotations[volumehelper.AnnSelectedNode] != node.Name {
			// The provisioner gave the node up; another one must be found.
			if claim.Annotations == nil {
				return fmt.Errorf("selectedNode annotation reset for PVC %q", claim.Name)
			}
			return fmt.Errorf("provisioning failed for PVC %q", claim.Name)
		}
		return nil
	}
	volume, err := v.volumes.Get(d.volume.Name)
	if err != nil {
		return fmt.Errorf("failed to check binding: %w", err)
	}
	if ref := volume.Spec.ClaimRef; volume.ResourceVersion != d.volume.ResourceVersion && (ref == nil || ref.UID == "") {
		return fmt.Errorf("ClaimRef got reset for pv %q", volume.Name)
	}
	return nil
}

// EventsToRegister implements fwk.EnqueueExtensions: anything that gives a claim, a volume or a node that reaches it.
func (*VolumeBinding) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{
		framework.Event(fwk.PersistentVolumeClaim, fwk.Add|fwk.Update, framework.Hint(func(pod *corev1.Pod, _, new any) bool {
			claim, ok := new.(*corev1.PersistentVolumeClaim)
			if !ok {
				return true
			}
			for i := range pod.Spec.Volumes {
				if name, _ := claimName(pod, &pod.Spec.Volumes[i]); name == claim.Name && claim.Namespace == pod.Namespace {
					return true
				}
			}
			return false
		})),
		framework.Event(fwk.PersistentVolume, fwk.Add|fwk.Update, nil),
		framework.Event(fwk.CSINode, fwk.Add|fwk.Update, framework.Hint(migratesOthers)),
		framework.Event(fwk.CSIDriver, fwk.Update|fwk.Delete, framework.Hint(limitsNoMore)),
		framework.Event(fwk.CSIStorageCapacity, fwk.Add|fwk.Update, framework.Hint(hasMore)),
		framework.Event(fwk.StorageClass, fwk.Add|fwk.Update, framework.Hint(func(_ *corev1.Pod, old, new any) bool {
			before, wasThere := old.(*storagev1.StorageClass)
			after, isThere := new.(*storagev1.StorageClass)
			return !wasThere || !isThere || !equality.Semantic.DeepEqual(before.AllowedTopologies, after.AllowedTopologies)
		})),
		framework.Event(fwk.Node, fwk.Add|fwk.UpdateNodeLabel, nil),
	}, nil
}

// migratesOthers is the hint for a node's drivers: it came, or hands other kinds of volumes to them.
func migratesOthers(_ *corev1.Pod, old, new any) bool {
	before, wasThere := old.(*storagev1.CSINode)
	after, isThere := new.(*storagev1.CSINode)
	return !wasThere || !isThere || before.Annotations[corev1.MigratedPluginsAnnotationKey] != after.Annotations[corev1.MigratedPluginsAnnotationKey]
}
