// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package serviceaccount

import (
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

func counter(name, help string, level metrics.StabilityLevel) *metrics.Counter {
	return metrics.NewCounter(&metrics.CounterOpts{Subsystem: "serviceaccount", Name: name, Help: help, StabilityLevel: level})
}

var (
	legacyTokens         = counter("legacy_tokens_total", "Cumulative legacy service account tokens used", metrics.BETA)
	staleTokens          = counter("stale_tokens_total", "Cumulative stale projected service account tokens used", metrics.BETA)
	validTokens          = counter("valid_tokens_total", "Cumulative valid projected service account tokens used", metrics.BETA)
	manualTokenUses      = counter("legacy_manual_token_uses_total", "Cumulative manually created legacy tokens used", metrics.ALPHA)
	generatedTokenUses   = counter("legacy_auto_token_uses_total", "Cumulative auto-generated legacy tokens used", metrics.ALPHA)
	invalidatedTokenUses = counter("invalid_legacy_auto_token_uses_total", "Cumulative invalid auto-generated legacy tokens used", metrics.ALPHA)
)

var registerMetrics = sync.OnceFunc(func() {
	legacyregistry.MustRegister(legacyTokens, staleTokens, validTokens, manualTokenUses, generatedTokenUses, invalidatedTokenUses)
})
