// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package ipam

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func open(t *testing.T, file string, ranges ...string) *Pool {
	t.Helper()
	var prefixes []netip.Prefix
	for _, r := range ranges {
		prefixes = append(prefixes, netip.MustParsePrefix(r))
	}
	p, err := Open(file, prefixes)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func allocate(t *testing.T, p *Pool, owner string) []string {
	t.Helper()
	addrs, err := p.Allocate(owner)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, a := range addrs {
		out = append(out, a.String())
	}
	return out
}

func TestAllocate(t *testing.T) {
	file := filepath.Join(t.TempDir(), "sub", "ipam.json")
	p := open(t, file, "10.1.0.7/29") // .1 is reserved; .2 to .6 are to be had
	for i := 2; i <= 6; i++ {
		if got := allocate(t, p, fmt.Sprint(i)); got[0] != fmt.Sprintf("10.1.0.%d", i) {
			t.Errorf("owner %d got %v", i, got)
		}
	}
	if _, err := p.Allocate("x"); !errors.Is(err, ErrFull) {
		t.Errorf("a full range: %v", err)
	}
	if got := allocate(t, p, "4"); got[0] != "10.1.0.4" {
		t.Errorf("asking again gave %v", got)
	}
	for _, owner := range []string{"3", "5", "5"} {
		if err := p.Release(owner); err != nil {
			t.Fatal(err)
		}
	}
	if got := allocate(t, p, "a"); got[0] != "10.1.0.3" {
		t.Errorf("after wrapping around: %v", got)
	}
	if err := p.Release("a"); err != nil {
		t.Fatal(err)
	}
	// A new process goes on where the old one was.
	p = open(t, file, "10.1.0.0/29")
	if got := allocate(t, p, "b"); got[0] != "10.1.0.5" {
		t.Errorf("an address was reused at once: %v", got)
	}
	if diff := cmp.Diff([]string{"2", "4", "6", "b"}, p.Owners()); diff != "" {
		t.Error(diff)
	}
	if got := p.Addresses("2"); len(got) != 1 || got[0].String() != "10.1.0.2" {
		t.Errorf("kept: %v", got)
	}
	if got := p.Addresses("nobody"); got != nil {
		t.Errorf("got %v", got)
	}
	entries, err := os.ReadDir(filepath.Dir(file))
	if err != nil || len(entries) != 1 {
		t.Errorf("files left: %v, %v", entries, err)
	}
	if err := p.Remove(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("the file is still there: %v", err)
	}
}

func TestDualStack(t *testing.T) {
	p := open(t, filepath.Join(t.TempDir(), "f"), "10.1.0.0/24", "fd00:1::/64")
	if diff := cmp.Diff([]string{"10.1.0.2", "fd00:1::2"}, allocate(t, p, "a")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"10.1.0.3", "fd00:1::3"}, allocate(t, p, "b")); diff != "" {
		t.Error(diff)
	}
}

func TestNothingIsTakenWhenOneRangeIsFull(t *testing.T) {
	p := open(t, filepath.Join(t.TempDir(), "f"), "10.1.0.0/24", "10.2.0.0/30") // .2 only
	allocate(t, p, "a")
	if _, err := p.Allocate("b"); !errors.Is(err, ErrFull) {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a"}, p.Owners()); diff != "" {
		t.Error(diff)
	}
}

func TestOpenErrors(t *testing.T) {
	broken := filepath.Join(t.TempDir(), "broken")
	if err := os.WriteFile(broken, []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name, file string
		r          netip.Prefix
	}{
		{"broken file", broken, netip.MustParsePrefix("10.0.0.0/24")},
		{"no range", "f", netip.Prefix{}},
		{"one address", "f", netip.MustParsePrefix("10.0.0.0/32")},
		{"two addresses", "f", netip.MustParsePrefix("10.0.0.0/31")},
	} {
		t.Run(test.name, func(t *testing.T) {
			if _, err := Open(test.file, []netip.Prefix{test.r}); err == nil {
				t.Error("no error")
			}
		})
	}
}

func TestChangedRanges(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f")
	allocate(t, open(t, file, "10.1.0.0/24"), "old")
	p := open(t, file, "10.2.0.0/24")
	if got := allocate(t, p, "old"); got[0] != "10.1.0.2" {
		t.Errorf("got %v", got)
	}
	if got := allocate(t, p, "new"); got[0] != "10.2.0.2" {
		t.Errorf("got %v", got)
	}
}

// Many at a time get what one after the other would, all of it is on disk, and who only asks does not wait for the disk.
func TestAtOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.json")
	p := open(t, file, "10.0.0.0/24")
	allocate(t, p, "first")
	p.writing.Lock() // a disk that takes its time
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() {
			if _, err := p.Allocate(fmt.Sprint(i)); err != nil {
				t.Error(err)
			}
		})
	}
	if got := p.Addresses("first"); len(got) != 1 {
		t.Errorf("got %v", got)
	}
	p.writing.Unlock()
	wg.Wait()
	again := open(t, file, "10.0.0.0/24")
	used := map[netip.Addr]string{}
	for _, owner := range again.Owners() {
		got := again.Addresses(owner)
		if len(got) != 1 || used[got[0]] != "" || got[0] != p.Addresses(owner)[0] {
			t.Errorf("%s has %v in the file, %v in memory; others have %v", owner, got, p.Addresses(owner), used)
		}
		used[got[0]] = owner
	}
	if len(used) != 101 {
		t.Errorf("%d owners are in the file", len(used))
	}
}

// What cannot be noted is nobody's.
func TestFailedWrite(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "dir")
	p := open(t, filepath.Join(dir, "a.json"), "10.0.0.0/24")
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := p.Allocate("a"); err == nil || p.Addresses("a") != nil {
		t.Errorf("got %v, and has %v", got, p.Addresses("a"))
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	allocate(t, p, "a")
	if got := open(t, filepath.Join(dir, "a.json"), "10.0.0.0/24").Owners(); len(got) != 1 {
		t.Errorf("in the file are %v", got)
	}
}
