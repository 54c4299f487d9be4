// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/distribution/reference"
	"github.com/moby/sys/atomicwriter"
	"k8s.io/klog/v2"

	"minik8s.io/minik8s/pkg/kubelet/container"
)

// brought is an image that was not on the node before this kubelet pulled it, so that the kubelet may remove it again. What
// was built, loaded or pulled by somebody else is theirs.
type brought struct {
	// ID is sha256:….
	ID string `json:"id"`
	// Names are the references that it was pulled by, as the engine lists them. One that has got others is somebody else's, too.
	Names []string `json:"names"`
	// Since is when it was pulled first.
	Since time.Time `json:"since"`
	// used is when it was last seen in use, by this process.
	used time.Time
}

// store keeps what was brought, in a file each. Safe for concurrent use.
type store struct {
	dir   string // "" keeps it in memory only
	began time.Time

	mu     sync.Mutex // guards images; no file is touched with it
	images map[string]*brought
	disk   sync.Mutex // one write at a time
}

// openStore reads what is in dir, which is made if it is missing. Files that cannot be understood are of images that stay.
func openStore(dir string, now time.Time) (*store, error) {
	s := &store{dir: dir, began: now, images: map[string]*brought{}}
	if dir == "" {
		return s, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the directory of images: %w", err)
	}
	err := each(dir, func(b *brought) {
		if b.Since.After(now) {
			b.Since = now // the clock was set back: an image of the future would never be old enough
		}
		s.images[b.ID] = b
	}, func(string) {})
	if err != nil {
		return nil, fmt.Errorf("reading what images were brought: %w", err)
	}
	return s, nil
}

// note adds an image that a pull by ref has brought, or another name of one.
func (s *store) note(id, ref string, isNew bool, now time.Time) error {
	name := ref
	if named, err := reference.ParseNormalizedNamed(ref); err == nil {
		name = reference.FamiliarString(reference.TagNameOnly(named))
	}
	s.mu.Lock()
	b := s.images[id]
	if b == nil && !isNew {
		s.mu.Unlock()
		return nil
	}
	next := brought{ID: id, Since: now}
	if b != nil {
		next = *b
	}
	next.used = now
	changed := b == nil
	if !slices.Contains(next.Names, name) {
		next.Names = append(slices.Clone(next.Names), name)
		changed = true
	}
	s.images[id] = &next
	s.mu.Unlock()
	if !changed {
		return nil
	}
	return s.save(id)
}

// use notes that an image is used now.
func (s *store) use(id string, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b := s.images[id]; b != nil {
		b.used = now
	}
}

func (s *store) forget(id string) error {
	s.mu.Lock()
	delete(s.images, id)
	s.mu.Unlock()
	return s.save(id)
}

// all are copies.
func (s *store) all() map[string]brought {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make(map[string]brought, len(s.images))
	for id, b := range s.images {
		out[id] = *b
	}
	return out
}

func (s *store) save(id string) error {
	if s.dir == "" {
		return nil
	}
	s.disk.Lock()
	defer s.disk.Unlock()
	file := filepath.Join(s.dir, fileOf(id))
	b, ok := s.all()[id]
	var err error
	if ok {
		var data []byte
		if data, err = json.Marshal(b); err == nil {
			err = atomicwriter.WriteFile(file, data, 0o600)
		}
	} else if err = os.Remove(file); errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err != nil {
		return fmt.Errorf("noting that an image was brought: %w", err)
	}
	return nil
}

// candidate is an image that may be removed.
type candidate struct {
	id   string
	size int64
	// used is when it was last in use, or else when it was there first as far as this process knows.
	used time.Time
}

// candidates are the images that nobody else has a part in and nobody uses, the longest unused first. One that was pulled or used
// within minAge is not among them: its container may be on the way.
func candidates(images []*container.Image, ours map[string]brought, used map[string]bool, began, now time.Time, minAge time.Duration) []candidate {
	var out []candidate
	for _, img := range images {
		b, ok := ours[img.ID]
		if !ok || used[img.ID] || slices.ContainsFunc(img.RepoTags, func(tag string) bool { return !slices.Contains(b.Names, tag) }) {
			continue
		}
		last := b.used
		if last.IsZero() {
			if last = began; b.Since.After(began) {
				last = b.Since
			}
		}
		if now.Sub(b.Since) < minAge || now.Sub(last) < minAge && !b.used.IsZero() {
			continue
		}
		out = append(out, candidate{id: img.ID, size: img.SizeBytes, used: last})
	}
	slices.SortStableFunc(out, func(a, b candidate) int {
		if d := a.used.Compare(b.used); d != 0 {
			return d
		}
		return ours[a.id].Since.Compare(ours[b.id].Since)
	})
	return out
}

