// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package dra

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	drav1 "k8s.io/kubelet/pkg/apis/dra/v1"
)

const (
	// claimPatience is how long the API server may take to tell of a claim.
	claimPatience = 10 * time.Second
	// callPatience is how long a driver may take, upstream's.
	callPatience = 45 * time.Second
)

// Prepare has drivers prepare what the claims of a pod give to it, unless they have. It is called before a sandbox is made for the
// pod, and repeated until it succeeds. Errors are about one claim or driver, in upstream's words.
func (m *Manager) Prepare(ctx context.Context, pod *corev1.Pod) error {
	if len(pod.Spec.ResourceClaims) == 0 && pod.Status.ExtendedResourceClaimStatus == nil {
		return nil
	}
	began := m.cfg.Clock.Now()
	err := m.prepare(ctx, pod)
	m.cfg.Metrics.Operation("PrepareResources", m.cfg.Clock.Since(began), err)
	if err != nil {
		return fmt.Errorf("prepare dynamic resources: %w", err)
	}
	return nil
}

func (m *Manager) prepare(ctx context.Context, pod *corev1.Pod) error {
	uses, claims := m.recall(pod)
	if uses == nil {
		var err error
		if uses, claims, err = m.lookUp(ctx, pod); err != nil {
			return err
		}
	}
	all := slices.Sorted(maps.Keys(claims))
	release, err := m.acquire(ctx, all)
	if err != nil {
		return err
	}
	defer release()
	m.mu.Lock()
	err = m.state.note(pod.UID, uses, claims)
	m.mu.Unlock()
	if err != nil {
		return err
	}
	due, err := m.due(ctx, all)
	if err != nil {
		return err
	}
	if err := m.save(); err != nil { // before a driver is told
		return err
	}
	if err := m.prepareAll(ctx, due); err != nil {
		return err
	}
	m.mu.Lock()
	uses.Checked = true
	m.mu.Unlock()
	return m.save()
}

// recall is what an earlier call has noted of a pod, if all of its claims were prepared then: it does not take the API server to
// prepare them again.
func (m *Manager) recall(pod *corev1.Pod) (*consumer, map[types.UID]*claim) {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.state.Pods[pod.UID]
	if known == nil || !known.Checked {
		return nil, nil
	}
	claims := map[types.UID]*claim{}
	for _, uid := range known.current() {
		c := m.state.Claims[uid]
		if c.Unpreparing {
			return nil, nil
		}
		claims[uid] = c
	}
	return known, claims
}

// lookUp asks the API server for the claims of a pod. All of them must be the pod's to use, and have drivers that are there.
func (m *Manager) lookUp(ctx context.Context, pod *corev1.Pod) (*consumer, map[types.UID]*claim, error) {
	uses, claims := &consumer{Claims: map[string]types.UID{}}, map[types.UID]*claim{}
	for i := range pod.Spec.ResourceClaims {
		wanted := &pod.Spec.ResourceClaims[i]
		name, owned, err := resourceclaim.Name(pod, wanted)
		if err != nil {
			return nil, nil, err
		}
		if name == nil { // no longer necessary
			uses.Claims[wanted.Name] = ""
			continue
		}
		if uses.Claims[wanted.Name], err = m.look(ctx, pod, *name, owned, claims); err != nil {
			return nil, nil, err
		}
	}
	if extended := pod.Status.ExtendedResourceClaimStatus; extended != nil {
		var err error
		if uses.Extended, err = m.look(ctx, pod, extended.ResourceClaimName, false, claims); err != nil {
			return nil, nil, err
		}
	}
	return uses, claims, nil
}

// look adds one claim.
func (m *Manager) look(ctx context.Context, pod *corev1.Pod, name string, owned bool, to map[types.UID]*claim) (types.UID, error) {
	ctx, cancel := context.WithTimeout(ctx, claimPatience)
	defer cancel()
	found, err := m.cfg.Client.ResourceV1().ResourceClaims(pod.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("fetch ResourceClaim %s: %w", name, err)
	}
	if owned {
		if err := resourceclaim.IsForPod(pod, found, false); err != nil {
			return "", err
		}
	}
	if !resourceclaim.IsReservedForPod(pod, found, false) {
		return "", fmt.Errorf("pod %s (%s) is not allowed to use ResourceClaim %s (%s)", pod.Name, pod.UID, name, found.UID)
	}
	c, err := claimFrom(found)
	if err != nil {
		return "", err
	}
	for _, driver := range slices.Sorted(maps.Keys(c.Drivers)) {
		if _, err := m.driver(driver); err != nil {
			return "", err
		}
	}
	to[found.UID] = c
	return found.UID, nil
}

// due are those of some claims that are not prepared. What an earlier process has noted as prepared is so still if a pod runs with
// it: otherwise the machine may have been off, with what drivers keep in memory.
func (m *Manager) due(ctx context.Context, claims []types.UID) ([]types.UID, error) {
	var out []types.UID
	for _, uid := range claims {
		m.mu.Lock()
		prepared, fresh, users := m.state.Claims[uid].Prepared, m.fresh[uid], m.state.users(uid)
		m.mu.Unlock()
		for _, pod := range users {
			if !prepared || fresh {
				break
			}
			runs, err := m.cfg.Runs(ctx, pod)
			if err != nil {
				return nil, err
			}
			fresh = runs
		}
		m.mu.Lock()
		if prepared && fresh {
			m.fresh[uid] = true
		} else {
			m.state.Claims[uid].Prepared = false
			delete(m.fresh, uid)
			out = append(out, uid)
		}
		m.mu.Unlock()
	}
	return out, nil
}

