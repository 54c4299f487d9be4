// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"minik8s.io/minik8s/pkg/kubelet/internal/staticpod"
)

// answerPatience bounds a request for manifests, with its body.
const answerPatience = 10 * time.Second

// HTTPConfig is what an HTTP is made from.
type HTTPConfig struct {
	// URL answers with a Pod or a PodList. Required.
	URL string
	// Header is sent with each request.
	Header map[string][]string
	// Node is the name of this node. Required.
	Node string
	// Period is how often URL is asked; 20 seconds if 0.
	Period time.Duration
	// Clock is required.
	Clock clock.WithTicker
}

// HTTP are the pods of manifests that a server answers with (staticPodURL). While it answers with none that can be used, the last
// good answer counts.
type HTTP struct {
	manifests
	cfg    HTTPConfig
	client *http.Client
	wg     sync.WaitGroup
	grumbler
}

// NewHTTP returns the source of manifests from a server.
func NewHTTP(cfg HTTPConfig) *HTTP {
	if cfg.Period <= 0 {
		cfg.Period = defaultCheck
	}
	return &HTTP{cfg: cfg, client: &http.Client{
		Timeout: answerPatience,
		// Of its own, so that no connection outlives the source.
		Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, MaxIdleConns: 1, IdleConnTimeout: time.Minute},
	}}
}

// Name implements Source.
func (h *HTTP) Name() string { return staticpod.HTTP }

// Start implements Source.
func (h *HTTP) Start(ctx context.Context, changed func(types.UID)) error {
	h.wg.Go(func() { h.run(ctx, changed) })
	return nil
}

// Wait implements Source.
func (h *HTTP) Wait() { h.wg.Wait() }

func (h *HTTP) run(ctx context.Context, changed func(types.UID)) {
	defer h.client.CloseIdleConnections()
	logger := klog.FromContext(ctx)
	if u, err := url.Parse(h.cfg.URL); err == nil {
		logger = logger.WithValues("url", u.Redacted())
	}
	ticker := h.cfg.Clock.NewTicker(h.cfg.Period)
	defer ticker.Stop()
	for {
		pods, err := h.ask(ctx)
		if ctx.Err() != nil {
			return
		}
		h.log(logger, err, "Static pod manifests cannot be used")
		if err == nil {
			for _, uid := range h.replace(pods) {
				changed(uid)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
		}
	}
}

// ask returns the pods that the server answers with. An empty answer is one without pods.
func (h *HTTP) ask(ctx context.Context) ([]*corev1.Pod, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, h.cfg.URL, nil)
	if err != nil {
		return nil, fmt.Errorf("asking for static pod manifests: %w", err)
	}
	for name, values := range h.cfg.Header {
		request.Header[http.CanonicalHeaderKey(name)] = slices.Clone(values)
	}
	if host := request.Header.Get("Host"); host != "" {
		request.Host = host
	}
	response, err := h.client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("asking for static pod manifests: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("asking for static pod manifests: the server answers %s", response.Status)
	}
	data, err := bounded(response.Body)
	if err != nil {
		return nil, fmt.Errorf("reading static pod manifests: %w", err)
	}
	if len(data) == 0 {
		return nil, nil
	}
	pods, err := staticpod.ParseAll(data, staticpod.Origin{Source: staticpod.HTTP, Location: h.cfg.URL, Node: h.cfg.Node}, h.cfg.Clock.Now())
	if err != nil {
		return nil, fmt.Errorf("reading static pod manifests: %w", err)
	}
	return distinct(pods)
}
