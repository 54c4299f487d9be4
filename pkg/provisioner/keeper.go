// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/util/workqueue"
)

// KeeperConfig is that of the keeper of one node.
type KeeperConfig struct {
	// NodeName is the node that it runs on.
	NodeName string
	// Dir holds the directories of volumes. It is made when the first one is. Absolute.
	Dir string
	// Client is the node's kubelet to the API server: it reads and annotates its own Node.
	Client kubernetes.Interface
}

// Keeper makes and removes the directories of one node's volumes. It sees neither volumes nor claims.
type Keeper struct {
	KeeperConfig
	informers informers.SharedInformerFactory
	nodes     corelisters.NodeLister
	queue     workqueue.TypedRateLimitingInterface[string]
}

// NewKeeper returns the keeper of a node. It talks to nobody yet.
func NewKeeper(c KeeperConfig) (*Keeper, error) {
	if !filepath.IsAbs(c.Dir) {
		return nil, fmt.Errorf("directory %q is not absolute", c.Dir)
	}
	own := func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector("metadata.name", c.NodeName).String()
	}
	k := &Keeper{
		KeeperConfig: c,
		informers:    informers.NewSharedInformerFactoryWithOptions(c.Client, 0, informers.WithTweakListOptions(own), informers.WithTransform(onlyAnnotations)),
		queue:        newQueue(),
	}
	nodes := k.informers.Core().V1().Nodes()
	k.nodes = nodes.Lister()
	if _, err := nodes.Informer().AddEventHandler(onNodes(func(name string) {
		if name == c.NodeName {
			k.queue.Add(name)
		}
	})); err != nil {
		return nil, fmt.Errorf("watching the node: %w", err)
	}
	return k, nil
}

// Start works until ctx ends.
func (k *Keeper) Start(ctx context.Context) error { return work(ctx, k.informers, k.queue, k.sync) }

// sync does what is asked of the node, and reports it.
func (k *Keeper) sync(ctx context.Context, name string) error {
	node, err := k.nodes.Get(name)
	if err != nil {
		return ignoreNotFound(err)
	}
	var failed []error
	report := directories{}
	for volume, state := range parse(node.Annotations[annotationAsked]) {
		report[volume] = state
		if err := bring(k.Dir, volume, state); err != nil {
			report[volume] = err.Error()
			failed = append(failed, fmt.Errorf("directory of volume %q shall be %s: %w", volume, state, err))
		}
	}
	if err := annotate(ctx, k.Client, node, map[string]string{annotationDirectory: k.Dir, annotationReported: report.String()}); err != nil {
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}

// annotate writes annotations of a Node, "" removing one, if they are not so already.
func annotate(ctx context.Context, client kubernetes.Interface, node *corev1.Node, want map[string]string) error {
	change := map[string]any{}
	for key, value := range want {
		switch {
		case node.Annotations[key] == value:
		case value == "":
			change[key] = nil
		default:
			change[key] = value
		}
	}
	if len(change) == 0 {
		return nil
	}
	// The UID keeps it from a Node that has taken the place of this one.
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": node.UID, "annotations": change}})
	if err != nil {
		return fmt.Errorf("encoding annotations: %w", err)
	}
	_, err = client.CoreV1().Nodes().Patch(ctx, node.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err := ignoreNotFound(err); err != nil {
		return fmt.Errorf("annotating node %q: %w", node.Name, err)
	}
	return nil
}
