// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package podsync makes one pod so: Compute decides, the Syncer carries out. Touch it to change what the kubelet does
// about a pod that is to run, to stop, or to leave the node.
package podsync

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"minik8s.io/minik8s/pkg/kubelet/container"
	"minik8s.io/minik8s/pkg/kubelet/internal/allocation"
	"minik8s.io/minik8s/pkg/kubelet/internal/gate"
	"minik8s.io/minik8s/pkg/kubelet/internal/launch"
	"minik8s.io/minik8s/pkg/kubelet/internal/lifecycle"
	"minik8s.io/minik8s/pkg/kubelet/internal/observed"
	"minik8s.io/minik8s/pkg/kubelet/internal/podlog"
	"minik8s.io/minik8s/pkg/kubelet/internal/podspec"
	"minik8s.io/minik8s/pkg/kubelet/internal/podworker"
	"minik8s.io/minik8s/pkg/kubelet/internal/prober"
	"minik8s.io/minik8s/pkg/kubelet/internal/restart"
	"minik8s.io/minik8s/pkg/kubelet/internal/status"
	"minik8s.io/minik8s/pkg/network"
)

// Volumes is the part of the volume manager that syncing needs.
type Volumes interface {
	Mount(ctx context.Context, pod *corev1.Pod, podIPs []string) error
	Unmount(ctx context.Context, uid types.UID) error
}

// Cgroups makes and removes the cgroups of pods.
type Cgroups interface {
	EnsurePod(pod *corev1.Pod) (parent string, err error)
	RemovePod(uid types.UID) error
}

// Images brings the image of a container to the node. An error that is a *WaitError says what the container waits with.
type Images interface {
	Ensure(ctx context.Context, pod *corev1.Pod, c *corev1.Container, ref *corev1.ObjectReference) (*container.Image, error)
}

// HostPorts publishes container ports on the node.
type HostPorts interface {
	Set(uid types.UID, podIPs []string, ports []corev1.ContainerPort) error
	Remove(uid types.UID) error
}

// Failures keep why pods were ended, so that it is known after a restart.
type Failures interface {
	Fail(uid types.UID, f status.Failure) error
	// Failure is nil if none was kept.
	Failure(uid types.UID) (*status.Failure, error)
}

// WaitError is why a container cannot be started now, in the words of its waiting state.
type WaitError struct{ Reason, Message string }

func (e *WaitError) Error() string { return e.Reason + ": " + e.Message }

// Config is what a Syncer is made from; all fields are required.
type Config struct {
	Runtime container.Runtime
	// RuntimeName prefixes container ids in the API ("docker").
	RuntimeName string
	Network     network.Plugin
	HostPorts   HostPorts
	Images      Images
	Volumes     Volumes
	Cgroups     Cgroups
	Builder     *launch.Builder
	Status      *status.Manager
	Failures    Failures
	// Resizes are those that wait for room.
	Resizes *allocation.Waiting
	Probes  *prober.Manager
	// Observe returns what the engine has of a pod, with all that was done through Runtime; nil if it has nothing.
	Observe  func(context.Context, types.UID) (*observed.Pod, error)
	Recorder record.EventRecorder
	Clock    clock.Clock
	HostIPs  []string
	// Logs are the links to the logs of containers.
	Logs podlog.Links
	// Terminated is told of each container that has ended.
	Terminated func(t container.ContainerType, end *corev1.ContainerStateTerminated)
	// Starts bounds how many sandboxes and containers are started at once: more only queue up in the engine.
	Starts *gate.Gate
	// Handler names what the engine runs the containers of a runtime class with.
	Handler func(ctx context.Context, class string) (string, error)
	// Resources are the cgroup settings that the spec asks for.
	Resources func(*corev1.Pod, *corev1.Container) container.Resources
}

// Syncer implements podworker.Life.
type Syncer struct {
	ctx   context.Context //nolint:containedctx // of the process, where those of the steps are of a pod's stages
	cfg   Config
	hooks lifecycle.Runner

	mu   sync.Mutex // guards pods
	pods map[types.UID]*memory
}

