// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package podsync makes one pod so: Compute decides, the Syncer carries out. Touch it to change what the kubelet does
// about a pod that is to run, to stop, or to leave the node.
package podsync

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
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
	"minik8s.io/minik8s/pkg/kubelet/internal/hook"
	"minik8s.io/minik8s/pkg/kubelet/internal/launch"
	"minik8s.io/minik8s/pkg/kubelet/internal/observed"
	"minik8s.io/minik8s/pkg/kubelet/internal/podlog"
	"minik8s.io/minik8s/pkg/kubelet/internal/podspec"
	"minik8s.io/minik8s/pkg/kubelet/internal/podworker"
	"minik8s.io/minik8s/pkg/kubelet/internal/prober"
	"minik8s.io/minik8s/pkg/kubelet/internal/restart"
	"minik8s.io/minik8s/pkg/kubelet/internal/snapshot"
	"minik8s.io/minik8s/pkg/kubelet/internal/status"
	"minik8s.io/minik8s/pkg/kubelet/internal/volume/plugin"
	"minik8s.io/minik8s/pkg/network"
	"minik8s.io/minik8s/pkg/network/namespace"
)

// Volumes is the part of the volume manager that syncing needs.
type Volumes interface {
	Mount(ctx context.Context, pod *corev1.Pod, podIPs []string) error
	Unmount(ctx context.Context, uid types.UID) error
}

// Cgroups makes and removes the cgroups of pods. The error of EnsurePod is a *cgroup.InUseError if the pod has more for now than it
// is to have.
type Cgroups interface {
	EnsurePod(pod *corev1.Pod) (parent string, err error)
	RemovePod(uid types.UID) error
	// Shrink is a *cgroup.InUseError if a container uses more memory than it is to be limited to.
	Shrink(pod *corev1.Pod, c *container.Container, memory int64) error
	// Tune makes what the engine knows nothing of so in the cgroup of a running container. It is cheap when it is so.
	Tune(pod *corev1.Pod, c *corev1.Container, id string) error
}

// Images brings an image to the node for a container or a volume of a pod, which is what events about it are about. An error that
// is a *WaitError says what the containers that need it wait with.
type Images interface {
	Ensure(ctx context.Context, pod *corev1.Pod, ref string, policy corev1.PullPolicy, about *corev1.ObjectReference) (*container.Image, error)
}

// HostPorts publishes container ports on the node.
type HostPorts interface {
	Set(uid types.UID, podIPs []string, ports []corev1.ContainerPort) error
	Remove(uid types.UID) error
}

// Devices tells of the devices that containers have.
type Devices interface {
	Health(pod types.UID, container string) []corev1.ResourceStatus
}

