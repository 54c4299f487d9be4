// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package devicemanager

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	devicepluginv1beta1 "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"minik8s.io/minik8s/pkg/kubelet/container"
	"minik8s.io/minik8s/pkg/kubelet/internal/podworker"
	"minik8s.io/minik8s/pkg/kubelet/internal/status"
	"minik8s.io/minik8s/pkg/kubelet/internal/topology"
)

// allocatePatience is how long a plugin may take to allocate or prepare devices; upstream's for the latter.
const allocatePatience = devicepluginv1beta1.KubeletPreStartContainerRPCTimeoutInSecs * time.Second

// Life returns a life in which each pod has its devices before anything is made of it, and until nothing of it runs. Who cannot
// have them is ended by fail, which is told why; while one waits for them, show tells how it is.
func (m *Manager) Life(life podworker.Life, fail func(context.Context, *corev1.Pod, status.Failure), show func(context.Context, *corev1.Pod) error) podworker.Life {
	return &equipped{Life: life, manager: m, fail: fail, show: show}
}

type equipped struct {
	podworker.Life
	manager *Manager
	fail    func(context.Context, *corev1.Pod, status.Failure)
	show    func(context.Context, *corev1.Pod) error
}

func (e *equipped) Sync(ctx context.Context, pod *corev1.Pod) (podworker.Result, error) {
	err := e.manager.allocate(ctx, pod)
	if errors.Is(err, errAwaited) {
		return podworker.Result{Requeue: lookAgain}, e.show(ctx, pod)
	}
	if refusal, is := errors.AsType[*refusal](err); is {
		e.fail(ctx, pod, status.Failure{Reason: "UnexpectedAdmissionError", Message: refusal.Error(), Final: true})
	} else if err != nil {
		return podworker.Result{}, err
	}
	return e.Life.Sync(ctx, pod)
}

func (e *equipped) Terminate(ctx context.Context, pod *corev1.Pod, grace time.Duration) error {
	if err := e.Life.Terminate(ctx, pod, grace); err != nil {
		return err
	}
	return e.manager.release(pod.UID)
}

// A pod of which nothing is made any more, as after a reboot, has devices from before: the plugin has returnPatience to come back, from when
// the first such pod was looked at, for which the engine is there. It is looked for each lookAgain. Upstream's kubelet does not wait.
const returnPatience, lookAgain = 30 * time.Second, time.Second

// errAwaited is that of devices which may come back.
var errAwaited = errors.New("the devices from before are not there yet")

// refusal is why a pod cannot have its devices.
type refusal struct{ err error }

func (r *refusal) Error() string {
	return fmt.Sprintf("Allocate failed due to %v, which is unexpected", r.err)
}
func (r *refusal) Unwrap() error { return r.err }

// allocate gives the containers of a pod what they need, before anything of it is made, and once. An error is a *refusal unless
// ctx ended or the disk failed; then it is to be repeated.
func (m *Manager) allocate(ctx context.Context, pod *corev1.Pod) error {
	m.mu.Lock()
	settled := m.settled[pod.UID]
	m.mu.Unlock()
	if settled {
		return nil
	}
	if !m.cfg.Made(pod.UID) { // what was made has been given what it needs before, by an earlier process
		granted, err := m.grantAll(ctx, pod)
		if granted && (err == nil || errors.Is(err, errAwaited)) {
			err = cmp.Or(m.save(), err) // nothing may run with devices that a later kubelet would give away
		}
		if errors.Is(err, errAwaited) {
			return err
		}
		if err != nil {
			m.mu.Lock()
			if _, is := errors.AsType[*refusal](err); is {
				delete(m.state.pods, pod.UID)
			} else {
				m.state.withhold(pod.UID)
			}
			m.mu.Unlock()
			return err
		}
	}
	m.mu.Lock()
	m.settled[pod.UID] = true
	m.mu.Unlock()
	return nil
}

// grantAll says whether there is anything new.
func (m *Manager) grantAll(ctx context.Context, pod *corev1.Pod) (granted bool, _ error) {
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			c := &list[i]
			m.mu.Lock()
			wanted := m.state.wanted(pod, c)
			m.mu.Unlock()
			for _, res := range slices.Sorted(maps.Keys(wanted)) {
				fresh, err := m.grant(ctx, pod, c.Name, res, wanted[res])
				switch {
				case err != nil && ctx.Err() != nil:
					return granted, ctx.Err()
				case errors.Is(err, errAwaited):
					return granted, err
				case err != nil:
					return granted, &refusal{err}
				}
				granted = granted || fresh
			}
		}
	}
	return granted, nil
}

