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
	"strings"
	"sync"
	"syscall"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"k8s.io/klog/v2"
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
	// Writable fails with an error that is ErrFull if the cluster refuses to store more until something is deleted.
	Writable(ctx context.Context) error
	// Close stops the member or the connection. Data stays.
	Close() error
}

// Config of the embedded member.
type Config struct {
	// Dir holds the member's data, created with mode 0700.
	Dir string
	// UnsafeNoFsync skips fsync: a power failure then loses acknowledged writes. For tests.
	UnsafeNoFsync bool
	// QuotaBytes bounds what the database holds, old revisions among it; 0 means 8 GiB, the most that etcd supports. The last
	// eighth is kept for what empties a full store (see limits).
	QuotaBytes int64
}

// ErrInUse says that another process has the data directory open.
var ErrInUse = errors.New("the data directory is in use by another process")

// ErrFull is etcd's own error for a write for which there is no space.
var ErrFull = rpctypes.ErrNoSpace

// Member is an etcd server inside this process. Only this process can reach it: it listens on a socket in its own
// directory for peers, which never come, and hands out clients that call it directly.
type Member struct {
	etcd   *embed.Etcd
	lock   *os.File
	keeper *keeper

	stopping sync.RWMutex // held by who reads what is gone once the member has stopped
	stopped  bool         // guarded by stopping
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
		_ = lock.Close()
		return nil, fmt.Errorf("starting etcd in %q: %w", c.Dir, err)
	}
	m := &Member{etcd: e, lock: lock, keeper: newKeeper(e.Server, c)}
	select {
	case <-e.Server.ReadyNotify():
		err = m.keeper.start(ctx)
	case err = <-e.Err():
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		_ = m.Close()
		return nil, fmt.Errorf("starting etcd in %q: %w", c.Dir, err)
	}
	return m, nil
}

// embedded translates to etcd's own configuration.
func (c Config) embedded() *embed.Config {
	e := embed.NewConfig()
	e.Name = "minik8s"
	e.Dir = c.Dir
	e.UnsafeNoFsync = c.UnsafeNoFsync
	// Etcd's own quota is about the size of the file, which never shrinks, and raises an alarm that only people end. The
	// keeper's is about what is in use.
	e.QuotaBackendBytes = -1
	// Entries of the log stay in memory for followers that lag, and all since the last snapshot are read when the member
	// starts. Nobody follows, and each may be of 1.5 MiB: etcd's 5,000 and 10,000 of them would be gigabytes.
	e.SnapshotCatchUpEntries, e.SnapshotCount = 1, 1000
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
	lg, err := zc.Build(zap.WithFatalHook(last{tell: klog.ErrorS, exit: os.Exit}))
	if err != nil {
		return zap.NewNop()
	}
	return lg.Named("etcd")
}

// last is what happens when etcd ends the process, as it does when it cannot write its log: it may have promised what it
// could not keep. The user is told what to do.
type last struct {
	tell func(err error, message string, keysAndValues ...any)
	exit func(code int)
}

// OnWrite implements zapcore.CheckWriteHook.
func (l last) OnWrite(entry *zapcore.CheckedEntry, all []zapcore.Field) {
	remedy, err := "start again", errors.New(entry.Message)
	for _, f := range all {
		if cause, ok := f.Interface.(error); ok && f.Type == zapcore.ErrorType {
			err = fmt.Errorf("%s: %w", entry.Message, cause)
		}
	}
	if errors.Is(err, syscall.ENOSPC) || strings.Contains(err.Error(), syscall.ENOSPC.Error()) {
		remedy = "the disk is full: free some space and start again"
	}
	l.tell(err, "Etcd has to end the process. What was acknowledged is kept", "remedy", remedy)
	l.exit(1)
}

// lockDir takes the directory for this process: bbolt would wait for its lock forever, which looks like a hang.
func lockDir(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("locking etcd directory: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("locking %q: %w", dir, ErrInUse)
		}
		return nil, fmt.Errorf("locking %q: %w", dir, err)
	}
	return f, nil
}

// NewClient implements Backend.
func (m *Member) NewClient() *clientv3.Client { return m.keeper.client() }

// Endpoints implements Backend. The name stands for the member, which has no address.
func (m *Member) Endpoints() []string { return []string{"in-process"} }

// Status implements Backend. It fails once the member stops: etcd would read a database that is closed, and end the process.
func (m *Member) Status(ctx context.Context, endpoint string) (*clientv3.StatusResponse, error) {
	m.stopping.RLock()
	defer m.stopping.RUnlock()
	if m.stopped {
		return nil, rpctypes.ErrStopped
	}
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

// Writable implements Backend.
func (m *Member) Writable(context.Context) error { return m.keeper.writable() }

// Err delivers an error if the member fails after it has started, for instance because the disk is full.
func (m *Member) Err() <-chan error { return m.etcd.Err() }

// Close implements Backend. It waits until the member has stopped.
func (m *Member) Close() error {
	m.keeper.stop()
	m.stopping.Lock()
	m.stopped = true
	m.stopping.Unlock()
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

// Writable implements Backend. Alarms of an external cluster are told and left alone: who runs it frees its space. Members know
// the alarms of all, so those that are away do not matter while another answers.
func (r *Remote) Writable(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second) // callers have more than that
	defer cancel()
	endpoints := r.Endpoints()
	answers := make(chan error, len(endpoints))
	for _, endpoint := range endpoints {
		go func() { answers <- r.alarm(ctx, endpoint) }()
	}
	var failed []error
	for range endpoints {
		switch err := <-answers; {
		case errors.Is(err, ErrFull):
			return err
		case err != nil:
			failed = append(failed, err)
		}
	}
	if len(failed) < len(endpoints) {
		return nil
	}
	return errors.Join(failed...)
}

// alarm asks one member. The error is ErrFull if it knows of such an alarm.
func (r *Remote) alarm(ctx context.Context, endpoint string) error {
	status, err := r.Status(ctx, endpoint)
	if err != nil {
		return fmt.Errorf("asking etcd at %s for its alarms: %w", endpoint, err)
	}
	for _, alarm := range status.Errors {
		if strings.Contains(alarm, pb.AlarmType_NOSPACE.String()) {
			return fmt.Errorf("%w: etcd at %s has the alarm NOSPACE: compact it, defragment it and disarm the alarm", ErrFull, endpoint)
		}
	}
	return nil
}

// Close implements Backend.
func (r *Remote) Close() error { return r.client.Close() }

func healthy(ctx context.Context, c *clientv3.Client) error {
	if _, err := c.Get(ctx, "health"); err != nil {
		return fmt.Errorf("reading from etcd: %w", err)
	}
	return nil
}
