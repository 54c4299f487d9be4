// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package pluginregistration finds the plugins of a node by the sockets that they put into a directory of the kubelet
// (KEP-595), and tells those who use them. Touch it when plugins come otherwise; a kind of plugins is a Handler.
package pluginregistration

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"minik8s.io/minik8s/pkg/kubelet/internal/socket"
)

// Plugin is what one has said of itself.
type Plugin struct {
	// Type is a key of Config.Handlers, such as registrationv1.CSIPlugin.
	Type string
	// Name is unique in its type, if the plugins keep to that. It is neither empty nor a path out of a directory.
	Name string
	// Endpoint is the absolute path of the socket of its service, in the plugin's eyes (kubeletdir.Standard).
	Endpoint string
	// Versions of the service's API that it speaks.
	Versions []string
}

// Handler takes the plugins of one type. Its methods are called from many goroutines, for one socket one after the other.
type Handler interface {
	// Validate says what is wrong with a plugin, before anything is done about it. It asks nobody.
	Validate(Plugin) error
	// Register takes a plugin into use. After an error it is not in use, and is tried again. The context has a deadline.
	Register(context.Context, Plugin) error
	// Deregister ends that, once for each Register that succeeded, when the socket has gone or is another one's: then Register
	// follows. It is not called when the kubelet ends, for the plugins go on and the next start finds them.
	Deregister(Plugin)
}

// Config is what a Watcher is made from.
type Config struct {
	// Dir is the directory of the sockets, which is there. Required.
	Dir string
	// Handlers by type of plugin. Those of other types are told so, and asked again later.
	Handlers map[string]Handler
	// Clock is required.
	Clock clock.WithTicker
}

const (
	// rescan is how often the directory is read without a cause.
	rescan = 30 * time.Second
	// patience is how long a plugin may take for an answer, a Handler for all that it does.
	patience, handlerPatience = 10 * time.Second, time.Minute
	// firstDelay and lastDelay are those before a plugin is asked again, upstream's.
	firstDelay, lastDelay = 500 * time.Millisecond, 2*time.Minute + 2*time.Second
)

// Watcher finds plugins.
type Watcher struct {
	cfg             Config
	rescan, backoff time.Duration
	sockets         map[string]*attendance // by name; only the goroutine of Start uses it
	wg              sync.WaitGroup

	mu         sync.Mutex // guards the fields below
	found      []string
	registered map[string]int // a socket and its replacement may be for a moment
}

// Sockets are the paths of those that were found, and of those whose plugins are registered.
func (w *Watcher) Sockets() (found, registered []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, name := range w.found {
		found = append(found, filepath.Join(w.cfg.Dir, name))
	}
	for name := range w.registered {
		registered = append(registered, filepath.Join(w.cfg.Dir, name))
	}
	return found, registered
}

// note changes how many plugins of a socket are registered.
func (w *Watcher) note(name string, change int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.registered[name] += change; w.registered[name] == 0 {
		delete(w.registered, name)
	}
}

// attendance is the care for one socket.
type attendance struct {
	id   socket.ID
	end  context.CancelFunc
	gone bool          // the end has been called
	done chan struct{} // closed when nothing more is done for it
}

// New returns a Watcher; nothing happens before Start.
func New(cfg Config) *Watcher {
	return &Watcher{cfg: cfg, rescan: rescan, backoff: firstDelay, sockets: map[string]*attendance{}, registered: map[string]int{}}
}

