// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
)

// Message is what a guest wrote.
type Message struct {
	Text string `json:"text"`
}

// Batch is what a leader sends to followers: the messages from an index on, of the journal with an identity.
type Batch struct {
	Journal  string    `json:"journal"`
	Messages []Message `json:"messages"`
}

// journal is a list of messages that only grows. Its identity changes when it starts anew, so that a follower knows that
// what it has copied is no longer a part of it. Safe for concurrent use.
type journal struct {
	file *os.File // nil for a follower

	mu       sync.Mutex // guards what follows
	id       string
	ready    bool // a follower is once it has copied something
	messages []Message
	grown    chan struct{} // closed, and replaced, when there is more
}

func newJournal() *journal { return &journal{grown: make(chan struct{})} }

// openJournal reads a file or makes it. Its first line is the identity, each further one a message; a last line without
// end, which a crash can leave, is cut off.
func openJournal(path string) (*journal, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	j := newJournal()
	j.file, j.ready = f, true
	if err := j.load(); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	return j, nil
}

func (j *journal) load() error {
	reader, size := bufio.NewReader(j.file), int64(0)
	for {
		line, err := reader.ReadBytes('\n')
		if err != nil { // the end, perhaps within a line
			break
		}
		if j.id == "" {
			j.id = string(line[:len(line)-1])
		} else {
			var m Message
			if err := json.Unmarshal(line, &m); err != nil {
				return err
			}
			j.messages = append(j.messages, m)
		}
		size += int64(len(line))
	}
	if err := j.file.Truncate(size); err != nil {
		return err
	}
	if _, err := j.file.Seek(size, 0); err != nil {
		return err
	}
	if j.id != "" {
		return nil
	}
	j.id = rand.Text()
	return j.write([]byte(j.id))
}

func (j *journal) write(line []byte) error {
	if _, err := j.file.Write(append(line, '\n')); err != nil {
		return err
	}
	return j.file.Sync()
}

func (j *journal) close() error { return j.file.Close() }

// add appends a message; when it returns the message is on disk.
func (j *journal) add(m Message) error {
	if j.file == nil {
		return errors.New("a follower takes no writes")
	}
	line, err := json.Marshal(m)
	if err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.write(line); err != nil {
		return err
	}
	j.messages = append(j.messages, m)
	j.announce()
	return nil
}

// announce wakes those who wait; j.mu is held.
func (j *journal) announce() {
	close(j.grown)
	j.grown = make(chan struct{})
}

// all returns the messages.
func (j *journal) all() []Message {
	j.mu.Lock()
	defer j.mu.Unlock()
	return append([]Message{}, j.messages...)
}

// copied tells whether there is something to read from.
func (j *journal) copied() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.ready
}

// position is what a follower has.
func (j *journal) position() (id string, next int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.id, len(j.messages)
}

// since returns what follows index next of the journal id, and waits for more until ctx ends if there is nothing. If the
// journal is another one, it returns all of it.
func (j *journal) since(ctx context.Context, id string, next int) Batch {
	for {
		j.mu.Lock()
		if id != j.id || next > len(j.messages) {
			next = 0
		}
		batch, grown := Batch{Journal: j.id, Messages: append([]Message{}, j.messages[next:]...)}, j.grown
		j.mu.Unlock()
		if len(batch.Messages) > 0 || id != batch.Journal {
			return batch
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return batch
		}
	}
}

// apply adds what a leader sent in answer to position.
func (j *journal) apply(b Batch, id string, next int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if b.Journal != id || next != len(j.messages) {
		j.messages = nil
	}
	j.id, j.ready = b.Journal, true
	j.messages = append(j.messages, b.Messages...)
	j.announce()
}
