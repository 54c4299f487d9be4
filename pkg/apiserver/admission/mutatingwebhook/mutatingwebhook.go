// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package mutatingwebhook is the published plugin that calls mutating webhooks, at no cost where there are none. Touch it when that
// plugin no longer copies every object that is written.
package mutatingwebhook

import (
	"context"
	"io"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/mutating"
	"k8s.io/client-go/informers"
	admissionlisters "k8s.io/client-go/listers/admissionregistration/v1"
)

// Name of the plugin.
const Name = mutating.PluginName

// Plugin is the published one, if anybody has configured a webhook.
type Plugin struct {
	*mutating.Plugin

	configured     bool // by a file, which may name webhooks that are in files
	configurations admissionlisters.MutatingWebhookConfigurationLister
	synced         func() bool
}

var _ admission.MutationInterface = (*Plugin)(nil)

// New returns the plugin by its configuration, a WebhookAdmissionConfiguration, which may be nil.
func New(config io.Reader) (*Plugin, error) {
	published, err := mutating.NewMutatingWebhook(config)
	if err != nil {
		return nil, err
	}
	return &Plugin{Plugin: published, configured: config != nil}, nil
}

// SetExternalKubeInformerFactory implements initializer.WantsExternalKubeInformerFactory.
func (p *Plugin) SetExternalKubeInformerFactory(f informers.SharedInformerFactory) {
	p.Plugin.SetExternalKubeInformerFactory(f)
	configurations := f.Admissionregistration().V1().MutatingWebhookConfigurations()
	p.configurations, p.synced = configurations.Lister(), configurations.Informer().HasSynced
}

// Admit implements admission.MutationInterface.
func (p *Plugin) Admit(ctx context.Context, attrs admission.Attributes, o admission.ObjectInterfaces) error {
	if !p.configured && p.synced() {
		if all, err := p.configurations.List(labels.Everything()); err == nil && len(all) == 0 {
			return nil
		}
	}
	return p.Plugin.Admit(ctx, attrs, o)
}
