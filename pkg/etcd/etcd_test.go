// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.uber.org/zap"
)

// What etcd says when it cannot go on reaches the user with a remedy, and the process ends.
func TestLast(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		err  error
		want string
	}{
		{"disk full", &os.PathError{Op: "write", Path: "wal", Err: syscall.ENOSPC}, "write wal: no space left on device; the disk is full: free some space"},
		{"disk full, told in words", errors.New("preallocating: no space left on device"), "the disk is full: free some space"},
		{"another", errors.New("broken"), "failed to save: broken; start again"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var told string
			code := 0
			hook := last{exit: func(c int) { code = c }, tell: func(err error, message string, more ...any) { told = fmt.Sprint(message, ": ", err, "; ", more[1]) }}
			zap.NewExample(zap.WithFatalHook(hook)).Fatal("failed to save", zap.Error(tc.err))
			if code != 1 || !strings.Contains(told, tc.want) {
				t.Errorf("exit code %d, told %q, want %q", code, told, tc.want)
			}
		})
	}
}

// TestMember_StatusWhileItStops asks for the status, as collectors of metrics do, until after the member has stopped.
func TestMember_StatusWhileItStops(t *testing.T) {
	m, err := Start(t.Context(), Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Status(t.Context(), m.Endpoints()[0]); err != nil {
		t.Fatalf("of one that serves: %v", err)
	}
	asked := make(chan error)
	go func() {
		var err error
		for err == nil {
			_, err = m.Status(t.Context(), m.Endpoints()[0])
		}
		asked <- err
	}()
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	if err := <-asked; !errors.Is(err, rpctypes.ErrStopped) {
		t.Errorf("of one that stops: %v", err)
	}
	if _, err := m.Status(t.Context(), m.Endpoints()[0]); !errors.Is(err, rpctypes.ErrStopped) {
		t.Errorf("of one that has stopped: %v", err)
	}
}

func TestMember_KeepsDataAndLocksDirectory(t *testing.T) {
	ctx := context.Background()
	c := Config{Dir: t.TempDir()}
	m, err := Start(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.NewClient().Put(ctx, "/k", "v"); err != nil {
		t.Fatal(err)
	}
	if err := m.Healthy(ctx); err != nil {
		t.Errorf("Healthy: %v", err)
	}
	if _, err := Start(ctx, c); !errors.Is(err, ErrInUse) {
		t.Errorf("second start = %v, want ErrInUse", err)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}

	m, err = Start(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	got, err := m.NewClient().Get(ctx, "/k")
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Kvs) != 1 || string(got.Kvs[0].Value) != "v" {
		t.Errorf("after restart /k = %v, want v", got.Kvs)
	}
}
