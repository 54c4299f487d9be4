// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package ipam hands out the addresses of a node's pod ranges and remembers on disk who has which; touch it to change
// which address comes next or how allocations are kept.
package ipam

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
)

// ErrFull means that a range has no free address.
var ErrFull = errors.New("no free address")

// Pool allocates one address of each range per owner. Safe for concurrent use within one process; a file has one Pool. Who only
// asks waits for no disk, and those who wait for it at the same time share one write.
type Pool struct {
	file   string
	ranges []netip.Prefix

	mu      sync.Mutex // guards state and changes
	state   state
	changes uint64 // how often state was changed

	writing sync.Mutex // held while the file is written; never taken with mu held
	written uint64     // changes that are in the file; guarded by writing
}

// state is what the file holds.
type state struct {
	// Owners maps an owner to its addresses, in the order of the ranges.
	Owners map[string][]netip.Addr `json:"owners"`
	// Last is the address handed out last in each range; the search goes on after it, so that an address which was
	// given back rests as long as possible. A client that still talks to the old owner does not meet a new one.
	Last map[netip.Prefix]netip.Addr `json:"last"`
}

// Open reads the allocations in file, if there are any. Those outside of the ranges, of an earlier configuration, stay
// until they are released, and are not handed out.
func Open(file string, ranges []netip.Prefix) (*Pool, error) {
	p := &Pool{file: file, ranges: slices.Clone(ranges)}
	for i, r := range p.ranges {
		if !r.IsValid() {
			return nil, fmt.Errorf("address range %d is not valid", i)
		}
		p.ranges[i] = r.Masked()
		if third := first(p.ranges[i]).Next().Next(); !p.ranges[i].Contains(third) || !usable(p.ranges[i], third) {
			return nil, fmt.Errorf("address range %v is too small", r)
		}
	}
	b, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("reading address allocations: %w", err)
	}
	if err == nil {
		if err := json.Unmarshal(b, &p.state); err != nil {
			return nil, fmt.Errorf("parsing address allocations in %q: %w", file, err)
		}
	}
	if p.state.Owners == nil {
		p.state.Owners = map[string][]netip.Addr{}
	}
	if p.state.Last == nil {
		p.state.Last = map[netip.Prefix]netip.Addr{}
	}
	return p, nil
}

// Allocate returns the owner's addresses, one of each range, which it gives it if it has none. They are on disk when it
// returns. One owner's calls must not overlap.
func (p *Pool) Allocate(owner string) ([]netip.Addr, error) {
	addrs, change, err := p.allocate(owner)
	if err != nil || change == 0 {
		return addrs, err
	}
	if err := p.save(change); err != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.state.Owners, owner)
		p.changes++
		return nil, err
	}
	return addrs, nil
}

// allocate returns which change of the state it has made, 0 for none.
func (p *Pool) allocate(owner string) ([]netip.Addr, uint64, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if have := p.state.Owners[owner]; have != nil {
		return slices.Clone(have), 0, nil
	}
	used := map[netip.Addr]bool{}
	for _, addrs := range p.state.Owners {
		for _, a := range addrs {
			used[a] = true
		}
	}
	var addrs []netip.Addr
	for _, r := range p.ranges {
		a, err := pick(r, p.state.Last[r], used)
		if err != nil {
			return nil, 0, err
		}
		addrs = append(addrs, a)
	}
	for i, r := range p.ranges {
		p.state.Last[r] = addrs[i]
	}
	p.state.Owners[owner] = addrs
	p.changes++
	return slices.Clone(addrs), p.changes, nil
}

// pick returns the first free address after the last one, starting over at the range's end.
func pick(r netip.Prefix, after netip.Addr, used map[netip.Addr]bool) (netip.Addr, error) {
	if !r.Contains(after) {
		after = first(r)
	}
	for a := next(r, after); ; a = next(r, a) {
		if usable(r, a) && !used[a] {
			return a, nil
		}
		if a == after {
			return a, fmt.Errorf("%w in range %v", ErrFull, r)
		}
	}
}

func next(r netip.Prefix, a netip.Addr) netip.Addr {
	if n := a.Next(); n.IsValid() && r.Contains(n) {
		return n
	}
	return first(r)
}

func first(r netip.Prefix) netip.Addr { return r.Masked().Addr() }

// last is the broadcast address, in IPv4's terms.
func last(r netip.Prefix) netip.Addr {
	b := first(r).AsSlice()
	for i := r.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 1 << (7 - i%8)
	}
	a, _ := netip.AddrFromSlice(b) // of the right length
	return a
}

// usable tells whether an address may be a pod's: not the network's own, nor the first, which is a gateway by custom,
// nor the broadcast address.
func usable(r netip.Prefix, a netip.Addr) bool {
	return a != first(r) && a != first(r).Next() && a != last(r)
}

// Addresses returns the owner's addresses, nil if it has none.
func (p *Pool) Addresses(owner string) []netip.Addr {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.state.Owners[owner])
}

// Owners returns everybody who has addresses, sorted.
func (p *Pool) Owners() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Sorted(maps.Keys(p.state.Owners))
}

// Release takes the owner's addresses back. Absence is success. If it fails others may have them all the same, for only the file
// says otherwise; whoever reads that releases them again.
func (p *Pool) Release(owner string) error {
	p.mu.Lock()
	if _, ok := p.state.Owners[owner]; !ok {
		p.mu.Unlock()
		return nil
	}
	delete(p.state.Owners, owner)
	p.changes++
	change := p.changes
	p.mu.Unlock()
	return p.save(change)
}

// Remove forgets everything and removes the file.
func (p *Pool) Remove() error {
	p.writing.Lock()
	defer p.writing.Unlock()
	if err := os.Remove(p.file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing address allocations: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state = state{Owners: map[string][]netip.Addr{}, Last: map[netip.Prefix]netip.Addr{}}
	return nil
}

func (s state) clone() state {
	return state{Owners: maps.Clone(s.Owners), Last: maps.Clone(s.Last)}
}

// save returns when a change is on disk, with all that were made until it is written. A reader sees the old file or the new one,
// also after a power cut.
func (p *Pool) save(change uint64) error {
	p.writing.Lock()
	defer p.writing.Unlock()
	if p.written >= change {
		return nil
	}
	p.mu.Lock()
	s, changes := p.state.clone(), p.changes
	p.mu.Unlock()
	b, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("encoding address allocations: %w", err)
	}
	if err := write(p.file, b); err != nil {
		return fmt.Errorf("writing address allocations: %w", err)
	}
	p.written = changes
	return nil
}

func write(file string, b []byte) (err error) {
	dir := filepath.Dir(file)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, "."+filepath.Base(file)+"-")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = f.Close()
			_ = os.Remove(f.Name())
		}
	}()
	if _, err = f.Write(b); err != nil {
		return err
	}
	if err = f.Sync(); err != nil {
		return err
	}
	if err = f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), file)
}
