// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package tracing tells a collector of OpenTelemetry what the kubelet does for pods, and how long the engine takes for its part
// (KEP-2831). Touch it when something else is to be seen in traces.
package tracing

import (
	"context"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/trace"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-base/tracing"
	tracingv1 "k8s.io/component-base/tracing/api/v1"
	"k8s.io/klog/v2"

	"minik8s.io/minik8s/pkg/kubelet/internal/podworker"
)

// scope names who has made a span, as upstream's kubelet does.
const scope = "k8s.io/kubernetes/pkg/kubelet"

// farewell is how long the collector may take for what it has not been told when the kubelet ends.
const farewell = 3 * time.Second

// Tracer makes spans. Safe for concurrent use.
type Tracer struct {
	tracer   trace.Tracer
	shutdown func(context.Context) error
}

// New returns a Tracer that tells the collector of config of what a node does; nothing is sent before there is something. The
// collector need not be there: what it is not told in time is dropped.
func New(config *tracingv1.TracingConfiguration, node string) (*Tracer, error) {
	p, err := tracing.NewProvider(context.Background(), config, nil, []resource.Option{
		resource.WithAttributes(attribute.String("service.name", "kubelet"), attribute.String("host.name", node)),
	})
	if err != nil {
		return nil, fmt.Errorf("tracing: %w", err)
	}
	return of(p), nil
}

func of(p tracing.TracerProvider) *Tracer {
	return &Tracer{tracer: p.Tracer(scope), shutdown: p.Shutdown}
}

// Close has the collector told of the last spans. It takes no longer than a moment, and a Tracer that is nil has none.
func (t *Tracer) Close(ctx context.Context) {
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
	defer cancel()
	if err := t.shutdown(ctx); err != nil {
		klog.FromContext(ctx).V(2).Info("The last traces are lost", "err", err)
	}
}

// within calls f in a span.
func within[T any](ctx context.Context, t *Tracer, name string, kind trace.SpanKind, f func(context.Context) (T, error), attributes ...attribute.KeyValue) (T, error) {
	ctx, span := t.tracer.Start(ctx, name, trace.WithSpanKind(kind), trace.WithAttributes(attributes...))
	defer span.End()
	v, err := f(ctx)
	if err != nil {
		span.RecordError(err)
		span.SetStatus(codes.Error, err.Error())
	}
	return v, err
}

// none is what a call returns that returns an error only.
type none = struct{}

func (t *Tracer) do(ctx context.Context, name string, kind trace.SpanKind, f func(context.Context) error, attributes ...attribute.KeyValue) error {
	_, err := within(ctx, t, name, kind, func(ctx context.Context) (none, error) { return none{}, f(ctx) }, attributes...)
	return err
}

// Life returns l with a span for each look at a pod. A Tracer that is nil returns l.
func (t *Tracer) Life(l podworker.Life) podworker.Life {
	if t == nil {
		return l
	}
	return &life{l, t}
}

type life struct {
	podworker.Life
	t *Tracer
}

func about(pod *corev1.Pod) []attribute.KeyValue {
	return []attribute.KeyValue{
		attribute.String("k8s.pod.uid", string(pod.UID)), attribute.String("k8s.pod", klog.KObj(pod).String()),
		attribute.String("k8s.pod.name", pod.Name), attribute.String("k8s.namespace.name", pod.Namespace),
	}
}

func (l *life) Sync(ctx context.Context, pod *corev1.Pod) (podworker.Result, error) {
	return within(ctx, l.t, "syncPod", trace.SpanKindInternal, func(ctx context.Context) (podworker.Result, error) { return l.Life.Sync(ctx, pod) }, about(pod)...)
}

func (l *life) Terminate(ctx context.Context, pod *corev1.Pod, grace time.Duration) error {
	return l.t.do(ctx, "syncTerminatingPod", trace.SpanKindInternal, func(ctx context.Context) error { return l.Life.Terminate(ctx, pod, grace) }, about(pod)...)
}

func (l *life) Cleanup(ctx context.Context, pod *corev1.Pod, deleted bool) error {
	return l.t.do(ctx, "syncTerminatedPod", trace.SpanKindInternal, func(ctx context.Context) error { return l.Life.Cleanup(ctx, pod, deleted) }, about(pod)...)
}
