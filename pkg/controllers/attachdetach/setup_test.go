// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package attachdetach

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"minik8s.io/minik8s/pkg/controllers/controllertest"
	"minik8s.io/minik8s/pkg/controllers/ownwrites"
)

// lagging is a client whose cache has no attachment yet as long as it is behind, and the stores of that cache.
type lagging struct {
	client.Client
	behind bool
}

func (l *lagging) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if _, ok := list.(*storagev1.VolumeAttachmentList); ok && l.behind {
		return nil
	}
	return l.Client.List(ctx, list, opts...)
}

func (l *lagging) Of(schema.GroupVersionKind) [][]ownwrites.Store { return [][]ownwrites.Store{{l}} }

func (l *lagging) GetByKey(string) (any, bool, error) { return nil, false, nil }

func (l *lagging) LastStoreSyncResourceVersion() string {
	if l.behind {
		return ""
	}
	return "1000000"
}

// notCached has no informers that can be looked into.
type notCached struct{ cache.Informers }

func (notCached) GetInformerForKind(context.Context, schema.GroupVersionKind, ...cache.InformerGetOption) (cache.Informer, error) {
	return nil, nil
}

// Two pods on two nodes want a volume that one node may have, at the same moment: the pass for the second node waits until the cache
// has the attachment to the first.
func TestReconcile_TwoNodesAtOnce(t *testing.T) {
	t.Parallel()
	l := &lagging{behind: true, Client: controllertest.NewClientBuilder().WithObjects(
		append(volume(corev1.ReadWriteOnce), node("a"), node("b"), pod("p", "a", "c"), pod("q", "b", "c"))...).Build()}
	r := ownwrites.NewBarrier(l, l).ForAll(newReconciler(ownwrites.NewClient(l, notCached{})))
	for _, pass := range []struct {
		node   string
		behind bool
	}{{"a", true}, {"b", true}, {"b", false}} {
		l.behind = pass.behind
		if _, err := r.Reconcile(t.Context(), request(pass.node)); err != nil {
			t.Fatal(err)
		}
	}
	got, err := look(t.Context(), l.Client)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(state{Attachments: map[string]string{"a": "v"}}, got); diff != "" {
		t.Errorf("state (-want +got):\n%s", diff)
	}
}
