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
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	policylisters "k8s.io/client-go/listers/policy/v1"
	"k8s.io/klog/v2"

	"minik8s.io/minik8s/pkg/scheduler/framework"
	"minik8s.io/minik8s/pkg/scheduler/internal/podstatus"
)

// Name of the plugin.
const Name = "DefaultPreemption"

// The search stops after this share of the nodes, but not before this many
// candidates are found. Upstream's defaults.
const (
	minCandidatesPercentage = 10
	minCandidates           = 100
)

// DefaultPreemption is the plugin.
type DefaultPreemption struct {
	handle  framework.Handle
	budgets policylisters.PodDisruptionBudgetLister
}

var _ framework.PostFilterPlugin = (*DefaultPreemption)(nil)

// New returns the plugin.
func New(h framework.Handle) (framework.Plugin, error) {
	return &DefaultPreemption{handle: h, budgets: h.Informers().Policy().V1().PodDisruptionBudgets().Lister()}, nil
}

// Name returns the plugin's name.
func (*DefaultPreemption) Name() string { return Name }

// PostFilter deletes the victims on the best node and nominates the pod to it.
func (p *DefaultPreemption) PostFilter(ctx context.Context, state *framework.CycleState, pod *framework.PodInfo, statuses *framework.NodeStatuses) (*framework.Nomination, *framework.Status) {
	snapshot := p.handle.Snapshot()
	var nominated *framework.NodeInfo
	var nominatedStatus *framework.Status
	if name := pod.Pod.Status.NominatedNodeName; name != "" {
		nominated, nominatedStatus = snapshot.Get(name), statuses.Get(name)
	}
	if ok, why := eligible(pod, nominated, nominatedStatus); !ok {
		return nil, framework.NewStatus(framework.Unschedulable, "preemption: "+why)
	}
	budgets, err := p.listBudgets()
	if err != nil {
		return nil, framework.AsStatus(err)
	}
	candidates, fit, err := p.candidates(ctx, state, pod, snapshot, statuses, budgets)
	if err != nil {
		return nil, framework.AsStatus(err)
	}
	if len(candidates) == 0 {
		// The pod waits for no node in particular any more.
		return &framework.Nomination{}, framework.NewStatus(framework.Unschedulable, "preemption: "+fit.Error())
	}
	best := pick(candidates)
	if err := p.evict(ctx, pod, best); err != nil {
		return nil, framework.AsStatus(fmt.Errorf("preempting pods on node %q: %w", best.node, err))
	}
	return &framework.Nomination{Node: best.node}, nil
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
func (p *DefaultPreemption) candidates(ctx context.Context, state *framework.CycleState, pod *framework.PodInfo, snapshot *framework.Snapshot, statuses *framework.NodeStatuses, budgets []*policyv1.PodDisruptionBudget) ([]*candidate, *framework.FitError, error) {
	var nodes []*framework.NodeInfo
	unhelpful := framework.NewStatus(framework.UnschedulableAndUnresolvable, "Preemption is not helpful for scheduling")
	fit := &framework.FitError{NumAllNodes: len(snapshot.Nodes), Statuses: framework.NewNodeStatuses(unhelpful)}
	for _, n := range snapshot.Nodes {
		if statuses.Get(n.Name()).Code() == framework.Unschedulable {
			nodes = append(nodes, n)
		}
	}
	enough := max(len(nodes)*minCandidatesPercentage/100, minCandidates)
	var (
		mu    sync.Mutex
		found []*candidate
		errs  []error
	)
	framework.ForEach(len(nodes), func(i int) bool {
		n := nodes[i]
		c, s := dryRun(ctx, p.handle.Profile(), state, pod, n, p.handle.Nominated(n.Name()), budgets)
		mu.Lock()
		defer mu.Unlock()
		switch {
		case s.Code() == framework.Error:
			errs = append(errs, s.Err())
		case !s.IsSuccess():
			fit.Statuses.Set(n.Name(), s)
		case len(c.victims) > 0:
			found = append(found, c)
		default:
			// It fits without any victim: the filters disagree with themselves, or
			// a nominated pod left. The next attempt will see.
			errs = append(errs, fmt.Errorf("expected at least one victim pod on node %q", n.Name()))
		}
		return len(found) < enough
	})
	if len(found) > 0 {
		return inOrder(nodes, found), nil, nil
	}
	return nil, fit, errors.Join(errs...)
}

// inOrder undoes the order in which concurrent tries ended.
func inOrder(nodes []*framework.NodeInfo, found []*candidate) []*candidate {
	byNode := make(map[string]*candidate, len(found))
	for _, c := range found {
		byNode[c.node] = c
	}
	out := make([]*candidate, 0, len(found))
	for _, n := range nodes {
		if c := byNode[n.Name()]; c != nil {
			out = append(out, c)
		}
	}
	return out
}

// evict marks and deletes the victims and lets pods of less priority that wait
// for the same node look elsewhere.
func (p *DefaultPreemption) evict(ctx context.Context, pod *framework.PodInfo, c *candidate) error {
	var wg sync.WaitGroup
	errs := make([]error, len(c.victims))
	for i, v := range c.victims {
		wg.Go(func() { errs[i] = p.evictOne(ctx, pod.Pod, v.Pod, c.node) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for _, n := range p.handle.Nominated(c.node) {
		if n.Priority() >= pod.Priority() || n.Pod.UID == pod.Pod.UID {
			continue
		}
		status := n.Pod.Status.DeepCopy()
		status.NominatedNodeName = ""
		if err := podstatus.Patch(ctx, p.handle.Client(), n.Pod, status); err != nil && !apierrors.IsNotFound(err) {
			// Not critical: the pod finds out when it is tried again.
			klog.FromContext(ctx).Error(err, "Clearing the nomination failed", "pod", klog.KObj(n.Pod))
		}
	}
	return nil
}

func (p *DefaultPreemption) evictOne(ctx context.Context, preemptor, victim *corev1.Pod, node string) error {
	if victim.DeletionTimestamp != nil {
		return nil // on its way already
	}
	status := victim.Status.DeepCopy()
	changed := podstatus.SetCondition(status, corev1.PodCondition{
		Type:               corev1.DisruptionTarget,
		Status:             corev1.ConditionTrue,
		ObservedGeneration: victim.Generation,
		Reason:             corev1.PodReasonPreemptionByScheduler,
		Message:            message(preemptor.Spec.SchedulerName),
		LastTransitionTime: metav1.NewTime(time.Now()),
	})
	if changed {
		if err := podstatus.Patch(ctx, p.handle.Client(), victim, status); err != nil {
			if apierrors.IsNotFound(err) {
				return nil
			}
			return err
		}
	}
	err := p.handle.Client().CoreV1().Pods(victim.Namespace).Delete(ctx, victim.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(victim.UID))})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // gone, perhaps replaced by another of its name
	}
	if err != nil {
		return fmt.Errorf("deleting pod %q: %w", klog.KObj(victim), err)
	}
	klog.FromContext(ctx).V(2).Info("Preempted pod", "victim", klog.KObj(victim), "preemptor", klog.KObj(preemptor), "node", node)
	p.handle.Recorder().Eventf(victim, preemptor, corev1.EventTypeNormal, "Preempted", "Preempting", "Preempted by pod %v on node %v", preemptor.UID, node)
	return nil
}
