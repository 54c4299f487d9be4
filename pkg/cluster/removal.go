// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"minik8s.io/minik8s/pkg/apiserver/authorization/policy"
)

// ErrNotJoined says that a node is not one of a machine that has joined.
var ErrNotJoined = errors.New("no machine has joined as that")

// RemoveJoined throws a machine that has joined out of the cluster: its Node goes, and with it all its certificates are worthless
// (package removednode), also if a node of its name is registered again. Its pods go from the API; there they go on until they are
// cleared, with `minik8s down`. ErrNotJoined: no such machine has joined.
func RemoveJoined(ctx context.Context, client kubernetes.Interface, name string) error {
	if _, err := findJoined(ctx, client, name); err != nil {
		return err
	}
	err := client.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("node %q: %w", name, ErrNotJoined)
	}
	if err != nil {
		return fmt.Errorf("removing node %q: %w", name, err)
	}
	err = wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		_, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		return false, err
	})
	if err != nil {
		return fmt.Errorf("awaiting that node %q is gone: %w", name, err)
	}
	return deletePodsOf(ctx, client, name)
}

// findJoined returns the Node of a machine that has joined. ErrNotJoined: there is none.
func findJoined(ctx context.Context, client kubernetes.Interface, name string) (*corev1.Node, error) {
	joined, err := client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, policy.JoinedNodes, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("looking for the nodes that have joined: %w", err)
	}
	if err == nil {
		if _, is := joined.Data[name]; !is {
			return nil, fmt.Errorf("node %q: %w", name, ErrNotJoined)
		}
		var node *corev1.Node
		if node, err = client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{}); err == nil {
			return node, nil
		}
	}
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("node %q: %w", name, ErrNotJoined)
	}
	return nil, fmt.Errorf("looking for node %q: %w", name, err)
}

func podsOf(ctx context.Context, client kubernetes.Interface, node string) ([]corev1.Pod, error) {
	list, err := client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("spec.nodeName", node).String()})
	if err != nil {
		return nil, fmt.Errorf("listing the pods of node %q: %w", node, err)
	}
	return list.Items, nil
}

// deletePodsOf deletes the pods of a node that nobody runs any more.
func deletePodsOf(ctx context.Context, client kubernetes.Interface, node string) error {
	pods, err := podsOf(ctx, client, node)
	if err != nil {
		return err
	}
	for i := range pods {
		o := metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0), Preconditions: &metav1.Preconditions{UID: &pods[i].UID}}
		err := client.CoreV1().Pods(pods[i].Namespace).Delete(ctx, pods[i].Name, o)
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return fmt.Errorf("deleting pod %s: %w", pods[i].Name, err)
		}
	}
	return nil
}
