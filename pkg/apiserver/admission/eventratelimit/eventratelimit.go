// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package eventratelimit bounds how many events per second are written: by all, in a namespace, by a user, or about an
// object. Off by default, and it needs a configuration. Touch it when events are to be counted in another way.
package eventratelimit

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"
	"sigs.k8s.io/yaml"
)

// Name of the plugin.
const Name = "EventRateLimit"

// Configuration is upstream's eventratelimit.admission.k8s.io/v1alpha1.
type Configuration struct {
	metav1.TypeMeta `json:",inline"`
	Limits          []Limit `json:"limits"`
}

// Limit is one bound. Of the keys of its type the CacheSize last seen are remembered, by default 4096.
type Limit struct {
	Type      string `json:"type"`
	QPS       int32  `json:"qps"`
	Burst     int32  `json:"burst"`
	CacheSize int32  `json:"cacheSize,omitempty"`
}

// keys tell by type of limit which events are counted together.
var keys = map[string]func(admission.Attributes) string{
	"Server":          func(admission.Attributes) string { return "" },
	"Namespace":       admission.Attributes.GetNamespace,
	"User":            func(a admission.Attributes) string { return a.GetUserInfo().GetName() },
	"SourceAndObject": sourceAndObject,
}

func sourceAndObject(a admission.Attributes) string {
	e, ok := a.GetObject().(*corev1.Event)
	if !ok {
		return ""
	}
	o := e.InvolvedObject
	return strings.Join([]string{e.Source.Component, e.Source.Host, o.Kind, o.Namespace, o.Name, string(o.UID), o.APIVersion}, "")
}

type limiter struct {
	limit Limit
	clock clock.PassiveClock
	mu    sync.Mutex // guards buckets against two of one key
	// buckets are flowcontrol.RateLimiters by key.
	buckets *lru.Cache
}

func (l *limiter) accept(a admission.Attributes) error {
	key := keys[l.limit.Type](a)
	l.mu.Lock()
	bucket, ok := l.buckets.Get(key)
	if !ok {
		bucket = flowcontrol.NewTokenBucketPassiveRateLimiterWithClock(float32(l.limit.QPS), int(l.limit.Burst), l.clock)
		l.buckets.Add(key, bucket)
	}
	l.mu.Unlock()
	if !bucket.(flowcontrol.PassiveRateLimiter).TryAccept() {
		return fmt.Errorf("limit reached on type %v for key %v", l.limit.Type, key)
	}
	return nil
}

type plugin struct {
	*admission.Handler
	limiters []*limiter
}

var _ admission.ValidationInterface = plugin{}

// New returns the plugin by its configuration. It fails without limits.
func New(config io.Reader) (admission.Interface, error) { return newPlugin(config, clock.RealClock{}) }

func newPlugin(config io.Reader, c clock.PassiveClock) (admission.Interface, error) {
	var configuration Configuration
	if config != nil {
		data, err := io.ReadAll(config)
		if err != nil {
			return nil, fmt.Errorf("reading the configuration of %s: %w", Name, err)
		}
		if err := yaml.UnmarshalStrict(data, &configuration); err != nil {
			return nil, fmt.Errorf("reading the configuration of %s: %w", Name, err)
		}
	}
	if errs := validate(&configuration); len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	p := plugin{Handler: admission.NewHandler(admission.Create, admission.Update)}
	for _, limit := range configuration.Limits {
		size := int(limit.CacheSize)
		if size == 0 || limit.Type == "Server" {
			size = 4096
		}
		p.limiters = append(p.limiters, &limiter{limit: limit, clock: c, buckets: lru.New(size)})
	}
	return p, nil
}

func validate(c *Configuration) field.ErrorList {
	path := field.NewPath("limits")
	if len(c.Limits) == 0 {
		return field.ErrorList{field.Invalid(path, c.Limits, "must not be empty")}
	}
	var errs field.ErrorList
	for i, l := range c.Limits {
		at := path.Index(i)
		if keys[l.Type] == nil {
			errs = append(errs, field.NotSupported(at.Child("type"), l.Type, []string{"Namespace", "Server", "SourceAndObject", "User"}))
		}
		if l.Burst <= 0 {
			errs = append(errs, field.Invalid(at.Child("burst"), l.Burst, "must be positive"))
		}
		if l.QPS <= 0 {
			errs = append(errs, field.Invalid(at.Child("qps"), l.QPS, "must be positive"))
		}
		if l.Type != "Server" && l.CacheSize < 0 {
			errs = append(errs, field.Invalid(at.Child("cacheSize"), l.CacheSize, "must not be negative"))
		}
	}
	return errs
}

// Validate implements admission.ValidationInterface. Every limit counts the event, also if another one refuses it.
func (p plugin) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	events := []string{corev1.GroupName, eventsv1.GroupName}
	if r := a.GetResource(); r.Resource != "events" || !slices.Contains(events, r.Group) || a.IsDryRun() {
		return nil
	}
	var errs []error
	for _, l := range p.limiters {
		errs = append(errs, l.accept(a))
	}
	if err := utilerrors.NewAggregate(errs); err != nil {
		return apierrors.NewTooManyRequestsError(err.Error())
	}
	return nil
}
