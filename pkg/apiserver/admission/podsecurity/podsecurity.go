// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package podsecurity enforces the Pod Security Standards that the labels of a namespace ask for; the standards themselves
// are in k8s.io/pod-security-admission. Touch it when the way to configure them changes. See
// https://kubernetes.io/docs/concepts/security/pod-security-admission/.
package podsecurity

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/component-base/metrics/legacyregistry"
	podsecurityadmission "k8s.io/pod-security-admission/admission"
	admissionapi "k8s.io/pod-security-admission/admission/api"
	"k8s.io/pod-security-admission/admission/api/load"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/metrics"
	"k8s.io/pod-security-admission/policy"
)

// Name of the plugin.
const Name = "PodSecurity"

// Plugin is the admission plugin.
type Plugin struct {
	*admission.Handler
	config     *admissionapi.PodSecurityConfiguration
	client     kubernetes.Interface
	namespaces corelisters.NamespaceLister
	pods       corelisters.PodLister
	delegate   *podsecurityadmission.Admission
}

var (
	_ admission.ValidationInterface                = (*Plugin)(nil)
	_ initializer.WantsExternalKubeInformerFactory = (*Plugin)(nil)
	_ initializer.WantsExternalKubeClientSet       = (*Plugin)(nil)
)

// New returns the plugin by its configuration; without one everything is allowed that no label of a namespace forbids.
func New(config io.Reader) (admission.Interface, error) {
	c, err := load.LoadFromReader(config)
	if err != nil {
		return nil, fmt.Errorf("reading the configuration of %s: %w", Name, err)
	}
	return &Plugin{Handler: admission.NewHandler(admission.Create, admission.Update), config: c}, nil
}

// SetExternalKubeInformerFactory implements initializer.WantsExternalKubeInformerFactory.
func (p *Plugin) SetExternalKubeInformerFactory(f informers.SharedInformerFactory) {
	namespaces, pods := f.Core().V1().Namespaces(), f.Core().V1().Pods()
	p.namespaces, p.pods = namespaces.Lister(), pods.Lister()
	synced, podsSynced := namespaces.Informer().HasSynced, pods.Informer().HasSynced
	p.SetReadyFunc(func() bool { return synced() && podsSynced() })
}

// SetExternalKubeClientSet implements initializer.WantsExternalKubeClientSet.
func (p *Plugin) SetExternalKubeClientSet(c kubernetes.Interface) { p.client = c }

// ValidateInitialization implements admission.InitializationValidator. It is called when all else has been set.
func (p *Plugin) ValidateInitialization() error {
	if p.client == nil || p.namespaces == nil || p.pods == nil {
		return errors.New("missing client or listers")
	}
	checks, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		return fmt.Errorf("could not create PodSecurityRegistry: %w", err)
	}
	p.delegate = &podsecurityadmission.Admission{
		Configuration:    p.config,
		Evaluator:        checks,
		Metrics:          recorder(),
		PodSpecExtractor: podsecurityadmission.DefaultPodSpecExtractor{},
		NamespaceGetter:  podsecurityadmission.NamespaceGetterFromListerAndClient(p.namespaces, p.client),
		PodLister:        podsecurityadmission.PodListerFromInformer(p.pods),
	}
	if err := p.delegate.CompleteConfiguration(); err != nil {
		return fmt.Errorf("configuration error: %w", err)
	}
	if err := p.delegate.ValidateConfiguration(); err != nil {
		return fmt.Errorf("invalid configuration: %w", err)
	}
	return nil
}

// relevant are the resources that are looked at: namespaces, pods, and everything that has a pod template, for warnings.
var relevant = map[schema.GroupResource]bool{
	corev1.Resource("namespaces"):                       true,
	corev1.Resource("pods"):                             true,
	corev1.Resource("podtemplates"):                     true,
	corev1.Resource("replicationcontrollers"):           true,
	{Group: appsv1.GroupName, Resource: "replicasets"}:  true,
	{Group: appsv1.GroupName, Resource: "deployments"}:  true,
	{Group: appsv1.GroupName, Resource: "statefulsets"}: true,
	{Group: appsv1.GroupName, Resource: "daemonsets"}:   true,
	{Group: batchv1.GroupName, Resource: "jobs"}:        true,
	{Group: batchv1.GroupName, Resource: "cronjobs"}:    true,
}

// Validate implements admission.ValidationInterface.
func (p *Plugin) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if !relevant[a.GetResource().GroupResource()] {
		return nil
	}
	// Namespaces are made before the informers have filled; they wait for nothing.
	if a.GetResource().GroupResource() != corev1.Resource("namespaces") && !p.WaitForReady() {
		return admission.NewForbidden(a, errors.New("not yet ready to handle request"))
	}
	answer := p.delegate.Validate(ctx, attributes{a})
	for _, w := range answer.Warnings {
		warning.AddWarning(ctx, "", w)
	}
	for key, v := range answer.AuditAnnotations {
		audit.AddAuditAnnotation(ctx, api.AuditAnnotationPrefix+key, v)
	}
	if answer.Allowed {
		return nil
	}
	return refusal(a, answer)
}

// refusal turns an answer that is meant for the wire into an error of this server.
func refusal(a admission.Attributes, answer *admissionv1.AdmissionResponse) error {
	if answer.Result == nil {
		return admission.NewForbidden(a, errors.New("Not allowed by PodSecurity")) //nolint:staticcheck // upstream's words
	}
	return &apierrors.StatusError{ErrStatus: *answer.Result}
}

// recorder counts evaluations, with upstream's metrics. A process may have several servers, and metrics are its own: they
// count together, as all metrics of servers do.
var recorder = sync.OnceValue(func() metrics.Recorder {
	r := metrics.NewPrometheusRecorder(api.GetAPIVersion())
	r.MustRegister(legacyregistry.MustRegister)
	return r
})

// attributes shows a request to the delegate.
type attributes struct{ admission.Attributes }

func (a attributes) GetUserName() string { return a.GetUserInfo().GetName() }

func (a attributes) GetOperation() admissionv1.Operation {
	return admissionv1.Operation(a.Attributes.GetOperation())
}

func (a attributes) GetObject() (runtime.Object, error) { return a.Attributes.GetObject(), nil }

func (a attributes) GetOldObject() (runtime.Object, error) { return a.Attributes.GetOldObject(), nil }
