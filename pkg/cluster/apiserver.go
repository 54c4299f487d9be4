// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/options"
	"k8s.io/utils/ptr"

	"minik8s.io/minik8s/pkg/apiserver/admission/defaulttolerationseconds"
	"minik8s.io/minik8s/pkg/apiserver/encryption"
	"minik8s.io/minik8s/pkg/apiserver/flags"
	"minik8s.io/minik8s/pkg/registry/etcdstore"
	"minik8s.io/minik8s/pkg/registry/etcdstore/sharing"
)

// minQuota of the store holds what every cluster has, several times over.
const minQuota = 16 << 20

// validate names the field that is wrong.
func (c APIServerConfig) validate() error {
	for _, f := range []struct {
		name  string
		value int
	}{
		{"auditLogMaxage", c.AuditLogMaxage}, {"auditLogMaxbackup", c.AuditLogMaxbackup}, {"auditLogMaxsize", c.AuditLogMaxsize},
		{"maxRequestsInflight", c.MaxRequestsInflight}, {"maxMutatingRequestsInflight", c.MaxMutatingRequestsInflight},
		{"minRequestTimeout", c.MinRequestTimeout},
	} {
		if f.value < 0 {
			return fmt.Errorf("apiServer.%s must not be negative, is %d", f.name, f.value)
		}
	}
	if c.RequestTimeout.Duration < 0 {
		return fmt.Errorf("apiServer.requestTimeout must not be negative, is %s", c.RequestTimeout.Duration)
	}
	for _, f := range []struct{ name, path string }{
		{"auditPolicyFile", c.AuditPolicyFile}, {"auditLogPath", c.AuditLogPath}, {"encryptionProviderConfig", c.EncryptionProviderConfig},
	} {
		if f.path != "" && f.path != "-" && !filepath.IsAbs(f.path) {
			return fmt.Errorf("apiServer.%s must be an absolute path, is %q", f.name, f.path)
		}
	}
	switch {
	case c.AuditPolicyFile != "" && c.AuditLogPath == "":
		return errors.New("apiServer.auditLogPath is required with apiServer.auditPolicyFile: nothing would be recorded")
	case c.AuditPolicyFile == "" && c.AuditLogPath != "":
		return errors.New("apiServer.auditPolicyFile is required with apiServer.auditLogPath: nothing would be recorded")
	case c.AuditLogPath == "" && (c.AuditLogMaxage > 0 || c.AuditLogMaxbackup > 0 || c.AuditLogMaxsize > 0):
		return errors.New("apiServer.auditLogPath is required with apiServer.auditLogMaxage, auditLogMaxbackup and auditLogMaxsize")
	case c.EncryptionProviderConfigAutomaticReload && c.EncryptionProviderConfig == "":
		return errors.New("apiServer.encryptionProviderConfig is required with apiServer.encryptionProviderConfigAutomaticReload")
	}
	if err := flags.CheckFeatureGates(c.FeatureGates); err != nil {
		return fmt.Errorf("apiServer.featureGates: %w", err)
	}
	return nil
}

// setGates switches features, for the whole process.
func (c APIServerConfig) setGates() error {
	if err := flags.SetFeatureGates(c.FeatureGates); err != nil {
		return fmt.Errorf("apiServer.featureGates: %w", err)
	}
	return nil
}

// tolerationSeconds is for how long pods tolerate nodes that fail.
func (c APIServerConfig) tolerationSeconds() *defaulttolerationseconds.Seconds {
	s := defaulttolerationseconds.Default
	s.NotReady = ptr.Deref(c.DefaultNotReadyTolerationSeconds, s.NotReady)
	s.Unreachable = ptr.Deref(c.DefaultUnreachableTolerationSeconds, s.Unreachable)
	return &s
}

// storage is how objects are kept. A list may take as long as a request: a watch from its revision must be possible then.
func (c APIServerConfig) storage(objects *sharing.Objects) etcdstore.Options {
	o := etcdstore.Options{Objects: objects}
	if c.RequestTimeout.Duration > 0 {
		o.EventsHistoryWindow = c.RequestTimeout.Duration + 15*time.Second
	}
	return o
}

// apply changes the published machinery.
func (c APIServerConfig) apply(g *genericapiserver.Config) error {
	set := func(to *int, value int) {
		if value > 0 {
			*to = value
		}
	}
	set(&g.MaxRequestsInFlight, c.MaxRequestsInflight)
	set(&g.MaxMutatingRequestsInFlight, c.MaxMutatingRequestsInflight)
	set(&g.MinRequestTimeout, c.MinRequestTimeout)
	if c.RequestTimeout.Duration > 0 {
		g.RequestTimeout = c.RequestTimeout.Duration
	}
	g.EnableProfiling = c.Profiling
	g.EnableContentionProfiling = g.EnableContentionProfiling && c.Profiling
	if c.AuditLogPath != "" {
		audit := options.NewAuditOptions()
		audit.PolicyFile, audit.LogOptions.Path = c.AuditPolicyFile, c.AuditLogPath
		set(&audit.LogOptions.MaxAge, c.AuditLogMaxage)
		set(&audit.LogOptions.MaxBackups, c.AuditLogMaxbackup)
		set(&audit.LogOptions.MaxSize, c.AuditLogMaxsize)
		if err := audit.ApplyTo(g); err != nil {
			return fmt.Errorf("apiServer.auditPolicyFile %s, apiServer.auditLogPath %s: %w", c.AuditPolicyFile, c.AuditLogPath, err)
		}
	}
	if c.EncryptionProviderConfig != "" {
		if err := encryption.Apply(g, c.EncryptionProviderConfig, c.EncryptionProviderConfigAutomaticReload); err != nil {
			return fmt.Errorf("apiServer.encryptionProviderConfig %s: %w", c.EncryptionProviderConfig, err)
		}
	}
	return nil
}
