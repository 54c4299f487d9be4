// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package podtopologyspread

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	appslisters "k8s.io/client-go/listers/apps/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// defaults finds the pods that belong with a pod that has no constraints.
type defaults struct {
	args *configv1.PodTopologySpreadArgs

	services     corelisters.ServiceLister
	controllers  corelisters.ReplicationControllerLister
	replicaSets  appslisters.ReplicaSetLister
	statefulSets appslisters.StatefulSetLister
}

func newDefaults(args *configv1.PodTopologySpreadArgs, h fwk.Handle) defaults {
	f := h.SharedInformerFactory()
	return defaults{
		args:         args,
		services:     f.Core().V1().Services().Lister(),
		controllers:  f.Core().V1().ReplicationControllers().Lister(),
		replicaSets:  f.Apps().V1().ReplicaSets().Lister(),
		statefulSets: f.Apps().V1().StatefulSets().Lister(),
	}
}

// system tells whether upstream's system defaults are in force.
func (d defaults) system() bool { return d.args.DefaultingType == configv1.SystemDefaulting }

// constraints are those of the profile, or upstream's system defaults, for the
// pods selected by the pod's services and owner.
func (d defaults) constraints(pod *corev1.Pod, action corev1.UnsatisfiableConstraintAction) ([]constraint, error) {
	list := d.args.DefaultConstraints
	if d.system() {
		list = []corev1.TopologySpreadConstraint{
			{MaxSkew: 3, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway},
			{MaxSkew: 5, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.ScheduleAnyway},
		}
	}
	if !slices.ContainsFunc(list, func(c corev1.TopologySpreadConstraint) bool { return c.WhenUnsatisfiable == action }) {
		return nil, nil
	}
	selector, err := d.selector(pod)
	if err != nil || selector.Empty() {
		return nil, err
	}
	return parseList(pod, list, action, selector)
}

// constraints are those of a pod, or the default ones if it has none at all.
func (p *PodTopologySpread) constraints(pod *corev1.Pod, action corev1.UnsatisfiableConstraintAction) ([]constraint, error) {
	if len(pod.Spec.TopologySpreadConstraints) > 0 {
		return parse(pod, action)
	}
	return p.defaults.constraints(pod, action)
}

func (d defaults) selector(pod *corev1.Pod) (labels.Selector, error) {
	set := labels.Set{}
	services, err := d.services.Services(pod.Namespace).List(labels.Everything())
	if err != nil {
		return nil, fmt.Errorf("listing services: %w", err)
	}
	for _, s := range services {
		if len(s.Spec.Selector) > 0 && labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(pod.Labels)) {
			set = labels.Merge(set, s.Spec.Selector)
		}
	}
	owner := metav1.GetControllerOf(pod)
	if owner == nil {
		return labels.SelectorFromSet(set), nil
	}
	var owned *metav1.LabelSelector
	switch schema := owner.APIVersion + "/" + owner.Kind; schema {
	case corev1.SchemeGroupVersion.String() + "/ReplicationController":
		rc, err := d.controllers.ReplicationControllers(pod.Namespace).Get(owner.Name)
		if err == nil {
			set = labels.Merge(set, rc.Spec.Selector)
		} else if !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("getting owner %q: %w", owner.Name, err)
		}
	case appsv1.SchemeGroupVersion.String() + "/ReplicaSet":
		rs, err := d.replicaSets.ReplicaSets(pod.Namespace).Get(owner.Name)
		if err == nil {
			owned = rs.Spec.Selector
		} else if !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("getting owner %q: %w", owner.Name, err)
		}
	case appsv1.SchemeGroupVersion.String() + "/StatefulSet":
		ss, err := d.statefulSets.StatefulSets(pod.Namespace).Get(owner.Name)
		if err == nil {
			owned = ss.Spec.Selector
		} else if !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("getting owner %q: %w", owner.Name, err)
		}
	}
	selector := labels.SelectorFromSet(set)
	if owned != nil {
		s, err := metav1.LabelSelectorAsSelector(owned)
		if err != nil {
			return nil, fmt.Errorf("parsing selector of owner %q: %w", owner.Name, err)
		}
		if r, selectable := s.Requirements(); selectable {
			selector = selector.Add(r...)
		}
	}
	return selector, nil
}
