// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package dra

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// claim returns a version of a claim with devices.
func claim(name string, version int, devices ...string) *resourcev1.ResourceClaim {
	c := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name), ResourceVersion: fmt.Sprint(version)}}
	if len(devices) > 0 {
		c.Status.Allocation = &resourcev1.AllocationResult{}
	}
	for _, d := range devices {
		c.Status.Allocation.Devices.Results = append(c.Status.Allocation.Devices.Results, resourcev1.DeviceRequestAllocationResult{Driver: "d", Pool: "p", Device: d})
	}
	return c
}

// share makes all devices of a claim shares that take some of their memory.
func share(c *resourcev1.ResourceClaim, id, memory string) *resourcev1.ResourceClaim {
	for i := range c.Status.Allocation.Devices.Results {
		r := &c.Status.Allocation.Devices.Results[i]
		r.ShareID = new(types.UID(id))
		r.ConsumedCapacity = map[resourcev1.QualifiedName]resource.Quantity{"memory": resource.MustParse(memory)}
	}
	return c
}

func taken(t *testing.T, c *Claims) []string {
	t.Helper()
	ids, err := c.ListAllAllocatedDevices()
	if err != nil {
		t.Fatal(err)
	}
	out := []string{}
	for id := range ids {
		out = append(out, id.Device.String())
	}
	slices.Sort(out)
	return out
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestClaims(t *testing.T) {
	for _, tc := range []struct {
		name  string
		steps func(*testing.T, *Claims)
		want  []string // devices that are taken at the end
		// latest is the version of claim a that is known, empty if it is not.
		latest string
	}{
		{"told", func(_ *testing.T, c *Claims) { c.told(claim("a", 1, "x")) }, []string{"x"}, "1"},
		{"deallocated", func(_ *testing.T, c *Claims) { c.told(claim("a", 1, "x")); c.told(claim("a", 2)) }, []string{}, "2"},
		{"other devices in between", func(_ *testing.T, c *Claims) { c.told(claim("a", 1, "x")); c.told(claim("a", 3, "y")) }, []string{"y"}, "3"},
		{"gone", func(_ *testing.T, c *Claims) { c.told(claim("a", 1, "x")); c.gone("ns/a") }, []string{}, ""},
		{"another of the same name", func(_ *testing.T, c *Claims) {
			other := claim("a", 2)
			other.UID = "other"
			c.told(claim("a", 1, "x"))
			c.told(other)
		}, []string{}, "2"},
		{"access for administrators", func(_ *testing.T, c *Claims) {
			admin := claim("a", 1, "x")
			admin.Status.Allocation.Devices.Results[0].AdminAccess = new(true)
			c.told(admin)
		}, []string{}, "1"},
		{"two by mistake, one gone", func(_ *testing.T, c *Claims) {
			c.told(claim("a", 1, "x"))
			c.told(claim("b", 1, "x"))
			c.gone("ns/b")
		}, []string{"x"}, "1"},
		{"written, the informer is late", func(t *testing.T, c *Claims) {
			t.Helper()
			c.told(claim("a", 1))
			must(t, c.AssumeClaimAfterAPICall(claim("a", 5, "x")))
			c.told(claim("a", 3))
		}, []string{"x"}, "5"},
		{"written, the informer is further", func(t *testing.T, c *Claims) {
			t.Helper()
			c.told(claim("a", 1))
			must(t, c.AssumeClaimAfterAPICall(claim("a", 5, "x")))
			c.told(claim("a", 6))
		}, []string{}, "6"},
		{"written, then restored", func(t *testing.T, c *Claims) {
			t.Helper()
			c.told(claim("a", 1))
			must(t, c.AssumeClaimAfterAPICall(claim("a", 5, "x")))
			c.AssumedClaimRestore("ns", "a")
		}, []string{}, "1"},
		{"an old answer", func(t *testing.T, c *Claims) {
			t.Helper()
			c.told(claim("a", 3))
			if err := c.AssumeClaimAfterAPICall(claim("a", 2, "x")); err == nil {
				t.Error("it is accepted")
			}
		}, []string{}, "3"},
		{"written before the informer has told", func(t *testing.T, c *Claims) {
			t.Helper()
			if diff := cmp.Diff(error(NotFoundError{"ns/a"}), c.AssumeClaimAfterAPICall(claim("a", 2, "x"))); diff != "" {
				t.Error(diff)
			}
		}, []string{}, ""},
		{"pending", func(t *testing.T, c *Claims) {
			t.Helper()
			c.told(claim("a", 1))
			must(t, c.SignalClaimPendingAllocation("a", claim("a", 1, "x")))
			if c.GetPendingAllocation("a") == nil {
				t.Error("nothing is pending")
			}
		}, []string{"x"}, "1"},
		{"pending, in memory only", func(t *testing.T, c *Claims) {
			t.Helper()
			special := claim("<special>", 0, "x")
			special.ResourceVersion = ""
			must(t, c.SignalClaimPendingAllocation(special.UID, special))
		}, []string{"x"}, ""},
		{"pending, but gone", func(t *testing.T, c *Claims) {
			t.Helper()
			if err := c.SignalClaimPendingAllocation("a", claim("a", 1, "x")); err == nil {
				t.Error("it is accepted")
			}
		}, []string{}, ""},
		{"pending, but allocated", func(t *testing.T, c *Claims) {
			t.Helper()
			c.told(claim("a", 2, "y"))
			must(t, c.SignalClaimPendingAllocation("a", claim("a", 1, "x")))
		}, []string{"y"}, "2"},
		{"pending, then not", func(t *testing.T, c *Claims) {
			t.Helper()
			c.told(claim("a", 1))
			must(t, c.SignalClaimPendingAllocation("a", claim("a", 1, "x")))
			if !c.MaybeRemoveClaimPendingAllocation("a", false) || c.MaybeRemoveClaimPendingAllocation("a", false) {
				t.Error("it is not removed, or twice")
			}
		}, []string{}, "1"},
		{"pending for two, then for one", func(t *testing.T, c *Claims) {
			t.Helper()
			c.told(claim("a", 1))
			must(t, c.SignalClaimPendingAllocation("a", claim("a", 1, "x")))
			must(t, c.SignalClaimPendingAllocation("a", claim("a", 1, "x")))
			if c.MaybeRemoveClaimPendingAllocation("a", false) {
				t.Error("it is removed")
			}
		}, []string{"x"}, "1"},
		{"pending, then written", func(t *testing.T, c *Claims) {
			t.Helper()
			c.told(claim("a", 1))
			must(t, c.SignalClaimPendingAllocation("a", claim("a", 1, "x")))
			must(t, c.AssumeClaimAfterAPICall(claim("a", 2, "x")))
			c.MaybeRemoveClaimPendingAllocation("a", true)
		}, []string{"x"}, "2"},
		{"pending, the claim goes", func(t *testing.T, c *Claims) {
			t.Helper()
			c.told(claim("a", 1))
			must(t, c.SignalClaimPendingAllocation("a", claim("a", 1, "x")))
			c.gone("ns/a")
		}, []string{"x"}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := newClaims()
			tc.steps(t, c)
			if diff := cmp.Diff(tc.want, taken(t, c)); diff != "" {
				t.Errorf("taken (-want +got):\n%s", diff)
			}
			latest := ""
			if got, err := c.Get("ns", "a"); err == nil {
				latest = got.ResourceVersion
			}
			if latest != tc.latest {
				t.Errorf("version %q is known, want %q", latest, tc.latest)
			}
		})
	}
}

