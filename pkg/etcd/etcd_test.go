// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"errors"
	"testing"
)

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
