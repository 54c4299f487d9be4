// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package tracing

import (
	"context"
	"errors"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/emptypb"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	tracingv1 "k8s.io/component-base/tracing/api/v1"

	"minik8s.io/minik8s/pkg/kubelet/container"
	"minik8s.io/minik8s/pkg/kubelet/container/fake"
	"minik8s.io/minik8s/pkg/kubelet/internal/podworker"
)

// starting is a pod's life that asks the engine for something, and fails if that does.
type starting struct{ runtime container.Runtime }

func (s starting) Sync(ctx context.Context, _ *corev1.Pod) (podworker.Result, error) {
	_, err := s.runtime.PullImage(ctx, "x:1", nil)
	return podworker.Result{Requeue: time.Second}, err
}

func (s starting) Terminate(ctx context.Context, _ *corev1.Pod, _ time.Duration) error {
	return s.runtime.StopContainer(ctx, "absent", 0, "")
}
func (s starting) Cleanup(context.Context, *corev1.Pod, bool) error { return nil }
func (s starting) Forget(*corev1.Pod)                               {}

var pod = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u"}}

// What the engine does for a pod is part of the look at the pod.
func TestSpans(t *testing.T) {
	exporter := tracetest.NewInMemoryExporter()
	tracer := of(sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter)))
	runtime := fake.New(fake.Config{})
	runtime.Publish("x:1", nil)
	life := tracer.Life(starting{tracer.Runtime(runtime)})
	if r, err := life.Sync(t.Context(), pod); err != nil || r.Requeue != time.Second {
		t.Fatalf("%+v, %v", r, err)
	}
	runtime.Fail("PullImage", errors.New("boom"))
	if _, err := life.Sync(t.Context(), pod); err == nil {
		t.Error("the error is lost")
	}
	if err := errors.Join(life.Terminate(t.Context(), pod, 0), life.Cleanup(t.Context(), pod, true)); err != nil {
		t.Fatal(err)
	}
	type span struct{ name, parent, status string }
	spans := exporter.GetSpans()
	var got []span
	for _, s := range spans {
		parent := ""
		if i := slices.IndexFunc(spans, func(o tracetest.SpanStub) bool { return o.SpanContext.SpanID() == s.Parent.SpanID() }); i >= 0 {
			parent = spans[i].Name
		}
		got = append(got, span{s.Name, parent, s.Status.Description})
	}
	want := []span{
		{"runtime.v1.ImageService/PullImage", "syncPod", ""}, {"syncPod", "", ""},
		{"runtime.v1.ImageService/PullImage", "syncPod", "boom"}, {"syncPod", "", "boom"},
		{"runtime.v1.RuntimeService/StopContainer", "syncTerminatingPod", ""}, {"syncTerminatingPod", "", ""}, {"syncTerminatedPod", "", ""},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(span{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if a := spans[1].Attributes; len(a) != 4 || a[0].Value.AsString() != "u" || a[1].Value.AsString() != "ns/p" {
		t.Errorf("attributes %v", a)
	}
}

// A collector is told at the latest when the kubelet ends, of what is sampled.
func TestNew(t *testing.T) {
	for rate, want := range map[int32]bool{1_000_000: true, 0: false} {
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		called := make(chan string, 10)
		s := grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
			method, _ := grpc.MethodFromServerStream(stream)
			called <- method
			if err := stream.RecvMsg(&emptypb.Empty{}); err != nil {
				return err
			}
			return stream.SendMsg(&emptypb.Empty{})
		}))
		go func() { _ = s.Serve(l) }()
		t.Cleanup(s.Stop)
		tracer, err := New(&tracingv1.TracingConfiguration{Endpoint: new(l.Addr().String()), SamplingRatePerMillion: &rate}, "n1")
		if err != nil {
			t.Fatal(err)
		}
		if err := tracer.Life(starting{fake.New(fake.Config{PullAll: true})}).Cleanup(t.Context(), pod, true); err != nil {
			t.Fatal(err)
		}
		tracer.Close(t.Context())
		if got := len(called) > 0; got != want {
			t.Errorf("rate %d: told %v", rate, got)
		}
	}
}

// A collector that is not there holds nothing up for long.
func TestNew_Nobody(t *testing.T) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0") // takes connections, and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	tracer, err := New(&tracingv1.TracingConfiguration{Endpoint: new(l.Addr().String()), SamplingRatePerMillion: new(int32(1_000_000))}, "n1")
	if err != nil {
		t.Fatal(err)
	}
	if err := tracer.Life(starting{}).Cleanup(t.Context(), pod, true); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	tracer.Close(t.Context())
	if took := time.Since(began); took > 2*farewell {
		t.Errorf("it took %v", took)
	}
}

// Without tracing nothing is wrapped.
func TestNil(t *testing.T) {
	var tracer *Tracer
	runtime := container.Runtime(fake.New(fake.Config{}))
	if tracer.Runtime(runtime) != runtime || tracer.Life(starting{}) != podworker.Life(starting{}) {
		t.Error("something is wrapped")
	}
	tracer.Close(t.Context())
}
