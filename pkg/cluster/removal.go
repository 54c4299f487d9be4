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
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"

	"minik8s.io/minik8s/pkg/apiserver/authorization/policy"
)

// ErrNotJoined says that a node is not one of a machine that has joined.
var ErrNotJoined = errors.New("no machine has joined as that")

// RemoveJoined throws a machine that has joined out of the cluster: its Node goes, and with it all its certificates are worthless
// (package removednode), also if a node of its name is registered again. Its pods go from the API; there they go on until they are
// cleared, with `minik8s down`. ErrNotJoined: no such machine has joined.
func RemoveJoined(ctx context.Context, client kubernetes.Interface, name string) error {
	_, as, err := findJoined(ctx, client, name)
	if err != nil {
		return err
	}
	err = client.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{})
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
	if err := deletePodsOf(ctx, client, name); err != nil {
		return err
	}
	return forgetJoined(ctx, client, name, as)
}

// findJoined returns the Node of a machine that has joined, and what is noted of it. ErrNotJoined: there is none.
func findJoined(ctx context.Context, client kubernetes.Interface, name string) (node *corev1.Node, as string, err error) {
	as, is, err := joinedAs(ctx, client, name)
	if err != nil {
		return nil, "", err
	}
	if is {
		node, err = client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	}
	if !is || apierrors.IsNotFound(err) {
		return nil, "", fmt.Errorf("node %q: %w", name, ErrNotJoined)
	}
	if err != nil {
		return nil, "", fmt.Errorf("looking for node %q: %w", name, err)
	}
	return node, as, nil
}

// joinedAs is what is noted of a node that is not the first.
func joinedAs(ctx context.Context, client kubernetes.Interface, name string) (as string, is bool, err error) {
	joined, err := client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, policy.JoinedNodes, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", false, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("looking for the nodes that have joined: %w", err)
	}
	as, is = joined.Data[name]
	return as, is, nil
}

// forgetJoined removes what is noted of a node, unless another one has its name by now. Its address and its range may be another one's then.
func forgetJoined(ctx context.Context, client kubernetes.Interface, name, as string) error {
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		all := client.CoreV1().ConfigMaps(metav1.NamespaceSystem)
		joined, err := all.Get(ctx, policy.JoinedNodes, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if now, is := joined.Data[name]; !is || now != as {
			return nil
		}
		delete(joined.Data, name)
		_, err = all.Update(ctx, joined, metav1.UpdateOptions{})
		return err
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("forgetting that node %q has joined: %w", name, err)
	}
	return nil
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
