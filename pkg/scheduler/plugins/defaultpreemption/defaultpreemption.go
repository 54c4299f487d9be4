// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package defaultpreemption makes room for a pod that fits no node by deleting
// pods of less priority. Touch it when the choice of victims or the way they are
// asked to go changes.
package defaultpreemption

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	policylisters "k8s.io/client-go/listers/policy/v1"
	schedulinghelper "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	configv1 "k8s.io/kube-scheduler/config/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"minik8s.io/minik8s/pkg/scheduler/configuration"
	"minik8s.io/minik8s/pkg/scheduler/framework"
	"minik8s.io/minik8s/pkg/scheduler/internal/metrics"
	"minik8s.io/minik8s/pkg/scheduler/internal/podstatus"
)

// Name of the plugin.
const Name = "DefaultPreemption"

const (
	// requestTimeout bounds the requests for a victim.
	requestTimeout = 30 * time.Second
	// maxEvictions bounds the victims of a preemptor that are asked to go at the same time.
	maxEvictions = 16
)

// DefaultPreemption is the plugin.
type DefaultPreemption struct {
	handle  fwk.Handle
	count   *metrics.Metrics
	pods    corelisters.PodLister
	budgets policylisters.PodDisruptionBudgetLister
	args    *configv1.DefaultPreemptionArgs

	evictions sync.WaitGroup
	mu        sync.Mutex
	// preempting are pods whose victims are being asked to go: whether one was held back meanwhile. Guarded by mu.
	preempting map[types.UID]bool
}

var (
	_ fwk.PostFilterPlugin         = (*DefaultPreemption)(nil)
	_ fwk.PodGroupPostFilterPlugin = (*DefaultPreemption)(nil)
	_ fwk.PreEnqueuePlugin         = (*DefaultPreemption)(nil)
	_ fwk.EnqueueExtensions        = (*DefaultPreemption)(nil)
	_ io.Closer                    = (*DefaultPreemption)(nil)
)

// New returns the plugin.
func New(_ context.Context, obj runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
	args, err := configuration.Args[configv1.DefaultPreemptionArgs](obj)
	if err != nil {
		return nil, err
	}
	return &DefaultPreemption{
		handle:     h,
		count:      framework.CountsOf(h),
		pods:       h.SharedInformerFactory().Core().V1().Pods().Lister(),
		budgets:    h.SharedInformerFactory().Policy().V1().PodDisruptionBudgets().Lister(),
		args:       args,
		preempting: map[types.UID]bool{},
	}, nil
}

// Name returns the plugin's name.
func (*DefaultPreemption) Name() string { return Name }

// Close waits for the requests that are under way. The context of the cycles must have ended.
func (p *DefaultPreemption) Close() error {
	p.evictions.Wait()
	return nil
}

// PreEnqueue holds a pod back while its victims are being asked to go.
func (p *DefaultPreemption) PreEnqueue(_ context.Context, pod *corev1.Pod) *fwk.Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.preempting[pod.UID]; ok {
		p.preempting[pod.UID] = true
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "waiting for the preemption for this pod to be finished")
	}
	return nil
}

// EventsToRegister implements fwk.EnqueueExtensions: a victim is gone.
func (*DefaultPreemption) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{framework.Event(fwk.AssignedPod, fwk.Delete, nil)}, nil
}

// PostFilter finds the best node and nominates the pod to it. The victims are
// asked to go beside the scheduling cycles; ctx must live until then.
func (p *DefaultPreemption) PostFilter(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, statuses fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	p.count.Preempting()
	start := time.Now()
	result, status := p.preemptForPod(ctx, state, pod, statuses)
	p.count.Evaluated(fwk.PodKeyType, status.Code(), start)
	if reason := status.Message(); reason != "" {
		status = fwk.NewStatus(status.Code(), "preemption: "+reason)
	}
	return result, status
}

