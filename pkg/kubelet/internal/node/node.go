// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package node makes this machine a Node: it registers it, keeps its status true and its lease renewed. Touch it when
// the Node object shall tell something else about the machine.
package node

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	"k8s.io/component-helpers/apimachinery/lease"
	nodeutil "k8s.io/component-helpers/node/util"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

// The defaults of a Config, as upstream's.
const (
	updateEvery  = 10 * time.Second
	reportEvery  = 5 * time.Minute
	leaseSeconds = 40
)

// Config is what a Reporter is made from.
type Config struct {
	Name string
	// Client gives up a call that is not answered: a lost answer must not keep back the next sign of life.
	Client   kubernetes.Interface
	Recorder record.EventRecorder
	Clock    clock.WithTicker
	// Labels and Taints are given to a Node that is registered anew; labels also to one that lacks them.
	Labels map[string]string
	Taints []corev1.Taint
	// PodCIDRs of a Node that is registered anew; may be empty.
	PodCIDRs []string
	// Told is called with the volumes in use that the API server has come to know of. nil: nobody wants to know.
	Told func([]corev1.UniqueVolumeName)
	// Steps are told how the node comes up. nil: nobody is.
	Steps Steps
	// UpdateEvery is how often the status is looked at, ReportEvery how often it is told if it has not changed. Default 0: 10 s and
	// 5 min.
	UpdateEvery, ReportEvery time.Duration
	// LeaseSeconds is how long the node's lease lasts; it is renewed after a quarter of it. Default 0: 40.
	LeaseSeconds int32
	// Machine describes the machine. It is asked at each look, so what is costly in it is cached there.
	Machine func(context.Context) Machine
}

// Steps are those of a node that comes up; each may come again. They do not block.
type Steps interface {
	// Registering: the Node is looked for, to be registered if it is not there.
	Registering()
	// Registered: it was not there, and is now.
	Registered()
	// Ready: the API server knows it to be ready.
	Ready()
}

// Machine is what a Node's status is made from.
type Machine struct {
	Addresses   []corev1.NodeAddress
	Capacity    corev1.ResourceList
	Allocatable corev1.ResourceList
	Info        corev1.NodeSystemInfo
	Handlers    []corev1.NodeRuntimeHandler
	Images      []corev1.ContainerImage
	// DeclaredFeatures are in order (KEP-5328).
	DeclaredFeatures []string
	// KubeletPort is where the kubelet's API listens, 0 if it does not.
	KubeletPort int32
	// NotReady is why pods cannot run, "" if they can.
	NotReady string
	// Pressure are those of the conditions MemoryPressure, DiskPressure and PIDPressure that are true.
	Pressure []corev1.NodeConditionType
	// VolumesInUse must not be detached; nil: what the status says of them stays.
	VolumesInUse []corev1.UniqueVolumeName
}

// silent are Steps that nobody is told of.
type silent struct{}

func (silent) Registering() {}
func (silent) Registered()  {}
func (silent) Ready()       {}

// Reporter keeps the Node.
type Reporter struct {
	cfg      Config
	poke     chan struct{}
	reported time.Time
	cordoned bool // the Node as last seen
}

// New returns a Reporter.
func New(cfg Config) *Reporter {
	cfg.UpdateEvery, cfg.ReportEvery = cmp.Or(cfg.UpdateEvery, updateEvery), cmp.Or(cfg.ReportEvery, reportEvery)
	cfg.LeaseSeconds = cmp.Or(cfg.LeaseSeconds, leaseSeconds)
	if cfg.Steps == nil {
		cfg.Steps = silent{}
	}
	return &Reporter{cfg: cfg, poke: make(chan struct{}, 1)}
}

// Poke has the status looked at now. It does not block.
func (r *Reporter) Poke() {
	select {
	case r.poke <- struct{}{}:
	default:
	}
}

