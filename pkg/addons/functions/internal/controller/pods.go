// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "minik8s.io/minik8s/pkg/addons/apis/functions/v1alpha1"
	"minik8s.io/minik8s/pkg/addons/functions/internal/revision"
	"minik8s.io/minik8s/pkg/addons/functions/internal/sandbox"
)

func newPodState(pod *corev1.Pod) *podState {
	p := &podState{
		name: pod.Name, uid: string(pod.UID), revision: pod.Labels[revision.LabelRevision], address: podAddress(pod),
		token: revision.Token(pod), pooled: pod.Annotations[revision.AnnotationPooled] != "", created: time.Now(),
	}
	for _, c := range pod.Status.ContainerStatuses {
		p.restarts = c.RestartCount
	}
	return p
}

// podAddress is where a pod's program listens, "" as long as it has no address.
func podAddress(pod *corev1.Pod) string {
	if pod.Status.PodIP == "" || len(pod.Spec.Containers) == 0 || len(pod.Spec.Containers[0].Ports) == 0 {
		return ""
	}
	return net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(int(pod.Spec.Containers[0].Ports[0].ContainerPort)))
}

// prepare begins to make pods ready that have an address and are not.
func (p *pass) prepare() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, pod := range p.state.pods {
		rev := p.kept(pod.revision)
		if pod.ready || pod.address == "" || pod.preparing != nil || !pod.leaving.IsZero() || rev == nil {
			continue
		}
		p.begin(pod, rev)
	}
}

// begin makes a pod ready: its server is given the code, or the program of its image is waited for.
func (p *pass) begin(pod *podState, rev *revision.Revision) {
	try, err := attempt(pod, rev)
	if err != nil {
		pod.trouble = err.Error()
		return
	}
	ctx, cancel := context.WithCancel(p.lifetime)
	pod.preparing = cancel
	r, name := p.Reconciler, p.name
	go func() {
		err := sandbox.Await(ctx, try)
		r.mu.Lock()
		current := ctx.Err() == nil
		if current {
			pod.prepared = &outcome{err}
		}
		r.mu.Unlock()
		if current {
			r.poke(name)
		}
	}()
}

func attempt(pod *podState, rev *revision.Revision) (func(context.Context) error, error) {
	address, token := pod.address, pod.token
	if rev.Template.Image != "" {
		return func(ctx context.Context) error { return sandbox.Listens(ctx, address) }, nil
	}
	code, err := rev.Code(pod.pooled)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error { return sandbox.Load(ctx, address, token, code) }, nil
}

// takeOutcomes takes what has come of preparing pods.
func (p *pass) takeOutcomes() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, pod := range p.state.pods {
		if pod.prepared == nil {
			continue
		}
		err := pod.prepared.err
		pod.preparing()
		pod.preparing, pod.prepared = nil, nil
		var fault *sandbox.HandlerError
		switch {
		case err == nil:
			pod.ready = true
			pod.epoch++
			if pod.revision == p.latest.Name {
				p.state.ready = p.latest.Name
			}
		case errors.As(err, &fault):
			p.state.broken[pod.revision] = fault.Message
			if p.state.ready == pod.revision { // it has worked, and does no more
				pod.trouble = fault.Message
				delete(p.state.broken, pod.revision)
			}
			pod.leaving = p.now
		default:
			pod.trouble = err.Error()
		}
	}
}

// dismiss takes pods out of the routes that are too many, and those that have worked, and that the kubelet lets wait before it starts them
// again, if requests wait for them: another pod is there sooner.
func (p *pass) dismiss() {
	held := 0
	for _, st := range p.activator.Stats(p.name) {
		held += st.Held
	}
	by := map[string][]*podState{}
	for _, pod := range p.state.pods {
		pod.outstanding = p.activator.Outstanding(p.name, pod.name)
		if held > 0 && pod.backOff && pod.epoch > 0 && pod.leaving.IsZero() {
			pod.leaving = p.now
		}
		if pod.leaving.IsZero() {
			by[pod.revision] = append(by[pod.revision], pod)
		}
	}
	for name, pods := range by {
		for _, pod := range surplus(pods, p.aim.Pods[name]) {
			pod.leaving = p.now
		}
	}
}

// remove deletes pods whose last request has ended, or takes longer than it may.
func (p *pass) remove(ctx context.Context) error {
	limit := time.Duration(p.fn.Spec.TimeoutSeconds+1) * time.Second
	var failed []error
	for _, pod := range p.state.pods {
		if pod.leaving.IsZero() || pod.deleted || p.activator.Outstanding(p.name, pod.name) > 0 && p.now.Sub(pod.leaving) < limit {
			continue
		}
		o := &corev1.Pod{}
		o.Namespace, o.Name = p.fn.Namespace, pod.name
		uid := types.UID(pod.uid)
		err := p.client.Delete(ctx, o, client.Preconditions{UID: &uid})
		if client.IgnoreNotFound(err) != nil {
			failed = append(failed, fmt.Errorf("deleting pod %s: %w", pod.name, err))
			continue
		}
		pod.deleted = true
	}
	return errors.Join(failed...)
}

// make makes the pods that are missing: of the pool, if it has any, else new ones.
func (p *pass) make(ctx context.Context) error {
	has := map[string]int{}
	for _, pod := range p.state.pods {
		if pod.leaving.IsZero() {
			has[pod.revision]++
		}
	}
	var failed []error
	for name, want := range p.aim.Pods {
		rev := p.kept(name)
		if rev == nil {
			continue
		}
		for range want - has[name] {
			if err := p.makePod(ctx, rev); err != nil {
				failed = append(failed, err)
				break
			}
		}
	}
	return errors.Join(failed...)
}

func (p *pass) makePod(ctx context.Context, rev *revision.Revision) error {
	if rev.Template.Poolable() {
		if pod := p.pool.take(p.fn, rev); pod != nil {
			return p.adopt(ctx, rev, pod)
		}
	}
	name := fmt.Sprintf("%s-%s-%s", p.fn.Name, rev.Name, strings.ToLower(rand.Text()[:5]))
	pod := rev.Pod(p.fn, *p.settings.Load(), name, rand.Text())
	if err := p.client.Create(ctx, pod); err != nil {
		// Each try has another name, which would be news every time.
		p.problem = problem{v1alpha1.ReasonPod, strings.ReplaceAll(err.Error(), name, p.fn.Name+"-"+rev.Name)}
		return fmt.Errorf("making a pod of revision %s: %w", rev.Name, err)
	}
	p.remember(newPodState(pod))
	return nil
}

// adopt makes a pod of the pool one of the revision's. It is given the code at the same time: if it cannot be had, it goes.
func (p *pass) adopt(ctx context.Context, rev *revision.Revision, pod *corev1.Pod) error {
	state := newPodState(pod)
	state.revision, state.pooled = rev.Name, true
	p.mu.Lock()
	p.state.pods[state.name] = state
	p.begin(state, rev)
	p.mu.Unlock()
	patch := client.MergeFromWithOptions(pod.DeepCopy(), client.MergeFromWithOptimisticLock{})
	pod.Labels = revision.Labels(p.fn.Name, rev.Name)
	pod.Annotations = map[string]string{revision.AnnotationPooled: "true"}
	pod.OwnerReferences = revision.OwnerReferences(p.fn)
	if err := p.client.Patch(ctx, pod, patch); err != nil {
		state.leaving = p.now // it may have the code already, so that nobody else can use it
		return fmt.Errorf("taking pod %s of the pool: %w", pod.Name, err)
	}
	return nil
}

func (p *pass) remember(pod *podState) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state.pods[pod.name] = pod
}
