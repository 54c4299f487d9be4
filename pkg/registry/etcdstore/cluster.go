// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package etcdstore

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/etcd3"
	"k8s.io/apiserver/pkg/storage/etcd3/metrics"
	etcdfeature "k8s.io/apiserver/pkg/storage/feature"
	"k8s.io/utils/clock"

	"minik8s.io/minik8s/pkg/etcd"
)

// Cluster is one etcd that resources are kept in, and what forgets its old revisions. It implements metrics.Monitor.
type Cluster struct {
	backend   etcd.Backend
	compactor etcd3.Compactor
	stop      func()
}

// newCluster starts compaction.
func newCluster(backend etcd.Backend, compactionInterval time.Duration) *Cluster {
	// Without this, watch caches think that etcd cannot report its progress, and make clients wait for what never comes.
	etcdfeature.DefaultFeatureSupportChecker.CheckClient(context.Background(), backend, storage.RequestWatchProgress)
	client := backend.NewClient()
	compactor := etcd3.NewCompactor(client, compactionInterval, clock.RealClock{}, nil)
	return &Cluster{backend: backend, compactor: compactor, stop: sync.OnceFunc(func() {
		compactor.Stop()
		_ = client.Close()
	})}
}

// Healthy reports whether it answers, for health checks.
func (c *Cluster) Healthy(ctx context.Context) error { return c.backend.Healthy(ctx) }

// Monitor implements metrics.Monitor: the size of the database of the first member that tells it.
func (c *Cluster) Monitor(ctx context.Context) (metrics.StorageMetrics, error) {
	var errs []error
	for _, endpoint := range c.backend.Endpoints() {
		status, err := c.backend.Status(ctx, endpoint)
		if err == nil {
			return metrics.StorageMetrics{Size: status.DbSize}, nil
		}
		errs = append(errs, err)
	}
	return metrics.StorageMetrics{}, errors.Join(errs...)
}

// Close implements metrics.Monitor; the factory's Stop ends the cluster.
func (c *Cluster) Close() error { return nil }
