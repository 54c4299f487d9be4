// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package ranking

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	fwk "k8s.io/kube-scheduler/framework"
)

func TestLowest(t *testing.T) {
	for _, tc := range []struct {
		name      string
		raw, want fwk.NodeScoreList
	}{
		{"none", nil, nil},
		{"one", fwk.NodeScoreList{{Name: "a", Score: 7}}, fwk.NodeScoreList{{Name: "a", Score: 100}}},
		{"in proportion",
			fwk.NodeScoreList{{Name: "a", Score: 98}, {Name: "b", Score: 0}, {Name: "c", Score: 49}, {Name: "d", Score: 1}},
			fwk.NodeScoreList{{Name: "a", Score: 1}, {Name: "b", Score: 100}, {Name: "c", Score: 50}, {Name: "d", Score: 98}}},
		{"of equal ones the first by name",
			fwk.NodeScoreList{{Name: "c", Score: 3}, {Name: "a", Score: 3}, {Name: "b", Score: 3}},
			fwk.NodeScoreList{{Name: "c", Score: 99}, {Name: "a", Score: 100}, {Name: "b", Score: 99}}},
		{"large",
			fwk.NodeScoreList{{Name: "a", Score: 1<<40 + 3}, {Name: "b", Score: 1 << 40}, {Name: "c", Score: 500}},
			fwk.NodeScoreList{{Name: "a", Score: 0}, {Name: "b", Score: 0}, {Name: "c", Score: 100}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			Lowest(tc.raw)
			if diff := cmp.Diff(tc.want, tc.raw); diff != "" {
				t.Errorf("scores (-want +got):\n%s", diff)
			}
		})
	}
}