func (p *DefaultPreemption) preemptForPod(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, statuses fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	lister := p.handle.SnapshotSharedLister().NodeInfos()
	name, err := p.nomination(pod)
	if err != nil {
		return nil, fwk.AsStatus(err) // gone, say: nobody has to go for it
	}
	var nominated fwk.NodeInfo
	var nominatedStatus *fwk.Status
	if name != "" {
		nominatedStatus = statuses.Get(name)
		if n, err := lister.Get(name); err == nil {
			nominated = n
		}
	}
	if ok, why := eligible(p.handle, pod, nominated, nominatedStatus); !ok {
		return nil, fwk.NewStatus(fwk.Unschedulable, why)
	}
	budgets, err := p.listBudgets()
	if err != nil {
		return nil, fwk.AsStatus(err)
	}
	candidates, fit, err := p.candidates(ctx, state, pod, lister, statuses, budgets)
	if err != nil {
		return nil, fwk.AsStatus(err)
	}
	if len(candidates) == 0 {
		// The pod waits for no node in particular any more.
		return nominate(""), fwk.NewStatus(fwk.Unschedulable, strings.TrimSpace(fit.Error()))
	}
	if candidates, err = p.askExtenders(ctx, pod, candidates, lister); err != nil {
		return nil, fwk.AsStatus(err)
	}
	if len(candidates) == 0 {
		return nil, fwk.NewStatus(fwk.Unschedulable, "no candidate node for preemption")
	}
	best := pick(candidates)
	p.count.Victims(len(best.victims), best.violations)
	p.start(ctx, &preemptor{object: pod, uid: pod.UID, kind: fwk.PodKeyType, pods: []*corev1.Pod{pod}, on: best.node, nodes: []string{best.node}}, best.victims)
	return nominate(best.node), fwk.NewStatus(fwk.Success, fmt.Sprintf("found a potential placement for pod on node %v, preempting %d victims", best.node, len(best.victims)))
}

// nomination is the node that a pod waits for, by the newest that is known of it: it may have been popped before the last one was seen.
func (p *DefaultPreemption) nomination(pod *corev1.Pod) (string, error) {
	latest, err := p.pods.Pods(pod.Namespace).Get(pod.Name)
	if err != nil {
		return "", fmt.Errorf("looking for the node that the pod waits for: %w", err)
	}
	return latest.Status.NominatedNodeName, nil
}

func nominate(node string) *fwk.PostFilterResult {
	return &fwk.PostFilterResult{NominatingInfo: &fwk.NominatingInfo{NominatedNodeName: node, NominatingMode: fwk.ModeOverride}}
}

func (p *DefaultPreemption) listBudgets() ([]*policyv1.PodDisruptionBudget, error) {
	list, err := p.budgets.List(labels.Everything())
	if err != nil {
		return nil, fmt.Errorf("listing disruption budgets: %w", err)
	}
	return list, nil
}

// candidates tries all nodes where removing pods may help. Without a candidate
// the returned error for the user says why not.
func (p *DefaultPreemption) candidates(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, lister fwk.NodeInfoLister, statuses fwk.NodeToStatusReader, budgets []*policyv1.PodDisruptionBudget) ([]*candidate, *framework.FitError, error) {
	all, err := lister.List()
	if err != nil {
		return nil, nil, fmt.Errorf("listing nodes: %w", err)
	}
	nodes, err := statuses.NodesForStatusCode(lister, fwk.Unschedulable)
	if err != nil {
		return nil, nil, fmt.Errorf("listing nodes where preemption may help: %w", err)
	}
	unhelpful := fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "Preemption is not helpful for scheduling")
	fit := &framework.FitError{NumAllNodes: len(all), Statuses: framework.NewNodeStatuses(unhelpful)}
	enough := max(len(nodes)*int(*p.args.MinCandidateNodesPercentage)/100, int(*p.args.MinCandidateNodesAbsolute))
	if enough < len(nodes) {
		first := rand.IntN(len(nodes)) // or it would always be the same nodes that are looked at
		nodes = slices.Concat(nodes[first:], nodes[:first])
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		mu    sync.Mutex
		found []*candidate
		safe  bool // one of them violates no budget
		errs  []error
	)
	p.handle.Parallelizer().Until(ctx, len(nodes), func(i int) {
		n := nodes[i]
		c, s := dryRun(ctx, p.handle, state, pod, n, budgets)
		mu.Lock()
		defer mu.Unlock()
		switch {
		case s.Code() == fwk.Error:
			errs = append(errs, s.AsError())
		case !s.IsSuccess():
			fit.Statuses.Set(n.Node().Name, s)
		case len(c.victims) > 0:
			found, safe = append(found, c), safe || c.violations == 0
		default:
			// It fits without any victim: the filters disagree with themselves, or
			// a nominated pod left. The next attempt will see.
			errs = append(errs, fmt.Errorf("expected at least one victim pod on node %q", n.Node().Name))
		}
		if safe && len(found) >= enough {
			cancel()
		}
	}, Name)
	if len(found) > 0 {
		return inOrder(nodes, found), fit, nil
	}
	return nil, fit, errors.Join(errs...)
}

