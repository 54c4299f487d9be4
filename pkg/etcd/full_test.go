// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"go.etcd.io/etcd/server/v3/storage/datadir"
)

// smallQuota is that of the members of these tests, value what they are filled with.
const smallQuota = 8 << 20

var value = strings.Repeat("v", 128<<10)

// fillDir is set in the process that fills a store and is killed.
const fillDir = "MINIK8S_TEST_FILL_DIR"

func TestMain(m *testing.M) {
	dir := os.Getenv(fillDir)
	if dir == "" {
		os.Exit(m.Run())
	}
	member, err := Start(context.Background(), Config{Dir: dir, QuotaBytes: smallQuota})
	if err == nil {
		var n int
		n, err = fill(context.Background(), member.NewClient())
		_, _ = fmt.Fprintln(os.Stdout, "full", n) // the test reads it
	}
	if err != nil {
		_, _ = fmt.Fprintln(os.Stdout, err)
	}
	select {} // until it is killed
}

// create and update write as the API server does.
func create(ctx context.Context, c *clientv3.Client, key, value string) error {
	_, err := c.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", 0)).Then(clientv3.OpPut(key, value)).Commit()
	return err
}

func update(ctx context.Context, c *clientv3.Client, key, value string) error {
	old, err := c.Get(ctx, key)
	if err != nil {
		return err
	}
	if len(old.Kvs) == 0 {
		return fmt.Errorf("%s is not there", key)
	}
	done, err := c.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", old.Kvs[0].ModRevision)).
		Then(clientv3.OpPut(key, value)).Else(clientv3.OpGet(key)).Commit()
	if err == nil && !done.Succeeded {
		return fmt.Errorf("%s has changed", key)
	}
	return err
}

func remove(ctx context.Context, c *clientv3.Client, key string) error {
	old, err := c.Get(ctx, key)
	if err != nil {
		return err
	}
	if len(old.Kvs) == 0 {
		return fmt.Errorf("%s is not there", key)
	}
	_, err = c.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", old.Kvs[0].ModRevision)).
		Then(clientv3.OpDelete(key)).Else(clientv3.OpGet(key)).Commit()
	return err
}

// fill creates keys until the store is full and returns their number.
func fill(ctx context.Context, c *clientv3.Client) (int, error) { return fillFrom(ctx, c, 0) }

func fillFrom(ctx context.Context, c *clientv3.Client, n int) (int, error) {
	for ; n < 1000; n++ {
		switch err := create(ctx, c, key(n), value); {
		case errors.Is(err, ErrFull):
			return n, nil
		case err != nil:
			return n, err
		}
	}
	return 0, errors.New("it is never full")
}

func key(n int) string { return fmt.Sprintf("/registry/configmaps/default/m%03d", n) }

// start runs a member until the test ends or stop is called.
func start(t *testing.T, c Config) (_ *Member, stop func() error) {
	t.Helper()
	m, err := Start(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	stop = sync.OnceValue(m.Close)
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	return m, stop
}

// await tries until it succeeds, 20 s at most.
func await(t *testing.T, what string, try func() error) {
	t.Helper()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		err := try()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s: %v", what, err)
		case <-ticker.C:
		}
	}
}

func TestMember_FullStoreRecoversByDeletions(t *testing.T) {
	t.Parallel()
	m, _ := start(t, Config{Dir: t.TempDir(), UnsafeNoFsync: true, QuotaBytes: smallQuota})
	if err := m.Writable(t.Context()); err != nil {
		t.Fatalf("when empty: %v", err)
	}
	n, err := fill(t.Context(), m.NewClient())
	if err != nil {
		t.Fatal(err)
	}
	if n < 40 || n > 56 {
		t.Errorf("full after %d of 128 KiB, want 7/8 of %d MiB", n, smallQuota>>20)
	}
	recovers(t, m, n)
}

// recovers checks what works in a full store with n keys, and that it comes back.
func recovers(t *testing.T, m *Member, n int) {
	t.Helper()
	ctx, c := t.Context(), m.NewClient()
	if err := m.Writable(ctx); !errors.Is(err, ErrFull) || !strings.Contains(err.Error(), "quota 8 MiB") {
		t.Errorf("Writable: %v", err)
	}
	if err := m.Healthy(ctx); err != nil {
		t.Errorf("Healthy: %v", err)
	}
	if got, err := c.Get(ctx, key(0)); err != nil || len(got.Kvs) != 1 {
		t.Errorf("reading: %v, %v", got, err)
	}
	const refused = "etcdserver: mvcc: database space exceeded"
	for name, err := range map[string]error{
		"something small": create(ctx, c, "/registry/small", "v"),
		"a plain put":     func() error { _, err := c.Put(ctx, "/registry/put", "v"); return err }(),
		"a longer one":    update(ctx, c, key(0), value+value),
	} {
		if err == nil || err.Error() != refused {
			t.Errorf("%s: %v, want %s", name, err, refused)
		}
	}
	if err := create(WithReserve(ctx), c, "/registry/reserved", "v"); err != nil {
		t.Errorf("with the reserve: %v", err)
	}
	// What deletions begin with, and heartbeats: far more often than fits without the old revisions being freed.
	for i := range 2 * n {
		await(t, "a change", func() error {
			err := update(ctx, c, key(i%n), value[:len(value)-3]+fmt.Sprintf("%03d", i))
			if err != nil && !errors.Is(err, ErrFull) {
				t.Fatal(err)
			}
			return err
		})
	}
	await(t, "a little longer", func() error { return update(ctx, c, key(1), value+" deletionTimestamp") })
	for i := range n / 2 {
		if err := remove(ctx, c, key(i)); err != nil {
			t.Fatalf("deleting: %v", err)
		}
	}
	await(t, "writing after deletions", func() error { return create(ctx, c, key(0), value) })
	if err := m.Writable(ctx); err != nil {
		t.Errorf("after deletions: %v", err)
	}
	for i := range n / 4 {
		await(t, "writing more after deletions", func() error { return create(ctx, c, key(1+i), value) })
	}
}

