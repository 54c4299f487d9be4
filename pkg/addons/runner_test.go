// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package addons

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"minik8s.io/minik8s/pkg/addons/addon"
)

// An add-on that cannot be brought up to date when the process begins is so later, unless it has been disabled.
func TestRunner_Renew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tries := map[string]int{}
		var all []addon.Addon
		for _, name := range []string{"at once", "later", "not enabled", "disabled"} {
			all = append(all, addon.Addon{Name: name, Definitions: []string{name}})
		}
		r := &Runner{definitions: cache.NewSharedIndexInformer(&cache.ListWatch{}, &metav1.PartialObjectMetadata{}, 0, cache.Indexers{})}
		definition := func(name string) *metav1.PartialObjectMetadata {
			return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name}}
		}
		for _, name := range []string{"at once", "later", "disabled"} {
			if err := r.definitions.GetStore().Add(definition(name)); err != nil {
				t.Fatal(err)
			}
		}
		r.cfg = Config{Addons: all, Renew: func(_ context.Context, a addon.Addon) error {
			tries[a.Name]++
			if a.Name == "disabled" || a.Name == "later" && tries[a.Name] < 4 {
				return errors.New("the API server does not answer")
			}
			return nil
		}}
		failed := r.renew(t.Context(), all)
		if err := r.definitions.GetStore().Delete(definition("disabled")); err != nil {
			t.Fatal(err)
		}
		r.renewLater(t.Context(), failed)
		if diff := cmp.Diff(map[string]int{"at once": 1, "later": 4, "disabled": 1}, tries); diff != "" {
			t.Errorf("tries (-want +got):\n%s", diff)
		}
	})
}
