// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package etcd runs the store of the API server inside the process, or reaches an external etcd cluster; touch it for
// anything about the member itself (start, durability, health), never for what is stored.
package etcd

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Backend is an etcd cluster that the API server keeps its objects in. Methods are safe for concurrent use.
type Backend interface {
	// NewClient returns a client with a watch stream of its own: one per resource keeps a busy resource from delaying
	// the events of another. Closing it leaves the backend open.
	NewClient() *clientv3.Client
	// Endpoints and Status tell the versions of the members, so that the storage finds out what they can do.
	Endpoints() []string
	Status(ctx context.Context, endpoint string) (*clientv3.StatusResponse, error)
	// Healthy fails unless the cluster answers a linearizable read.
	Healthy(ctx context.Context) error
	// Close stops the member or the connection. Data stays.
	Close() error
}

// Config of the embedded member.
type Config struct {
	// Dir holds the member's data, created with mode 0700.
	Dir string
	// UnsafeNoFsync skips fsync: a power failure then loses acknowledged writes. For tests.
	UnsafeNoFsync bool
	// QuotaBytes bounds the size of the database; 0 means 8 GiB, the most that etcd supports.
	QuotaBytes int64
}

// ErrInUse says that another process has the data directory open.
var ErrInUse = errors.New("the data directory is in use by another process")

// Member is an etcd server inside this process. Only this process can reach it: it listens on a socket in its own
// directory for peers, which never come, and hands out clients that call it directly.
type Member struct {
	etcd *embed.Etcd
	lock *os.File
}

var _ Backend = (*Member)(nil)

// Start runs a member on the data in c.Dir, making it if there is none, and returns when it serves.
func Start(ctx context.Context, c Config) (*Member, error) {
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("creating etcd directory: %w", err)
	}
	lock, err := lockDir(c.Dir)
	if err != nil {
		return nil, err
	}
	e, err := embed.StartEtcd(c.embedded())
	if err != nil {
		lock.Close()
		return nil, fmt.Errorf("starting etcd in %q: %w", c.Dir, err)
	}
	m := &Member{etcd: e, lock: lock}
	select {
	case <-e.Server.ReadyNotify():
		return m, nil
	case err := <-e.Err():
		m.Close()
		return nil, fmt.Errorf("starting etcd in %q: %w", c.Dir, err)
	case <-ctx.Done():
		m.Close()
		return nil, fmt.Errorf("starting etcd in %q: %w", c.Dir, ctx.Err())
	}
}

// embedded translates to etcd's own configuration.
func (c Config) embedded() *embed.Config {
	e := embed.NewConfig()
	e.Name = "minik8s"
	e.Dir = c.Dir
	e.UnsafeNoFsync = c.UnsafeNoFsync
	e.QuotaBackendBytes = c.QuotaBytes
	if e.QuotaBackendBytes == 0 {
		e.QuotaBackendBytes = 8 << 30
	}
	// A single member elects itself, so a short election time-out costs nothing and saves half a second at start.
	e.TickMs, e.ElectionMs = 50, 250
	// Nobody connects: clients are in-process and there are no peers. Advertised addresses must be there all the same.
	e.ListenClientUrls, e.ListenPeerUrls = nil, nil
	none := url.URL{Scheme: "http", Host: "127.0.0.1:0"}
	e.AdvertiseClientUrls, e.AdvertisePeerUrls = []url.URL{none}, []url.URL{none}
	e.InitialCluster = e.Name + "=" + none.String()
	e.ZapLoggerBuilder = embed.NewZapLoggerBuilder(logger())
	return e
}

// logger passes on what an operator has to know; etcd is chatty below that.
func logger() *zap.Logger {
	zc := zap.NewProductionConfig()
	zc.Level = zap.NewAtomicLevelAt(zapcore.ErrorLevel)
	lg, err := zc.Build()
	if err != nil {
		return zap.NewNop()
	}
	return lg.Named("etcd")
}

// lockDir takes the directory for this process: bbolt would wait for its lock forever, which looks like a hang.
func lockDir(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("locking etcd directory: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("locking %q: %w", dir, ErrInUse)
		}
		return nil, fmt.Errorf("locking %q: %w", dir, err)
	}
	return f, nil
}

// NewClient implements Backend.
func (m *Member) NewClient() *clientv3.Client { return v3client.New(m.etcd.Server) }

// Endpoints implements Backend. The name stands for the member, which has no address.
func (m *Member) Endpoints() []string { return []string{"in-process"} }

// Status implements Backend.
func (m *Member) Status(ctx context.Context, endpoint string) (*clientv3.StatusResponse, error) {
	c := m.NewClient()
	defer c.Close()
	return c.Status(ctx, endpoint)
}

// Healthy implements Backend.
func (m *Member) Healthy(ctx context.Context) error {
	c := m.NewClient()
	defer c.Close()
	return healthy(ctx, c)
}

// Err delivers an error if the member fails after it has started, for instance because the disk is full.
func (m *Member) Err() <-chan error { return m.etcd.Err() }

// Close implements Backend. It waits until the member has stopped.
func (m *Member) Close() error {
	m.etcd.Close()
	return m.lock.Close()
}

// Remote is an external etcd cluster.
type Remote struct{ client *clientv3.Client }

var _ Backend = (*Remote)(nil)

// Dial connects to an external cluster. tlsConfig may be nil for plain HTTP. It does not wait for the cluster to answer.
func Dial(endpoints []string, tlsConfig *tls.Config) (*Remote, error) {
	c, err := clientv3.New(clientv3.Config{
		Endpoints:            endpoints,
		TLS:                  tlsConfig,
		DialKeepAliveTime:    30 * time.Second,
		DialKeepAliveTimeout: 10 * time.Second,
		Logger:               logger(),
	})
	if err != nil {
		return nil, fmt.Errorf("connecting to etcd %v: %w", endpoints, err)
	}
	return &Remote{client: c}, nil
}

// NewClient implements Backend: all clients share one connection, each has its own watch stream.
func (r *Remote) NewClient() *clientv3.Client {
	c := clientv3.NewCtxClient(r.client.Ctx(), clientv3.WithZapLogger(zap.NewNop()))
	c.KV, c.Cluster, c.Maintenance, c.Auth = r.client.KV, r.client.Cluster, r.client.Maintenance, r.client.Auth
	c.Lease = clientv3.NewLease(r.client)
	c.Watcher = clientv3.NewWatcher(r.client)
	return c
}

// Endpoints implements Backend.
func (r *Remote) Endpoints() []string { return r.client.Endpoints() }

// Status implements Backend.
func (r *Remote) Status(ctx context.Context, endpoint string) (*clientv3.StatusResponse, error) {
	return r.client.Status(ctx, endpoint)
}

// Healthy implements Backend.
func (r *Remote) Healthy(ctx context.Context) error { return healthy(ctx, r.client) }

// Close implements Backend.
func (r *Remote) Close() error { return r.client.Close() }

func healthy(ctx context.Context, c *clientv3.Client) error {
	if _, err := c.Get(ctx, "health"); err != nil {
		return fmt.Errorf("reading from etcd: %w", err)
	}
	return nil
}
