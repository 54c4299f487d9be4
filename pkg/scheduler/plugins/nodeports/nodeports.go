// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package nodeports keeps pods whose host ports are taken off a node. Touch it
// when the rules on host ports change.
package nodeports

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	"minik8s.io/minik8s/pkg/scheduler/framework"
)

// Name of the plugin; ErrReason is what users see.
const (
	Name      = "NodePorts"
	ErrReason = "node(s) didn't have free ports for the requested pod ports"
)

// NodePorts is the plugin.
type NodePorts struct{}

var (
	_ fwk.PreFilterPlugin   = (*NodePorts)(nil)
	_ fwk.FilterPlugin      = (*NodePorts)(nil)
	_ fwk.EnqueueExtensions = (*NodePorts)(nil)
	_ framework.NodeLocal   = (*NodePorts)(nil)
)

// New returns the plugin.
func New(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return &NodePorts{}, nil }

// Name returns the plugin's name.
func (*NodePorts) Name() string { return Name }

// PreFilter skips pods without host ports.
func (*NodePorts) PreFilter(_ context.Context, state fwk.CycleState, pod *corev1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	if len(framework.InfoOf(state, pod).Ports) == 0 {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	return nil, nil
}

// PreFilterExtensions implements fwk.PreFilterPlugin.
func (*NodePorts) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// Filter rejects nodes where a port is taken.
func (*NodePorts) Filter(_ context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) *fwk.Status {
	if !free(framework.InfoOf(state, pod).Ports, node.GetUsedPorts()) {
		return fwk.NewStatus(fwk.Unschedulable, ErrReason)
	}
	return nil
}

// free tells whether none of the wanted ports is taken.
func free(wanted []framework.HostPort, used fwk.HostPortInfo) bool {
	for _, p := range wanted {
		if used.CheckConflict(p.IP, string(p.Protocol), p.Port) {
			return false
		}
	}
	return true
}

// AppendSignature implements framework.NodeLocal.
func (*NodePorts) AppendSignature(to []byte, pod *framework.PodInfo) ([]byte, bool) {
	for _, p := range pod.Ports {
		to = fmt.Appendf(to, "%s %s %d,", p.IP, p.Protocol, p.Port)
	}
	return to, true
}

// EventsToRegister implements fwk.EnqueueExtensions: a pod that held one of the ports is gone, or there is a new node.
func (*NodePorts) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{
		framework.Event(fwk.AssignedPod, fwk.Delete, framework.Hint(func(pod *corev1.Pod, old, _ any) bool {
			gone := framework.AsPod(old)
			if gone == nil {
				return true
			}
			return !free(framework.NewPodInfo(pod).Ports, framework.NewNodeInfo(nil, gone).GetUsedPorts())
		})),
		framework.Event(fwk.Node, fwk.Add, nil),
	}, nil
}
