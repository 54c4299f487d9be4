// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3rpc"
	"go.etcd.io/etcd/server/v3/proxy/grpcproxy/adapter"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"k8s.io/klog/v2"
)

// keeper holds the store of a member to its quota and finds its way out when it is full: it frees old revisions at once, so
// that what users delete makes room, and gives space back to the disk where that pays. What it does is decided by memory.next.
type keeper struct {
	server *etcdserver.EtcdServer
	limits limits
	dir    string
	full   atomic.Bool
	// pending is what has been admitted since the size was last known exactly.
	pending atomic.Int64
	// settled is when free pages were last counted; only run uses it.
	settled time.Time
	// asks are for run to look at once.
	asks   chan chan struct{}
	cancel context.CancelFunc
	done   chan struct{}
}

func newKeeper(server *etcdserver.EtcdServer, c Config) *keeper {
	l := limits{quota: c.QuotaBytes, worthwhile: defaultWorthwhile, rest: defaultRest}
	if l.quota <= 0 {
		l.quota = defaultQuota
	}
	return &keeper{server: server, limits: l, dir: c.Dir, cancel: func() {}, asks: make(chan chan struct{})}
}

// start begins to keep a server that is ready.
func (k *keeper) start(ctx context.Context) error {
	if err := k.disarm(ctx); err != nil {
		return err
	}
	k.tell(ctx, k.inUse() >= k.limits.low()) // as if it had been full before, for it may have been
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	k.cancel, k.done = cancel, make(chan struct{})
	go func() {
		defer close(k.done)
		k.run(run)
	}()
	return nil
}

// stop ends what start began, if it did.
func (k *keeper) stop() {
	k.cancel()
	if k.done != nil {
		<-k.done
	}
}

// disarm ends the alarm of a store that ran under etcd's own quota, for nothing else does.
func (k *keeper) disarm(ctx context.Context) error {
	for _, alarm := range k.server.Alarms() {
		if alarm.GetAlarm() != pb.AlarmType_NOSPACE {
			continue
		}
		request := &pb.AlarmRequest{Action: pb.AlarmRequest_DEACTIVATE, MemberID: alarm.GetMemberID(), Alarm: alarm.GetAlarm()}
		if _, err := k.server.Alarm(ctx, request); err != nil {
			return fmt.Errorf("disarming %s: %w", alarm, err)
		}
	}
	return nil
}

func (k *keeper) run(ctx context.Context) {
	client := k.client()
	defer client.Close()
	var m memory
	ticker := time.NewTicker(m.interval())
	defer ticker.Stop()
	for {
		var asked chan struct{}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case asked = <-k.asks:
		}
		m.full = k.full.Load()
		switch {
		case asked != nil:
			k.settle(0)
		case m.full:
			k.settle(time.Second)
		case time.Since(m.compacted) < patience:
			k.settle(recount) // who read while it was compacted has kept pages from counting as free
		}
		var p plan
		m, p = m.next(k.limits, k.observe())
		if p.compact > 0 {
			begin := time.Now()
			if _, err := client.Compact(ctx, p.compact, clientv3.WithCompactPhysical()); err != nil && ctx.Err() == nil {
				klog.FromContext(ctx).Error(err, "Freeing old revisions of the store", "revision", p.compact)
			}
			m.compacted, m.took = time.Now(), time.Since(begin)
			k.settle(0)
		}
		k.tell(ctx, k.limits.isFull(k.full.Load(), k.inUse()))
		if p.defragment {
			k.defragment(ctx)
		}
		if asked != nil {
			close(asked)
		}
		ticker.Reset(m.interval())
	}
}

// look makes the keeper look at once, and waits until it has done what there is to do.
func (k *keeper) look(ctx context.Context) {
	asked := make(chan struct{})
	select {
	case k.asks <- asked:
	case <-k.done:
		return
	case <-ctx.Done():
		return
	}
	select {
	case <-asked:
	case <-k.done:
	case <-ctx.Done():
	}
}

func (k *keeper) inUse() int64 { return k.server.Backend().SizeInUse() }

// settle makes the pages that were freed count as free, unless it has done so a shorter time ago than given: bbolt says so two
// commits later only, or when readers that began before have ended, and etcd commits nothing while all writes are refused.
func (k *keeper) settle(again time.Duration) {
	if time.Since(k.settled) < again {
		return
	}
	for range 2 {
		tx := k.server.Backend().BatchTx()
		tx.LockOutsideApply()
		for _, value := range values(tx.UnsafeRange(schema.Meta, schema.MetaConfStateName, nil, 0)) {
			tx.UnsafePut(schema.Meta, schema.MetaConfStateName, bytes.Clone(value)) // as it was: something to commit
		}
		tx.Unlock()
		k.server.Backend().ForceCommit()
	}
	k.settled = time.Now()
}

func values(_, all [][]byte) [][]byte { return all }

func (k *keeper) observe() observation {
	b, kv := k.server.Backend(), k.server.KV()
	o := observation{at: time.Now(), file: b.Size(), inUse: b.SizeInUse(), revision: kv.Rev(), compacted: kv.FirstRev()}
	var disk unix.Statfs_t
	if err := unix.Statfs(k.dir, &disk); err == nil { // else none is free, and nothing is copied there
		o.disk = int64(disk.Bavail) * disk.Bsize
	}
	return o
}

// tell makes it known whether the store is full.
func (k *keeper) tell(ctx context.Context, full bool) {
	switch was := k.full.Swap(full); {
	case full && !was:
		k.warn(ctx)
	case was && !full:
		klog.FromContext(ctx).Info("The store takes writes again", "inUseBytes", k.inUse(), "quotaBytes", k.limits.quota)
	}
}

