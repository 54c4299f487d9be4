// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package nodeshutdown

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"
)

// Fake is a logind for tests. Its methods may be called at any time.
type Fake struct {
	mu        sync.Mutex
	delay     time.Duration
	stubborn  bool
	preparing bool
	locks     int
	connects  int
	refuses   map[string]error
	watchers  []chan struct{}
}

// NewFake returns one that holds a shutdown up for at most delay, until it is asked to for longer.
func NewFake(delay time.Duration) *Fake { return &Fake{delay: delay, refuses: map[string]error{}} }

// Connect is for Config.Connect.
func (f *Fake) Connect(context.Context) (Logind, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.connects++
	if err := f.refuses["Connect"]; err != nil {
		return nil, err
	}
	return &fakeConn{f: f}, nil
}

// Refuse lets a method fail, nil: not any more.
func (f *Fake) Refuse(method string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refuses[method] = err
}

// Stubborn lets it take what it is asked for, and not do it.
func (f *Fake) Stubborn() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stubborn = true
}

// Shutdown begins a shutdown, or cancels it. Who watches is told.
func (f *Fake) Shutdown(begins bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.preparing = begins
	f.tell()
}

// Hint tells who watches that there may be news.
func (f *Fake) Hint() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tell()
}

func (f *Fake) tell() {
	for _, w := range f.watchers {
		select {
		case w <- struct{}{}:
		default:
		}
	}
}

// Break ends all connections.
func (f *Fake) Break() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, w := range f.watchers {
		close(w)
	}
	f.watchers = nil
}

// Locks is how many hold the shutdown up.
func (f *Fake) Locks() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.locks
}

// Connects is how often somebody has connected.
func (f *Fake) Connects() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.connects
}

type fakeConn struct{ f *Fake }

func (c *fakeConn) refused(method string) error {
	return c.f.refuses[method]
}

func (c *fakeConn) Delay(context.Context) (time.Duration, error) {
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	return c.f.delay, c.refused("Delay")
}

func (c *fakeConn) Extend(_ context.Context, d time.Duration) error {
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	if err := c.refused("Extend"); err != nil || c.f.stubborn {
		return err
	}
	time.AfterFunc(time.Second, func() { // it reads its settings when it comes to it
		c.f.mu.Lock()
		defer c.f.mu.Unlock()
		c.f.delay = d
	})
	return nil
}

func (c *fakeConn) Inhibit(context.Context) (io.Closer, error) {
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	if err := c.refused("Inhibit"); err != nil {
		return nil, err
	}
	if c.f.preparing {
		return nil, errors.New("the operation inhibition has been requested for is already running")
	}
	c.f.locks++
	return &fakeLock{f: c.f}, nil
}

func (c *fakeConn) Preparing(context.Context) (bool, error) {
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	return c.f.preparing, c.refused("Preparing")
}

func (c *fakeConn) Watch(context.Context) (<-chan struct{}, error) {
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	if err := c.refused("Watch"); err != nil {
		return nil, err
	}
	w := make(chan struct{}, 1)
	c.f.watchers = append(c.f.watchers, w)
	return w, nil
}

func (c *fakeConn) Close() error { return nil }

type fakeLock struct {
	f    *Fake
	once sync.Once
}

func (l *fakeLock) Close() error {
	l.once.Do(func() {
		l.f.mu.Lock()
		defer l.f.mu.Unlock()
		l.f.locks--
	})
	return nil
}
