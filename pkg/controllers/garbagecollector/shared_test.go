// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package garbagecollector

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"
)

func TestHandler(t *testing.T) {
	again := object("a")
	again.UID = "a2"
	for _, tt := range []struct {
		name string
		act  func(toolscache.ResourceEventHandler)
		want []types.UID
	}{
		{"added", func(h toolscache.ResourceEventHandler) { h.OnAdd(object("b"), false) }, []types.UID{"a", "b"}},
		{"changed", func(h toolscache.ResourceEventHandler) { h.OnUpdate(object("a"), object("a")) }, []types.UID{"a"}},
		{"deleted", func(h toolscache.ResourceEventHandler) { h.OnDelete(object("a")) }, nil},
		{"deleted while nobody watched", func(h toolscache.ResourceEventHandler) {
			h.OnDelete(toolscache.DeletedFinalStateUnknown{Key: "ns/a", Obj: object("a")})
		}, nil},
		{"made anew while nobody watched", func(h toolscache.ResourceEventHandler) { h.OnUpdate(object("a"), again) }, []types.UID{"a2"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := New(Config{Events: &record.FakeRecorder{}, Clock: clocktesting.NewFakeClock(time.Unix(0, 0)), Workers: 1})
			t.Cleanup(c.queue.ShutDown)
			h := c.newMonitor(configMaps).handler()
			h.OnAdd(object("a"), true)
			tt.act(h)
			var got []types.UID
			for _, uid := range []types.UID{"a", "a2", "b"} {
				if _, ok := c.graph.Has(uid); ok {
					got = append(got, uid)
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("objects in the graph (-want +got):\n%s", diff)
			}
		})
	}
}

// TestShared_AreKnown checks that no kind is misspelled; those of which the manager keeps only a part are left out.
func TestShared_AreKnown(t *testing.T) {
	for kind := range sharedKinds() {
		if len(clientgoscheme.Scheme.VersionsForGroupKind(kind)) == 0 {
			t.Errorf("%s is unknown", kind)
		}
	}
	for group, partial := range map[string][]string{"": {"ConfigMap", "Secret"}, "certificates.k8s.io": {"ClusterTrustBundle"}, "coordination.k8s.io": {"Lease"}} {
		for _, kind := range partial {
			if slices.Contains(shared[group], kind) {
				t.Errorf("the manager's cache does not have all objects of kind %s", kind)
			}
		}
	}
}
