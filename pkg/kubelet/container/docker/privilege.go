// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// privilege is what this machine can give to containers. A container of "all" privileges cannot start where the
// bounding set lacks some capability, as in many virtual machines and in containers, so what is asked is cut down to
// what there is.
type privilege struct {
	// missing are the capabilities that the machine cannot give, without their prefix CAP_.
	missing []string
	// oomScoreAdj is the least value that can be given: without CAP_SYS_RESOURCE it cannot be lowered below one's own.
	oomScoreAdj int
}

// ownPrivilege reads it from this process, which stands for the daemon on the same machine.
func ownPrivilege() (privilege, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return privilege{}, fmt.Errorf("reading the capability bounding set: %w", err)
	}
	last, err := os.ReadFile("/proc/sys/kernel/cap_last_cap")
	if err != nil {
		return privilege{}, fmt.Errorf("reading the kernel's last capability: %w", err)
	}
	adj, err := os.ReadFile("/proc/self/oom_score_adj")
	if err != nil {
		return privilege{}, fmt.Errorf("reading the OOM score adjustment: %w", err)
	}
	return parsePrivilege(string(status), string(last), string(adj))
}

func parsePrivilege(status, last, adj string) (privilege, error) {
	p := privilege{oomScoreAdj: -1000}
	lastCap, err := strconv.Atoi(strings.TrimSpace(last))
	if err != nil {
		return p, fmt.Errorf("parsing the kernel's last capability: %w", err)
	}
	for line := range strings.Lines(status) {
		text, ok := strings.CutPrefix(line, "CapBnd:")
		if !ok {
			continue
		}
		bounding, err := strconv.ParseUint(strings.TrimSpace(text), 16, 64)
		if err != nil {
			return p, fmt.Errorf("parsing the capability bounding set: %w", err)
		}
		for i, name := range capabilities {
			if i > lastCap || bounding&(1<<i) != 0 {
				continue
			}
			p.missing = append(p.missing, name)
			if name == "SYS_RESOURCE" {
				if p.oomScoreAdj, err = strconv.Atoi(strings.TrimSpace(adj)); err != nil {
					return p, fmt.Errorf("parsing the OOM score adjustment: %w", err)
				}
			}
		}
	}
	return p, nil
}

// capabilities are Linux's, by number (capability.h).
var capabilities = []string{
	"CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP",
	"LINUX_IMMUTABLE", "NET_BIND_SERVICE", "NET_BROADCAST", "NET_ADMIN", "NET_RAW", "IPC_LOCK", "IPC_OWNER",
	"SYS_MODULE", "SYS_RAWIO", "SYS_CHROOT", "SYS_PTRACE", "SYS_PACCT", "SYS_ADMIN", "SYS_BOOT", "SYS_NICE",
	"SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "MKNOD", "LEASE", "AUDIT_WRITE", "AUDIT_CONTROL", "SETFCAP",
	"MAC_OVERRIDE", "MAC_ADMIN", "SYSLOG", "WAKE_ALARM", "BLOCK_SUSPEND", "AUDIT_READ", "PERFMON", "BPF",
	"CHECKPOINT_RESTORE",
}
