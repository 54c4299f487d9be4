// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package imagepolicywebhook asks a server outside of the cluster whether the images of a pod may run. Off by default, and it
// needs a configuration. Touch it when pods can refer to images in a new way.
package imagepolicywebhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	imagepolicyv1alpha1 "k8s.io/api/imagepolicy/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"minik8s.io/minik8s/pkg/apiserver/admission/object"
)

// Name of the plugin.
const Name = "ImagePolicyWebhook"

// auditPrefix is that of the audit annotations, in which the server's answer is kept too.
const auditPrefix = "imagepolicywebhook.image-policy.k8s.io/"

// Configuration is upstream's.
type Configuration struct {
	ImagePolicy struct {
		// KubeConfigFile says how the server is reached.
		KubeConfigFile string `json:"kubeConfigFile"`
		// AllowTTL and DenyTTL say for how many seconds answers are remembered, RetryBackoff how many milliseconds to wait
		// before asking again. 0 is the default, -1 none.
		AllowTTL     int64 `json:"allowTTL"`
		DenyTTL      int64 `json:"denyTTL"`
		RetryBackoff int64 `json:"retryBackoff"`
		// DefaultAllow lets everything pass when the server cannot be asked.
		DefaultAllow bool `json:"defaultAllow"`
	} `json:"imagePolicy"`
}

// asker asks the server: it fills in the status of the review.
type asker func(ctx context.Context, review *imagepolicyv1alpha1.ImageReview) error

type plugin struct {
	*admission.Handler
	ask               asker
	answers           *cache.LRUExpireCache
	allowTTL, denyTTL time.Duration
	defaultAllow      bool
}

var _ admission.ValidationInterface = (*plugin)(nil)

// New returns the plugin by its configuration. It fails without one.
func New(config io.Reader) (admission.Interface, error) {
	if config == nil {
		return nil, errors.New(Name + " needs a configuration")
	}
	data, err := io.ReadAll(config)
	if err != nil {
		return nil, fmt.Errorf("reading the configuration of %s: %w", Name, err)
	}
	var c Configuration
	if err := yaml.UnmarshalStrict(data, &c); err != nil {
		return nil, fmt.Errorf("reading the configuration of %s: %w", Name, err)
	}
	p := &plugin{
		Handler:      admission.NewHandler(admission.Create, admission.Update),
		answers:      cache.NewLRUExpireCache(1024),
		defaultAllow: c.ImagePolicy.DefaultAllow,
	}
	var retry time.Duration
	for _, d := range []struct {
		to                       *time.Duration
		value                    int64
		unit, normal, least, max time.Duration
	}{
		{&retry, c.ImagePolicy.RetryBackoff, time.Millisecond, 500 * time.Millisecond, 1, 5 * time.Minute},
		{&p.allowTTL, c.ImagePolicy.AllowTTL, time.Second, 5 * time.Minute, time.Second, 30 * time.Minute},
		{&p.denyTTL, c.ImagePolicy.DenyTTL, time.Second, 30 * time.Second, time.Second, 30 * time.Minute},
	} {
		if *d.to, err = duration(d.value, d.unit, d.normal, d.least, d.max); err != nil {
			return nil, fmt.Errorf("configuration of %s: %w", Name, err)
		}
	}
	p.ask, err = connect(c.ImagePolicy.KubeConfigFile, retry)
	return p, err
}

// duration reads a number of units.
func duration(value int64, unit, normal, least, most time.Duration) (time.Duration, error) {
	d := time.Duration(value) * unit
	switch {
	case value == -1:
		return 0, nil
	case value == 0:
		return normal, nil
	case d < least || d > most:
		return 0, fmt.Errorf("valid value is between %v and %v, got %v", least, most, d)
	}
	return d, nil
}

// connect returns what asks the server that the kubeconfig names.
func connect(kubeconfig string, retry time.Duration) (asker, error) {
	config, err := webhook.LoadKubeconfig(kubeconfig, nil)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", Name, err)
	}
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	if err := imagepolicyv1alpha1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	hook, err := webhook.NewGenericWebhook(scheme, serializer.NewCodecFactory(scheme), config,
		[]schema.GroupVersion{imagepolicyv1alpha1.SchemeGroupVersion}, webhook.DefaultRetryBackoffWithInitialDelay(retry))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", Name, err)
	}
	return func(ctx context.Context, review *imagepolicyv1alpha1.ImageReview) error {
		result := hook.WithExponentialBackoff(ctx, func() rest.Result { return hook.RestClient.Post().Body(review).Do(ctx) })
		code := 0
		if err := result.Error(); err != nil {
			return err
		}
		if result.StatusCode(&code); code < 200 || code >= 300 {
			return fmt.Errorf("Error contacting webhook: %d", code) //nolint:staticcheck // upstream's words
		}
		return result.Into(review)
	}, nil
}

// Validate implements admission.ValidationInterface.
func (p *plugin) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	sub := a.GetSubresource()
	if a.GetResource().GroupResource() != corev1.Resource("pods") || sub != "" && sub != "ephemeralcontainers" {
		return nil
	}
	pod, err := object.New[*corev1.Pod](a)
	if err != nil {
		return err
	}
	review := imagepolicyv1alpha1.ImageReview{Spec: spec(pod, sub, a.GetNamespace())}
	if err := p.answer(ctx, &review); err != nil {
		if !p.defaultAllow {
			return admission.NewForbidden(a, err)
		}
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, corev1.ImagePolicyFailedOpenKey, "true")
		return a.AddAnnotation(auditPrefix+"failed-open", "true")
	}
	for k, v := range review.Status.AuditAnnotations {
		_ = a.AddAnnotation(auditPrefix+k, v) // what cannot be a key is left out of the audit log
	}
	switch {
	case review.Status.Allowed:
		return nil
	case review.Status.Reason != "":
		return admission.NewForbidden(a, fmt.Errorf("image policy webhook backend denied one or more images: %s", review.Status.Reason))
	}
	return admission.NewForbidden(a, errors.New("one or more images rejected by webhook backend"))
}

// spec is what the server is told of a pod. Of annotations it is those that are meant for it.
func spec(pod *corev1.Pod, subresource, namespace string) imagepolicyv1alpha1.ImageReviewSpec {
	s := imagepolicyv1alpha1.ImageReviewSpec{Namespace: namespace, Annotations: map[string]string{}}
	add := func(image string) {
		s.Containers = append(s.Containers, imagepolicyv1alpha1.ImageReviewContainerSpec{Image: image})
	}
	if subresource == "" {
		for _, c := range pod.Spec.Containers {
			add(c.Image)
		}
		for _, c := range pod.Spec.InitContainers {
			add(c.Image)
		}
	} else {
		for _, c := range pod.Spec.EphemeralContainers {
			add(c.Image)
		}
	}
	for k, v := range pod.Annotations {
		if strings.Contains(k, ".image-policy.k8s.io/") {
			s.Annotations[k] = v
		}
	}
	return s
}

// answer fills in the status, from memory if the same was asked a moment ago.
func (p *plugin) answer(ctx context.Context, review *imagepolicyv1alpha1.ImageReview) error {
	key, err := json.Marshal(review.Spec)
	if err != nil {
		return err
	}
	if known, ok := p.answers.Get(string(key)); ok {
		review.Status = known.(imagepolicyv1alpha1.ImageReviewStatus)
		return nil
	}
	if err := p.ask(ctx, review); err != nil {
		return err
	}
	ttl := p.denyTTL
	if review.Status.Allowed {
		ttl = p.allowTTL
	}
	p.answers.Add(string(key), review.Status, ttl)
	return nil
}
