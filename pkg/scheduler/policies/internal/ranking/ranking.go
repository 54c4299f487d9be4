// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package ranking makes scores of what policies find out about nodes, such that one
// node is the best: where the scheduler finds several, it takes any of them. Touch
// it when ties are to fall in another way.
package ranking

import (
	fwk "k8s.io/kube-scheduler/framework"
)

// Lowest turns raw scores into such that only the lowest one, of equal ones that of
// the first node by name, is fwk.MaxScore. The others are below it in proportion, for
// profiles that weigh several plugins.
func Lowest(scores fwk.NodeScoreList) {
	if len(scores) == 0 {
		return
	}
	best, highest := 0, scores[0].Score
	for i, s := range scores {
		if b := scores[best]; s.Score < b.Score || s.Score == b.Score && s.Name < b.Name {
			best = i
		}
		highest = max(highest, s.Score)
	}
	lowest := scores[best].Score
	for i := range scores {
		// At least one, so that equal ones need no case of their own.
		scores[i].Score = (fwk.MaxScore - 1) * (highest - scores[i].Score + 1) / (highest - lowest + 1)
	}
	scores[best].Score = fwk.MaxScore
}