func (k *keeper) warn(ctx context.Context) {
	klog.FromContext(ctx).Error(k.writable(), "The store is full: it serves reads, deletions and changes that do not make objects longer")
}

func (k *keeper) defragment(ctx context.Context) {
	begin, b := time.Now(), k.server.Backend()
	before := b.Size()
	if err := b.Defrag(); err != nil {
		klog.FromContext(ctx).Error(err, "Defragmenting the store")
		return
	}
	klog.FromContext(ctx).Info("Gave space of the store back to the disk", "bytes", before-b.Size(), "took", time.Since(begin))
}

// writable is nil unless the store is full.
func (k *keeper) writable() error {
	if !k.full.Load() {
		return nil
	}
	const mib = 1 << 20
	return fmt.Errorf("%w: %.1f MiB are in use, writes are refused above %.1f MiB (quota %d MiB) until objects are deleted",
		ErrFull, float64(k.inUse())/mib, float64(k.limits.full())/mib, k.limits.quota/mib)
}

type reserve struct{}

// WithReserve lets the writes of a request into a full store: for the few objects without which an API server does not start.
func WithReserve(ctx context.Context) context.Context { return context.WithValue(ctx, reserve{}, true) }

// admit refuses what would make a full store larger.
func (k *keeper) admit(ctx context.Context, puts []*pb.PutRequest) error {
	if len(puts) == 0 || ctx.Value(reserve{}) != nil {
		return nil
	}
	if !k.full.Load() && k.measure(k.limits.full()) >= k.limits.full() {
		k.look(ctx) // it is not full of what can be freed
		if k.measure(k.limits.full()) >= k.limits.full() {
			k.tell(ctx, true)
		}
	}
	if k.full.Load() {
		if k.measure(k.limits.quota) >= k.limits.quota {
			k.look(ctx)
		}
		var growth int64
		for _, put := range puts {
			growth = max(growth, k.growth(ctx, put))
		}
		if !k.limits.admits(k.measure(k.limits.quota), growth) {
			return rpctypes.ErrGRPCNoSpace
		}
	}
	for _, put := range puts {
		k.pending.Add(int64(len(put.GetKey()) + len(put.GetValue())))
	}
	return nil
}

// measure is what is in use, exact enough to tell whether it is less than bound: etcd counts when it commits, ten times a
// second, and many writes fit in between.
func (k *keeper) measure(bound int64) int64 {
	inUse := k.inUse()
	if inUse < bound && inUse+k.pending.Load() >= bound {
		k.pending.Store(0)
		k.server.Backend().ForceCommit()
		inUse = k.inUse()
	}
	return inUse
}

// growth is by how much a write makes the object of its key longer. Another write may come in between: what is refused is
// not exact to the byte.
func (k *keeper) growth(ctx context.Context, put *pb.PutRequest) int64 {
	if put.GetIgnoreValue() {
		return 0
	}
	found, err := k.server.Range(ctx, &pb.RangeRequest{Key: put.GetKey(), Serializable: true})
	if err != nil || len(found.GetKvs()) == 0 {
		return created
	}
	return int64(len(put.GetValue()) - len(found.GetKvs()[0].GetValue()))
}

// client is an in-process client whose writes are admitted by the keeper.
func (k *keeper) client() *clientv3.Client {
	c := v3client.New(k.server)
	c.KV = clientv3.NewKVFromKVClient(admitted{adapter.KvServerToKvClient(v3rpc.NewKVServer(k.server)), k}, c)
	return c
}

// admitted passes calls on that the keeper admits.
type admitted struct {
	pb.KVClient
	keeper *keeper
}

// Put implements pb.KVClient.
func (a admitted) Put(ctx context.Context, r *pb.PutRequest, o ...grpc.CallOption) (*pb.PutResponse, error) {
	if err := a.keeper.admit(ctx, []*pb.PutRequest{r}); err != nil {
		return nil, err
	}
	return a.KVClient.Put(ctx, r, o...)
}

// Txn implements pb.KVClient.
func (a admitted) Txn(ctx context.Context, r *pb.TxnRequest, o ...grpc.CallOption) (*pb.TxnResponse, error) {
	if err := a.keeper.admit(ctx, puts(r)); err != nil {
		return nil, err
	}
	return a.KVClient.Txn(ctx, r, o...)
}

// Compact implements pb.KVClient. What the keeper has freed before somebody else's time for it came is no error to them.
func (a admitted) Compact(ctx context.Context, r *pb.CompactionRequest, o ...grpc.CallOption) (*pb.CompactionResponse, error) {
	response, err := a.KVClient.Compact(ctx, r, o...)
	if errors.Is(err, rpctypes.ErrGRPCCompacted) {
		return &pb.CompactionResponse{Header: &pb.ResponseHeader{Revision: a.keeper.server.KV().Rev()}}, nil
	}
	return response, err
}

// puts are all writes that a transaction may do.
func puts(txn *pb.TxnRequest) []*pb.PutRequest {
	var all []*pb.PutRequest
	for _, branch := range [][]*pb.RequestOp{txn.GetSuccess(), txn.GetFailure()} {
		for _, op := range branch {
			if put := op.GetRequestPut(); put != nil {
				all = append(all, put)
			}
			if nested := op.GetRequestTxn(); nested != nil {
				all = append(all, puts(nested)...)
			}
		}
	}
	return all
}
