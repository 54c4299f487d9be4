// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package dynamicresources

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/dynamic-resource-allocation/structured"
	fwk "k8s.io/kube-scheduler/framework"

	"minik8s.io/minik8s/pkg/scheduler/framework"
)

// state is what one cycle knows of its pod's claims. A pod without claims has none.
type state struct {
	// claims are in the order of the pod's, the one for its extended resources is the last.
	claims []podClaim
	// allocator finds devices; nil if all claims have theirs.
	allocator structured.Allocator

	mu sync.Mutex
	// unavailable are the indexes of claims whose devices some node does not reach, or that failed.
	unavailable sets.Set[int] // guarded by mu during Filter
	// placements are what the claims would get, by node.
	placements map[string]*placement // guarded by mu during Filter
}

// Clone returns s itself: the devices do not depend on what else is on the node.
func (s *state) Clone() fwk.StateData { return s }

// podClaim is a claim of the cycle's pod.
type podClaim struct {
	// claim is never changed, but replaced by what was written.
	claim *resourcev1.ResourceClaim
	// special is the one for extended resources, which the scheduler makes itself.
	special bool
	// nodes are those that reach its devices; nil if it has none yet, or all do.
	nodes *nodeaffinity.NodeSelector
	// allocation is what Reserve found for it, and PreBind writes.
	allocation *resourcev1.AllocationResult
	// pending is under what the devices are taken meanwhile; empty if they are not.
	pending types.UID
	// unknown tells that there was no answer when it was written.
	unknown bool
}

// placement is what a pod's claims get on a node.
type placement struct {
	// allocations are by index of the claim; nil where none is needed.
	allocations []*resourcev1.AllocationResult
	// special is the claim for extended resources as the node needs it, nil if it has them itself.
	special  *resourcev1.ResourceClaim
	mappings []corev1.ContainerExtendedResourceRequest
}

func read(cs fwk.CycleState) *state {
	s, _ := framework.ReadState[*state](cs, Name)
	return s
}