// Start registers the node and keeps it until ctx ends. The Node object stays.
func (r *Reporter) Start(ctx context.Context) error {
	logger := klog.FromContext(ctx)
	r.cfg.Recorder.Event(r.ref(), corev1.EventTypeNormal, "Starting", "Starting kubelet.")
	renewed := make(chan struct{})
	go func() {
		defer close(renewed)
		renewEvery := time.Duration(r.cfg.LeaseSeconds) * time.Second / 4
		lease.NewController(r.cfg.Clock, r.cfg.Client, r.cfg.Name, r.cfg.LeaseSeconds, nil, renewEvery, r.cfg.Name, corev1.NamespaceNodeLease, r.own(ctx)).Run(ctx)
	}()
	defer func() { <-renewed }()
	wait := 100 * time.Millisecond
	for {
		err := r.Sync(ctx)
		next := r.cfg.UpdateEvery
		if err != nil {
			if ctx.Err() == nil {
				logger.Error(err, "Updating node status failed")
			}
			next = wait
			wait = min(2*wait, r.cfg.UpdateEvery)
		} else {
			wait = 100 * time.Millisecond
		}
		t := r.cfg.Clock.NewTimer(next)
		select {
		case <-ctx.Done():
			t.Stop()
			return nil
		case <-t.C():
		case <-r.poke:
			t.Stop()
		}
	}
}

// own makes the Node own its lease, so that they go together.
func (r *Reporter) own(ctx context.Context) lease.ProcessLeaseFunc {
	return func(l *coordinationv1.Lease) error {
		if len(l.OwnerReferences) > 0 {
			return nil
		}
		n, err := r.cfg.Client.CoreV1().Nodes().Get(ctx, r.cfg.Name, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("getting node %q for its lease: %w", r.cfg.Name, err)
		}
		l.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: n.Name, UID: n.UID}}
		return nil
	}
}

// Sync brings the Node up to date once: registers it if it is missing, and patches the status if it has changed or has
// not been told for ReportEvery.
func (r *Reporter) Sync(ctx context.Context) error {
	nodes := r.cfg.Client.CoreV1().Nodes()
	r.cfg.Steps.Registering()
	m := r.cfg.Machine(ctx)
	live, err := nodes.Get(ctx, r.cfg.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: r.cfg.Name, Labels: maps.Clone(r.cfg.Labels), Annotations: maps.Clone(annotations)}, Spec: corev1.NodeSpec{Taints: r.cfg.Taints, PodCIDRs: r.cfg.PodCIDRs}}
		if len(r.cfg.PodCIDRs) > 0 {
			n.Spec.PodCIDR = r.cfg.PodCIDRs[0]
		}
		n.Status = Status(corev1.NodeStatus{}, m, r.cfg.Clock.Now())
		created, cerr := nodes.Create(ctx, n, metav1.CreateOptions{})
		if cerr != nil {
			return fmt.Errorf("registering node %q: %w", r.cfg.Name, cerr)
		}
		klog.FromContext(ctx).Info("Node registered", "node", r.cfg.Name)
		r.cfg.Steps.Registered()
		r.events(corev1.NodeStatus{}, n.Status)
		r.reported = r.cfg.Clock.Now()
		if len(created.Status.Conditions) > 0 {
			r.ready(created.Status)
			return nil
		}
		live = created // the API server dropped the status of a new object
	} else if err != nil {
		return fmt.Errorf("getting node %q: %w", r.cfg.Name, err)
	}
	if live, err = r.label(ctx, live); err != nil {
		return err
	}
	r.cordon(live.Spec.Unschedulable)
	want := live.DeepCopy()
	now := r.cfg.Clock.Now()
	want.Status = Status(live.Status, m, now)
	if same(live.Status, want.Status) && now.Sub(r.reported) < r.cfg.ReportEvery {
		r.told(m)
		return nil
	}
	patched, _, err := nodeutil.PatchNodeStatus(r.cfg.Client.CoreV1(), types.NodeName(r.cfg.Name), live, want)
	if err != nil {
		return fmt.Errorf("patching status of node %q: %w", r.cfg.Name, err)
	}
	r.ready(patched.Status)
	r.reported = now
	r.events(live.Status, want.Status)
	r.told(m)
	return nil
}