// Start looks after plugins until ctx ends, each in a goroutine of its own, so that none waits for another.
func (w *Watcher) Start(ctx context.Context) error {
	defer w.wg.Wait()
	logger := klog.FromContext(ctx).WithValues("directory", w.cfg.Dir)
	events, err := fsnotify.NewWatcher()
	if err != nil {
		logger.Error(err, "Plugins are not watched, only looked for now and then")
		events = &fsnotify.Watcher{}
	} else {
		defer events.Close()
	}
	ticker := w.cfg.Clock.NewTicker(w.rescan)
	defer ticker.Stop()
	for said := ""; ; {
		all, dirs, serr := scan(w.cfg.Dir)
		if err == nil && follow(events, dirs) {
			continue // what came before it was watched was not told of
		}
		if text := fmt.Sprint(serr); serr != nil && text != said {
			logger.Error(serr, "Looking for plugins failed")
			said = text
		}
		w.attend(ctx, all, serr == nil)
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
		case <-events.Events:
		case err := <-events.Errors:
			logger.V(2).Info("Watching plugins has missed something", "err", err)
		}
	}
}

// follow has the kernel tell of changes in directories, and returns whether it did not for any of them before.
func follow(events *fsnotify.Watcher, dirs []string) bool {
	known, added := events.WatchList(), false
	for _, d := range dirs {
		if !slices.Contains(known, d) && events.Add(d) == nil {
			added = true
		}
	}
	return added
}

// attend begins with the sockets that are new, and ends with those that have gone if these are all. What replaces another
// begins when that has ended.
func (w *Watcher) attend(ctx context.Context, now map[string]socket.ID, all bool) {
	if all {
		w.mu.Lock()
		w.found = slices.Collect(maps.Keys(now))
		w.mu.Unlock()
	}
	for name, a := range w.sockets {
		if _, there := now[name]; !there && all {
			a.end()
			a.gone = true
			select {
			case <-a.done:
				delete(w.sockets, name)
			default: // kept so that one that comes now waits for it
			}
		}
	}
	for name, id := range now {
		before := w.sockets[name]
		if before != nil && before.id == id && !before.gone {
			continue
		}
		own, cancel := context.WithCancel(ctx)
		a := &attendance{id: id, end: cancel, done: make(chan struct{})}
		w.sockets[name] = a
		w.wg.Go(func() {
			defer close(a.done)
			defer cancel()
			if before != nil {
				before.end()
				<-before.done
			}
			w.look(own, ctx, name, id)
		})
	}
}

// look registers the plugin of a socket until that succeeds, and deregisters it when ctx ends, unless because the kubelet does.
func (w *Watcher) look(ctx, kubelet context.Context, name string, id socket.ID) {
	logger := klog.FromContext(ctx).WithValues("socket", filepath.Join(w.cfg.Dir, name))
	for delay := w.backoff; ; delay = min(2*delay, lastDelay) {
		p, err := w.register(ctx, name, id)
		if err != nil && ctx.Err() == nil {
			logger.Error(err, "Registering a plugin failed", "registered", p != nil)
		}
		if p != nil {
			logger.Info("Plugin registered", "type", p.Type, "plugin", p.Name, "endpoint", p.Endpoint)
			w.note(name, 1)
			<-ctx.Done()
			w.note(name, -1)
			if kubelet.Err() == nil {
				w.cfg.Handlers[p.Type].Deregister(*p)
				logger.Info("Plugin deregistered", "type", p.Type, "plugin", p.Name)
			}
			return
		}
		timer := w.cfg.Clock.NewTimer(delay)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C():
		}
	}
}

// check refuses what would hurt whoever makes paths of it.
func check(p Plugin) error {
	local := filepath.IsLocal(p.Name) && filepath.Clean(p.Name) == p.Name && p.Name != "."
	switch {
	case !local || len(p.Name) > 253 || strings.ContainsFunc(p.Name, func(r rune) bool { return r <= ' ' || r > '~' || r == '\\' }):
		return fmt.Errorf("invalid plugin name %q", p.Name)
	case !filepath.IsAbs(p.Endpoint) || filepath.Clean(p.Endpoint) != p.Endpoint:
		return fmt.Errorf("endpoint %q is no absolute path", p.Endpoint)
	case len(p.Versions) == 0:
		return errors.New("no supported versions")
	}
	return nil
}
