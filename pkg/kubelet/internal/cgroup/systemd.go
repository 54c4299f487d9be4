// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cgroup

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/dbus"
	godbus "github.com/godbus/dbus/v5"
)

// patience is how long systemd has for all that a group takes.
const patience = 20 * time.Second

// systemd makes groups as transient slices. What is written to their files as well, systemd has to know, for it writes them
// anew when it is reloaded.
type systemd struct {
	// memoryQoS says that groups keep memory or slow others down. Systemd has not always known how to.
	memoryQoS bool
}

func (s systemd) ensure(group string, l limits) error {
	return withSystemd(func(ctx context.Context, c *dbus.Conn) error {
		name, properties := path.Base(group), s.properties(l)
		err := job(ctx, func(done chan<- string) error {
			_, err := c.StartTransientUnitContext(ctx, name, "replace", properties, done)
			return err
		})
		if isBusError(err, "org.freedesktop.systemd1.UnitExists") {
			err = c.SetUnitPropertiesContext(ctx, name, true, properties...)
		}
		if err != nil {
			return fmt.Errorf("asking systemd for %s: %w", name, err)
		}
		return nil
	})
}

func (systemd) remove(group string) error {
	return withSystemd(func(ctx context.Context, c *dbus.Conn) error {
		name := path.Base(group)
		err := job(ctx, func(done chan<- string) error {
			_, err := c.StopUnitContext(ctx, name, "replace", done)
			return err
		})
		if err != nil && !isBusError(err, "org.freedesktop.systemd1.NoSuchUnit") {
			return fmt.Errorf("asking systemd to stop %s: %w", name, err)
		}
		return nil
	})
}

func withSystemd(do func(context.Context, *dbus.Conn) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := dbus.NewWithContext(ctx)
	if err != nil {
		return fmt.Errorf("connecting to systemd: %w", err)
	}
	defer c.Close()
	return do(ctx, c)
}

// job waits for what a request has set going.
func job(ctx context.Context, request func(done chan<- string) error) error {
	done := make(chan string, 1)
	if err := request(done); err != nil {
		return err
	}
	select {
	case result := <-done:
		if result != "done" {
			return fmt.Errorf("the job's result is %q", result)
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func isBusError(err error, name string) bool {
	e, ok := errors.AsType[godbus.Error](err)
	return ok && e.Name == name
}

// properties are the settings of a group in systemd's words (systemd.resource-control(5)). They are those of cgroup v2,
// which systemd translates for v1.
func (s systemd) properties(r limits) []dbus.Property {
	limit := func(n int64) uint64 {
		if n > 0 {
			return uint64(n)
		}
		return math.MaxUint64
	}
	quota := uint64(math.MaxUint64)
	if r.CPUQuota > 0 {
		// Of each second, in whole hundredths of it: systemd rounds down, below what containers may have.
		const hundredth = uint64(time.Second / time.Microsecond / 100)
		perSecond := uint64(r.CPUQuota) * uint64(time.Second/time.Microsecond) / uint64(r.CPUPeriod)
		quota = (perSecond + hundredth - 1) / hundredth * hundredth
	}
	var out []dbus.Property
	if r.CPUShares > 0 {
		out = append(out, dbus.Property{Name: "CPUWeight", Value: godbus.MakeVariant(uint64(weight(r.CPUShares)))})
	}
	for _, p := range []struct {
		name  string
		value any
	}{
		{"CPUAccounting", true}, {"MemoryAccounting", true}, {"TasksAccounting", true}, {"IOAccounting", true},
		{"CPUQuotaPerSecUSec", quota},
		{"MemoryMax", limit(r.MemoryBytes)},
		{"TasksMax", limit(r.PidsLimit)},
	} {
		out = append(out, dbus.Property{Name: p.name, Value: godbus.MakeVariant(p.value)})
	}
	if s.memoryQoS {
		for name, n := range map[string]uint64{"MemoryMin": uint64(r.memory.min), "MemoryLow": uint64(r.memory.low), "MemoryHigh": limit(r.memory.high)} {
			out = append(out, dbus.Property{Name: name, Value: godbus.MakeVariant(n)})
		}
	}
	return out
}

// sliceName is a group as a part of a slice's name, where a dash means another level.
func sliceName(group string) string {
	return strings.NewReplacer("/", "_", "-", "_").Replace(strings.TrimPrefix(group, "/"))
}

// slicePath is where systemd puts a slice: a-b is below a.
func slicePath(name string) string {
	p := "/"
	for i, r := range name + "-" {
		if r == '-' {
			p = path.Join(p, name[:i]+".slice")
		}
	}
	return p
}
