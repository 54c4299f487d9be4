// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"minik8s.io/minik8s/pkg/kubelet/internal/staticpod"
)

// defaultCheck is how often manifests are looked at that have not told of a change.
const defaultCheck = 20 * time.Second

// settle is what the writer of a manifest gets to finish it.
const settle = 50 * time.Millisecond

// FileConfig is what a File is made from.
type FileConfig struct {
	// Path is a manifest or a folder of manifests. It need not exist yet. Required.
	Path string
	// Node is the name of this node. Required.
	Node string
	// Period is how often Path is read without a cause; 20 seconds if 0.
	Period time.Duration
	// Clock is required.
	Clock clock.WithTicker
}

// File are the pods of manifests on disk (staticPodPath). It reads them when the kernel tells of a change, and now and then.
type File struct {
	manifests
	cfg FileConfig
	wg  sync.WaitGroup
	// The fields below are for the goroutine of run only.
	files map[string]manifest // by path
	gone  map[string]bool     // paths that were removed since the last look, be they there again or not
	grumbler
}

// manifest is what is known of one file.
type manifest struct {
	pod *corev1.Pod // its last good form, nil if it never had any
	// bad is since when it is no good, zero if it is good.
	bad time.Time
}

// NewFile returns the source of manifests on disk.
func NewFile(cfg FileConfig) *File {
	if cfg.Period <= 0 {
		cfg.Period = defaultCheck
	}
	return &File{cfg: cfg, files: map[string]manifest{}, gone: map[string]bool{}}
}

// Name implements Source.
func (f *File) Name() string { return staticpod.File }

// Start implements Source.
func (f *File) Start(ctx context.Context, changed func(types.UID)) error {
	f.wg.Go(func() { f.run(ctx, changed) })
	return nil
}

// Wait implements Source.
func (f *File) Wait() { f.wg.Wait() }

func (f *File) run(ctx context.Context, changed func(types.UID)) {
	logger := klog.FromContext(ctx).WithValues("path", f.cfg.Path)
	w, err := fsnotify.NewWatcher()
	if err != nil {
		logger.Error(err, "Manifests are not watched, only read now and then")
		w = &fsnotify.Watcher{}
	} else {
		defer w.Close()
	}
	ticker := f.cfg.Clock.NewTicker(f.cfg.Period)
	defer ticker.Stop()
	for {
		if err == nil {
			f.follow(w)
		}
		f.log(logger, f.look(changed), "Some static pod manifests cannot be used")
		if !f.await(ctx, w, ticker) {
			return
		}
	}
}

// follow has the kernel tell of changes. What cannot be watched, because it is not there, is tried again at the next look.
func (f *File) follow(w *fsnotify.Watcher) {
	dir := f.cfg.Path
	if info, err := os.Stat(dir); err == nil && !info.IsDir() {
		dir = filepath.Dir(dir) // a file may be replaced by another
	}
	_ = w.Add(dir)
}

// await waits for a cause to look again, and returns false if ctx ended first.
func (f *File) await(ctx context.Context, w *fsnotify.Watcher, ticker clock.Ticker) bool {
	var written <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return false
		case <-ticker.C():
			return true
		case <-written:
			return true
		case e := <-w.Events:
			if e.Has(fsnotify.Remove) || e.Has(fsnotify.Rename) {
				f.gone[e.Name] = true
			}
			if written == nil && !hidden(filepath.Base(e.Name)) {
				t := f.cfg.Clock.NewTimer(settle)
				defer t.Stop()
				written = t.C()
			}
		case err := <-w.Errors:
			klog.FromContext(ctx).V(2).Info("Watching manifests has missed something", "path", f.cfg.Path, "err", err)
			return true
		}
	}
}

func hidden(name string) bool { return strings.HasPrefix(name, ".") }

// look reads all manifests. An error names those that cannot be used.
func (f *File) look(changed func(types.UID)) error {
	now := f.cfg.Clock.Now()
	read, err := f.read(now)
	if err != nil {
		return err
	}
	var gone []types.UID
	for path := range f.gone {
		if p := f.files[path].pod; p != nil {
			gone = append(gone, p.UID)
		}
		delete(f.files, path)
	}
	clear(f.gone)
	var pods []*corev1.Pod
	f.files, pods = remember(f.files, read, now, f.cfg.Period)
	pods, err = distinct(pods)
	errs := []error{err}
	for _, r := range read {
		if r.err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", r.path, r.err))
		}
	}
	for _, uid := range f.replace(pods, gone...) {
		changed(uid)
	}
	return errors.Join(errs...)
}

// reading is what a look at one file has found.
type reading struct {
	path string
	pod  *corev1.Pod
	err  error
}

// remember returns what is known after a look, and the pods that are to run. A file that turns bad keeps its pod for a while: it
// may be half written.
func remember(known map[string]manifest, read []reading, now time.Time, patience time.Duration) (map[string]manifest, []*corev1.Pod) {
	next := map[string]manifest{}
	var pods []*corev1.Pod
	for _, r := range read {
		m := manifest{pod: r.pod}
		if r.err != nil {
			if m = known[r.path]; m.bad.IsZero() {
				m.bad = now
			}
			if now.Sub(m.bad) >= patience {
				m.pod = nil
			}
		}
		next[r.path] = m
		if m.pod != nil {
			pods = append(pods, m.pod)
		}
	}
	return next, pods
}

// read reads the path, which holds no pods if it does not exist.
func (f *File) read(now time.Time) ([]reading, error) {
	info, err := os.Stat(f.cfg.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading static pod manifests: %w", err)
	case info.Mode().IsRegular():
		return []reading{f.readFile(f.cfg.Path, 0, now)}, nil
	case !info.IsDir():
		return []reading{{path: f.cfg.Path, err: irregular(info.Mode())}}, nil
	}
	entries, err := os.ReadDir(f.cfg.Path)
	if err != nil {
		return nil, fmt.Errorf("reading static pod manifests: %w", err)
	}
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return hidden(e.Name()) })
	out := make([]reading, 0, len(entries))
	for _, e := range entries {
		path := filepath.Join(f.cfg.Path, e.Name())
		if !e.Type().IsRegular() { // not even opened: that may wait, or do something
			out = append(out, reading{path: path, err: irregular(e.Type())})
			continue
		}
		if r := f.readFile(path, unix.O_NOFOLLOW, now); !errors.Is(r.err, fs.ErrNotExist) {
			out = append(out, r)
		}
	}
	return out, nil
}

func (f *File) readFile(path string, flags int, now time.Time) reading {
	data, err := contents(path, flags)
	if err != nil {
		return reading{path: path, err: err}
	}
	pod, err := staticpod.Parse(data, staticpod.Origin{Source: staticpod.File, Location: path, Node: f.cfg.Node}, now)
	if err != nil {
		return reading{path: path, err: err}
	}
	return reading{path: path, pod: pod}
}

func irregular(mode fs.FileMode) error {
	return fmt.Errorf("it is no regular file (%s)", mode.Type())
}

// contents reads a regular file of bounded size. It never waits for what is none.
func contents(path string, flags int) ([]byte, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|flags, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, irregular(info.Mode())
	}
	return bounded(file)
}

// bounded reads all, up to the size that a manifest may have.
func bounded(r io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, staticpod.MaxManifest+1))
	if err == nil && len(data) > staticpod.MaxManifest {
		err = fmt.Errorf("it has more than %d bytes", staticpod.MaxManifest)
	}
	return data, err
}