var _ podworker.Life = (*Syncer)(nil)

// memory is what is known of a pod beside spec and engine. None of it is needed to do the right thing, so that it may
// be lost: it makes restarts slower and messages better.
type memory struct {
	mu      sync.Mutex                 // guards all below
	backoff map[string]restart.Backoff // by container name
	waiting map[string]status.Waiting  // by container name
	// killed and preStopped are ids of containers whose Killing event was written and whose preStop hook was begun.
	killed, preStopped map[string]bool
	messages           map[string]string // termination messages by container id
	failure            *status.Failure
	recalled           bool // failure is what an earlier process has noted, if it has
	// connected is the sandbox whose network this process has seen to be complete.
	connected string
}

// New returns a Syncer. When ctx ends it gives up also what a step of a pod must not: see whole.
func New(ctx context.Context, cfg Config) *Syncer {
	return &Syncer{
		ctx:   ctx,
		cfg:   cfg,
		hooks: lifecycle.Runner{Exec: cfg.Runtime, Clock: cfg.Clock},
		pods:  map[types.UID]*memory{},
	}
}

func (s *Syncer) memory(uid types.UID) *memory {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.pods[uid]
	if m == nil {
		m = &memory{
			backoff: map[string]restart.Backoff{}, waiting: map[string]status.Waiting{},
			killed: map[string]bool{}, preStopped: map[string]bool{}, messages: map[string]string{},
		}
		s.pods[uid] = m
	}
	return m
}

// Sync brings a pod that is to run one step nearer; the changes this makes in the engine wake it for the next step.
func (s *Syncer) Sync(ctx context.Context, pod *corev1.Pod) (podworker.Result, error) {
	m := s.memory(pod.UID)
	s.cfg.Status.Seen(pod) // at each look, so that nothing that came at a bad moment is missed for longer than until the next one
	if s.recall(ctx, m, pod) != nil {
		return podworker.Result{Terminate: true}, nil
	}
	var result podworker.Result
	for range 3 { // sandbox gone, sandbox made, containers
		pod = s.current(pod)
		obs, err := s.cfg.Observe(ctx, pod.UID)
		if err != nil {
			return result, err
		}
		left, over := s.deadline(pod)
		if over {
			m.mu.Lock()
			m.failure = &status.Failure{Reason: "DeadlineExceeded", Message: "Pod was active on the node longer than the specified deadline"}
			m.mu.Unlock()
			s.cfg.Recorder.Event(podspec.PodRef(pod), corev1.EventTypeNormal, "DeadlineExceeded", "Pod was active on the node longer than specified deadline")
			return podworker.Result{Terminate: true}, nil
		}
		actions := Compute(s.input(m, pod, obs))
		if actions.Finished {
			s.publish(ctx, m, pod, obs, true, false)
			return podworker.Result{Terminate: true}, nil
		}
		result.Requeue = soonest(left, actions.Requeue)
		if actions.Sandbox == nil {
			s.publish(ctx, m, pod, obs, false, false)
			err := s.sandbox(ctx, m, pod, obs, actions)
			if err != nil {
				return result, err
			}
			continue
		}
		err = s.containers(ctx, m, pod, obs, actions)
		if obs, lerr := s.cfg.Observe(ctx, pod.UID); lerr == nil {
			s.linkLogs(ctx, pod, obs)
			s.watch(pod, obs)
			s.publish(ctx, m, pod, obs, false, false)
		}
		return result, err
	}
	return result, fmt.Errorf("sandbox of pod %s does not stay up", podspec.FullName(pod))
}

// linkLogs keeps the links to the logs of a pod's containers. A pod does not wait for them.
func (s *Syncer) linkLogs(ctx context.Context, pod *corev1.Pod, obs *observed.Pod) {
	if obs == nil {
		return
	}
	for _, c := range obs.Containers {
		if err := s.cfg.Logs.Keep(c); err != nil {
			klog.FromContext(ctx).Error(err, "Collectors will not find a log", "pod", klog.KObj(pod), "container", c.Name)
		}
	}
}