// inOrder undoes the order in which concurrent tries ended.
func inOrder(nodes []fwk.NodeInfo, found []*candidate) []*candidate {
	byNode := make(map[string]*candidate, len(found))
	for _, c := range found {
		byNode[c.node] = c
	}
	out := make([]*candidate, 0, len(found))
	for _, n := range nodes {
		if c := byNode[n.Node().Name]; c != nil {
			out = append(out, c)
		}
	}
	return out
}

// askExtenders lets extenders choose among candidates and change their victims. What one answers is what the next is asked about.
func (p *DefaultPreemption) askExtenders(ctx context.Context, pod *corev1.Pod, candidates []*candidate, lister fwk.NodeInfoLister) ([]*candidate, error) {
	for _, e := range p.handle.Extenders() {
		if len(candidates) == 0 || !e.SupportsPreemption() || !e.IsInterested(pod) {
			continue
		}
		victims := map[string]*extenderv1.Victims{}
		for _, c := range candidates {
			victims[c.node] = &extenderv1.Victims{Pods: pods(c.victims), NumPDBViolations: int64(c.violations)}
		}
		left, err := e.ProcessPreemption(pod, victims, lister)
		if err != nil {
			if e.IsIgnorable() {
				klog.FromContext(ctx).Error(err, "Skipping an ignorable extender that failed to look at victims", "extender", e.Name(), "pod", klog.KObj(pod))
				continue
			}
			return nil, fmt.Errorf("asking extender %q about preemption: %w", e.Name(), err)
		}
		candidates = nil
		for _, node := range slices.Sorted(maps.Keys(left)) {
			v := left[node]
			if v != nil && len(v.Pods) > 0 {
				candidates = append(candidates, answered(node, v))
			} else if !e.IsIgnorable() {
				return nil, fmt.Errorf("expected at least one victim pod on node %q", node)
			}
		}
	}
	return candidates, nil
}

func answered(node string, v *extenderv1.Victims) *candidate {
	c := &candidate{node: node, violations: int(v.NumPDBViolations)}
	for _, pod := range v.Pods {
		c.victims = append(c.victims, framework.NewPodInfo(pod))
	}
	slices.SortStableFunc(c.victims, byImportance)
	return c
}

func pods(infos []*framework.PodInfo) (out []*corev1.Pod) {
	for _, i := range infos {
		out = append(out, i.Pod)
	}
	return out
}

// preemptor is who is given the victims' room.
type preemptor struct {
	object runtime.Object // a pod or a group
	uid    types.UID
	kind   fwk.EntityKeyType
	pods   []*corev1.Pod // at least one
	on     string        // the node that victims are told of
	nodes  []string      // those where there is going to be room
}

// start asks the victims, if there are any, to go beside the scheduling cycles. The pods
// are held back until all but the last were asked; that one's end is the event that
// they wait for.
func (p *DefaultPreemption) start(ctx context.Context, by *preemptor, victims []*framework.PodInfo) {
	if len(victims) == 0 {
		return
	}
	p.hold(by.pods)
	p.evictions.Go(func() {
		start := time.Now()
		for _, node := range by.nodes {
			p.denominate(ctx, by, node)
		}
		last := len(victims) - 1
		err := p.evict(ctx, by, victims[:last])
		held := p.release(by.pods)
		if err == nil {
			err = p.evict(ctx, by, victims[last:])
		}
		p.count.Preempted(by.kind, err, start)
		if ctx.Err() != nil {
			return
		}
		logger := klog.FromContext(ctx)
		if err != nil {
			logger.Error(err, "Preempting pods failed; trying again", "pod", klog.KObj(by.pods[0]), "node", by.on)
		}
		if err != nil || held {
			// What it was held back from may have been the end of the last victim, which nobody will tell of again.
			again := map[string]*corev1.Pod{}
			for _, pod := range by.pods {
				again[pod.Namespace+"/"+pod.Name] = pod
			}
			p.handle.Activate(logger, again)
		}
	})
}

func (p *DefaultPreemption) hold(pods []*corev1.Pod) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, pod := range pods {
		p.preempting[pod.UID] = false
	}
}

