// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package podtolerationrestriction adds a namespace's default tolerations to its pods, and refuses tolerations that the
// namespace does not allow. Off by default. Touch it when namespaces can say so in another way.
package podtolerationrestriction

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"
	"sigs.k8s.io/yaml"

	"minik8s.io/minik8s/pkg/apis/core/qos"
	"minik8s.io/minik8s/pkg/apis/core/toleration"
	"minik8s.io/minik8s/pkg/apiserver/admission/namespace"
	"minik8s.io/minik8s/pkg/apiserver/admission/object"
)

// Name of the plugin.
const Name = "PodTolerationRestriction"

// Annotations of a namespace: lists of tolerations in JSON, which stand before those of the configuration.
const (
	defaultsAnnotation = "scheduler.alpha.kubernetes.io/defaultTolerations"
	allowedAnnotation  = "scheduler.alpha.kubernetes.io/tolerationsWhitelist"
)

// Configuration is upstream's podtolerationrestriction.admission.k8s.io/v1alpha1.
type Configuration struct {
	metav1.TypeMeta `json:",inline"`
	Default         []corev1.Toleration `json:"default,omitempty"`
	Whitelist       []corev1.Toleration `json:"whitelist,omitempty"`
}

type plugin struct {
	namespace.Handler
	config Configuration
}

var (
	_ admission.MutationInterface   = (*plugin)(nil)
	_ admission.ValidationInterface = (*plugin)(nil)
)

// New returns the plugin by its configuration, which may be nil.
func New(config io.Reader) (admission.Interface, error) {
	p := &plugin{Handler: namespace.NewHandler(admission.Create, admission.Update)}
	if config == nil {
		return p, nil
	}
	data, err := io.ReadAll(config)
	if err != nil {
		return nil, fmt.Errorf("reading the configuration of %s: %w", Name, err)
	}
	if err := yaml.UnmarshalStrict(data, &p.config); err != nil {
		return nil, fmt.Errorf("reading the configuration of %s: %w", Name, err)
	}
	path := field.NewPath("podtolerationrestriction")
	errs := append(toleration.Validate(p.config.Default, path.Child("default")), toleration.Validate(p.config.Whitelist, path.Child("whitelist"))...)
	if len(errs) > 0 {
		return nil, fmt.Errorf("invalid config: %w", errs.ToAggregate())
	}
	return p, nil
}

func relevant(a admission.Attributes) bool {
	return a.GetResource().GroupResource() == corev1.Resource("pods") && a.GetSubresource() == ""
}

// Admit implements admission.MutationInterface.
func (p *plugin) Admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	if !relevant(a) {
		return nil
	}
	pod, err := object.New[*corev1.Pod](a)
	if err != nil {
		return err
	}
	var more []corev1.Toleration
	if a.GetOperation() == admission.Create {
		ns, err := p.Of(ctx, a)
		if err != nil {
			return err
		}
		if more, err = annotated(ns, defaultsAnnotation, p.config.Default); err != nil {
			return err
		}
	}
	if qos.Class(&pod.Spec) != corev1.PodQOSBestEffort {
		more = append(slices.Clip(more), corev1.Toleration{Key: corev1.TaintNodeMemoryPressure, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule})
	}
	if len(more) > 0 {
		pod.Spec.Tolerations = toleration.Merge(pod.Spec.Tolerations, more)
	}
	return p.Validate(ctx, a, o)
}

// Validate implements admission.ValidationInterface.
func (p *plugin) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if !relevant(a) {
		return nil
	}
	pod, err := object.New[*corev1.Pod](a)
	if err != nil || len(pod.Spec.Tolerations) == 0 {
		return err
	}
	ns, err := p.Of(ctx, a)
	if err != nil {
		return err
	}
	allowed, err := annotated(ns, allowedAnnotation, p.config.Whitelist)
	if err != nil || toleration.Allowed(pod.Spec.Tolerations, allowed) {
		return err
	}
	scope := "cluster"
	if _, ok := ns.Annotations[allowedAnnotation]; ok {
		scope = "namespace"
	}
	return fmt.Errorf("pod tolerations (possibly merged with namespace default tolerations) conflict with its %s whitelist", scope)
}

// annotated returns the tolerations in an annotation, the cluster's without it.
func annotated(ns *corev1.Namespace, annotation string, cluster []corev1.Toleration) ([]corev1.Toleration, error) {
	text, ok := ns.Annotations[annotation]
	if !ok {
		return cluster, nil
	}
	if text == "" {
		return nil, nil
	}
	var list []corev1.Toleration
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return nil, fmt.Errorf("annotation %s of namespace %s: %w", annotation, ns.Name, err)
	}
	return list, nil
}
