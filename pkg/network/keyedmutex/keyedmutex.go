// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package keyedmutex is a mutex for each of many keys, so that what takes long about one sandbox holds up no other; touch it if a
// caller is to wait for less than that.
package keyedmutex

import "sync"

// Mutex is a mutex for each key. The zero value has none locked.
type Mutex struct {
	mu    sync.Mutex
	locks map[string]*lock // of keys that somebody has or waits for
}

type lock struct {
	sync.Mutex
	users int
}

// Lock locks a key and returns its unlocking.
func (m *Mutex) Lock(key string) (unlock func()) {
	l := m.enter(key)
	l.Lock()
	return func() {
		l.Unlock()
		m.leave(key, l)
	}
}

func (m *Mutex) enter(key string) *lock {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.locks[key]
	if l == nil {
		if m.locks == nil {
			m.locks = map[string]*lock{}
		}
		l = &lock{}
		m.locks[key] = l
	}
	l.users++
	return l
}

func (m *Mutex) leave(key string, l *lock) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if l.users--; l.users == 0 {
		delete(m.locks, key)
	}
}
