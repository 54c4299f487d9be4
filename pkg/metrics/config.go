// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"net/http"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
)

// Config is what a Collector is made from.
type Config struct {
	// Client may list nodes. Required.
	Client kubernetes.Interface
	// Kubelets sends requests to kubelets, who may let it get nodes/metrics. Required.
	Kubelets http.RoundTripper
	// AddressTypes are the addresses of a node to try, in order; default InternalIP, Hostname, ExternalIP.
	AddressTypes []corev1.NodeAddressType
	// Clock is that of the machine by default.
	Clock clock.WithTicker
}

func (c *Config) complete() {
	if c.AddressTypes == nil {
		c.AddressTypes = []corev1.NodeAddressType{corev1.NodeInternalIP, corev1.NodeHostName, corev1.NodeExternalIP}
	}
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
}
