// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package nodeshutdown

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"

	"minik8s.io/minik8s/pkg/machinetest"
)

// login1 is a logind on a bus of the test's own.
type login1 struct {
	conn *dbus.Conn
	conf string

	mu        sync.Mutex
	delay     uint64
	preparing bool
	inhibitor *os.File // the other end of the newest
	sent      *os.File // that one itself
	asked     []string
}

func (l *login1) Inhibit(what, who, why, mode string) (dbus.UnixFD, *dbus.Error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r, w, err := os.Pipe()
	if err != nil {
		return 0, dbus.MakeFailedError(err)
	}
	l.asked, l.inhibitor, l.sent = []string{what, who, why, mode}, r, w
	return dbus.UnixFD(w.Fd()), nil
}

func (l *login1) Get(_, name string) (dbus.Variant, *dbus.Error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch name {
	case "InhibitDelayMaxUSec":
		return dbus.MakeVariant(l.delay), nil
	case "PreparingForShutdown":
		return dbus.MakeVariant(l.preparing), nil
	}
	return dbus.Variant{}, dbus.MakeFailedError(os.ErrNotExist)
}

// KillUnit is systemd's: it has logind read its settings.
func (l *login1) KillUnit(unit, _ string, signal int32) *dbus.Error {
	l.mu.Lock()
	defer l.mu.Unlock()
	text, err := os.ReadFile(l.conf)
	if err != nil || unit != "systemd-logind.service" || signal != 1 || string(text) != "# Kubelet logind override\n[Login]\nInhibitDelayMaxSec=40\n" {
		return dbus.MakeFailedError(os.ErrInvalid)
	}
	l.delay = 40_000_000
	return nil
}

func (l *login1) shutdown(t *testing.T, begins bool) {
	t.Helper()
	l.mu.Lock()
	l.preparing = begins
	l.mu.Unlock()
	if err := l.conn.Emit(object, manager+".PrepareForShutdown", begins); err != nil {
		t.Fatal(err)
	}
}

// newLogin1 starts a bus, makes it the system's for this test, and puts a logind and a systemd on it.
func newLogin1(t *testing.T) *login1 {
	t.Helper()
	machinetest.Programs(t, "dbus-daemon")
	dir := t.TempDir()
	config := filepath.Join(dir, "bus.conf")
	if err := os.WriteFile(config, []byte(`<busconfig><type>custom</type><listen>unix:path=`+dir+`/bus</listen><auth>EXTERNAL</auth>`+
		`<policy context="default"><allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/><allow own="*"/></policy></busconfig>`), 0o600); err != nil {
		t.Fatal(err)
	}
	daemon := exec.CommandContext(t.Context(), "dbus-daemon", "--config-file="+config, "--nofork", "--print-address")
	out, err := daemon.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = daemon.Process.Kill(); _ = daemon.Wait() })
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	address := "unix:path=" + dir + "/bus"
	t.Setenv("DBUS_SYSTEM_BUS_ADDRESS", address)
	conn, err := dbus.Connect(address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	l := &login1{conn: conn, conf: filepath.Join(dir, "conf.d", "99-kubelet.conf"), delay: 5_000_000}
	for name, export := range map[string]struct {
		path  dbus.ObjectPath
		iface string
	}{
		service: {object, manager}, "org.freedesktop.DBus.Properties": {object, "org.freedesktop.DBus.Properties"},
		"org.freedesktop.systemd1": {"/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager"},
	} {
		if err := conn.Export(l, export.path, export.iface); err != nil {
			t.Fatal(err)
		}
		if name == "org.freedesktop.DBus.Properties" {
			continue
		}
		if reply, err := conn.RequestName(name, dbus.NameFlagDoNotQueue); err != nil || reply != dbus.RequestNameReplyPrimaryOwner {
			t.Fatalf("%s: %v, %v", name, reply, err)
		}
	}
	return l
}

func TestConnect(t *testing.T) {
	l := newLogin1(t)
	ctx := t.Context()
	bus, err := connect(ctx, filepath.Dir(l.conf))
	if err != nil {
		t.Fatal(err)
	}
	defer bus.Close()
	if d, err := bus.Delay(ctx); err != nil || d != 5*time.Second {
		t.Errorf("delay %v, %v", d, err)
	}
	if err := bus.Extend(ctx, 40*time.Second); err != nil {
		t.Error(err)
	}
	if d, err := bus.Delay(ctx); err != nil || d != 40*time.Second {
		t.Errorf("delay %v, %v", d, err)
	}
	changes, err := bus.Watch(ctx)
	if err != nil {
		t.Fatal(err)
	}
	lock, err := bus.Inhibit(ctx)
	if err != nil {
		t.Fatal(err)
	}
	l.mu.Lock()
	if got, want := l.asked, []string{"shutdown", "kubelet", "Kubelet needs time to handle node shutdown", "delay"}; len(got) != 4 || got[0] != want[0] || got[3] != want[3] {
		t.Errorf("asked for %v", got)
	}
	defer l.inhibitor.Close()
	if err := l.sent.Close(); err != nil { // the kubelet has a copy
		t.Error(err)
	}
	l.mu.Unlock()
	for _, begins := range []bool{true, false} {
		l.shutdown(t, begins)
		<-changes
		if p, err := bus.Preparing(ctx); err != nil || p != begins {
			t.Errorf("preparing %v, %v", p, err)
		}
	}
	if err := lock.Close(); err != nil {
		t.Error(err)
	}
	if n, err := l.inhibitor.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("the lock stays: %d, %v", n, err)
	}
	if err := bus.Close(); err != nil {
		t.Error(err)
	}
	if _, ok := <-changes; ok {
		t.Error("a connection that has ended tells of changes")
	}
}

// Where there is no bus, or nobody on it, that is an error and no wait.
func TestConnect_Nobody(t *testing.T) {
	t.Setenv("DBUS_SYSTEM_BUS_ADDRESS", "unix:path="+filepath.Join(t.TempDir(), "none"))
	if _, err := Connect(t.Context()); err == nil {
		t.Error("no error")
	}
	l := newLogin1(t)
	if _, err := l.conn.ReleaseName(service); err != nil {
		t.Fatal(err)
	}
	bus, err := Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer bus.Close()
	if _, err := bus.Delay(t.Context()); err == nil {
		t.Error("no error")
	}
}
