// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package serviceaccount gives every pod a ServiceAccount and mounts its token, the cluster's CA and the namespace where
// client libraries look for them. Touch it when pods get their credentials in another way. See
// https://kubernetes.io/docs/reference/access-authn-authz/service-accounts-admin/#serviceaccount-admission-controller.
package serviceaccount

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/apiserver/pkg/storage/names"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"

	"minik8s.io/minik8s/pkg/apiserver/admission/object"
)

// Name of the plugin.
const Name = "ServiceAccount"

const (
	defaultAccount = "default"
	// enforceAnnotation limits the pods of an account to the secrets that the account lists.
	enforceAnnotation = "kubernetes.io/enforce-mountable-secrets"
)

// Plugin is the admission plugin.
type Plugin struct {
	*admission.Handler
	accounts corelisters.ServiceAccountLister
	client   kubernetes.Interface
	// volumeName makes the name of the volume from a prefix.
	volumeName func(prefix string) string
}

var (
	_ admission.MutationInterface                  = (*Plugin)(nil)
	_ admission.ValidationInterface                = (*Plugin)(nil)
	_ initializer.WantsExternalKubeInformerFactory = (*Plugin)(nil)
	_ initializer.WantsExternalKubeClientSet       = (*Plugin)(nil)
)

// New returns the plugin.
func New() admission.Interface {
	return &Plugin{Handler: admission.NewHandler(admission.Create, admission.Update), volumeName: names.SimpleNameGenerator.GenerateName}
}

// SetExternalKubeInformerFactory implements initializer.WantsExternalKubeInformerFactory.
func (p *Plugin) SetExternalKubeInformerFactory(f informers.SharedInformerFactory) {
	accounts := f.Core().V1().ServiceAccounts()
	p.accounts = accounts.Lister()
	p.SetReadyFunc(accounts.Informer().HasSynced)
}

// SetExternalKubeClientSet implements initializer.WantsExternalKubeClientSet.
func (p *Plugin) SetExternalKubeClientSet(c kubernetes.Interface) { p.client = c }

// ValidateInitialization implements admission.InitializationValidator.
func (p *Plugin) ValidateInitialization() error {
	if p.accounts == nil || p.client == nil {
		return errors.New("missing service account lister or client")
	}
	return nil
}

// Admit implements admission.MutationInterface.
func (p *Plugin) Admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	if a.GetOperation() != admission.Create || a.GetResource().GroupResource() != corev1.Resource("pods") || a.GetSubresource() != "" {
		return nil
	}
	pod, err := object.New[*corev1.Pod](a)
	if err != nil {
		return err
	}
	if _, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
		return p.Validate(ctx, a, o) // a kubelet compares mirror pods with its files: they stay as they are
	}
	if pod.Spec.ServiceAccountName == "" {
		pod.Spec.ServiceAccountName, pod.Spec.DeprecatedServiceAccount = defaultAccount, defaultAccount
	}
	account, err := p.account(ctx, a, pod.Spec.ServiceAccountName)
	if err != nil {
		return err
	}
	if automounts(account, pod) {
		mount(pod, p.volumeName)
	}
	if len(pod.Spec.ImagePullSecrets) == 0 {
		pod.Spec.ImagePullSecrets = append(pod.Spec.ImagePullSecrets, account.ImagePullSecrets...)
	}
	return p.Validate(ctx, a, o)
}

// Validate implements admission.ValidationInterface.
func (p *Plugin) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetResource().GroupResource() != corev1.Resource("pods") {
		return nil
	}
	limit := limitSecrets
	switch {
	case a.GetOperation() == admission.Create && a.GetSubresource() == "":
	case a.GetOperation() == admission.Update && a.GetSubresource() == "ephemeralcontainers":
		limit = limitEphemeral
	default:
		return nil
	}
	pod, err := object.New[*corev1.Pod](a)
	if err != nil {
		return err
	}
	if _, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
		if err := validateMirror(pod); err != nil {
			return admission.NewForbidden(a, err)
		}
		return nil
	}
	if pod.Spec.ServiceAccountName == "" {
		return admission.NewForbidden(a, fmt.Errorf("no service account specified for pod %s/%s", a.GetNamespace(), pod.Name))
	}
	account, err := p.account(ctx, a, pod.Spec.ServiceAccountName)
	if err != nil {
		return err
	}
	if enforce, err := strconv.ParseBool(account.Annotations[enforceAnnotation]); err == nil && enforce {
		if err := limit(account, pod); err != nil {
			return admission.NewForbidden(a, err)
		}
	}
	return nil
}

// account looks a ServiceAccount up. The default one is waited for: a controller makes it in new namespaces, and who makes
// a namespace makes a pod in it right away.
func (p *Plugin) account(ctx context.Context, a admission.Attributes, name string) (*corev1.ServiceAccount, error) {
	if !p.WaitForReady() {
		return nil, admission.NewForbidden(a, errors.New("not yet ready to handle request"))
	}
	account, err := p.lookUp(ctx, a.GetNamespace(), name)
	if apierrors.IsNotFound(err) {
		err = apierrors.NewNotFound(corev1.Resource("serviceaccount"), name)
	}
	if err != nil {
		return nil, admission.NewForbidden(a, fmt.Errorf("error looking up service account %s/%s: %w", a.GetNamespace(), name, err))
	}
	return account, nil
}

func (p *Plugin) lookUp(ctx context.Context, namespace, name string) (*corev1.ServiceAccount, error) {
	account, err := p.accounts.ServiceAccounts(namespace).Get(name)
	if err == nil || !apierrors.IsNotFound(err) {
		return account, err
	}
	api := p.client.CoreV1().ServiceAccounts(namespace)
	account, err = api.Get(ctx, name, metav1.GetOptions{})
	if name != defaultAccount || !apierrors.IsNotFound(err) {
		return account, err
	}
	last := err
	err = wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, 1500*time.Millisecond, false, func(ctx context.Context) (bool, error) {
		account, last = p.accounts.ServiceAccounts(namespace).Get(name)
		if apierrors.IsNotFound(last) {
			account, last = api.Get(ctx, name, metav1.GetOptions{})
		}
		return !apierrors.IsNotFound(last), nil
	})
	if err != nil && ctx.Err() != nil {
		return nil, err
	}
	return account, last
}

func automounts(account *corev1.ServiceAccount, pod *corev1.Pod) bool {
	switch {
	case pod.Spec.AutomountServiceAccountToken != nil:
		return *pod.Spec.AutomountServiceAccountToken
	case account.AutomountServiceAccountToken != nil:
		return *account.AutomountServiceAccountToken
	}
	return true
}
