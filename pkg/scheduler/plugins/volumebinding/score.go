// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package volumebinding

import (
	"context"
	"math"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"minik8s.io/minik8s/pkg/scheduler/framework"
)

var (
	_ fwk.PreScorePlugin = (*VolumeBinding)(nil)
	_ fwk.ScorePlugin    = (*VolumeBinding)(nil)
)

// PreScore skips pods none of whose claims depends on the node.
func (*VolumeBinding) PreScore(_ context.Context, state fwk.CycleState, _ *corev1.Pod, _ []fwk.NodeInfo) *fwk.Status {
	if s, ok := framework.ReadState[*filterState](state, filterKey); !ok || len(s.delayed) == 0 {
		return fwk.NewStatus(fwk.Skip)
	}
	return nil
}

// Score tells how well the claims use the storage that they would get on the node,
// by default the better the more is left.
func (v *VolumeBinding) Score(_ context.Context, state fwk.CycleState, _ *corev1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	s, ok := framework.ReadState[*filterState](state, filterKey)
	if !ok {
		return 0, nil
	}
	return score(v.shape, s.decided(node.Node().Name)), nil
}

// ScoreExtensions implements fwk.ScorePlugin: none, shapes give scores as they shall be.
func (*VolumeBinding) ScoreExtensions() fwk.ScoreExtensions { return nil }

// use is what claims ask of storage, in bytes, and what there is.
type use struct{ requested, capacity int64 }

// score is the mean over the classes. Existing volumes decide alone if there is
// any: what provisioners have is not comparable to them.
func score(shape framework.Shape, decisions []decision) int64 {
	volumes, rooms := map[string]use{}, map[string]use{}
	for _, d := range decisions {
		size := d.claim.Spec.Resources.Requests[corev1.ResourceStorage]
		switch {
		case d.volume != nil:
			u := volumes[d.volume.Spec.StorageClassName]
			u.requested += size.Value()
			u.capacity += d.volume.Spec.Capacity.Storage().Value()
			volumes[d.volume.Spec.StorageClassName] = u
		case d.room != nil && d.room.Capacity != nil:
			// All claims of the class come out of the same room.
			u := rooms[d.room.StorageClassName]
			u.requested += size.Value()
			u.capacity = d.room.Capacity.Value()
			rooms[d.room.StorageClassName] = u
		}
	}
	classes := volumes
	if len(classes) == 0 {
		classes = rooms
	}
	if len(classes) == 0 {
		return 0
	}
	var sum int64
	for _, u := range classes {
		sum += shape.Score(u.requested, u.capacity)
	}
	return int64(math.Round(float64(sum) / float64(len(classes))))
}