func TestClaims_SharedCapacity(t *testing.T) {
	c := newClaims()
	memory := func() string {
		state, err := c.GatherAllocatedState()
		must(t, err)
		if len(state.AggregatedCapacity) == 0 {
			return ""
		}
		for _, capacity := range state.AggregatedCapacity {
			return fmt.Sprintf("%s of %d shares", capacity["memory"], state.AllocatedSharedDeviceIDs.Len())
		}
		return ""
	}
	c.told(share(claim("a", 1, "x"), "1", "2Gi"))
	before, err := c.GatherAllocatedState()
	must(t, err)
	c.told(claim("b", 1))
	must(t, c.SignalClaimPendingAllocation("b", share(claim("b", 1, "x"), "2", "1Gi")))
	if got := memory(); got != "3Gi of 2 shares" {
		t.Errorf("pending: %s", got)
	}
	must(t, c.AssumeClaimAfterAPICall(share(claim("b", 2, "x"), "2", "1Gi")))
	if got := memory(); got != "3Gi of 2 shares" {
		t.Errorf("pending and written: %s", got)
	}
	c.MaybeRemoveClaimPendingAllocation("b", false)
	c.gone("ns/a")
	if got := memory(); got != "1Gi of 1 shares" {
		t.Errorf("one is left: %s", got)
	}
	c.told(claim("b", 3))
	if got := memory(); got != "" {
		t.Errorf("nothing is left: %s", got)
	}
	if before.AllocatedSharedDeviceIDs.Len() != 1 {
		t.Error("a state changed after it was given out")
	}
	if len(taken(t, c)) > 0 {
		t.Error("a shared device is taken as a whole")
	}
}

