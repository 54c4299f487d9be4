// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package podsync

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"minik8s.io/minik8s/pkg/kubelet/container"
	"minik8s.io/minik8s/pkg/kubelet/internal/observed"
	"minik8s.io/minik8s/pkg/kubelet/internal/podspec"
	"minik8s.io/minik8s/pkg/kubelet/internal/podworker"
	"minik8s.io/minik8s/pkg/kubelet/internal/snapshot"
	"minik8s.io/minik8s/pkg/network"
	"minik8s.io/minik8s/pkg/network/bandwidth"
)

// sandbox makes the pod's sandbox, after removing what is left of an older one, and the container that starts first in a new one.
func (s *Syncer) sandbox(ctx context.Context, n *notes, look *snapshot.Pod, a Actions) (made, error) {
	pod := look.Pod
	if a.Recreate {
		s.cfg.Recorder.Event(podspec.PodRef(pod), corev1.EventTypeNormal, "SandboxChanged", "Pod sandbox changed, it will be killed and re-created.")
		if err := s.kill(ctx, n, look, podworker.Grace(pod)); err != nil {
			return nil, err
		}
		if look.Observed != nil {
			if err := s.stopSandboxes(ctx, pod, look.Observed); err != nil {
				return nil, err
			}
			if err := s.removeStopped(ctx, look.Observed.Sandboxes, nil); err != nil {
				return nil, err
			}
		}
	}
	parent, err := s.group(n, pod)
	if err != nil {
		return nil, err
	}
	if err := s.mount(ctx, pod, nil); err != nil {
		return nil, err
	}
	if err := s.prepare(ctx, pod); err != nil {
		return nil, err
	}
	cfg, err := s.cfg.Builder.Sandbox(pod, a.SandboxAttempt, parent)
	if class := pod.Spec.RuntimeClassName; err == nil && class != nil && *class != "" {
		cfg.Handler, err = s.cfg.Handler(ctx, *class)
	}
	var first made
	if err == nil {
		first, err = s.run(ctx, n, look, a, cfg)
	}
	if err != nil {
		if ctx.Err() == nil {
			s.cfg.Recorder.Event(podspec.PodRef(pod), corev1.EventTypeWarning, "FailedCreatePodSandBox", fmt.Sprintf("Failed to create pod sandbox: %v", err))
		}
		return nil, fmt.Errorf("creating sandbox: %w", err)
	}
	return first, nil
}

// run makes and starts a sandbox, and connects it. Starting it takes the engine longer than making the container that comes first, so
// that this one is made meanwhile.
func (s *Syncer) run(ctx context.Context, n *notes, look *snapshot.Pod, a Actions, cfg container.SandboxConfig) (made, error) {
	var id string
	var first made
	var ahead sync.WaitGroup
	aheadCtx, stop := context.WithCancel(ctx)
	defer ahead.Wait()
	defer stop()
	var sb *container.Sandbox
	if err := s.cfg.Starts.Do(ctx, func() (err error) {
		ctx, done := s.whole(ctx)
		defer done()
		if id, err = s.cfg.Runtime.CreateSandbox(ctx, cfg); err != nil {
			return err
		}
		if !a.Recreate { // else it is not known yet what is left of them
			ahead.Go(func() { first = s.ahead(aheadCtx, n, look, cfg, id) })
		}
		sb, err = s.cfg.Runtime.StartSandbox(ctx, id)
		return err
	}); err != nil {
		n.unmake(s.cfg.Clock.Now())
		return nil, err
	}
	n.mu.Lock()
	n.unmade = 0
	n.mu.Unlock()
	if _, err := s.connect(ctx, n, look.Pod, sb); err != nil {
		return nil, err
	}
	ahead.Wait()
	return first, nil
}

// unmake notes that a sandbox could not be made.
func (n *notes) unmake(now time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.unmade, n.unmadeAt = n.unmade+1, now
}

// wait is how long a pod whose sandbox could not be made has to wait for the next one. Its worker is woken before: the engine tells of what
// is left of the last one, and would make one after the other.
func (n *notes) wait(now time.Time) time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.unmade == 0 {
		return 0
	}
	return min(time.Second<<min(n.unmade-1, 4), 10*time.Second) - now.Sub(n.unmadeAt)
}

// ahead makes the container that starts first once the sandbox runs. It waits for no image that only others want.
func (s *Syncer) ahead(ctx context.Context, n *notes, look *snapshot.Pod, cfg container.SandboxConfig, sandboxID string) made {
	then := *look
	then.Sandbox = &container.Sandbox{ID: sandboxID, Pod: cfg.Pod, Attempt: cfg.Attempt, State: container.StateRunning, Network: cfg.Network, Handler: cfg.Handler}
	starts := Compute(&then).Start
	in := surroundings{ips: s.cfg.HostIPs, cgroup: cfg.CgroupParent, images: map[string]volumeImage{}}
	if cfg.Network != container.NamespaceNode {
		addrs, err := s.cfg.Network.Reserve(ctx, sandboxID)
		if err != nil {
			return nil // who connects the sandbox has the same error
		}
		in.ips = s.texts(addrs)
	}
	first := made{}
	for _, st := range starts[:min(1, len(starts))] {
		s.volumeImages(ctx, look.Pod, st, in.images)
		first[st.Of.Spec.Name] = s.make(ctx, n, &then, st, in)
	}
	return first
}