// Claims are the resource claims of pods: they are prepared before a sandbox is made, and unprepared before the end of the pod is told.
type Claims interface {
	Prepare(ctx context.Context, pod *corev1.Pod) error
	Unprepare(ctx context.Context, pod types.UID) error
	Health(pod *corev1.Pod, c *corev1.Container) []corev1.ResourceStatus
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
	// Dial connects from where the node is. nil: from where the process is.
	Dial      namespace.Dial
	Network   network.Plugin
	HostPorts HostPorts
	Images    Images
	Volumes   Volumes
	Cgroups   Cgroups
	Builder   *launch.Builder
	Status    *status.Manager
	Failures  Failures
	Devices   Devices
	Claims    Claims
	// Resizes are those that wait for room, and those that pods are to be told of when they have them.
	Resizes *allocation.Waiting
	// MaxBackoff is how long a container that crashes waits at most.
	MaxBackoff time.Duration
	Probes     *prober.Manager
	// Observe returns what the engine has of a pod, with all that was done through Runtime; nil if it has nothing.
	Observe  func(context.Context, types.UID) (*observed.Pod, error)
	Recorder record.EventRecorder
	Clock    clock.Clock
	HostIPs  []string
	// Logs are the links to the logs of containers.
	Logs podlog.Links
	// OutOfMemory says whether the kernel has killed a process of a container, by the engine's id, for want of memory. nil: it is not known.
	OutOfMemory func(id string) bool
	// Terminated is told of each container that has ended.
	Terminated func(t container.ContainerType, end *corev1.ContainerStateTerminated)
	// NotStarted is told of each container that could not be started, by the reason that its status has.
	NotStarted func(t container.ContainerType, reason string)
	// Resized is told of each attempt to give a pod and its containers the resources that they ask for. nil: nobody is told.
	Resized func(took time.Duration, done bool)
	// SleepEnded is told of each sleep of a hook that did not last as long as it was to. nil: nobody is told.
	SleepEnded func()
	// HookFellBack is told of each hook by HTTPS that was answered by HTTP only. nil: nobody is told.
	HookFellBack func()
	// Starts bounds how many sandboxes and containers are started at once: more only queue up in the engine.
	Starts *gate.Gate
	// Handler names what the engine runs the containers of a runtime class with.
	Handler func(ctx context.Context, class string) (string, error)
	// RecursiveReadOnly says whether what a handler runs takes mounts that are so.
	RecursiveReadOnly func(handler string) bool
	// Resources are the cgroup settings that the spec asks for.
	Resources func(*corev1.Pod, *corev1.Container) container.Resources
}

// Syncer implements podworker.Life.
type Syncer struct {
	ctx   context.Context //nolint:containedctx // of the process, where those of the steps are of a pod's stages
	cfg   Config
	hooks hook.Runner

	mu   sync.Mutex // guards pods
	pods map[types.UID]*notes
}

var _ podworker.Life = (*Syncer)(nil)

// notes are what is known of a pod beside spec and engine. None of it is needed to do the right thing, so that it may
// be lost: it makes restarts slower and messages better.
type notes struct {
	mu      sync.Mutex                  // guards all below
	backoff map[string]restart.Backoff  // by container name
	waiting map[string]snapshot.Waiting // by container name
	// killed and preStopped are ids of containers whose Killing event was written and whose preStop hook was begun.
	killed, preStopped map[string]bool
	messages           map[string]string // termination messages by container id
	failure            *status.Failure
	recalled           bool // failure is what an earlier process has noted, if it has
	// tight is why the pod does not get what it was resized to, and unresized why its containers do not; "" if they do.
	tight, unresized string
	// unmade is how often in a row a sandbox could not be made, the last time at unmadeAt.
	unmade   int
	unmadeAt time.Time
	// ending is when the kubelet began to end the pod by its own decision; late: it has taken longer than it may, which was told.
	ending time.Time
	late   bool
	// connected is the sandbox whose network this process has seen to be complete.
	connected string

	// probed holds one value if a probe has another result since it was taken.
	probed chan struct{}
}

// New returns a Syncer. When ctx ends it gives up also what a step of a pod must not: see whole.
func New(ctx context.Context, cfg Config) *Syncer {
	return &Syncer{
		ctx: ctx,
		cfg: cfg,
		hooks: hook.Runner{
			Exec: cfg.Runtime, Dial: cfg.Dial, Recorder: cfg.Recorder, Clock: cfg.Clock, SleepEnded: cfg.SleepEnded, FellBack: cfg.HookFellBack,
		},
		pods: map[types.UID]*notes{},
	}
}

func (s *Syncer) notes(uid types.UID) *notes {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.pods[uid]
	if n == nil {
		n = &notes{
			backoff: map[string]restart.Backoff{}, waiting: map[string]snapshot.Waiting{},
			killed: map[string]bool{}, preStopped: map[string]bool{}, messages: map[string]string{}, probed: make(chan struct{}, 1),
		}
		s.pods[uid] = n
	}
	return n
}