// ready tells if what the API server has of the Node says that it is ready.
func (r *Reporter) ready(st corev1.NodeStatus) {
	if _, c := nodeutil.GetNodeCondition(&st, corev1.NodeReady); c != nil && c.Status == corev1.ConditionTrue {
		r.cfg.Steps.Ready()
	}
}

func (r *Reporter) told(m Machine) {
	if r.cfg.Told != nil && m.VolumesInUse != nil {
		r.cfg.Told(m.VolumesInUse)
	}
}

// annotations are those every node has: its volumes are attached by the controller.
var annotations = map[string]string{"volumes.kubernetes.io/controller-managed-attach-detach": "true"}

// label sets labels and annotations of ours that the Node lacks or has otherwise, and leaves all others.
func (r *Reporter) label(ctx context.Context, live *corev1.Node) (*corev1.Node, error) {
	n := live.DeepCopy()
	for k, v := range r.cfg.Labels {
		metav1.SetMetaDataLabel(&n.ObjectMeta, k, v)
	}
	for k, v := range annotations {
		metav1.SetMetaDataAnnotation(&n.ObjectMeta, k, v)
	}
	if maps.Equal(n.Labels, live.Labels) && maps.Equal(n.Annotations, live.Annotations) {
		return live, nil
	}
	n, err := r.cfg.Client.CoreV1().Nodes().Update(ctx, n, metav1.UpdateOptions{})
	if err != nil {
		return nil, fmt.Errorf("labelling node %q: %w", r.cfg.Name, err)
	}
	return n, nil
}

// Ref names a Node as the kubelet's events always have: by name in place of a uid.
func Ref(name string) *corev1.ObjectReference {
	return &corev1.ObjectReference{Kind: "Node", APIVersion: "v1", Name: name, UID: types.UID(name)}
}

func (r *Reporter) ref() *corev1.ObjectReference { return Ref(r.cfg.Name) }

// events tells of a boot, and of conditions that have turned.
func (r *Reporter) events(before, after corev1.NodeStatus) {
	if was, is := before.NodeInfo.BootID, after.NodeInfo.BootID; was != "" && was != is {
		r.cfg.Recorder.Event(r.ref(), corev1.EventTypeWarning, "Rebooted", fmt.Sprintf("Node %s has been rebooted, boot id: %s", r.cfg.Name, is))
	}
	for _, c := range after.Conditions {
		_, old := nodeutil.GetNodeCondition(&before, c.Type)
		if old != nil && old.Status == c.Status {
			continue
		}
		reason, known := turned[c.Type][c.Status]
		if !known {
			continue
		}
		r.cfg.Recorder.Event(r.ref(), corev1.EventTypeNormal, reason, fmt.Sprintf("Node %s status is now: %s", r.cfg.Name, reason))
	}
}

// cordon tells that somebody has closed the Node for new pods, or has opened it.
func (r *Reporter) cordon(is bool) {
	if is == r.cordoned {
		return
	}
	r.cordoned = is
	reason := "NodeSchedulable"
	if is {
		reason = "NodeNotSchedulable"
	}
	r.cfg.Recorder.Event(r.ref(), corev1.EventTypeNormal, reason, fmt.Sprintf("Node %s status is now: %s", r.cfg.Name, reason))
}