// texts are the addresses of a pod that are told: one of the family of the node's first address, and then one of the other. The API takes no
// more, and a network may give them in any order.
func (s *Syncer) texts(addrs []netip.Addr) []string {
	six := false
	if len(s.cfg.HostIPs) > 0 {
		node, err := netip.ParseAddr(s.cfg.HostIPs[0])
		six = err == nil && node.Is6()
	}
	var out []string
	for _, family := range []bool{six, !six} {
		if i := slices.IndexFunc(addrs, func(a netip.Addr) bool { return a.Is6() == family }); i >= 0 {
			out = append(out, addrs[i].String())
		}
	}
	return out
}

// connect gives a sandbox its addresses and host ports, and returns the addresses. It repeats what has failed, and what a kubelet
// that was killed in between may have left out.
func (s *Syncer) connect(ctx context.Context, n *notes, pod *corev1.Pod, sb *container.Sandbox) ([]string, error) {
	if sb.Network == container.NamespaceNode {
		return s.cfg.HostIPs, nil
	}
	n.mu.Lock()
	connected := n.connected == sb.ID
	n.mu.Unlock()
	addrs := s.cfg.Network.Addresses(sb.ID)
	if !connected || len(addrs) == 0 {
		limits, err := bandwidth.Of(pod.Annotations)
		if err != nil {
			return nil, fmt.Errorf("setting up pod network: %w", err)
		}
		of := network.Pod{SandboxID: sb.ID, Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID), Bandwidth: limits}
		if addrs, err = s.cfg.Network.SetUp(ctx, of, fmt.Sprintf("/proc/%d/ns/net", sb.Pid)); err != nil {
			return nil, fmt.Errorf("setting up pod network: %w", err)
		}
		n.mu.Lock()
		n.connected = sb.ID
		n.mu.Unlock()
	}
	ips := s.texts(addrs)
	if ports := hostPorts(pod); len(ports) > 0 {
		if err := s.cfg.HostPorts.Set(pod.UID, ips, ports); err != nil {
			return nil, fmt.Errorf("publishing host ports: %w", err)
		}
	}
	return ips, nil
}

func hostPorts(pod *corev1.Pod) []corev1.ContainerPort {
	var out []corev1.ContainerPort
	for c := range podspec.Containers(pod) {
		for _, p := range c.Ports {
			if p.HostPort > 0 {
				out = append(out, p)
			}
		}
	}
	return out
}

// podIPs are the addresses of the running sandbox, nil if there is none. A pod with the node's network has them whatever becomes of it.
func (s *Syncer) podIPs(pod *corev1.Pod, obs *observed.Pod) []string {
	if pod.Spec.HostNetwork {
		return s.cfg.HostIPs
	}
	sb := obs.Sandbox()
	if sb == nil {
		return nil
	}
	return s.texts(s.cfg.Network.Addresses(sb.ID))
}

// stopSandboxes ends what runs of a pod's sandboxes, and takes their network away meanwhile.
func (s *Syncer) stopSandboxes(ctx context.Context, pod *corev1.Pod, obs *observed.Pod) error {
	if obs == nil {
		return nil
	}
	var wg sync.WaitGroup
	errs := make([]error, 2*len(obs.Sandboxes))
	for i, sb := range obs.Sandboxes {
		wg.Go(func() { errs[2*i] = s.disconnect(ctx, pod, sb) })
		if sb.State == container.StateExited {
			continue
		}
		wg.Go(func() {
			if err := s.cfg.Runtime.StopSandbox(ctx, sb.ID); err != nil {
				errs[2*i+1] = fmt.Errorf("stopping sandbox: %w", err)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// disconnect takes back what connect has given to a sandbox.
func (s *Syncer) disconnect(ctx context.Context, pod *corev1.Pod, sb *container.Sandbox) error {
	if sb.Network == container.NamespaceNode {
		return nil
	}
	if err := s.cfg.HostPorts.Remove(pod.UID); err != nil {
		return fmt.Errorf("withdrawing host ports: %w", err)
	}
	if err := s.cfg.Network.TearDown(ctx, sb.ID); err != nil {
		return fmt.Errorf("tearing down pod network: %w", err)
	}
	return nil
}

// removeStopped removes sandboxes that were stopped, and containers that have ended, all at once: the engine works on each by itself.
func (s *Syncer) removeStopped(ctx context.Context, sandboxes []*container.Sandbox, containers []*container.Container) error {
	errs := make([]error, len(sandboxes)+len(containers))
	var wg sync.WaitGroup
	for i, sb := range sandboxes {
		wg.Go(func() {
			if err := orDead(ctx, s.cfg.Runtime.RemoveSandbox(ctx, sb.ID)); err != nil {
				errs[i] = fmt.Errorf("removing sandbox: %w", err)
			}
		})
	}
	for i, c := range containers {
		wg.Go(func() {
			if err := orDead(ctx, s.cfg.Runtime.RemoveContainer(ctx, c.ID)); err != nil {
				errs[len(sandboxes)+i] = fmt.Errorf("removing container: %w", err)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// orDead takes what the engine has ended and cannot remove for removed: a pod waits for nothing of it, neither to start anew nor to
// leave. What is left of a pod that has left is removed with the leftovers, however often that takes.
func orDead(ctx context.Context, err error) error {
	if errors.Is(err, container.ErrDead) {
		klog.FromContext(ctx).Error(err, "The container engine keeps what it should remove")
		return nil
	}
	return err
}
