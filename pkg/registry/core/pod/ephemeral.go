// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"fmt"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ephemeralPart lets containers be added to a running pod (KEP-277); none is ever changed or removed.
func ephemeralPart(typer runtime.ObjectTyper) part {
	return part{
		ObjectTyper: typer,
		restrict: func(p, old *corev1.Pod) {
			added := p.Spec.EphemeralContainers
			p.Spec = old.Spec
			p.Spec.EphemeralContainers = added
			keepRest(p, old)
		},
		refuse: func(old *corev1.Pod) string {
			if isMirror(old) {
				return "static pods do not support ephemeral containers"
			}
			return ""
		},
		validate: validateEphemeral,
	}
}

func validateEphemeral(p, old *corev1.Pod) field.ErrorList {
	path := specPath.Child("ephemeralContainers")
	now := map[string]corev1.EphemeralContainer{}
	for _, c := range p.Spec.EphemeralContainers {
		now[c.Name] = c
	}
	var errs field.ErrorList
	for _, o := range old.Spec.EphemeralContainers {
		n, ok := now[o.Name]
		switch {
		case !ok:
			errs = append(errs, field.Forbidden(path, fmt.Sprintf("existing ephemeral containers %q may not be removed\n", o.Name)))
		case !apiequality.Semantic.DeepEqual(n, o):
			errs = append(errs, field.Forbidden(path, fmt.Sprintf("existing ephemeral containers %q may not be changed\n%v", o.Name, cmp.Diff(o, n))))
		}
	}
	return errs
}
