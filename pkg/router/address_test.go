// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package router

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"minik8s.io/minik8s/pkg/router/internal/serve"
)

// An address that nobody wants any more stays until its requests have had their time; one that could not be had is asked for again.
func TestAddresses_Next(t *testing.T) {
	t.Parallel()
	a, b := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	start := time.Unix(100, 0)
	var known addresses
	for _, step := range []struct {
		name    string
		want    []netip.Addr
		after   time.Duration
		all     string
		changed bool
	}{
		{"what a process before has left goes", nil, 0, "[]", true},
		{"two", []netip.Addr{b, a}, 0, "[192.0.2.1 192.0.2.2]", true},
		{"still", []netip.Addr{a, b}, time.Second, "[192.0.2.1 192.0.2.2]", false},
		{"one drains", []netip.Addr{a}, 2 * time.Second, "[192.0.2.1 192.0.2.2]", false},
		{"still", []netip.Addr{a}, 3 * time.Second, "[192.0.2.1 192.0.2.2]", false},
		{"it is gone", []netip.Addr{a}, 2*time.Second + serve.DrainTime, "[192.0.2.1]", true},
	} {
		all, changed := known.next(step.want, start.Add(step.after))
		known.taken = true
		if fmt.Sprint(all) != step.all || changed != step.changed {
			t.Errorf("%s: %v, %v", step.name, all, changed)
		}
	}
	known.taken = false
	if _, changed := known.next([]netip.Addr{a}, start.Add(time.Hour)); !changed {
		t.Error("what failed is not tried again")
	}
}