func TestClaims_Extended(t *testing.T) {
	c := newClaims()
	extended := func(name string, version int, pod types.UID) *resourcev1.ResourceClaim {
		made := claim(name, version)
		made.Annotations = map[string]string{resourcev1.ExtendedResourceClaimAnnotation: "true"}
		made.OwnerReferences = []metav1.OwnerReference{{UID: pod, Controller: new(true)}}
		return made
	}
	of := func(pod types.UID) string {
		if found := c.Extended(pod); found != nil {
			return found.Name + found.ResourceVersion
		}
		return ""
	}
	for _, step := range []struct {
		name string
		do   func()
		want []string // of pods 1 and 2
	}{
		{"none", func() {}, []string{"", ""}},
		{"one of each", func() { c.told(extended("a", 1, "1")); c.told(extended("b", 1, "2")) }, []string{"a1", "b1"}},
		{"a newer one", func() { c.told(extended("a", 2, "1")) }, []string{"a2", "b1"}},
		{"the other's", func() { c.told(extended("a", 3, "2")); c.gone("ns/b") }, []string{"", "a3"}},
		{"for another purpose", func() { c.told(claim("a", 4)) }, []string{"", ""}},
		{"two of one", func() { c.told(extended("a", 5, "1")); c.told(extended("c", 1, "1")); c.gone("ns/a") }, []string{"c1", ""}},
		{"gone", func() { c.gone("ns/c") }, []string{"", ""}},
	} {
		step.do()
		if diff := cmp.Diff(step.want, []string{of("1"), of("2")}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.name, diff)
		}
	}
	if len(c.extended) > 0 {
		t.Errorf("something is left: %v", c.extended)
	}
}

func TestClaims_Events(t *testing.T) {
	c := newClaims()
	c.events.parent = synced{}
	c.told(claim("a", 1))
	var mu sync.Mutex
	var heard []string
	note := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		heard = append(heard, fmt.Sprintf(format, args...))
	}
	version := func(obj any) string {
		claim := obj.(*resourcev1.ResourceClaim)
		if latest, err := c.Get(claim.Namespace, claim.Name); err == nil && older(latest, claim) {
			t.Errorf("who hears of %s finds %s", claim.ResourceVersion, latest.ResourceVersion)
		}
		return claim.Name + claim.ResourceVersion
	}
	r, err := c.events.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { note("+%s", version(obj)) },
		UpdateFunc: func(old, obj any) { note("%s>%s", version(old), version(obj)) },
		DeleteFunc: func(obj any) { note("-%s", version(obj)) },
	})
	must(t, err)
	if !r.HasSynced() {
		t.Error("what there was is not known")
	}
	c.told(claim("b", 2))
	must(t, c.AssumeClaimAfterAPICall(claim("a", 3, "x")))
	c.told(claim("a", 2)) // late
	c.told(claim("a", 3, "x"))
	c.told(claim("a", 4))
	c.gone("ns/b")
	must(t, c.events.RemoveEventHandler(r))
	c.told(claim("a", 5))
	if diff := cmp.Diff([]string{"+a1", "+b2", "a1>a3", "a3>a4", "-b2"}, heard); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// Events of many writers come one by one, each object's in order.
