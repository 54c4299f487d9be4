// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	nodes "minik8s.io/minik8s/pkg/node"
)

// find returns a node of the fleet and all of them. The caller has the turn.
func (f *fleet) find(name string) (nodes.Node, []nodes.Node, error) {
	list, err := f.dir.List()
	if err != nil {
		return nodes.Node{}, nil, err
	}
	if i := slices.IndexFunc(list, func(n nodes.Node) bool { return n.Name == name }); i >= 0 {
		return list[i], list, nil
	}
	if name == f.config.Kubelet.NodeName {
		return nodes.Node{}, list, &Problem{Cause: fmt.Sprintf("node %q is the machine itself, with the control plane", name), Remedy: "stop the cluster with: minik8s down"}
	}
	return nodes.Node{}, list, &Problem{Cause: fmt.Sprintf("there is no node %q on this machine", name), Remedy: "see minik8s node list"}
}

// add makes a node and starts it. Without a name it gets one.
func (f *fleet) add(ctx context.Context, n nodes.Node) (nodes.Node, error) {
	done, err := f.change(ctx)
	if err != nil {
		return n, err
	}
	defer done()
	_, list, err := f.find(n.Name)
	if err == nil || n.Name == f.config.Kubelet.NodeName {
		return n, &Problem{Cause: fmt.Sprintf("there is a node %q already", n.Name), Remedy: "choose another name"}
	}
	if !isProblem(err) {
		return n, err
	}
	if len(list)+1 >= maxNodes {
		return n, fmt.Errorf("there are %d nodes, and more than %d are not supported", len(list)+1, maxNodes)
	}
	if f.config.Networking.CNIConfDir != "" {
		return n, &Problem{Cause: "programs of CNI connect pods of the machine itself only", Remedy: "have another machine join: minik8s token create"}
	}
	if n.Name == "" {
		n.Name = nodes.NextName(f.config.Name, list)
	}
	if err := errors.Join(nodes.ValidateName(n.Name), n.Size.Validate()); err != nil {
		return n, err
	}
	_, err = f.admin.CoreV1().Nodes().Get(ctx, n.Name, metav1.GetOptions{})
	if err == nil {
		return n, &Problem{Cause: fmt.Sprintf("the cluster has a node %q already, on another machine", n.Name), Remedy: "choose another name"}
	}
	if !apierrors.IsNotFound(err) {
		return n, fmt.Errorf("looking for node %q: %w", n.Name, err)
	}
	if n, err = f.note(list, n); err != nil {
		return n, err
	}
	if err = f.start(ctx, n); err == nil {
		err = f.count("")
	}
	if err == nil {
		return n, nil
	}
	n, left := f.takeAway(ctx, n) // it is not to be tried again by the next start
	return n, errors.Join(err, left)
}

// findStaying returns a node that may be stopped or started. One that is being removed may not: it would come back.
func (f *fleet) findStaying(name string) (nodes.Node, error) {
	n, _, err := f.find(name)
	if err == nil && n.State == nodes.Removing {
		err = fmt.Errorf("node %q is being removed", name)
	}
	return n, err
}

// stop ends a node as a loss of power would: its kubelet, its containers, its network.
func (f *fleet) stop(ctx context.Context, name string) (nodes.Node, error) {
	done, err := f.change(ctx)
	if err != nil {
		return nodes.Node{}, err
	}
	defer done()
	n, err := f.findStaying(name)
	if err != nil {
		return n, err
	}
	n.State = nodes.Stopped
	if err := f.dir.Write(n); err != nil {
		return n, err
	}
	f.halt(name)
	return n, f.host.cutOff(ctx, n)
}

// resumeOne starts a node that was stopped, or whose start has failed.
func (f *fleet) resumeOne(ctx context.Context, name string) (nodes.Node, error) {
	done, err := f.change(ctx)
	if err != nil {
		return nodes.Node{}, err
	}
	defer done()
	n, err := f.findStaying(name)
	if err != nil {
		return n, err
	}
	n.State = nodes.Running
	if err := f.dir.Write(n); err != nil {
		return n, err
	}
	return n, f.start(ctx, n)
}

// remove takes a node away. Pods that would not come up elsewhere by themselves, or whose end nobody has agreed to, are a reason not to,
// unless that is forced: then they get their time to end.
func (f *fleet) remove(ctx context.Context, name string, force bool) (nodes.Node, error) {
	done, err := f.change(ctx)
	if err != nil {
		return nodes.Node{}, err
	}
	defer done()
	n, _, err := f.find(name)
	if isProblem(err) && name != f.config.Kubelet.NodeName {
		return f.removeJoined(ctx, name, force, err)
	}
	if err != nil {
		return n, err
	}
	if err := f.vacate(ctx, name, force, n.State == nodes.Running); err != nil {
		return n, err
	}
	// It is counted out before it is noted as going: a process that is killed in between must not make another in its place.
	if err := f.count(name); err != nil {
		return n, err
	}
	return f.takeAway(ctx, n)
}

