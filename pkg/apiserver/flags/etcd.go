// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package flags

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"slices"
	"strings"
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

// dialEtcd connects to the etcd of most resources, and to those of --etcd-servers-overrides, once to each.
func (f *Flags) dialEtcd(ctx context.Context) (etcd.Backend, []etcdstore.Override, error) {
	t := f.etcd.StorageConfig.Transport
	config, err := etcdTLS(t.TrustedCAFile, t.CertFile, t.KeyFile)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, etcdTimeout)
	defer cancel()
	main, err := dialAnswering(ctx, t.ServerList, config)
	if err != nil {
		return nil, nil, err
	}
	others, servers := f.overrides()
	for i := range others {
		if others[i].Backend, err = dialAnswering(ctx, servers[i], config); err != nil {
			for _, o := range others[:i] {
				_ = o.Backend.Close()
			}
			_ = main.Close()
			return nil, nil, err
		}
	}
	return main, others, nil
}

func dialAnswering(ctx context.Context, servers []string, config *tls.Config) (etcd.Backend, error) {
	remote, err := etcd.Dial(servers, config)
	if err != nil {
		return nil, err
	}
	if err := remote.Healthy(ctx); err != nil {
		_ = remote.Close()
		return nil, fmt.Errorf("etcd at %v does not answer: %w", servers, err)
	}
	return remote, nil
}

// overrides are the resources that are kept elsewhere, by the servers that they are kept at, whichever order these are named in. The
// backends are not there yet.
func (f *Flags) overrides() (others []etcdstore.Override, servers [][]string) {
	parsed, _ := options.ParseEtcdServersOverrides(f.etcd.EtcdServersOverrides) // checked by validate
	at := map[string]int{}
	for _, o := range parsed {
		key := strings.Join(slices.Sorted(slices.Values(o.Servers)), ";")
		i, found := at[key]
		if !found {
			i = len(others)
			at[key] = i
			others, servers = append(others, etcdstore.Override{}), append(servers, o.Servers)
		}
		others[i].Resources = append(others[i].Resources, o.GroupResource)
	}
	return others, servers
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
