// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
	kubeletconfigv1beta1 "k8s.io/kubelet/config/v1beta1"
	"k8s.io/utils/clock"

	"minik8s.io/minik8s/pkg/kubelet/internal/metrics"
)

// sink counts what it takes.
type sink struct{ taken int }

func (s *sink) Create(e *corev1.Event) (*corev1.Event, error)          { s.taken++; return e, nil }
func (s *sink) Update(e *corev1.Event) (*corev1.Event, error)          { s.taken++; return e, nil }
func (s *sink) Patch(e *corev1.Event, _ []byte) (*corev1.Event, error) { s.taken++; return e, nil }

func TestLimitEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := &sink{}
		l := limitEvents(ctx, s, 2, 3)
		began := time.Now()
		for i := range 7 {
			var err error
			switch i % 3 {
			case 0:
				_, err = l.Create(&corev1.Event{})
			case 1:
				_, err = l.Update(&corev1.Event{})
			default:
				_, err = l.Patch(&corev1.Event{}, nil)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(began); took != 2*time.Second || s.taken != 7 {
			t.Errorf("three at once and then two a second: %d took %v", s.taken, took)
		}
		cancel()
		if _, err := l.Create(&corev1.Event{}); !errors.Is(err, context.Canceled) || s.taken != 7 {
			t.Errorf("the kubelet has ended: %v", err)
		}
	})
	if s := (&sink{}); limitEvents(t.Context(), s, 0, 0) != s {
		t.Error("no rate is a limit")
	}
}

// What of the node's resolver configuration does not fit into that of pods is told once, unless pods are to have none.
func TestCheckResolver(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "resolv.conf")
	for path, want := range map[string]string{
		missing: "Warning CheckLimitsForResolvConf open " + missing + ": no such file or directory", os.DevNull: "", "": "",
	} {
		recorder := record.NewFakeRecorder(1)
		k := &Kubelet{recorder: recorder, cfg: Config{NodeName: "n", Configuration: &kubeletconfigv1beta1.KubeletConfiguration{ResolverConfig: &path}}}
		k.checkResolver()
		close(recorder.Events)
		if got := <-recorder.Events; got != want {
			t.Errorf("%q: told %q, want %q", path, got, want)
		}
	}
}

// The kernel's kills for want of memory are told of the node if it is the machine that has none left, and noted of containers.
func TestTellKills(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "kmsg")
	if err := unix.Mkfifo(file, 0o600); err != nil {
		t.Fatal(err)
	}
	kernel, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer kernel.Close()
	recorder := record.NewFakeRecorder(10)
	k := &Kubelet{recorder: recorder, cfg: Config{NodeName: "n"}}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); k.tellKills(ctx, file) }()
	const begins = "4,1,1,-;a invoked oom-killer: x\n"
	id := strings.Repeat("0", 64)
	text := begins + "6,2,1,-;oom-kill:constraint=CONSTRAINT_MEMCG,task_memcg=/m/" + id + ",x\n3,3,1,-;Memory cgroup out of memory: Killed process 1 (a) x\n" +
		begins + "6,4,1,-;oom-kill:constraint=CONSTRAINT_NONE,x\n3,5,1,-;Out of memory: Killed process 2 (b) x\n"
	if _, err := kernel.WriteString(text); err != nil {
		t.Fatal(err)
	}
	if got, want := <-recorder.Events, "Warning SystemOOM System OOM encountered, victim process: b, pid: 2"; got != want {
		t.Errorf("told %q, want %q", got, want)
	}
	if !k.victims.Has(id) {
		t.Error("the container is not noted")
	}
	cancel()
	<-ended
}

func TestTellCgroups(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]string{"1": "Warning CgroupV1 " + cgroupV1, "2": "", "": ""} {
		recorder := record.NewFakeRecorder(1)
		k := &Kubelet{recorder: recorder, cfg: Config{NodeName: "n"}, metrics: metrics.New("n", clock.RealClock{})}
		k.tellCgroups(version)
		close(recorder.Events)
		if got := <-recorder.Events; got != want {
			t.Errorf("version %q: told %q, want %q", version, got, want)
		}
	}
}

func TestTellSwap(t *testing.T) {
	t.Parallel()
	const text = "Warning PossibleMemoryBackedVolumesOnDisk The tmpfs noswap option is not supported. Memory-backed volumes (e.g. secrets, emptyDirs, etc.) " +
		"might be swapped to disk and should no longer be considered secure."
	for _, tc := range []struct {
		meminfo string
		kept    bool
		want    string
	}{{"SwapTotal: 8 kB\n", false, text}, {"SwapTotal: 8 kB\n", true, ""}, {"SwapTotal: 0 kB\n", false, ""}, {"", false, ""}} {
		root, recorder := t.TempDir(), record.NewFakeRecorder(1)
		if err := errors.Join(os.Mkdir(filepath.Join(root, "proc"), 0o700), os.WriteFile(filepath.Join(root, "proc/meminfo"), []byte(tc.meminfo), 0o600)); err != nil {
			t.Fatal(err)
		}
		k := &Kubelet{recorder: recorder, cfg: Config{NodeName: "n"}}
		k.tellSwap(root, func() bool { return tc.kept })
		close(recorder.Events)
		if got := <-recorder.Events; got != tc.want {
			t.Errorf("%q, kept %t: told %q, want %q", tc.meminfo, tc.kept, got, tc.want)
		}
	}
}