func TestSource_Order(t *testing.T) {
	c := newClaims()
	c.events.parent = synced{}
	last := map[string]int{} // without a lock: handlers are not called at the same time
	_, err := c.events.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { last[obj.(*resourcev1.ResourceClaim).Name] = 1 },
		UpdateFunc: func(_, obj any) {
			claim := obj.(*resourcev1.ResourceClaim)
			if want := fmt.Sprint(last[claim.Name] + 1); claim.ResourceVersion != want {
				t.Errorf("claim %s: version %s came, want %s", claim.Name, claim.ResourceVersion, want)
			}
			last[claim.Name]++
		},
	})
	must(t, err)
	var writers sync.WaitGroup
	for w := range 8 {
		writers.Go(func() {
			for v := range 100 {
				c.told(claim(fmt.Sprint(w), v+1, fmt.Sprint("d", w)))
			}
		})
	}
	writers.Wait()
	c.events.deliver()
	for w := range 8 {
		if last[fmt.Sprint(w)] != 100 {
			t.Errorf("writer %d was heard until %d", w, last[fmt.Sprint(w)])
		}
	}
	if got := len(taken(t, c)); got != 8 {
		t.Errorf("%d devices are taken, want 8", got)
	}
}

type synced struct{}

func (synced) HasSynced() bool                     { return true }
func (synced) HasSyncedChecker() cache.DoneChecker { return nil }

func BenchmarkGather(b *testing.B) {
	c := newClaims()
	for i := range 10000 {
		c.told(claim(fmt.Sprint("c", i), 1, fmt.Sprint("d", i)))
	}
	b.Run("nothing changed", func(b *testing.B) {
		for b.Loop() {
			if _, err := c.GatherAllocatedState(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("one claim changed", func(b *testing.B) {
		version := 1
		for b.Loop() {
			version++
			c.told(claim("c0", version, fmt.Sprint("d", version)))
			if _, err := c.GatherAllocatedState(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// A pool has another generation after each change of what is taken of it, none that an older one had, and pools of which nothing is taken
// are not kept for ever.
func TestGenerations(t *testing.T) {
	c := newClaims()
	in := func(pool string, version int, devices ...string) *resourcev1.ResourceClaim {
		made := claim("of-"+pool, version, devices...)
		for i := range devices {
			made.Status.Allocation.Devices.Results[i].Pool = pool
		}
		return made
	}
	of := func(pool string) int64 { return c.Generations(nil, []Pool{{"d", pool}})[0] }
	c.told(in("a", 1, "x"))
	c.told(in("b", 1, "x"))
	a, b := of("a"), of("b")
	c.told(in("a", 2, "x")) // no other devices
	if of("a") != a {
		t.Error("another generation without a change")
	}
	c.told(in("a", 3, "y"))
	if of("a") <= a || of("b") != b {
		t.Errorf("generations %d and %d before, %d and %d after a change of the first", a, b, of("a"), of("b"))
	}
	a = of("a")
	c.gone("ns/of-a")
	if of("a") <= a {
		t.Error("no other generation when devices are given back")
	}
	a = of("a")
	for i := range 3 * sparePools {
		pool := fmt.Sprint("passing-", i)
		c.told(in(pool, 1, "x"))
		c.gone("ns/of-" + pool)
	}
	if n := len(c.devices.pools); n > sparePools+2 {
		t.Errorf("%d pools are kept", n)
	}
	if of("a") <= a || of("b") != b {
		t.Errorf("generations %d and %d before, %d and %d after others were forgotten", a, b, of("a"), of("b"))
	}
	if _, generation := c.Gather(); of("a") > generation {
		t.Errorf("generation %d of a pool, %d of all", of("a"), generation)
	}
}
