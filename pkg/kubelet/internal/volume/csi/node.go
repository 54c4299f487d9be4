// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package csi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"minik8s.io/minik8s/pkg/kubelet/internal/volume/plugin"
)

const (
	// nodeIDs is the annotation of a Node that says by what names drivers know it: a JSON object by driver.
	nodeIDs = "csi.volume.kubernetes.io/nodeid"
	// apiPatience bounds what a registration waits for the API server, retryEvery is how often one that did not answer is asked again.
	apiPatience, retryEvery = 15 * time.Second, 10 * time.Second
)

// node tells the API which drivers this node has.
type node struct {
	name   string
	client kubernetes.Interface
	clock  clock.Clock
	wake   chan struct{}

	writing sync.Mutex // held for each attempt, so that what was said last is what is written last
	mu      sync.Mutex // guards pending
	// pending is what the API server has yet to learn by driver, nil of one that has gone.
	pending map[string]*csipb.NodeGetInfoResponse
}

// install tells of a driver. It fails if the API server refuses that.
func (n *node) install(ctx context.Context, driver string, info *csipb.NodeGetInfoResponse) error {
	n.set(driver, info)
	err := n.flush(ctx, driver)
	if err != nil && decided(err) {
		n.drop(driver, info)
		return err
	}
	return nil // who does not answer is asked again by start
}

// uninstall tells that a driver has gone, as soon as that can be told.
func (n *node) uninstall(driver string) {
	n.set(driver, nil)
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

func (n *node) set(driver string, info *csipb.NodeGetInfoResponse) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.pending[driver] = info
}

// drop forgets what is pending of a driver, unless it is something newer.
func (n *node) drop(driver string, info *csipb.NodeGetInfoResponse) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if have, there := n.pending[driver]; there && have == info {
		delete(n.pending, driver)
	}
}

// flush writes what is pending of a driver.
func (n *node) flush(ctx context.Context, driver string) error {
	n.writing.Lock()
	defer n.writing.Unlock()
	n.mu.Lock()
	info, there := n.pending[driver]
	n.mu.Unlock()
	if !there {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, apiPatience)
	defer cancel()
	var err error
	if info != nil {
		err = n.writeNode(ctx, driver, info)
	}
	if err == nil {
		err = n.writeCSINode(ctx, driver, info)
	}
	if err == nil && info == nil {
		err = n.writeNode(ctx, driver, nil)
	}
	if err == nil {
		n.drop(driver, info)
	}
	return err
}

// start makes the CSINode, which each node has, and writes what could not be written at once, until ctx ends.
func (n *node) start(ctx context.Context) {
	made := false
	for {
		if !made {
			made = n.ensure(ctx) == nil
		}
		n.mu.Lock()
		drivers := slices.Collect(maps.Keys(n.pending))
		n.mu.Unlock()
		for _, d := range drivers {
			if err := n.flush(ctx, d); err != nil && ctx.Err() == nil {
				klog.FromContext(ctx).Error(err, "Telling the API of a CSI driver failed", "driver", d)
			}
		}
		timer := n.clock.NewTimer(retryEvery)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C():
		case <-n.wake:
			timer.Stop()
		}
	}
}

func (n *node) ensure(ctx context.Context) error {
	n.writing.Lock()
	defer n.writing.Unlock()
	ctx, cancel := context.WithTimeout(ctx, apiPatience)
	defer cancel()
	return n.changeCSINode(ctx, func(*storagev1.CSINodeSpec) {})
}