// grant has a plugin allocate devices to a container, unless it has. They are the container's from before the plugin is asked,
// so that no other gets them meanwhile.
func (m *Manager) grant(ctx context.Context, pod *corev1.Pod, name, res string, need int) (fresh bool, err error) {
	ids, p, err := m.reserve(ctx, pod, name, res, need)
	if err != nil || ids == nil {
		return false, err
	}
	var answer *devicepluginv1beta1.ContainerAllocateResponse
	defer func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if a := m.state.pods[pod.UID][name][res]; a != nil {
			a.Response = answer // nil if it failed: then they are held
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, allocatePatience)
	defer cancel()
	began := m.cfg.Clock.Now()
	got, err := p.client.Allocate(ctx, &devicepluginv1beta1.AllocateRequest{
		ContainerRequests: []*devicepluginv1beta1.ContainerAllocateRequest{{DevicesIds: ids}},
	})
	m.cfg.Counts.DevicesAllocated(res, m.cfg.Clock.Since(began))
	if err != nil {
		return false, err
	}
	if n := len(got.GetContainerResponses()); n != 1 || got.GetContainerResponses()[0] == nil {
		return false, fmt.Errorf("no containers return in allocation response for %s: got %d, want 1", res, n)
	}
	answer = got.GetContainerResponses()[0]
	return true, nil
}

// reserve chooses devices for a container. There are none if it has them.
func (m *Manager) reserve(ctx context.Context, pod *corev1.Pod, name, res string, need int) ([]string, *plugin, error) {
	m.mu.Lock()
	var held []string
	var near topology.Nodes
	if a := m.state.pods[pod.UID][name][res]; a != nil {
		if len(a.Devices) != need || a.Response != nil {
			err := m.state.lasts(res, a.Devices)
			if m.asked.IsZero() {
				m.asked = m.cfg.Clock.Now()
			}
			patient := m.cfg.Clock.Since(m.asked) < returnPatience
			m.mu.Unlock()
			switch {
			case len(a.Devices) != need:
				return nil, nil, fmt.Errorf("pod %q container %q changed request for resource %q from %d to %d",
					pod.UID, name, res, len(a.Devices), need)
			case err != nil && patient:
				return nil, nil, errAwaited
			}
			return nil, nil, err
		}
		held, near = a.Devices, a.near
	}
	m.state.retain(func(uid types.UID) bool { return uid == pod.UID || m.cfg.Known(uid) || m.cfg.Made(uid) })
	offer := func() (must, may []string, err error) {
		reuse, free, err := m.state.offer(res, m.state.reusable(pod, name, res), held, need)
		if err != nil {
			return nil, nil, err
		}
		must, may = m.state.resources[res].align(reuse, free, need, near)
		return must, may, nil
	}
	reuse, free, err := offer()
	p := m.inUse(res)
	m.mu.Unlock()
	if err != nil {
		return nil, nil, err
	}
	preferred, err := p.prefer(ctx, reuse, free, need)
	if err != nil {
		return nil, nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	// Others have chosen meanwhile.
	if reuse, free, err = offer(); err != nil {
		return nil, nil, err
	}
	if p = m.inUse(res); p == nil {
		return nil, nil, fmt.Errorf("no healthy devices present; cannot allocate unhealthy devices %s", res)
	}
	ids := choose(reuse, free, preferred, need)
	m.state.keep(pod.UID, name, res, &allocation{Devices: ids, near: near})
	return ids, p, nil
}

func (s *state) keep(uid types.UID, name, res string, a *allocation) {
	if s.pods[uid] == nil {
		s.pods[uid] = map[string]map[string]*allocation{}
	}
	if s.pods[uid][name] == nil {
		s.pods[uid][name] = map[string]*allocation{}
	}
	s.pods[uid][name][res] = a
}

// add joins what a plugin has said to the rest. The first that names a variable or a path has it, as upstream.
func (o *Options) add(r *devicepluginv1beta1.ContainerAllocateResponse) {
	o.Env = join(o.Env, r.GetEnvs())
	o.Annotations = join(o.Annotations, r.GetAnnotations())
	for _, d := range r.GetDevices() {
		if !slices.ContainsFunc(o.Devices, func(h container.Device) bool { return h.ContainerPath == d.GetContainerPath() }) {
			o.Devices = append(o.Devices, container.Device{
				HostPath: d.GetHostPath(), ContainerPath: d.GetContainerPath(), Permissions: d.GetPermissions(),
			})
		}
	}
	for _, mt := range r.GetMounts() {
		if !slices.ContainsFunc(o.Mounts, func(h container.Mount) bool { return h.ContainerPath == mt.GetContainerPath() }) {
			o.Mounts = append(o.Mounts, container.Mount{
				HostPath: mt.GetHostPath(), ContainerPath: mt.GetContainerPath(), ReadOnly: mt.GetReadOnly(),
			})
		}
	}
	for _, d := range r.GetCdiDevices() {
		if !slices.Contains(o.CDIDevices, d.GetName()) {
			o.CDIDevices = append(o.CDIDevices, d.GetName())
		}
	}
}

func join(have, more map[string]string) map[string]string {
	for name, value := range more {
		if have == nil {
			have = map[string]string{}
		}
		if _, is := have[name]; !is {
			have[name] = value
		}
	}
	return have
}