// prepareAll has the drivers of claims prepare them, each with one call. After an error none of them counts as prepared: drivers
// are asked for all of them again, which they must bear.
func (m *Manager) prepareAll(ctx context.Context, claims []types.UID) error {
	m.mu.Lock()
	drivers := m.state.byDriver(claims)
	m.mu.Unlock()
	for _, driver := range slices.Sorted(maps.Keys(drivers)) {
		if err := m.prepareWith(ctx, driver, drivers[driver]); err != nil {
			return err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, uid := range claims {
		m.state.Claims[uid].Prepared, m.fresh[uid] = true, true
	}
	return nil
}

func (m *Manager) prepareWith(ctx context.Context, driver string, claims []types.UID) error {
	d, err := m.driver(driver)
	if err != nil {
		return err
	}
	request := &drav1.NodePrepareResourcesRequest{Claims: m.named(claims)}
	ctx, cancel := context.WithTimeout(ctx, callPatience)
	defer cancel()
	got, err := d.client.NodePrepareResources(ctx, request)
	if err != nil {
		return fmt.Errorf("NodePrepareResources: %w", err)
	}
	if err := check("NodePrepareResources", request.GetClaims(), got.GetClaims()); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for uid, result := range got.GetClaims() {
		var devices []device
		for _, p := range result.GetDevices() {
			devices = append(devices, device{
				Pool: p.GetPoolName(), Device: p.GetDeviceName(), ShareID: p.ShareId, Requests: p.GetRequestNames(), CDI: p.GetCdiDeviceIds(),
			})
		}
		m.state.Claims[types.UID(uid)].Drivers[driver] = devices
	}
	return nil
}

// named are claims in the words of drivers.
func (m *Manager) named(claims []types.UID) []*drav1.Claim {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []*drav1.Claim
	for _, uid := range claims {
		c := m.state.Claims[uid]
		out = append(out, &drav1.Claim{Namespace: c.Namespace, Name: c.Name, Uid: string(uid)})
	}
	return out
}

// check says what is wrong with a driver's answer: each claim has a result, nothing else has, and none is an error.
func check[R interface{ GetError() string }](method string, asked []*drav1.Claim, got map[string]R) error {
	names := map[string]string{}
	for _, c := range asked {
		names[c.GetUid()] = c.GetName()
	}
	for _, uid := range slices.Sorted(maps.Keys(got)) {
		name, is := names[uid]
		if !is {
			return fmt.Errorf("%s returned result for unknown claim UID %s", method, uid)
		}
		if text := got[uid].GetError(); text != "" {
			return fmt.Errorf("%s failed for ResourceClaim %s: %s", method, name, text)
		}
	}
	if skipped := len(asked) - len(got); skipped > 0 {
		return fmt.Errorf("%s skipped %d ResourceClaims", method, skipped)
	}
	return nil
}

// Unprepare has drivers undo what they have prepared for a pod of which nothing runs, and for no other. It is repeated until it
// succeeds; without the pod having had claims, it does nothing.
func (m *Manager) Unprepare(ctx context.Context, pod types.UID) error {
	m.mu.Lock()
	uses := m.state.Pods[pod]
	m.mu.Unlock()
	if uses == nil {
		return nil
	}
	began := m.cfg.Clock.Now()
	err := m.unprepare(ctx, pod, uses)
	m.cfg.Metrics.Operation("UnprepareResources", m.cfg.Clock.Since(began), err)
	if err != nil {
		return fmt.Errorf("unprepare dynamic resources: %w", err)
	}
	return nil
}

func (m *Manager) unprepare(ctx context.Context, pod types.UID, uses *consumer) error {
	release, err := m.acquire(ctx, uses.all())
	if err != nil {
		return err
	}
	defer release()
	m.mu.Lock()
	last := m.state.last(pod)
	for _, uid := range last {
		m.state.Claims[uid].Unpreparing, m.state.Claims[uid].Prepared = true, false
		delete(m.fresh, uid)
	}
	drivers := m.state.byDriver(last)
	m.mu.Unlock()
	if len(last) > 0 {
		if err := m.save(); err != nil { // nobody may take for prepared what is so in part
			return err
		}
	}
	var errs []error
	for _, driver := range slices.Sorted(maps.Keys(drivers)) {
		errs = append(errs, m.unprepareWith(ctx, driver, drivers[driver]))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	m.mu.Lock()
	delete(m.state.Pods, pod)
	for _, uid := range last {
		delete(m.state.Claims, uid)
	}
	m.mu.Unlock()
	return m.save()
}

func (m *Manager) unprepareWith(ctx context.Context, driver string, claims []types.UID) error {
	d, err := m.driver(driver)
	if err != nil {
		return err
	}
	request := &drav1.NodeUnprepareResourcesRequest{Claims: m.named(claims)}
	ctx, cancel := context.WithTimeout(ctx, callPatience)
	defer cancel()
	got, err := d.client.NodeUnprepareResources(ctx, request)
	if err != nil {
		return fmt.Errorf("NodeUnprepareResources: %w", err)
	}
	return check("NodeUnprepareResources", request.GetClaims(), got.GetClaims())
}