// writeNode puts the driver's name of the node, and where that is, into the Node; nil takes the name out. Labels stay: other
// drivers, and volumes, may count on them.
func (n *node) writeNode(ctx context.Context, driver string, info *csipb.NodeGetInfoResponse) error {
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		have, err := n.client.CoreV1().Nodes().Get(ctx, n.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		want := have.DeepCopy()
		if err := describeNode(want, driver, info); err != nil {
			return err
		}
		if equality.Semantic.DeepEqual(have, want) {
			return nil
		}
		_, err = n.client.CoreV1().Nodes().Update(ctx, want, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("error updating Node %q with CSI node info: %w", n.name, err)
	}
	return nil
}

// collision is that a driver says something else of the node's place than a label of it.
type collision struct{ key, reported, existing string }

func (c collision) Error() string {
	return fmt.Sprintf("detected topology value collision: driver reported %q:%q but existing label is %q:%q", c.key, c.reported, c.key, c.existing)
}

// describeNode makes the change of writeNode.
func describeNode(node *corev1.Node, driver string, info *csipb.NodeGetInfoResponse) error {
	ids := map[string]string{}
	if text := node.Annotations[nodeIDs]; text != "" {
		if err := json.Unmarshal([]byte(text), &ids); err != nil {
			return fmt.Errorf("reading annotation %s: %w", nodeIDs, err)
		}
	}
	if info == nil {
		delete(ids, driver)
	} else {
		ids[driver] = info.GetNodeId()
	}
	for key, value := range info.GetAccessibleTopology().GetSegments() {
		if have, there := node.Labels[key]; there && have != value {
			return collision{key, value, have}
		}
		metav1.SetMetaDataLabel(&node.ObjectMeta, key, value)
	}
	if len(ids) == 0 {
		delete(node.Annotations, nodeIDs)
		return nil
	}
	text, err := json.Marshal(ids)
	if err != nil {
		return err
	}
	metav1.SetMetaDataAnnotation(&node.ObjectMeta, nodeIDs, string(text))
	return nil
}

func (n *node) writeCSINode(ctx context.Context, driver string, info *csipb.NodeGetInfoResponse) error {
	err := n.changeCSINode(ctx, func(spec *storagev1.CSINodeSpec) { describeCSINode(spec, driver, info) })
	if err != nil {
		return fmt.Errorf("error updating CSINode object with CSI driver node info: %w", err)
	}
	return nil
}

// changeCSINode changes the CSINode, which is made if it is not there; the Node owns it.
func (n *node) changeCSINode(ctx context.Context, change func(*storagev1.CSINodeSpec)) error {
	nodes := n.client.StorageV1().CSINodes()
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		have, err := nodes.Get(ctx, n.name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			owner, err := n.client.CoreV1().Nodes().Get(ctx, n.name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			made := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: n.name, OwnerReferences: []metav1.OwnerReference{
				{APIVersion: corev1.SchemeGroupVersion.String(), Kind: "Node", Name: owner.Name, UID: owner.UID},
			}}}
			change(&made.Spec)
			_, err = nodes.Create(ctx, made, metav1.CreateOptions{})
			return err
		}
		if err != nil {
			return err
		}
		want := have.DeepCopy()
		change(&want.Spec)
		if equality.Semantic.DeepEqual(have, want) {
			return nil
		}
		_, err = nodes.Update(ctx, want, metav1.UpdateOptions{})
		return err
	})
}

// describeCSINode replaces what the spec says of a driver; nil removes it.
func describeCSINode(spec *storagev1.CSINodeSpec, driver string, info *csipb.NodeGetInfoResponse) {
	at := slices.IndexFunc(spec.Drivers, func(d storagev1.CSINodeDriver) bool { return d.Name == driver })
	if info == nil {
		if at >= 0 {
			spec.Drivers = slices.Delete(spec.Drivers, at, at+1)
		}
		return
	}
	d := storagev1.CSINodeDriver{Name: driver, NodeID: info.GetNodeId(), TopologyKeys: slices.Sorted(maps.Keys(info.GetAccessibleTopology().GetSegments()))}
	if limit := info.GetMaxVolumesPerNode(); limit > 0 {
		d.Allocatable = &storagev1.VolumeNodeResources{Count: new(int32(min(limit, math.MaxInt32)))}
	}
	if at < 0 {
		spec.Drivers = append(spec.Drivers, d)
		slices.SortFunc(spec.Drivers, func(a, b storagev1.CSINodeDriver) int { return strings.Compare(a.Name, b.Name) })
		return
	}
	spec.Drivers[at] = d
}

// decided says whether an error is the answer of the API server, or of the Node, to what a driver tells.
func decided(err error) bool {
	if _, ok := errors.AsType[collision](err); ok {
		return true
	}
	return apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err)
}

// unavailable marks an error that is not an answer of the API server.
func unavailable(err error) error {
	if err != nil && apierrors.ReasonForError(err) == metav1.StatusReasonUnknown {
		return fmt.Errorf("%w: %w", plugin.ErrUnavailable, err)
	}
	return err
}
