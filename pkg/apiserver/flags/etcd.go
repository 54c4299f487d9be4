// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package flags

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/server/options"

	"minik8s.io/minik8s/pkg/etcd"
	"minik8s.io/minik8s/pkg/registry/etcdstore"
)

// storage is how objects are kept.
func (f *Flags) storage() etcdstore.Options {
	s := f.etcd.StorageConfig
	o := etcdstore.Options{
		Prefix: s.Prefix, CompactionInterval: s.CompactionInterval, MediaType: f.etcd.DefaultStorageMediaType, CountPollPeriod: s.CountMetricPollPeriod, EventsHistoryWindow: s.EventsHistoryWindow,
		Leases: s.LeaseManagerConfig, DeleteCollectionWorkers: f.etcd.DeleteCollectionWorkers,
		NoWatchCache: !f.etcd.EnableWatchCache, NoGarbageCollection: !f.etcd.EnableGarbageCollection, Uncached: map[schema.GroupResource]bool{},
	}
	if o.CompactionInterval == 0 {
		o.CompactionInterval = -1 // here, 0 is the default
	}
	if o.CountPollPeriod == 0 {
		o.CountPollPeriod = -1 // likewise
	}
	sizes, _ := options.ParseWatchCacheSizes(f.etcd.WatchCacheSizes) // checked by validate
	for gr, size := range sizes {
		if size == 0 {
			o.Uncached[gr] = true
		}
	}
	return o
}

// etcdTimeout is how long etcd may take to answer when the server starts.
const etcdTimeout = 20 * time.Second

func (f *Flags) dialEtcd(ctx context.Context) (etcd.Backend, error) {
	t := f.etcd.StorageConfig.Transport
	config, err := etcdTLS(t.TrustedCAFile, t.CertFile, t.KeyFile)
	if err != nil {
		return nil, err
	}
	remote, err := etcd.Dial(t.ServerList, config)
	if err != nil {
		return nil, err
	}
	check, cancel := context.WithTimeout(ctx, etcdTimeout)
	defer cancel()
	if err := remote.Healthy(check); err != nil {
		_ = remote.Close()
		return nil, fmt.Errorf("etcd at %v does not answer: %w", t.ServerList, err)
	}
	return remote, nil
}

// etcdTLS is nil if no files are given. The client certificate is read for every connection, so that it can be renewed.
func etcdTLS(ca, cert, key string) (*tls.Config, error) {
	if ca == "" && cert == "" && key == "" {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca != "" {
		data, err := os.ReadFile(ca)
		if err != nil {
			return nil, fmt.Errorf("--etcd-cafile: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(data) {
			return nil, fmt.Errorf("--etcd-cafile: no certificate in %s", ca)
		}
	}
	if cert == "" && key == "" {
		return c, nil
	}
	load := func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(cert, key)
		return &pair, err
	}
	if _, err := load(nil); err != nil {
		return nil, fmt.Errorf("--etcd-certfile and --etcd-keyfile: %w", err)
	}
	c.GetClientCertificate = load
	return c, nil
}