// Probed says that a probe of a pod has another result. Who waits for the pod's end tells of it; a pod that runs is to be synced. It does
// not block.
func (s *Syncer) Probed(uid types.UID) {
	s.mu.Lock()
	n := s.pods[uid]
	s.mu.Unlock()
	if n == nil {
		return
	}
	select {
	case n.probed <- struct{}{}:
	default:
	}
}

// Sync brings a pod that is to run one step nearer; the changes this makes in the engine wake it for the next step.
func (s *Syncer) Sync(ctx context.Context, pod *corev1.Pod) (podworker.Result, error) {
	n := s.notes(pod.UID)
	s.cfg.Status.Seen(pod) // at each look, so that nothing that came at a bad moment is missed for longer than until the next one
	if f, err := s.recall(n, pod); err != nil || f != nil {
		return podworker.Result{Terminate: f != nil}, err // one that may have been ended is not started
	}
	var result podworker.Result
	var first made
	for range 3 { // sandbox gone, sandbox made, containers
		look, err := s.look(ctx, n, pod)
		if err != nil {
			s.unknown(ctx, pod, err)
			return result, err
		}
		left, over := s.deadline(look.Pod)
		if over {
			n.mu.Lock()
			n.failure = &status.Failure{Reason: "DeadlineExceeded", Message: "Pod was active on the node longer than the specified deadline", Final: true}
			n.mu.Unlock()
			s.cfg.Recorder.Event(podspec.PodRef(pod), corev1.EventTypeNormal, "DeadlineExceeded", "Pod was active on the node longer than specified deadline")
			return podworker.Result{Terminate: true}, nil
		}
		actions := Compute(look)
		if actions.Finished {
			s.publish(ctx, n, look, true, false)
			return podworker.Result{Terminate: true}, nil
		}
		result.Requeue = soonest(left, actions.Requeue)
		if actions.Sandbox == nil {
			s.publish(ctx, n, look, false, false)
			if wait := n.wait(s.cfg.Clock.Now()); wait > 0 {
				result.Requeue = soonest(result.Requeue, wait)
				return result, nil
			}
			if err = s.connectable(pod); err != nil {
				return result, err
			}
			if first, err = s.sandbox(ctx, n, look, actions); err != nil {
				return result, err
			}
			continue
		}
		if look.RestartingAll() {
			s.publish(ctx, n, look, false, false) // before what runs is killed
		}
		err = s.containers(ctx, n, look, actions, first)
		if look, lerr := s.look(ctx, n, pod); lerr == nil {
			s.linkLogs(ctx, look)
			s.tune(ctx, look)
			s.watch(look)
			s.publish(ctx, n, look, false, false)
		}
		return result, err
	}
	return result, fmt.Errorf("sandbox of pod %s does not stay up", podspec.FullName(pod))
}

// Show tells how a pod is that is not to be synced for now.
func (s *Syncer) Show(ctx context.Context, pod *corev1.Pod) error {
	n := s.notes(pod.UID)
	look, err := s.look(ctx, n, pod)
	if err != nil {
		s.unknown(ctx, pod, err)
		return err
	}
	s.publish(ctx, n, look, false, false)
	return nil
}

// connectable says why a pod cannot have a sandbox for want of a network, and has it told, as upstream's. One with the node's needs none.
func (s *Syncer) connectable(pod *corev1.Pod) error {
	if pod.Spec.HostNetwork {
		return nil
	}
	err := s.cfg.Network.Ready()
	if err != nil {
		err = fmt.Errorf("network is not ready: container runtime network not ready: %w", err)
		s.cfg.Recorder.Event(podspec.PodRef(pod), corev1.EventTypeWarning, "NetworkNotReady", err.Error())
	}
	return err
}

// linkLogs keeps the links to the logs of a pod's containers. A pod does not wait for them.
func (s *Syncer) linkLogs(ctx context.Context, look *snapshot.Pod) {
	if look.Observed == nil {
		return
	}
	for _, c := range look.Observed.Containers {
		if err := s.cfg.Logs.Keep(c); err != nil {
			klog.FromContext(ctx).Error(err, "Collectors will not find a log", "pod", klog.KObj(look.Pod), "container", c.Name)
		}
	}
}

