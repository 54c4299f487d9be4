// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package oom finds in the messages of the kernel that it has killed a process because the machine, or a container, has no memory left; touch
// it when the kernel words that otherwise.
package oom

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"
)

// Kernel is where the kernel's messages are read.
const Kernel = "/dev/kmsg"

// longest is how long a message of the kernel is at most, in bytes.
const longest = 8192

// Kill is that of a process for want of memory.
type Kill struct {
	Process string
	PID     int
	// Container is the engine's id of the one that the process was in, "" if the kernel has not said so.
	Container string
	// System: it was the machine that had no memory left, and not a cgroup that was at its limit.
	System bool
}

// Message is the text of upstream's event SystemOOM.
func (k Kill) Message() string {
	text := "System OOM encountered"
	if k.Process != "" && k.PID != 0 {
		text += fmt.Sprintf(", victim process: %s, pid: %d", k.Process, k.PID)
	}
	return text
}

// Watch tells of each kill from now on until ctx ends; then it returns nil. tell must not block.
func Watch(ctx context.Context, file string, tell func(Kill)) error {
	f, err := os.Open(file)
	if err != nil {
		return fmt.Errorf("reading the kernel's messages: %w", err)
	}
	defer f.Close()
	defer context.AfterFunc(ctx, func() { _ = f.Close() })()
	if _, err := f.Seek(0, io.SeekEnd); err != nil && !errors.Is(err, syscall.ESPIPE) {
		return fmt.Errorf("reading the kernel's messages: %w", err)
	}
	var p parser
	buffer := make([]byte, longest)
	for {
		n, err := f.Read(buffer)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, syscall.EPIPE): // some were overwritten before they were read
			continue
		case err != nil:
			return fmt.Errorf("reading the kernel's messages: %w", err)
		}
		for line := range bytes.Lines(buffer[:n]) {
			if k, ok := p.add(string(line)); ok {
				tell(k)
			}
		}
	}
}

var (
	constraint = regexp.MustCompile(`^oom-kill:constraint=(\w+),`)
	group      = regexp.MustCompile(`,task_memcg=[^,]*?([0-9a-f]{64})`)
	victim     = regexp.MustCompile(`Killed process ([0-9]+) \((.+?)\)(?:,| |$)`)
)

// parser puts the messages about one kill together. Before Linux 5.0 none of them names the constraint, but one the group.
type parser struct {
	// begun: the kernel looks for a victim, in a cgroup if that is limited.
	begun, limited bool
	container      string
}

// add looks at a record of the kernel, "priority,sequence,time,flags;message", and returns the kill that it is the last one of.
func (p *parser) add(record string) (Kill, bool) {
	head, message, ok := strings.Cut(strings.TrimRight(record, "\n"), ";")
	if !ok || strings.HasPrefix(record, " ") || !fromKernel(head) {
		return Kill{}, false
	}
	if strings.Contains(message, "invoked oom-killer:") {
		*p = parser{begun: true}
		return Kill{}, false
	}
	if !p.begun {
		return Kill{}, false
	}
	if m := constraint.FindStringSubmatch(message); m != nil {
		p.limited = m[1] == "CONSTRAINT_MEMCG"
		if m := group.FindStringSubmatch(message); m != nil {
			p.container = m[1]
		}
	} else if strings.Contains(message, "killed as a result of limit of") {
		p.limited = true
	}
	m := victim.FindStringSubmatch(message)
	if m == nil {
		return Kill{}, false
	}
	pid, err := strconv.Atoi(m[1])
	if err != nil {
		return Kill{}, false
	}
	k := Kill{Process: m[2], PID: pid, Container: p.container, System: !p.limited}
	*p = parser{}
	return k, true
}

// fromKernel says whether a record is the kernel's by its priority: whoever may write messages must not make up a kill.
func fromKernel(head string) bool {
	text, _, _ := strings.Cut(head, ",")
	priority, err := strconv.Atoi(text)
	return err == nil && priority>>3 == 0
}
