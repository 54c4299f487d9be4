// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package oom

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

const (
	begins = "4,801,6061,-;stress invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0\n"
	killed = "3,809,6066,-;Out of memory: Killed process 4711 (stress (1)), UID 0, total-vm:1052kB\n"
)

func TestParser(t *testing.T) {
	t.Parallel()
	stress := Kill{Process: "stress", PID: 4711}
	system := Kill{Process: "stress", PID: 4711, System: true}
	id := strings.Repeat("0a1b", 16)
	ofContainer := Kill{Process: "stress", PID: 4711, Container: id}
	for _, tc := range []struct {
		name, text string
		want       []Kill
	}{
		{"the machine's", begins + "6,2,3,-;Mem-Info:\n6,3,4,-;oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,task_memcg=/a,task=stress,pid=4711,uid=0\n" +
			"3,809,6066,-;Out of memory: Killed process 4711 (stress) total-vm:1052kB\n", []Kill{system}},
		{"of a cpuset", begins + "6,3,4,-;oom-kill:constraint=CONSTRAINT_CPUSET,nodemask=(null),cpuset=x\n3,8,6,-;Out of memory: Killed process 4711 (stress) total-vm:1kB\n", []Kill{system}},
		{"a group's", begins + "6,3,4,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/a,task_memcg=/a/b,task=stress,pid=4711,uid=0\n" +
			"3,8,6,-;Memory cgroup out of memory: Killed process 4711 (stress) total-vm:1052kB\n", []Kill{stress}},
		{"a container's", begins + "6,3,4,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=" + id + ",mems_allowed=0,oom_memcg=/a/podb,task_memcg=/a/podb/" + id +
			",task=stress,pid=4711,uid=0\n3,8,6,-;Memory cgroup out of memory: Killed process 4711 (stress) total-vm:1052kB\n", []Kill{ofContainer}},
		{"a container's, with systemd", begins + "6,3,4,-;oom-kill:constraint=CONSTRAINT_MEMCG,oom_memcg=/a.slice,task_memcg=/a.slice/docker-" + id + ".scope/init,task=stress,pid=4711,uid=0\n" +
			"3,8,6,-;Memory cgroup out of memory: Killed process 4711 (stress) total-vm:1052kB\n", []Kill{ofContainer}},
		{"a container's, and one that is in none", begins + "6,3,4,-;oom-kill:constraint=CONSTRAINT_MEMCG,task_memcg=/" + id + ",task=stress,pid=4711,uid=0\n" +
			"3,8,6,-;Memory cgroup out of memory: Killed process 4711 (stress) total-vm:1052kB\n" + begins + "3,8,6,-;Out of memory: Killed process 4711 (stress) a\n",
			[]Kill{ofContainer, system}},
		{"an old kernel's", begins + "3,8,6,-;Out of memory: Kill process 4711 (stress) score 1\n3,9,6,-;Killed process 4711 (stress) total-vm:1052kB, anon-rss:1\n", []Kill{system}},
		{"an old kernel's of a group", begins + "6,8,6,-;Task in /a killed as a result of limit of /a\n3,9,6,-;Killed process 4711 (stress) total-vm:1052kB\n", []Kill{stress}},
		{"two", begins + "3,8,6,-;Out of memory: Killed process 4711 (stress) a\n" + begins + "6,3,4,-;oom-kill:constraint=CONSTRAINT_MEMCG,x\n3,8,6,-;Memory cgroup out of memory: Killed process 4711 (stress)\n",
			[]Kill{system, stress}},
		{"a name with brackets", begins + killed, []Kill{{Process: "stress (1)", PID: 4711, System: true}}},
		{"somebody else's", strings.Replace(begins, "4,", "12,", 1) + killed, nil},
		{"without a beginning", killed, nil},
		{"continued", begins + " SUBSYSTEM=x;Killed process 1 (x) \n", nil},
	} {
		var p parser
		var got []Kill
		for line := range strings.Lines(tc.text) {
			if k, ok := p.add(line); ok {
				got = append(got, k)
			}
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
}

func TestVictims(t *testing.T) {
	t.Parallel()
	var v Victims
	if v.Has("0") {
		t.Error("there is one from the start")
	}
	for i := range remembered + 1 {
		v.Add(strconv.Itoa(i))
	}
	for id, want := range map[string]bool{"0": false, "1": true, strconv.Itoa(remembered): true} {
		if v.Has(id) != want {
			t.Errorf("%s is one: %v", id, !want)
		}
	}
}

func TestMessage(t *testing.T) {
	t.Parallel()
	for want, k := range map[string]Kill{
		"System OOM encountered, victim process: a, pid: 1": {Process: "a", PID: 1},
		"System OOM encountered":                            {Process: "a"},
	} {
		if got := k.Message(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestWatch(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "kmsg")
	if err := Watch(t.Context(), file, nil); err == nil {
		t.Error("a file that is not there is read")
	}
	if err := unix.Mkfifo(file, 0o600); err != nil {
		t.Fatal(err)
	}
	writer, err := os.OpenFile(file, os.O_RDWR, 0) // with a reader of its own it does not wait for one
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	ctx, cancel := context.WithCancel(t.Context())
	kills, ended := make(chan Kill, 10), make(chan error, 1)
	go func() { ended <- Watch(ctx, file, func(k Kill) { kills <- k }) }()
	if _, err := writer.WriteString(begins + killed); err != nil {
		t.Fatal(err)
	}
	select {
	case k := <-kills:
		if !k.System || k.PID != 4711 {
			t.Errorf("told of %+v", k)
		}
	case <-time.After(10 * time.Second):
		t.Error("nobody is told")
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
