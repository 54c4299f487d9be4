// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package trigger

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	v1alpha1 "minik8s.io/minik8s/pkg/addons/apis/functions/v1alpha1"
)

// Change is what has happened to an object, which is how it is since, or was last.
type Change struct {
	Type   v1alpha1.ObjectChange
	Object *unstructured.Unstructured
}

// Event is the CloudEvent (1.0, binary mode) that tells a change: its headers and its data.
func (c Change) Event() (http.Header, []byte, error) {
	o := c.Object.DeepCopy()
	o.SetManagedFields(nil)
	data, err := json.Marshal(o)
	if err != nil {
		return nil, nil, fmt.Errorf("encoding %s %s: %w", o.GetKind(), o.GetName(), err)
	}
	return http.Header{
		"Content-Type":   {"application/json"},
		"Ce-Specversion": {"1.0"},
		"Ce-Id":          {string(o.GetUID()) + "-" + o.GetResourceVersion() + "-" + strings.ToLower(string(c.Type))},
		"Ce-Type":        {"io.minik8s.object." + strings.ToLower(string(c.Type))},
		"Ce-Source":      {"/" + o.GetAPIVersion() + "/" + o.GetKind()},
		"Ce-Subject":     {strings.TrimPrefix(o.GetNamespace()+"/"+o.GetName(), "/")},
	}, data, nil
}

// pending is a change that has not been told yet.
type pending struct {
	change Change
	after  position // what had been seen before it, or before the first of those that it stands for
}

// changes are those of one object that have not been told yet, oldest first.
type changes []pending

// with adds a change. What has changed several times is told once, with how it is then.
func (cs changes) with(c Change, after position) changes {
	if n := len(cs); n > 0 && c.Type == v1alpha1.ObjectModified {
		last := &cs[n-1].change
		if last.Type != v1alpha1.ObjectDeleted && last.Object.GetUID() == c.Object.GetUID() {
			last.Object = c.Object
			return cs
		}
	}
	return append(cs, pending{c, after})
}

// wanted tells whether a trigger wants such a change.
func wanted(t *v1alpha1.ObjectTrigger, c v1alpha1.ObjectChange) bool {
	return len(t.Changes) == 0 || slices.Contains(t.Changes, c)
}