// release tells whether one of the pods was held back.
func (p *DefaultPreemption) release(pods []*corev1.Pod) (held bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, pod := range pods {
		held = held || p.preempting[pod.UID]
		delete(p.preempting, pod.UID)
	}
	return held
}

// evict marks and deletes victims, some at a time: a group may have thousands.
func (p *DefaultPreemption) evict(ctx context.Context, by *preemptor, victims []*framework.PodInfo) error {
	var g errgroup.Group
	g.SetLimit(maxEvictions)
	errs := make([]error, len(victims))
	for i, v := range victims {
		g.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, requestTimeout)
			defer cancel()
			errs[i] = p.evictOne(ctx, by, v.Pod)
			return nil // one that fails does not keep the others
		})
	}
	return errors.Join(append(errs, g.Wait())...)
}

// denominate lets pods of less priority that wait for the same node look elsewhere, without waiting for the victims' end.
func (p *DefaultPreemption) denominate(ctx context.Context, by *preemptor, node string) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	for _, n := range p.handle.NominatedPodsForNode(node) {
		other := n.GetPod()
		if schedulinghelper.PodPriority(other) >= schedulinghelper.PodPriority(by.pods[0]) {
			continue
		}
		latest, err := p.pods.Pods(other.Namespace).Get(other.Name)
		if err != nil || latest.UID != other.UID || latest.Status.NominatedNodeName != node {
			continue // gone, or it waits for this node no more, for all that others know
		}
		status := latest.Status.DeepCopy()
		status.NominatedNodeName = ""
		if err := podstatus.Patch(ctx, p.handle.ClientSet(), latest, status); err != nil && !apierrors.IsNotFound(err) {
			// Not critical: the pod finds out when it is tried again.
			klog.FromContext(ctx).Error(err, "Clearing the nomination failed", "pod", klog.KObj(other))
		}
	}
}

// withdraw takes its room from a pod that is not bound yet, because a plugin holds it or is preparing its node: it goes back into the
// queue, where a deletion would end it. It tells whether that was possible.
func (p *DefaultPreemption) withdraw(victim *corev1.Pod) bool {
	if held := p.handle.GetWaitingPod(victim.UID); held != nil && held.Preempt(Name, "preempted") {
		return true
	}
	preparing := p.handle.GetPodInPreBind(victim.UID)
	return preparing != nil && preparing.CancelPod("preempted by "+Name)
}

func (p *DefaultPreemption) evictOne(ctx context.Context, by *preemptor, victim *corev1.Pod) error {
	if victim.DeletionTimestamp != nil {
		return nil // on its way already
	}
	if p.withdraw(victim) {
		p.handle.EventRecorder().Eventf(victim, by.object, corev1.EventTypeNormal, "Preempted", "Preempting", "Preempted by %s %v on node %v (in kube-scheduler memory).", by.kind, by.uid, by.on)
		return nil
	}
	status := victim.Status.DeepCopy()
	changed := podstatus.SetCondition(status, corev1.PodCondition{
		Type:               corev1.DisruptionTarget,
		Status:             corev1.ConditionTrue,
		ObservedGeneration: victim.Generation,
		Reason:             corev1.PodReasonPreemptionByScheduler,
		Message:            fmt.Sprintf("%s: preempting to accommodate a higher priority %s", by.pods[0].Spec.SchedulerName, by.kind),
		LastTransitionTime: metav1.NewTime(time.Now()),
	})
	if changed {
		if err := podstatus.Patch(ctx, p.handle.ClientSet(), victim, status); err != nil {
			if apierrors.IsNotFound(err) {
				return nil
			}
			return err
		}
	}
	err := p.handle.ClientSet().CoreV1().Pods(victim.Namespace).Delete(ctx, victim.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(victim.UID))})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // gone, perhaps replaced by another of its name
	}
	if err != nil {
		return fmt.Errorf("deleting pod %q: %w", klog.KObj(victim), err)
	}
	klog.FromContext(ctx).V(2).Info("Preempted pod", "victim", klog.KObj(victim), "preemptor", by.uid, "node", by.on)
	p.handle.EventRecorder().Eventf(victim, by.object, corev1.EventTypeNormal, "Preempted", "Preempting", "Preempted by %s %v on node %v", by.kind, by.uid, by.on)
	return nil
}