// removeJoined throws a machine that has joined out of the cluster. If none has by this name, the node is unknown.
func (f *fleet) removeJoined(ctx context.Context, name string, force bool, unknown error) (nodes.Node, error) {
	n := nodes.Node{Name: name, State: nodes.Removing}
	node, _, err := findJoined(ctx, f.admin, name)
	if errors.Is(err, ErrNotJoined) {
		return n, unknown
	}
	if err != nil {
		return n, err
	}
	ready := readyCondition(node)
	if err := f.vacate(ctx, name, force, ready != nil && ready.Status == corev1.ConditionTrue); err != nil {
		return n, err
	}
	return n, RemoveJoined(ctx, f.admin, name)
}

// vacate cordons a node and ends its pods, for which it has to be alive.
func (f *fleet) vacate(ctx context.Context, name string, force, alive bool) error {
	if err := f.cordon(ctx, name); err != nil {
		return err
	}
	pods, err := podsOf(ctx, f.admin, name)
	if err != nil {
		return err
	}
	if left := drainable(pods); len(left) > 0 && !force {
		return &Problem{
			Cause:  fmt.Sprintf("node %q has %d pods (%s), and takes no new ones from now on", name, len(left), strings.Join(left[:min(len(left), 3)], ", ")),
			Remedy: fmt.Sprintf("let them go first with: minik8s kubectl drain %s --ignore-daemonsets; or use --force", name),
		}
	}
	if alive {
		f.endPods(ctx, name, pods)
	}
	return nil
}

// takeAway removes all of a node, also if ctx ends meanwhile. That it goes is noted first.
func (f *fleet) takeAway(ctx context.Context, n nodes.Node) (nodes.Node, error) {
	n.State = nodes.Removing
	if err := f.dir.Write(n); err != nil {
		return n, err
	}
	f.halt(n.Name)
	if err := f.finishRemoval(context.WithoutCancel(ctx), n); err != nil {
		return n, fmt.Errorf("removing node %q, which the next start of the cluster goes on with: %w", n.Name, err)
	}
	return n, nil
}

// finishRemoval removes what is left of a node whose parts do not run. Its record goes last.
func (f *fleet) finishRemoval(ctx context.Context, n nodes.Node) error {
	if err := f.host.clear(ctx, n); err != nil {
		return err
	}
	if err := f.forget(ctx, n); err != nil {
		return err
	}
	return f.dir.Remove(n.Name)
}

// cordon keeps new pods away. A node that is not registered gets none.
func (f *fleet) cordon(ctx context.Context, name string) error {
	_, err := f.admin.CoreV1().Nodes().Patch(ctx, name, types.StrategicMergePatchType, []byte(`{"spec":{"unschedulable":true}}`), metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("cordoning node %q: %w", name, err)
	}
	return nil
}

// drainable are the pods that somebody may miss: all that have not ended, but those of DaemonSets and of the node's own files.
func drainable(pods []corev1.Pod) []string {
	var names []string
	for i := range pods {
		p := &pods[i]
		ended := p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
		owner := metav1.GetControllerOf(p)
		_, mirror := p.Annotations[corev1.MirrorPodAnnotationKey]
		if ended || mirror || owner != nil && owner.Kind == "DaemonSet" {
			continue
		}
		names = append(names, p.Namespace+"/"+p.Name)
	}
	return names
}

// farewell is how long pods may take to end, at most, when their node is removed.
const farewell = 40 * time.Second

// endPods deletes pods and waits until the node has ended them, for as long as they may take. Those that are left then end with the node.
func (f *fleet) endPods(ctx context.Context, name string, pods []corev1.Pod) {
	for i := range pods {
		_ = f.admin.CoreV1().Pods(pods[i].Namespace).Delete(ctx, pods[i].Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pods[i].UID}})
	}
	known := map[types.UID]bool{}
	for i := range pods {
		known[pods[i].UID] = true
	}
	_ = wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, farewell, true, func(ctx context.Context) (bool, error) {
		left, err := podsOf(ctx, f.admin, name)
		return err == nil && !slices.ContainsFunc(left, func(p corev1.Pod) bool { return known[p.UID] }), nil
	})
}

// forget removes a node from the API, and then its pods, since nobody else would tell that they have ended: in this order, for a DaemonSet
// replaces a pod on a node that there is still. What is bound by a decision that is older than the removal is for the collector of pods
// without a node. The node's pod range may be given again. One that only has its name, since a machine has joined by it first, stays.
func (f *fleet) forget(ctx context.Context, n nodes.Node) error {
	as, is, err := joinedAs(ctx, f.admin, n.Name)
	if err != nil || is && parseJoined(as).address != pairText(n.IPs()) {
		return err
	}
	if err := f.admin.CoreV1().Nodes().Delete(ctx, n.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting node %q: %w", n.Name, err)
	}
	if err := deletePodsOf(ctx, f.admin, n.Name); err != nil {
		return err
	}
	return forgetJoined(ctx, f.admin, n.Name, as)
}