// tune sets up what the engine does not of the cgroups of containers that run. It is no reason for a pod to wait.
func (s *Syncer) tune(ctx context.Context, look *snapshot.Pod) {
	for _, c := range look.Containers() {
		if !c.Running() {
			continue
		}
		if err := s.cfg.Cgroups.Tune(look.Pod, c.Spec, c.Latest.ID); err != nil {
			klog.FromContext(ctx).Error(err, "Setting up the cgroup of a container failed", "pod", klog.KObj(look.Pod), "container", c.Spec.Name)
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

// look joins what is known of a pod now; its newest status is that which this kubelet has set.
func (s *Syncer) look(ctx context.Context, n *notes, pod *corev1.Pod) (*snapshot.Pod, error) {
	obs, err := s.cfg.Observe(ctx, pod.UID)
	if err != nil {
		return nil, err
	}
	pod = s.current(pod)
	parts := snapshot.Parts{
		Pod: pod, Observed: obs, PodIPs: s.podIPs(pod, obs), Probes: map[string]snapshot.Probe{}, Resources: s.cfg.Resources, Now: s.cfg.Clock.Now(),
	}
	for _, c := range obs.Alive() {
		v := s.cfg.Probes.Verdict(pod.UID, c.ID)
		if spec, _ := podspec.Find(pod, c.Name); spec != nil && !s.cfg.Probes.Known(pod.UID, c.ID) {
			v = prober.Before(pod, spec, c.ID)
		}
		parts.Probes[c.ID] = snapshot.Probe(v)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	parts.Backoff, parts.Waiting = maps.Clone(n.backoff), maps.Clone(n.waiting)
	return snapshot.New(parts), nil
}

// unknown tells that what the engine has of a pod could not be found out, so that nothing is done about the pod. When the engine does not
// answer that is told of the node.
func (s *Syncer) unknown(ctx context.Context, pod *corev1.Pod, err error) {
	if ctx.Err() == nil && !errors.Is(err, container.ErrUnavailable) && len(pod.Spec.Containers) > 0 {
		s.cfg.Recorder.Event(podspec.PodRef(pod), corev1.EventTypeWarning, "FailedSync", fmt.Sprintf("error determining status: %v", err))
	}
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
			all = j.Unwrap() // one for each event
		}
		for _, e := range all {
			if ctx.Err() != nil || errors.Is(e, plugin.ErrNotAttached) {
				continue
			}
			reason := plugin.FailedMount
			if event, is := errors.AsType[*plugin.EventError](e); is {
				reason = event.Reason
			}
			s.cfg.Recorder.Event(podspec.PodRef(pod), corev1.EventTypeWarning, reason, e.Error())
		}
		return err
	}
	return nil
}

// prepare has the drivers of a pod's claims prepare them.
func (s *Syncer) prepare(ctx context.Context, pod *corev1.Pod) error {
	err := s.cfg.Claims.Prepare(ctx, pod)
	if err != nil && ctx.Err() == nil {
		s.cfg.Recorder.Event(podspec.PodRef(pod), corev1.EventTypeWarning, "FailedPrepareDynamicResources", fmt.Sprintf("Failed to prepare dynamic resources: %v", err))
	}
	return err
}

// watch has the running containers probed.
func (s *Syncer) watch(look *snapshot.Pod) {
	var running []prober.Running
	for _, c := range slices.Concat(look.Init, look.Regular) {
		if c.Running() {
			running = append(running, prober.Running{Spec: c.Spec, ID: c.Latest.ID, StartedAt: c.Latest.StartedAt})
		}
	}
	ip := ""
	if len(look.PodIPs) > 0 {
		ip = look.PodIPs[0]
	}
	s.cfg.Probes.Update(look.Pod, ip, running)
}