// Limits say which unused images may be removed, and when.
type Limits struct {
	// MinAge is how long an image is kept after it was pulled or used.
	MinAge time.Duration
	// MaxAge is how long one may stay unused; 0 is for ever (KEP-4210). It counts from the start of this process at the earliest.
	MaxAge time.Duration
	// HighPercent of the disk in use is from where on images are removed, down to LowPercent; Never: its use does not matter.
	HighPercent, LowPercent int32
	// Disk returns available and all bytes of the file system of images.
	Disk func(ctx context.Context) (available, capacity int64, err error)
	// Removed is told of each image that was removed, and why: "space" or "age". nil: nobody is told.
	Removed func(reason string)
}

// Collector removes images that this kubelet has brought and nobody uses. Safe for concurrent use.
type Collector struct {
	puller *Puller
	limits Limits
	turn   chan struct{} // one at a time
}

// NewCollector returns a Collector of the images that a Puller has brought.
func NewCollector(p *Puller, limits Limits) *Collector {
	return &Collector{puller: p, limits: limits, turn: make(chan struct{}, 1)}
}

// Detect notes which images are in use, for the order in which they are removed.
func (c *Collector) Detect(ctx context.Context) error {
	_, err := c.detect(ctx)
	return err
}

func (c *Collector) detect(ctx context.Context) (used map[string]bool, err error) {
	if len(c.puller.brought.all()) == 0 {
		return nil, nil
	}
	if used, err = c.puller.config.Runtime.ImagesInUse(ctx); err != nil {
		return nil, fmt.Errorf("detecting the images in use: %w", err)
	}
	volumes, err := c.puller.config.Volumes()
	if err != nil {
		return nil, fmt.Errorf("detecting the images in use: %w", err)
	}
	for _, id := range volumes {
		used[id] = true
	}
	now := c.puller.config.Clock.Now()
	for id := range used {
		c.puller.brought.use(id, now)
	}
	return used, nil
}

// Collect removes images, the longest unused first, until so many bytes are free that only they took. It tells how many there are,
// also beside an error about single images.
func (c *Collector) Collect(ctx context.Context, bytes int64) (freed int64, err error) {
	return c.remove(ctx, "space", func(_ candidate, freed int64) bool { return freed < bytes })
}

// CollectOld removes the images that were not used for longer than they may be.
func (c *Collector) CollectOld(ctx context.Context) error {
	if c.limits.MaxAge <= 0 {
		return nil
	}
	now := c.puller.config.Clock.Now()
	_, err := c.remove(ctx, "age", func(i candidate, _ int64) bool { return now.Sub(i.used) > c.limits.MaxAge })
	return err
}

// remove removes the candidates that wanted says, with what it has freed so far.
func (c *Collector) remove(ctx context.Context, reason string, wanted func(i candidate, freed int64) bool) (freed int64, err error) {
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	used, err := c.detect(ctx)
	if err != nil || used == nil {
		return 0, err
	}
	p := c.puller
	images, err := p.config.Runtime.Images(ctx)
	if err != nil {
		return 0, fmt.Errorf("listing images: %w", err)
	}
	var errs []error
	for _, i := range candidates(images, p.brought.all(), used, p.brought.began, p.config.Clock.Now(), c.limits.MinAge) {
		if ctx.Err() != nil || !wanted(i, freed) {
			break
		}
		// The engine refuses it if a container has come to use it since.
		if err := p.config.Runtime.RemoveImage(ctx, i.id); err != nil {
			errs = append(errs, err)
			continue
		}
		klog.FromContext(ctx).Info("Unused image removed", "image", i.id, "size", i.size)
		if c.limits.Removed != nil {
			c.limits.Removed(reason)
		}
		freed += i.size
		errs = append(errs, p.brought.forget(i.id))
	}
	return freed, errors.Join(errs...)
}
