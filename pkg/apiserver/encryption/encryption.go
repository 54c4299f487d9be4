// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package encryption keeps objects encrypted in etcd, as an EncryptionConfiguration file says, and follows that file. Touch
// it when reading the file or its health checks change; the ciphers are k8s.io/apiserver's.
package encryption

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/util/wait"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/apiserver/pkg/server/options/encryptionconfig"
	"k8s.io/apiserver/pkg/server/options/encryptionconfig/controller"
	"k8s.io/apiserver/pkg/server/options/encryptionconfig/metrics"
)

// Apply makes a server encrypt what it stores, until it has drained its requests. With reload, changes of the file take
// effect without a restart.
func Apply(c *genericapiserver.Config, file string, reload bool) (err error) {
	drained := wait.ContextForChannel(c.DrainedNotify())
	ctx, stop := context.WithCancel(drained)
	defer func() {
		if err != nil {
			stop()
		}
	}()
	loaded, err := encryptionconfig.LoadEncryptionConfig(ctx, file, reload, c.APIServerID)
	if err != nil {
		return fmt.Errorf("reading the encryption configuration: %w", err)
	}
	metrics.RecordEncryptionConfigLastConfigInfo(c.APIServerID, loaded.EncryptionFileContentHash)
	if !reload {
		c.ResourceTransformers = encryptionconfig.StaticTransformers(loaded.Transformers)
		addChecks(c, loaded.HealthChecks...)
		return nil
	}
	if len(loaded.HealthChecks) != 1 {
		return errors.New("an encryption configuration that is reloaded must have exactly one health check")
	}
	current := encryptionconfig.NewDynamicTransformers(loaded.Transformers, loaded.HealthChecks[0], stop, loaded.KMSCloseGracePeriod)
	c.ResourceTransformers = current
	addChecks(c, current)
	return c.AddPostStartHook("start-encryption-provider-config-automatic-reload", func(genericapiserver.PostStartHookContext) error {
		follow := controller.NewDynamicEncryptionConfiguration("encryption-provider-config-automatic-reload-controller", file, current, loaded.EncryptionFileContentHash, c.APIServerID)
		go follow.Run(drained)
		return nil
	})
}

// addChecks leaves /livez alone: a restart does not bring back a key service that is away.
func addChecks(c *genericapiserver.Config, checks ...healthz.HealthChecker) {
	c.HealthzChecks = append(c.HealthzChecks, checks...)
	c.ReadyzChecks = append(c.ReadyzChecks, checks...)
}
