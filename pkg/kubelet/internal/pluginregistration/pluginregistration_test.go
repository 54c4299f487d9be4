// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package pluginregistration

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	registrationv1 "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
	"k8s.io/utils/clock"
)

// plugin registers itself by a socket.
type plugin struct {
	registrationv1.UnimplementedRegistrationServer
	info *registrationv1.PluginInfo
	// hang has its answer wait for the caller's deadline.
	hang bool
	// told are the states that it was told of.
	told   chan *registrationv1.RegistrationStatus
	server *grpc.Server
}

func (p *plugin) GetInfo(ctx context.Context, _ *registrationv1.InfoRequest) (*registrationv1.PluginInfo, error) {
	if p.hang {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return p.info, nil
}

func (p *plugin) NotifyRegistrationStatus(_ context.Context, s *registrationv1.RegistrationStatus) (*registrationv1.RegistrationStatusResponse, error) {
	p.told <- s
	return &registrationv1.RegistrationStatusResponse{}, nil
}

// listen puts a plugin into place. Like one that is killed, it leaves its socket when the server stops.
func listen(t *testing.T, path string, info *registrationv1.PluginInfo, hang bool) *plugin {
	t.Helper()
	p := &plugin{info: info, hang: hang, told: make(chan *registrationv1.RegistrationStatus, 1000), server: grpc.NewServer()}
	var c net.ListenConfig
	l, err := c.Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	registrationv1.RegisterRegistrationServer(p.server, p)
	go func() { _ = p.server.Serve(l) }()
	t.Cleanup(p.server.Stop)
	return p
}

// handler notes what it is told.
type handler struct {
	calls chan string
	fails atomic.Int32 // registrations yet to fail
	hangs atomic.Bool  // registrations wait for their deadline
}

func newHandler() *handler { return &handler{calls: make(chan string, 1000)} }

func (h *handler) Validate(p Plugin) error {
	if p.Versions[0] != "v1" {
		return errors.New("no common version")
	}
	return nil
}

func (h *handler) Register(ctx context.Context, p Plugin) error {
	if h.hangs.Load() && p.Name == "slow" {
		<-ctx.Done()
		return ctx.Err()
	}
	if h.fails.Add(-1) >= 0 {
		return errors.New("not now")
	}
	h.calls <- "+" + p.Name + " " + p.Endpoint
	return nil
}

func (h *handler) Deregister(p Plugin) { h.calls <- "-" + p.Name + " " + p.Endpoint }

const patient = 20 * time.Second

func next[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(patient):
		t.Fatal("nothing comes")
	}
	panic("not reached")
}

func (h *handler) want(t *testing.T, call string) {
	t.Helper()
	if got := next(t, h.calls); got != call {
		t.Fatalf("got %q, want %q", got, call)
	}
}

// start runs a Watcher over a directory and returns how to end it.
func start(t *testing.T, dir string, h Handler) (stop func()) {
	t.Helper()
	w := New(Config{Dir: dir, Handlers: map[string]Handler{registrationv1.CSIPlugin: h}, Clock: clock.RealClock{}})
	w.backoff = time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Start(ctx) }()
	stop = func() {
		cancel()
		if err := next(t, done); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(cancel)
	return stop
}

func info(name, endpoint string) *registrationv1.PluginInfo {
	return &registrationv1.PluginInfo{Type: registrationv1.CSIPlugin, Name: name, Endpoint: endpoint, SupportedVersions: []string{"v1"}}
}

// A plugin is found whether it came before the kubelet or after, is told so, goes with its socket, and stays in use when the
// kubelet ends.
func TestWatcher(t *testing.T) {
	t.Parallel()
	dir, h := t.TempDir(), newHandler()
	early := listen(t, filepath.Join(dir, "early"), info("early", "/e/s"), false)
	stop := start(t, dir, h)
	h.want(t, "+early /e/s")
	if s := next(t, early.told); !s.GetPluginRegistered() || s.GetError() != "" {
		t.Errorf("told %v", s)
	}
	if err := os.MkdirAll(filepath.Join(dir, "a", "b"), 0o700); err != nil {
		t.Fatal(err)
	}
	late := filepath.Join(dir, "a", "b", "late")
	first := listen(t, late, info("late", ""), false)
	h.want(t, "+late "+late)
	next(t, first.told)

	// One that takes its place registers anew, after the other has left.
	if err := os.Remove(late); err != nil {
		t.Fatal(err)
	}
	listen(t, late, info("late", "/l/2"), false)
	h.want(t, "-late "+late)
	h.want(t, "+late /l/2")
	if err := os.RemoveAll(filepath.Join(dir, "a")); err != nil {
		t.Fatal(err)
	}
	h.want(t, "-late /l/2")
	stop()
	select {
	case c := <-h.calls:
		t.Errorf("when the kubelet ends: %s", c)
	default:
	}
	stop = start(t, dir, h)
	h.want(t, "+early /e/s")
	stop()
}

