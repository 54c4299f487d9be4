// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package socket

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	registrationv1 "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// named answers by its name.
type named struct {
	registrationv1.UnimplementedRegistrationServer
	name string
}

func (n named) GetInfo(context.Context, *registrationv1.InfoRequest) (*registrationv1.PluginInfo, error) {
	return &registrationv1.PluginInfo{Name: n.name}, nil
}

// serve has a plugin listen. The path may be long, so that it is given by the folder it is in.
func serve(t *testing.T, dir, file, name string) *grpc.Server {
	t.Helper()
	f, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var c net.ListenConfig
	l, err := c.Listen(t.Context(), "unix", filepath.Join("/proc/self/fd", strconv.Itoa(int(f.Fd())), file))
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	s := grpc.NewServer()
	registrationv1.RegisterRegistrationServer(s, named{name: name})
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	return s
}

func ask(t *testing.T, s *Socket) (string, error) {
	t.Helper()
	conn, err := s.Client()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	info, err := registrationv1.NewRegistrationClient(conn).GetInfo(ctx, &registrationv1.InfoRequest{})
	return info.GetName(), err
}

func TestOpen(t *testing.T) {
	t.Parallel()
	outside, dir := t.TempDir(), filepath.Join(t.TempDir(), strings.Repeat("long", 40))
	for _, d := range []string{dir, filepath.Join(dir, "sub"), filepath.Join(outside, "in")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	serve(t, dir, "a.sock", "a")
	serve(t, filepath.Join(dir, "sub"), "b.sock", "b")
	serve(t, filepath.Join(outside, "in"), "evil.sock", "evil")
	links := map[string]string{
		"link.sock": "a.sock", "out.sock": filepath.Join(outside, "in", "evil.sock"), "out": filepath.Join(outside, "in"), "subs": "sub",
	}
	for name, to := range links {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"a.sock": "a", "sub/b.sock": "b",
		"link.sock": "", "out.sock": "", "out/evil.sock": "", "subs/b.sock": "", "file": "", "sub": "", "none": "", "": "", "..": "",
		"../" + filepath.Base(dir) + "/a.sock": "", filepath.Join(outside, "in", "evil.sock"): "",
	} {
		s, err := Open(dir, name)
		if want == "" {
			if err == nil {
				t.Errorf("%q is opened", name)
			}
			continue
		}
		if err != nil {
			t.Errorf("%q: %v", name, err)
			continue
		}
		if got, err := ask(t, s); got != want || err != nil {
			t.Errorf("%q answers %q, %v", name, got, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A handle stays that of the socket that was found.
func TestOpen_Replaced(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	serve(t, dir, "s", "first")
	first, err := Open(dir, "s")
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	if err := os.Remove(filepath.Join(dir, "s")); err != nil {
		t.Fatal(err)
	}
	serve(t, dir, "s", "second")
	second, err := Open(dir, "s")
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	again, err := Open(dir, "s")
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if first.ID() == second.ID() || second.ID() != again.ID() {
		t.Errorf("first %v, second %v, again %v", first.ID(), second.ID(), again.ID())
	}
	for s, want := range map[*Socket]string{first: "first", second: "second"} {
		if got, err := ask(t, s); got != want || err != nil {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
	}
}

// A client by name follows who takes the place of a socket, and no link.
func TestClient(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	conn, err := Client(dir, "s")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	answer := func() string {
		conn.ResetConnectBackoff()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		info, _ := registrationv1.NewRegistrationClient(conn).GetInfo(ctx, &registrationv1.InfoRequest{})
		return info.GetName()
	}
	await := func(want string) {
		t.Helper()
		for deadline := time.Now().Add(20 * time.Second); answer() != want; <-time.After(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%q does not answer", want)
			}
		}
	}
	await("")
	first := serve(t, dir, "s", "first")
	await("first")
	first.Stop()
	if err := os.Remove(filepath.Join(dir, "s")); err != nil {
		t.Fatal(err)
	}
	second := serve(t, dir, "s", "second")
	await("second")
	second.Stop()
	serve(t, dir, "other", "other")
	if err := errors.Join(os.Remove(filepath.Join(dir, "s")), os.Symlink("other", filepath.Join(dir, "s"))); err != nil {
		t.Fatal(err)
	}
	await("")
	if got := answer(); got != "" {
		t.Errorf("a link leads to %q", got)
	}
}
