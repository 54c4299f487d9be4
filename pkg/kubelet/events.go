// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/flowcontrol"

	"minik8s.io/minik8s/pkg/kubelet/internal/node"
	"minik8s.io/minik8s/pkg/kubelet/internal/resolvconf"
)

// checkResolver tells, once, if pods will not get all that the node's resolver configuration says.
func (k *Kubelet) checkResolver() {
	settings := k.cfg.Configuration
	path := resolverConfig(settings)
	if path == "" {
		return
	}
	if text := resolvconf.Check(path, settings.ClusterDomain); text != "" {
		k.recorder.Event(node.Ref(k.cfg.NodeName), corev1.EventTypeWarning, "CheckLimitsForResolvConf", text)
	}
}

// limitedSink takes so many events in a second. Who records them does not wait: they queue up, and are dropped when there are too
// many.
type limitedSink struct {
	record.EventSink
	ctx   context.Context //nolint:containedctx // of the kubelet; a sink is given none
	limit flowcontrol.RateLimiter
}

// limitEvents bounds what sink takes; a rate of 0 does not.
func limitEvents(ctx context.Context, sink record.EventSink, qps, burst int32) record.EventSink {
	if qps <= 0 {
		return sink
	}
	return &limitedSink{sink, ctx, flowcontrol.NewTokenBucketRateLimiter(float32(qps), int(burst))}
}

func (s *limitedSink) Create(e *corev1.Event) (*corev1.Event, error) {
	if err := s.limit.Wait(s.ctx); err != nil {
		return nil, err
	}
	return s.EventSink.Create(e)
}

func (s *limitedSink) Update(e *corev1.Event) (*corev1.Event, error) {
	if err := s.limit.Wait(s.ctx); err != nil {
		return nil, err
	}
	return s.EventSink.Update(e)
}

func (s *limitedSink) Patch(e *corev1.Event, data []byte) (*corev1.Event, error) {
	if err := s.limit.Wait(s.ctx); err != nil {
		return nil, err
	}
	return s.EventSink.Patch(e, data)
}