func TestWatcher_Refuses(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		info *registrationv1.PluginInfo
		want string
	}{
		{name: "type", info: &registrationv1.PluginInfo{Type: "Other", Name: "n", Endpoint: "/e"}, want: "RegisterPlugin error -- no handler registered for plugin type: Other at socket /e"},
		{name: "handler", info: &registrationv1.PluginInfo{Type: "CSIPlugin", Name: "n", SupportedVersions: []string{"v9"}}, want: "RegisterPlugin error -- plugin validation failed with err: no common version"},
		{name: "no versions", info: &registrationv1.PluginInfo{Type: "CSIPlugin", Name: "n"}, want: "plugin validation failed with err: no supported versions"},
		{name: "no name", info: info("", "/e"), want: `invalid plugin name ""`},
		{name: "way out", info: info("../n", "/e"), want: `invalid plugin name "../n"`},
		{name: "way out below", info: info("a/../../n", "/e"), want: "invalid plugin name"},
		{name: "its own directory", info: info(".", "/e"), want: "invalid plugin name"},
		{name: "root", info: info("/n", "/e"), want: "invalid plugin name"},
		{name: "control characters", info: info("a\nb", "/e"), want: "invalid plugin name"},
		{name: "long name", info: info(strings.Repeat("n", 254), "/e"), want: "invalid plugin name"},
		{name: "relative endpoint", info: info("n", "e"), want: `endpoint "e" is no absolute path`},
		{name: "endpoint with a way out", info: info("n", "/p/../../e"), want: "is no absolute path"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			dir, h := t.TempDir(), newHandler()
			p := listen(t, filepath.Join(dir, "s"), tc.info, false)
			stop := start(t, dir, h)
			if s := next(t, p.told); s.GetPluginRegistered() || !strings.Contains(s.GetError(), tc.want) {
				t.Errorf("told %v, want %q", s, tc.want)
			}
			stop()
			if len(h.calls) > 0 {
				t.Errorf("it is registered: %s", <-h.calls)
			}
		})
	}
}

// A registration that fails is repeated, and tells the plugin each time.
func TestWatcher_Repeats(t *testing.T) {
	t.Parallel()
	dir, h := t.TempDir(), newHandler()
	h.fails.Store(2)
	p := listen(t, filepath.Join(dir, "s"), info("n", "/e"), false)
	defer start(t, dir, h)()
	for range 2 {
		if s := next(t, p.told); s.GetError() != "RegisterPlugin error -- plugin registration failed with err: not now" {
			t.Errorf("told %v", s)
		}
	}
	h.want(t, "+n /e")
	if s := next(t, p.told); !s.GetPluginRegistered() {
		t.Errorf("told %v", s)
	}
}

// Plugins that do not answer, sockets without a plugin and handlers that hang hold up nobody, nor the end.
func TestWatcher_Hangs(t *testing.T) {
	t.Parallel()
	dir, h := t.TempDir(), newHandler()
	h.hangs.Store(true)
	listen(t, filepath.Join(dir, "1"), info("never", "/e"), true)
	listen(t, filepath.Join(dir, "2"), info("never", "/e"), false).server.Stop()
	listen(t, filepath.Join(dir, "3"), info("slow", "/e"), false)
	stop := start(t, dir, h)
	listen(t, filepath.Join(dir, "4"), info("n", "/e"), false)
	h.want(t, "+n /e")
	stop()
}

// What is no socket in the directory is no plugin: least of all a link to one elsewhere.
func TestScan(t *testing.T) {
	t.Parallel()
	dir, outside := t.TempDir(), t.TempDir()
	listen(t, filepath.Join(outside, "s"), info("evil", "/e"), false)
	listen(t, filepath.Join(dir, ".hidden"), info("hidden", "/e"), false)
	for _, err := range []error{
		os.Symlink(filepath.Join(outside, "s"), filepath.Join(dir, "link")), os.Symlink(outside, filepath.Join(dir, "links")),
		os.WriteFile(filepath.Join(dir, "file"), nil, 0o600), os.MkdirAll(filepath.Join(dir, "sub"), 0o700), os.MkdirAll(filepath.Join(dir, ".sub"), 0o700),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	listen(t, filepath.Join(dir, ".sub", "s"), info("hidden", "/e"), false)
	listen(t, filepath.Join(dir, "sub", "s"), info("n", "/e"), false)
	all, dirs, err := scan(dir)
	if err != nil || len(all) != 1 || len(dirs) != 2 {
		t.Errorf("got %v, %v, %v", all, dirs, err)
	}
	if _, is := all["sub/s"]; !is {
		t.Errorf("got %v", all)
	}
	if _, _, err := scan(filepath.Join(dir, "none")); err == nil {
		t.Error("a directory that is not there has no plugins, and nothing is wrong")
	}
}

// What is found and what is registered is told: they differ while a plugin is refused.
func TestWatcher_Sockets(t *testing.T) {
	t.Parallel()
	dir, h := t.TempDir(), newHandler()
	good, other := filepath.Join(dir, "good"), filepath.Join(dir, "other")
	w := New(Config{Dir: dir, Handlers: map[string]Handler{registrationv1.CSIPlugin: h}, Clock: clock.RealClock{}})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Start(ctx) }()
	await := func(what string, found, registered []string) {
		t.Helper()
		var f, r []string
		for deadline := time.Now().Add(patient); time.Now().Before(deadline); <-time.After(time.Millisecond) {
			f, r = w.Sockets()
			if slices.Sort(f); slices.Equal(f, found) && slices.Equal(r, registered) {
				return
			}
		}
		t.Fatalf("%s: found %v, registered %v", what, f, r)
	}
	listen(t, good, info("good", ""), false)
	await("one", []string{good}, []string{good})
	strange := info("other", "")
	strange.Type = "other"
	listen(t, other, strange, false)
	await("one of a type that nobody knows", []string{good, other}, []string{good})
	if err := os.Remove(good); err != nil {
		t.Fatal(err)
	}
	await("gone", []string{other}, nil)
	cancel()
	if err := next(t, done); err != nil {
		t.Error(err)
	}
}
