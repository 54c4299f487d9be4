// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
	testingclock "k8s.io/utils/clock/testing"

	"minik8s.io/minik8s/pkg/kubelet/container"
	"minik8s.io/minik8s/pkg/kubelet/container/fake"
)

func TestCandidates(t *testing.T) {
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	now := began.Add(time.Hour)
	at := func(minute int) time.Time { return began.Add(time.Duration(minute) * time.Minute) }
	image := func(id string, tags ...string) *container.Image {
		return &container.Image{ID: id, RepoTags: tags, SizeBytes: 1}
	}
	ours := map[string]brought{
		"older":   {ID: "older", Names: []string{"older:1"}, Since: at(-100)},
		"old":     {ID: "old", Names: []string{"old:1"}, Since: at(-50)},
		"used":    {ID: "used", Names: []string{"used:1"}, Since: at(-200), used: at(30)},
		"running": {ID: "running", Names: []string{"running:1"}, Since: at(0)},
		"tagged":  {ID: "tagged", Names: []string{"tagged:1"}, Since: at(0)},
		"new":     {ID: "new", Names: []string{"new:1"}, Since: at(59)},
		"just":    {ID: "just", Names: []string{"just:1"}, Since: at(1), used: at(59)},
		"bare":    {ID: "bare", Names: []string{"bare:1"}, Since: at(10)},
		"gone":    {ID: "gone", Names: []string{"gone:1"}, Since: at(10)},
	}
	var got []string
	for _, c := range candidates([]*container.Image{
		image("built", "older:1"), image("used", "used:1"), image("old", "old:1"), image("older", "older:1"), image("running", "running:1"),
		image("tagged", "tagged:1", "mine:1"), image("new", "new:1"), image("just", "just:1"), image("bare"),
	}, ours, map[string]bool{"running": true}, began, now, 2*time.Minute) {
		got = append(got, c.id)
	}
	if diff := cmp.Diff([]string{"older", "old", "bare", "used"}, got); diff != "" {
		t.Error(diff)
	}
}

// collection is a node with an engine that has images of somebody else.
type collection struct {
	t       *testing.T
	dir     string
	clock   *testingclock.FakeClock
	runtime *fake.Runtime
}

func (c *collection) start() *Puller {
	c.t.Helper()
	p, err := New(Config{Runtime: c.runtime, Recorder: record.NewFakeRecorder(1000), Clock: c.clock, Dir: c.dir})
	if err != nil {
		c.t.Fatal(err)
	}
	return p
}

func (c *collection) pull(p *Puller, ref string, policy corev1.PullPolicy) *container.Image {
	c.t.Helper()
	pod := &corev1.Pod{}
	img, err := p.Ensure(c.t.Context(), pod, Wanted{Image: ref, Policy: policy, Of: &corev1.ObjectReference{}})
	if err != nil {
		c.t.Fatal(err)
	}
	return img
}

func (c *collection) has(ref string) bool {
	c.t.Helper()
	_, err := c.runtime.Image(c.t.Context(), ref)
	return err == nil
}

