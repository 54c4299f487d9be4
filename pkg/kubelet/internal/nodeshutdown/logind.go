// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package nodeshutdown

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/godbus/dbus/v5"
	"github.com/moby/sys/atomicwriter"
)

const (
	service = "org.freedesktop.login1"
	object  = dbus.ObjectPath("/org/freedesktop/login1")
	manager = "org.freedesktop.login1.Manager"
	// patience is how long an answer may take.
	patience = 20 * time.Second
)

// configDir holds settings of logind until the next boot.
const configDir = "/run/systemd/logind.conf.d"

// systemBus is systemd's logind.
type systemBus struct {
	conn   *dbus.Conn
	cancel context.CancelFunc
	dir    string
}

var _ Logind = (*systemBus)(nil)

// Connect connects to systemd's logind by the system's D-Bus. The connection ends with ctx.
func Connect(ctx context.Context) (Logind, error) { return connect(ctx, configDir) }

func connect(ctx context.Context, dir string) (Logind, error) {
	ctx, cancel := context.WithCancel(ctx)
	late := time.AfterFunc(patience, cancel)
	conn, err := dbus.ConnectSystemBus(dbus.WithContext(ctx))
	if err == nil && !late.Stop() {
		err = errors.Join(context.DeadlineExceeded, conn.Close())
	}
	if err != nil {
		late.Stop()
		cancel()
		return nil, fmt.Errorf("connecting to the system's D-Bus: %w", err)
	}
	return &systemBus{conn: conn, cancel: cancel, dir: dir}, nil
}

func (b *systemBus) Close() error {
	defer b.cancel()
	return b.conn.Close()
}

// call asks what may hang.
func (b *systemBus) call(ctx context.Context, dest string, path dbus.ObjectPath, method string, args ...any) *dbus.Call {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return b.conn.Object(dest, path).CallWithContext(ctx, method, 0, args...)
}

func property[T any](ctx context.Context, b *systemBus, name string) (T, error) {
	var v dbus.Variant
	var zero T
	if err := b.call(ctx, service, object, "org.freedesktop.DBus.Properties.Get", manager, name).Store(&v); err != nil {
		return zero, fmt.Errorf("reading %s of logind: %w", name, err)
	}
	value, is := v.Value().(T)
	if !is {
		return zero, fmt.Errorf("reading %s of logind: it is a %s", name, v.Signature())
	}
	return value, nil
}

func (b *systemBus) Delay(ctx context.Context) (time.Duration, error) {
	n, err := property[uint64](ctx, b, "InhibitDelayMaxUSec")
	return time.Duration(n) * time.Microsecond, err
}

// Extend writes a setting that holds until the next boot.
func (b *systemBus) Extend(ctx context.Context, d time.Duration) error {
	if err := os.MkdirAll(b.dir, 0o755); err != nil {
		return fmt.Errorf("making logind wait for pods: %w", err)
	}
	text := fmt.Sprintf("# Kubelet logind override\n[Login]\nInhibitDelayMaxSec=%.0f\n", d.Seconds())
	if err := atomicwriter.WriteFile(filepath.Join(b.dir, "99-kubelet.conf"), []byte(text), 0o644); err != nil {
		return fmt.Errorf("making logind wait for pods: %w", err)
	}
	const hangup = int32(1)
	if err := b.call(ctx, "org.freedesktop.systemd1", "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager.KillUnit",
		"systemd-logind.service", "all", hangup).Err; err != nil {
		return fmt.Errorf("having logind read its settings: %w", err)
	}
	return nil
}

func (b *systemBus) Inhibit(ctx context.Context) (io.Closer, error) {
	var fd dbus.UnixFD
	if err := b.call(ctx, service, object, manager+".Inhibit", "shutdown", "kubelet", "Kubelet needs time to handle node shutdown", "delay").Store(&fd); err != nil {
		return nil, fmt.Errorf("creating an inhibitor of logind: %w", err)
	}
	return os.NewFile(uintptr(fd), "inhibitor"), nil
}

func (b *systemBus) Preparing(ctx context.Context) (bool, error) {
	return property[bool](ctx, b, "PreparingForShutdown")
}

// Watch takes signals for what they are, hints: anybody may send one.
func (b *systemBus) Watch(ctx context.Context) (<-chan struct{}, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := b.conn.AddMatchSignalContext(ctx, dbus.WithMatchSender(service), dbus.WithMatchObjectPath(object), dbus.WithMatchInterface(manager),
		dbus.WithMatchMember("PrepareForShutdown")); err != nil {
		return nil, fmt.Errorf("watching logind: %w", err)
	}
	signals, changes := make(chan *dbus.Signal, 1), make(chan struct{}, 1)
	b.conn.Signal(signals)
	go func() {
		defer close(changes)
		for s := range signals {
			if s.Name == manager+".PrepareForShutdown" {
				select {
				case changes <- struct{}{}:
				default: // one is enough to have a look
				}
			}
		}
	}()
	return changes, nil
}
