// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

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
	remove    func(path string) error
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
		remove:       removeDir,
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

// sync does what is asked of the node, and reports it. To remove much data takes its time, so what is to be made comes first, and
// each removal is reported by itself.
func (k *Keeper) sync(ctx context.Context, name string) error {
	node, err := k.nodes.Get(name)
	if err != nil {
		return ignoreNotFound(err)
	}
	node = node.DeepCopy()
	asked := parse(node.Annotations[annotationAsked])
	var failed []error
	report := parse(node.Annotations[annotationReported]) // what is not done yet stays as it was
	maps.DeleteFunc(report, func(volume, _ string) bool { return asked[volume] == "" })
	for _, volume := range inOrder(asked) {
		if asked[volume] == absent {
			if err := errors.Join(ctx.Err(), k.report(ctx, node, report)); err != nil {
				return errors.Join(append(failed, err)...)
			}
		}
		report[volume] = asked[volume]
		if err := k.bring(volume, asked[volume]); err != nil {
			report[volume] = err.Error()
			failed = append(failed, fmt.Errorf("directory of volume %q shall be %s: %w", volume, asked[volume], err))
		}
	}
	return errors.Join(append(failed, k.report(ctx, node, report))...)
}

// inOrder are the volumes, those last that are to be removed.
func inOrder(asked directories) []string {
	return slices.SortedFunc(maps.Keys(asked), func(a, b string) int {
		if (asked[a] == absent) != (asked[b] == absent) {
			if asked[a] == absent {
				return 1
			}
			return -1
		}
		return strings.Compare(a, b)
	})
}

// report writes what has been done, also into node.
func (k *Keeper) report(ctx context.Context, node *corev1.Node, done directories) error {
	text := map[string]string{annotationDirectory: k.Dir, annotationReported: done.String()}
	if err := annotate(ctx, k.Client, node, text); err != nil {
		return err
	}
	if node.Annotations == nil {
		node.Annotations = map[string]string{}
	}
	maps.Copy(node.Annotations, text)
	return nil
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
