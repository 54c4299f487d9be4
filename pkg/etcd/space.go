// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package etcd

import "time"

// limits say what a store may hold, in bytes in use: pages that compaction has freed do not count, as etcd fills them
// again. A store is full from 7/8 of its quota on. Then nothing new is stored, but what is there may be deleted and changed,
// for deletions begin with changes (of a deletion timestamp, a finalizer, a status), and the cluster lives on them
// (heartbeats). The last eighth takes these changes until compaction has freed their old revisions.
type limits struct {
	quota int64
	// worthwhile is how many free pages are given back to the disk.
	worthwhile int64
	// rest is how long after a defragmentation another may be tried.
	rest time.Duration
}

const (
	// defaultRest is long beside the time for which a defragmentation blocks the store.
	defaultRest = 10 * time.Minute
	// defaultQuota is the most that etcd supports.
	defaultQuota = 8 << 30
	// defaultWorthwhile is enough for the disk to care.
	defaultWorthwhile = 128 << 20
	// slack is by how much a change may make an object of a full store longer: conditions and managed fields come with
	// deletions.
	slack = 4 << 10
	// created is the growth of a write whose key does not exist.
	created = 1 << 62
)

// full is where a store becomes full, low where it no longer is: so far apart that it does not alternate with each write.
func (l limits) full() int64 { return l.quota - l.quota/8 }
func (l limits) low() int64  { return l.full() - min(l.quota/32, 64<<20) }

// isFull tells whether a store is full that was full or not, with so much in use.
func (l limits) isFull(was bool, inUse int64) bool {
	return inUse >= l.full() || was && inUse >= l.low()
}

// pressed is from where old revisions are freed before their time.
func (l limits) pressed() int64 { return l.quota / 4 * 3 }

// admits decides about a write to a full store that makes an object longer by growth bytes.
func (l limits) admits(inUse, growth int64) bool { return inUse < l.quota && growth <= slack }

// observation is what the keeper sees of the store.
type observation struct {
	at time.Time
	// file is the size of the database, inUse what of it is not free pages, disk what is left on its disk; bytes.
	file, inUse, disk int64
	// revision is the current one, compacted the oldest that can be read.
	revision, compacted int64
}

// plan is what is to be done about it.
type plan struct {
	// compact is the revision before which all is to be freed; 0: none.
	compact int64
	// defragment says that free pages are to be given back to the disk.
	defragment bool
}

// memory is what the keeper remembers between observations.
type memory struct {
	full bool
	// revision is the current one of the observation before.
	revision int64
	// compacted is when the last compaction of the keeper ended, which took took; defragmented is when it last tried to.
	compacted, defragmented time.Time
	took                    time.Duration
}

const (
	// patience is between compactions of a store that still has room: they cut short what watchers and lists may look back to.
	patience = 30 * time.Second
	// recount is between two looks, in the patience after a compaction, at what has become free since, though nobody writes.
	recount = 5 * time.Second
	// share is the part of the time that compactions may take: each looks at all revisions.
	share = 10
	// Defragmentation blocks the store while it copies what is in use (9 s for 590 MiB on two busy cores). A store needs none to
	// take writes again, as free pages are filled first: it is for the disk. It pays where little (cheap) is to be copied, and
	// on a disk that is short of space where less is copied than gained. Another is tried no sooner than after rest.
	cheap     = 32 << 20
	shortDisk = 1 << 30
)

// interval is how long to wait before looking again: a few counters are read.
func (m memory) interval() time.Duration {
	if m.full {
		return 200 * time.Millisecond
	}
	return time.Second
}

// next decides what to do.
func (m memory) next(l limits, o observation) (memory, plan) {
	var p plan
	m.full = l.isFull(m.full, o.inUse)
	wait := share * m.took
	switch {
	case o.inUse >= l.quota:
		wait = 0
	case o.inUse < l.low():
		wait = max(wait, patience)
	}
	// What was current one observation ago: whoever pages through a list or falls behind a little is not cut off.
	if o.inUse >= l.pressed() && m.revision > o.compacted && o.at.Sub(m.compacted) >= wait {
		p.compact = m.revision
	}
	m.revision = o.revision
	gain := o.file - o.inUse
	pays := o.inUse <= cheap || o.disk < shortDisk && gain >= o.inUse
	if gain >= l.worthwhile && pays && o.disk > o.inUse+o.inUse/4 && o.at.Sub(m.defragmented) >= l.rest {
		p.defragment, m.defragmented = true, o.at
	}
	return m, p
}
