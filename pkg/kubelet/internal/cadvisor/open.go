// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cadvisor

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// open counts what the processes of a group have open. What ends meanwhile does not count.
func (c *Collector) open(s *subject) {
	if s.PIDs != nil {
		var files, sockets uint64
		for _, pid := range s.PIDs {
			f, n := descriptors(filepath.Join(c.cfg.Proc, strconv.Itoa(pid), "fd"))
			files, sockets = files+f, sockets+n
		}
		s.files, s.sockets = &files, &sockets
	}
	if s.pid > 0 {
		text, _ := os.ReadFile(filepath.Join(c.cfg.Proc, strconv.Itoa(s.pid), "limits")) // it may have ended
		s.maxFiles = maxOpenFiles(string(text))
	}
}

// descriptors counts the links of a folder, and those of them to sockets.
func descriptors(dir string) (files, sockets uint64) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0, 0
	}
	for _, e := range entries {
		if to, err := os.Readlink(filepath.Join(dir, e.Name())); err == nil && strings.HasPrefix(to, "socket:") {
			sockets++
		}
	}
	return uint64(len(entries)), sockets
}

// maxOpenFiles reads the soft limit from the kernel's table; nil if it is not there.
func maxOpenFiles(limits string) *int64 {
	for line := range strings.Lines(limits) {
		rest, is := strings.CutPrefix(line, "Max open files")
		if !is {
			continue
		}
		words := strings.Fields(rest)
		if len(words) == 0 {
			return nil
		}
		if words[0] == "unlimited" {
			return new(int64(-1))
		}
		if n, err := strconv.ParseInt(words[0], 10, 64); err == nil {
			return &n
		}
	}
	return nil
}