// Status lays what the machine says over an old status. Conditions and resources of others stay.
func Status(old corev1.NodeStatus, m Machine, now time.Time) corev1.NodeStatus {
	st := *old.DeepCopy()
	st.Addresses = m.Addresses
	st.Capacity, st.Allocatable = overlay(old.Capacity, m)
	st.NodeInfo = m.Info
	st.RuntimeHandlers = m.Handlers
	st.Features = &corev1.NodeFeatures{SupplementalGroupsPolicy: new(true)}
	st.DeclaredFeatures = m.DeclaredFeatures
	st.Images = m.Images
	if m.VolumesInUse != nil {
		st.VolumesInUse = m.VolumesInUse
	}
	st.DaemonEndpoints.KubeletEndpoint.Port = m.KubeletPort
	ready := corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", Message: "kubelet is posting ready status"}
	if m.NotReady != "" {
		ready.Status, ready.Reason, ready.Message = corev1.ConditionFalse, "KubeletNotReady", m.NotReady
	}
	for _, c := range append(pressure(m.Pressure), ready) {
		c.LastHeartbeatTime = metav1.NewTime(now).Rfc3339Copy()
		c.LastTransitionTime = c.LastHeartbeatTime
		i, o := nodeutil.GetNodeCondition(&st, c.Type)
		if o == nil {
			st.Conditions = append(st.Conditions, c)
			continue
		}
		if o.Status == c.Status {
			c.LastTransitionTime = o.LastTransitionTime
		}
		st.Conditions[i] = c
	}
	return st
}

// turned are the reasons of the events about conditions that have turned.
var turned = map[corev1.NodeConditionType]map[corev1.ConditionStatus]string{
	corev1.NodeReady:          {corev1.ConditionTrue: "NodeReady", corev1.ConditionFalse: "NodeNotReady"},
	corev1.NodeMemoryPressure: {corev1.ConditionTrue: "NodeHasInsufficientMemory", corev1.ConditionFalse: "NodeHasSufficientMemory"},
	corev1.NodeDiskPressure:   {corev1.ConditionTrue: "NodeHasDiskPressure", corev1.ConditionFalse: "NodeHasNoDiskPressure"},
	corev1.NodePIDPressure:    {corev1.ConditionTrue: "NodeHasInsufficientPID", corev1.ConditionFalse: "NodeHasSufficientPID"},
}

// pressure is the conditions about what may run short, of which some are true.
func pressure(under []corev1.NodeConditionType) []corev1.NodeCondition {
	out := []corev1.NodeCondition{
		{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasSufficientMemory", Message: "kubelet has sufficient memory available"},
		{Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasNoDiskPressure", Message: "kubelet has no disk pressure"},
		{Type: corev1.NodePIDPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasSufficientPID", Message: "kubelet has sufficient PID available"},
	}
	for i, short := range []corev1.NodeCondition{
		{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionTrue, Reason: "KubeletHasInsufficientMemory", Message: "kubelet has insufficient memory available"},
		{Type: corev1.NodeDiskPressure, Status: corev1.ConditionTrue, Reason: "KubeletHasDiskPressure", Message: "kubelet has disk pressure"},
		{Type: corev1.NodePIDPressure, Status: corev1.ConditionTrue, Reason: "KubeletHasInsufficientPID", Message: "kubelet has insufficient PID available"},
	} {
		if slices.Contains(under, short.Type) {
			out[i] = short
		}
	}
	return out
}

// overlay keeps resources that only others know of: all that a node is said to have of them is for pods.
func overlay(old corev1.ResourceList, m Machine) (capacity, allocatable corev1.ResourceList) {
	capacity, allocatable = old.DeepCopy(), maps.Clone(m.Allocatable)
	if capacity == nil {
		capacity = corev1.ResourceList{}
	}
	if allocatable == nil {
		allocatable = corev1.ResourceList{}
	}
	for name, q := range capacity {
		if _, own := m.Capacity[name]; !own {
			allocatable[name] = q.DeepCopy()
		}
	}
	maps.Copy(capacity, m.Capacity)
	return capacity, allocatable
}

// same compares two statuses without their heartbeats.
func same(a, b corev1.NodeStatus) bool {
	a, b = *a.DeepCopy(), *b.DeepCopy()
	for _, st := range []*corev1.NodeStatus{&a, &b} {
		for i := range st.Conditions {
			st.Conditions[i].LastHeartbeatTime = metav1.Time{}
		}
	}
	return equality.Semantic.DeepEqual(a, b)
}