// current is the pod with the newest status: what this kubelet has set may not be in the watch yet.
func (s *Syncer) current(pod *corev1.Pod) *corev1.Pod {
	p := *pod
	p.Status = s.cfg.Status.Base(pod)
	return &p
}

func (s *Syncer) deadline(pod *corev1.Pod) (left time.Duration, over bool) {
	if pod.Spec.ActiveDeadlineSeconds == nil || pod.Status.StartTime == nil {
		return 0, false
	}
	left = time.Duration(*pod.Spec.ActiveDeadlineSeconds)*time.Second - s.cfg.Clock.Since(pod.Status.StartTime.Time)
	return left, left <= 0
}

func (s *Syncer) input(m *memory, pod *corev1.Pod, obs *observed.Pod) Input {
	in := Input{Pod: pod, Observed: obs, Probes: map[string]Probe{}, Backoff: map[string]restart.Backoff{}, Resize: map[string]bool{}, Now: s.cfg.Clock.Now()}
	for _, c := range obs.Alive() {
		v := s.cfg.Probes.Verdict(pod.UID, c.ID)
		if spec, _ := podspec.Find(pod, c.Name); spec != nil && spec.StartupProbe != nil && v.Started {
			// Not probed yet: Verdict knows no startup probe until watch has begun it.
			v.Started = s.cfg.Probes.Known(pod.UID, c.ID)
		}
		in.Probes[c.ID] = Probe{Started: v.Started, LivenessFailed: v.LivenessFailed, StartupFailed: v.StartupFailed}
	}
	for _, p := range s.pendingResizes(pod, obs) {
		if p.restart {
			in.Resize[p.container.ID] = true
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.Copy(in.Backoff, m.backoff)
	return in
}

// sandbox makes the pod's sandbox, after removing what is left of an older one.
func (s *Syncer) sandbox(ctx context.Context, m *memory, pod *corev1.Pod, obs *observed.Pod, a Actions) error {
	if a.Recreate {
		s.cfg.Recorder.Event(podspec.PodRef(pod), corev1.EventTypeNormal, "SandboxChanged", "Pod sandbox changed, it will be killed and re-created.")
		if err := s.kill(ctx, m, pod, obs.Alive(), podworker.Grace(pod)); err != nil {
			return err
		}
		if err := s.dropSandboxes(ctx, pod, obs); err != nil {
			return err
		}
	}
	parent, err := s.cfg.Cgroups.EnsurePod(pod)
	if err != nil {
		return fmt.Errorf("making cgroup of pod: %w", err)
	}
	if err := s.mount(ctx, pod, nil); err != nil {
		return err
	}
	cfg, err := s.cfg.Builder.Sandbox(pod, a.SandboxAttempt, parent)
	if class := pod.Spec.RuntimeClassName; err == nil && class != nil && *class != "" {
		cfg.Handler, err = s.cfg.Handler(ctx, *class)
	}
	if err == nil {
		var sb *container.Sandbox
		err = s.cfg.Starts.Do(ctx, func() (err error) {
			ctx, done := s.whole(ctx)
			defer done()
			sb, err = s.cfg.Runtime.CreateSandbox(ctx, cfg)
			return err
		})
		if err == nil {
			_, err = s.connect(ctx, m, pod, sb)
		}
	}
	if err != nil {
		if ctx.Err() == nil {
			s.cfg.Recorder.Event(podspec.PodRef(pod), corev1.EventTypeWarning, "FailedCreatePodSandBox", fmt.Sprintf("Failed to create pod sandbox: %v", err))
		}
		return fmt.Errorf("creating sandbox: %w", err)
	}
	return nil
}

// whole returns a context that goes on when the step of ctx is given up for a more urgent one: the engine would go on too, and
// make what nobody looks for any more. It ends with the process, for the next one looks for everything.
func (s *Syncer) whole(ctx context.Context) (whole context.Context, done func()) {
	whole, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(s.ctx, cancel)
	return whole, func() { stop(); cancel() }
}

func (s *Syncer) mount(ctx context.Context, pod *corev1.Pod, ips []string) error {
	if err := s.cfg.Volumes.Mount(ctx, pod, ips); err != nil {
		all := []error{err}
		if j, ok := err.(interface{ Unwrap() []error }); ok {
			all = j.Unwrap() // one event for each volume
		}
		for _, e := range all {
			if ctx.Err() == nil {
				s.cfg.Recorder.Event(podspec.PodRef(pod), corev1.EventTypeWarning, "FailedMount", e.Error())
			}
		}
		return err
	}
	return nil
}

// connect gives a sandbox its addresses and host ports, and returns the addresses. It repeats what has failed, and what a kubelet
// that was killed in between may have left out.
func (s *Syncer) connect(ctx context.Context, m *memory, pod *corev1.Pod, sb *container.Sandbox) ([]string, error) {
	if sb.Network == container.NamespaceNode {
		return s.cfg.HostIPs, nil
	}
	m.mu.Lock()
	connected := m.connected == sb.ID
	m.mu.Unlock()
	addrs := s.cfg.Network.Addresses(sb.ID)
	if !connected || len(addrs) == 0 {
		var err error
		if addrs, err = s.cfg.Network.SetUp(ctx, sb.ID, fmt.Sprintf("/proc/%d/ns/net", sb.Pid)); err != nil {
			return nil, fmt.Errorf("setting up pod network: %w", err)
		}
		m.mu.Lock()
		m.connected = sb.ID
		m.mu.Unlock()
	}
	ips := make([]string, len(addrs))
	for i, a := range addrs {
		ips[i] = a.String()
	}
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

// podIPs are the addresses of the running sandbox, nil if there is none.
func (s *Syncer) podIPs(obs *observed.Pod) []string {
	sb := obs.Sandbox()
	if sb == nil {
		return nil
	}
	if sb.Network == container.NamespaceNode {
		return s.cfg.HostIPs
	}
	var ips []string
	for _, a := range s.cfg.Network.Addresses(sb.ID) {
		ips = append(ips, a.String())
	}
	return ips
}

// dropSandboxes stops and removes all sandboxes of a pod with their network.
func (s *Syncer) dropSandboxes(ctx context.Context, pod *corev1.Pod, obs *observed.Pod) error {
	if obs == nil {
		return nil
	}
	for _, sb := range obs.Sandboxes {
		if sb.Network != container.NamespaceNode {
			if err := s.cfg.HostPorts.Remove(pod.UID); err != nil {
				return fmt.Errorf("withdrawing host ports: %w", err)
			}
			if err := s.cfg.Network.TearDown(ctx, sb.ID); err != nil {
				return fmt.Errorf("tearing down pod network: %w", err)
			}
		}
		if err := s.cfg.Runtime.StopSandbox(ctx, sb.ID); err != nil {
			return fmt.Errorf("stopping sandbox: %w", err)
		}
		if err := s.cfg.Runtime.RemoveSandbox(ctx, sb.ID); err != nil {
			return fmt.Errorf("removing sandbox: %w", err)
		}
	}
	return nil
}

// watch has the running containers probed.
func (s *Syncer) watch(pod *corev1.Pod, obs *observed.Pod) {
	var running []prober.Running
	for _, c := range obs.Alive() {
		if spec, t := podspec.Find(pod, c.Name); spec != nil && t != container.TypeEphemeral && obs.Latest(c.Name) == c {
			running = append(running, prober.Running{Spec: spec, ID: c.ID, StartedAt: c.StartedAt})
		}
	}
	ip := ""
	if ips := s.podIPs(obs); len(ips) > 0 {
		ip = ips[0]
	}
	s.cfg.Probes.Update(pod, ip, running)
}