func TestMember_FullStoreSurvivesKill(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	filler := exec.CommandContext(t.Context(), os.Args[0])
	filler.Env = append(os.Environ(), fillDir+"="+dir)
	out, err := filler.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := filler.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	var n int
	if _, serr := fmt.Sscanf(line, "full %d", &n); err != nil || serr != nil {
		t.Errorf("the process says %q: %v, %v", line, err, serr)
	}
	if err := filler.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = filler.Wait() // it was killed
	if n == 0 {
		t.FailNow()
	}
	m, _ := start(t, Config{Dir: dir, UnsafeNoFsync: true, QuotaBytes: smallQuota})
	if n, err = fillFrom(t.Context(), m.NewClient(), n); err != nil { // what was being written when it was killed may be missing
		t.Fatal(err)
	}
	recovers(t, m, n)
}

// TestKeeper_Defragments: what deletions have freed is given back to the disk, and what was not deleted is still there.
func TestKeeper_Defragments(t *testing.T) {
	t.Parallel()
	c := Config{Dir: t.TempDir(), UnsafeNoFsync: true, QuotaBytes: smallQuota}
	e, err := embed.StartEtcd(c.embedded())
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	<-e.Server.ReadyNotify()
	k := newKeeper(e.Server, c)
	k.limits.worthwhile = 2 << 20 // half of the store may be what was current a moment ago, which is kept
	k.limits.rest = 0             // filling may free pages enough to be given back
	if err := k.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer k.stop()
	size := func() int64 {
		t.Helper()
		info, err := os.Stat(datadir.ToBackendFileName(c.Dir))
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	client := k.client()
	defer client.Close()
	n, err := fill(t.Context(), client)
	if err != nil {
		t.Fatal(err)
	}
	before := size()
	// At once: of many deletions the first ones could free so much that the rest is left for later.
	if _, err := client.Delete(t.Context(), key(0), clientv3.WithRange(key(n-1))); err != nil {
		t.Fatal(err)
	}
	await(t, "giving space back", func() error {
		if now := size(); now > before-k.limits.worthwhile {
			return fmt.Errorf("the file had %d bytes and has %d", before, now)
		}
		return nil
	})
	found, err := client.Get(t.Context(), key(n-1))
	if err != nil || len(found.Kvs) != 1 || string(found.Kvs[0].Value) != value {
		t.Errorf("what was not deleted is not as it was: %v", err)
	}
	if err := create(t.Context(), client, "/registry/new", value); err != nil {
		t.Errorf("writing afterwards: %v", err)
	}
}

// A store that has the alarm of etcd's own quota, as versions before had it.
func TestMember_DisarmsOldAlarm(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	old := Config{Dir: dir, UnsafeNoFsync: true}.embedded()
	old.QuotaBackendBytes = smallQuota
	e, err := embed.StartEtcd(old)
	if err != nil {
		t.Fatal(err)
	}
	<-e.Server.ReadyNotify()
	c := v3client.New(e.Server)
	if _, err := fill(t.Context(), c); err != nil {
		t.Error(err)
	}
	if len(e.Server.Alarms()) != 1 {
		t.Errorf("alarms %v, want one", e.Server.Alarms())
	}
	e.Close()
	m, _ := start(t, Config{Dir: dir, UnsafeNoFsync: true})
	if err := create(t.Context(), m.NewClient(), "/registry/new", value); err != nil {
		t.Errorf("writing under a larger quota: %v", err)
	}
}

// Entries of the log are kept for followers, which a single member has none of; those since the last snapshot are read at the
// start. Not parallel: it measures the process.
func TestMember_LogIsNotKeptInMemory(t *testing.T) {
	const writes, size = 1200, 128 << 10
	c := Config{Dir: t.TempDir(), UnsafeNoFsync: true}
	before := heap()
	m, stop := start(t, c)
	client := m.NewClient()
	write := func(count, size int) {
		for range count {
			if _, err := client.Put(t.Context(), "/k", strings.Repeat("v", size)); err != nil {
				t.Fatal(err)
			}
		}
	}
	write(writes, size)
	write(writes/4, 1) // what buffers hold until they are written over
	await(t, "the writes after 1200", func() error { return keeps(before, writes/4*size) })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	start(t, c)
	await(t, "the start after 1200", func() error { return keeps(before, writes/2*size) })
}

// keeps fails if the heap has grown by more than allowed bytes since before.
func keeps(before, allowed int64) error {
	if now := heap() - before; now > allowed {
		return fmt.Errorf("%d MiB are kept in memory, want at most %d", now>>20, allowed>>20)
	}
	return nil
}

// heap is what the process has in use, in bytes.
func heap() int64 {
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return int64(s.HeapAlloc)
}
