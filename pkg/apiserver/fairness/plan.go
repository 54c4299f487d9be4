// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package fairness

import (
	"strconv"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// object is a FlowSchema or a PriorityLevelConfiguration.
type object[T any] interface {
	metav1.Object
	DeepCopy() T
}

// configuration is what there must be of one kind.
type configuration[T object[T]] struct {
	// mandatory objects are what the server itself relies on: administrators cannot change them. Suggested ones they may.
	mandatory, suggested []T
	// same compares specs, want without defaults. adopt gives one object the spec of another.
	same  func(want, have T) bool
	adopt func(into, from T)
}

// changes are what makes a cluster agree with a configuration.
type changes[T any] struct {
	create, update []T
	remove         []string
}

// plan compares with what the cluster has.
func (c *configuration[T]) plan(have []T) changes[T] {
	rest := map[string]T{}
	for _, h := range have {
		rest[h.GetName()] = h
	}
	var out changes[T]
	compare := func(all []T, mandatory bool) {
		for _, want := range all {
			h, ok := rest[want.GetName()]
			delete(rest, want.GetName())
			if !ok {
				out.create = append(out.create, want.DeepCopy())
			} else if revised, changed := c.revise(want, h, mandatory); changed {
				out.update = append(out.update, revised)
			}
		}
	}
	compare(c.mandatory, true)
	compare(c.suggested, false)
	for _, h := range have {
		// It is of an earlier version, unless it was made by somebody else, who does not annotate it.
		if _, left := rest[h.GetName()]; left && annotation(h) == "true" {
			out.remove = append(out.remove, h.GetName())
		}
	}
	return out
}

// revise returns what an object is to become. The annotation says whether its spec follows the server's version; without it,
// the generation tells whether somebody has changed the spec.
func (c *configuration[T]) revise(want, have T, mandatory bool) (revised T, changed bool) {
	follow := mandatory
	if !mandatory {
		switch annotation(have) {
		case "true":
			follow = true
		case "":
			follow = have.GetGeneration() == 1
		}
	}
	annotated := annotation(have) == strconv.FormatBool(follow)
	differs := follow && !c.same(want, have)
	if annotated && !differs {
		return revised, false
	}
	revised = have.DeepCopy()
	if differs {
		c.adopt(revised, want)
	}
	if !annotated {
		annotations := revised.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[flowcontrolv1.AutoUpdateAnnotationKey] = strconv.FormatBool(follow)
		revised.SetAnnotations(annotations)
	}
	return revised, true
}

// annotation is "true" or "false" as the object says whether its spec is kept up to date, "" if it says nothing that can be
// understood.
func annotation(obj metav1.Object) string {
	follow, err := strconv.ParseBool(obj.GetAnnotations()[flowcontrolv1.AutoUpdateAnnotationKey])
	if err != nil {
		return ""
	}
	return strconv.FormatBool(follow)
}