func TestCollector(t *testing.T) {
	c := &collection{t: t, dir: t.TempDir(), clock: testingclock.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)), runtime: fake.New(fake.Config{PullAll: true})}
	c.runtime.AddImage("built:1", nil)
	c.runtime.AddImage("there:1", nil)
	p := c.start()
	c.pull(p, "there:1", corev1.PullAlways)
	for _, ref := range []string{"a:1", "b:1", "c:1"} {
		c.pull(p, ref, corev1.PullIfNotPresent)
		c.clock.Step(time.Minute)
	}
	b, err := c.runtime.Image(t.Context(), "b:1")
	if err != nil {
		t.Fatal(err)
	}
	c.runtime.UseImage(b.ID, true)

	// Another process knows what the first has brought.
	p = c.start()
	collect := func(bytes int64) int64 {
		t.Helper()
		freed, err := NewCollector(p, Limits{MinAge: 2 * time.Minute}).Collect(t.Context(), bytes)
		if err != nil {
			t.Fatal(err)
		}
		return freed
	}
	if freed := collect(math.MaxInt64); freed != 1<<20 || c.has("a:1") || !c.has("b:1") || !c.has("c:1") {
		t.Errorf("freed %d: a %v, b %v, c %v", freed, c.has("a:1"), c.has("b:1"), c.has("c:1"))
	}
	c.clock.Step(time.Minute)
	if freed := collect(0); freed != 0 || !c.has("c:1") {
		t.Errorf("freed %d where nothing was to be", freed)
	}
	if freed := collect(1); freed != 1<<20 || c.has("c:1") {
		t.Errorf("freed %d", freed)
	}
	c.runtime.UseImage(b.ID, false)
	c.clock.Step(time.Minute)
	if freed := collect(1); freed != 0 {
		t.Errorf("freed %d: an image that was just used is gone", freed)
	}
	c.clock.Step(time.Minute)
	if freed := collect(1); freed != 1<<20 || c.has("b:1") {
		t.Errorf("freed %d", freed)
	}
	if !c.has("built:1") || !c.has("there:1") {
		t.Errorf("images of others were removed")
	}
	if left, err := os.ReadDir(filepath.Join(c.dir, "brought")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// An image that was pulled before the clock was set back can be removed soon.
func TestCollector_ClockSetBack(t *testing.T) {
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	c := &collection{t: t, dir: t.TempDir(), clock: testingclock.NewFakeClock(began), runtime: fake.New(fake.Config{PullAll: true})}
	c.pull(c.start(), "a:1", corev1.PullIfNotPresent)
	c.clock.SetTime(began.Add(-2 * time.Hour))
	collector := NewCollector(c.start(), Limits{MinAge: 2 * time.Minute})
	for _, want := range []int64{0, 1 << 20} {
		if freed, err := collector.Collect(t.Context(), 1); err != nil || freed != want {
			t.Errorf("freed %d, %v, want %d", freed, err, want)
		}
		c.clock.Step(2 * time.Minute)
	}
}

func TestCollector_Age(t *testing.T) {
	c := &collection{t: t, dir: "", clock: testingclock.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)), runtime: fake.New(fake.Config{PullAll: true})}
	p := c.start()
	var removed []string
	why := func(reason string) { removed = append(removed, reason) }
	old := NewCollector(p, Limits{MinAge: time.Minute, MaxAge: time.Hour, Removed: why})
	c.pull(p, "a:1", corev1.PullIfNotPresent)
	step := func(d time.Duration) {
		t.Helper()
		c.clock.Step(d)
		if err := old.CollectOld(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if step(time.Hour); !c.has("a:1") {
		t.Error("removed too early")
	}
	c.pull(p, "a:1", corev1.PullIfNotPresent) // a container is made of it
	if step(time.Hour); !c.has("a:1") {
		t.Error("removed although it was used")
	}
	if step(time.Second); c.has("a:1") {
		t.Error("it is still there")
	}
	c.pull(p, "b:1", corev1.PullIfNotPresent)
	if _, err := NewCollector(p, Limits{Removed: why}).Collect(t.Context(), 1); err != nil || !slices.Equal(removed, []string{"age", "space"}) {
		t.Errorf("%v, removed for %v", err, removed)
	}
}

// TestCollector_Failures: an engine that does not tell who uses what loses no image, and one image that stays does not keep others.
func TestCollector_Failures(t *testing.T) {
	c := &collection{t: t, dir: t.TempDir(), clock: testingclock.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)), runtime: fake.New(fake.Config{PullAll: true})}
	p := c.start()
	c.runtime.FailOnce("Images", errors.New("away"))
	c.pull(p, "unknown:1", corev1.PullIfNotPresent) // it may have been there
	c.pull(p, "a:1", corev1.PullIfNotPresent)
	c.pull(p, "b:1", corev1.PullIfNotPresent)
	c.clock.Step(time.Hour)
	collector := NewCollector(p, Limits{})
	for _, op := range []string{"ImagesInUse", "Images"} {
		c.runtime.FailOnce(op, errors.New("away"))
		if freed, err := collector.Collect(t.Context(), math.MaxInt64); err == nil || freed != 0 {
			t.Errorf("%s fails: freed %d, %v", op, freed, err)
		}
	}
	c.runtime.FailOnce("RemoveImage", errors.New("in use"))
	if freed, err := collector.Collect(t.Context(), math.MaxInt64); err == nil || freed != 1<<20 {
		t.Errorf("freed %d, %v", freed, err)
	}
	release := c.runtime.Hang("ImagesInUse", "")
	defer release()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := collector.Collect(ctx, math.MaxInt64); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("an engine that hangs: %v", err)
	}
	if !c.has("unknown:1") {
		t.Error("an image that may be somebody else's was removed")
	}
}

// TestCollector_Volumes: the engine knows nothing of the volumes that are images.
func TestCollector_Volumes(t *testing.T) {
	c := &collection{t: t, dir: t.TempDir(), clock: testingclock.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)), runtime: fake.New(fake.Config{PullAll: true})}
	p := c.start()
	img := c.pull(p, "a:1", corev1.PullIfNotPresent)
	c.clock.Step(time.Hour)
	var volumes []string
	var fail error
	p.config.Volumes = func() ([]string, error) { return volumes, fail }
	collect := func() (int64, error) { return NewCollector(p, Limits{}).Collect(t.Context(), math.MaxInt64) }
	fail = errors.New("unreadable")
	if freed, err := collect(); err == nil || freed != 0 {
		t.Errorf("freed %d while it is not known what pods use: %v", freed, err)
	}
	volumes, fail = []string{img.ID}, nil
	if freed, err := collect(); err != nil || freed != 0 || !c.has("a:1") {
		t.Errorf("freed %d of what a volume shows: %v", freed, err)
	}
	volumes = nil
	if freed, err := collect(); err != nil || freed == 0 || c.has("a:1") {
		t.Errorf("freed %d of what nobody uses: %v", freed, err)
	}
}
