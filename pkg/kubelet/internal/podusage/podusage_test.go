// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package podusage

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"minik8s.io/minik8s/pkg/kubelet/container"
	"minik8s.io/minik8s/pkg/kubelet/internal/cgroup"
	"minik8s.io/minik8s/pkg/kubelet/internal/diskusage"
	"minik8s.io/minik8s/pkg/kubelet/internal/eviction"
	"minik8s.io/minik8s/pkg/kubelet/internal/observed"
)

// groups are the cgroups of a pod whose containers each use 2 MiB.
type groups struct{ gone bool }

func (g groups) Pods() (cgroup.Stats, error) { return cgroup.Stats{}, nil }

func (g groups) Pod(types.UID) (cgroup.Stats, error) {
	if g.gone {
		return cgroup.Stats{}, errors.New("no such cgroup")
	}
	return cgroup.Stats{MemoryUsage: 5 << 20, Processes: 3}, nil
}

func (g groups) Container(*corev1.Pod, string) (cgroup.Stats, error) {
	return cgroup.Stats{MemoryUsage: 2 << 20}, nil
}

func TestMeter(t *testing.T) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a"}, {Name: "b"}, {Name: "new"}}}}
	obs := observed.New(container.Pod{}, nil, []*container.Container{
		{ID: "a0", Name: "a", State: container.StateRunning}, {ID: "b0", Name: "b", State: container.StateExited},
	})
	full, broken := errors.New("disk does not answer"), errors.New("volume does not answer")
	tests := []struct {
		name    string
		groups  groups
		scope   eviction.Scope
		disk    error
		volumes error
		want    map[string]uint64
		err     error
	}{
		{name: "memory", want: map[string]uint64{"pod": 5 << 20, "a": 2 << 20}},
		{name: "no cgroup", groups: groups{gone: true}, want: map[string]uint64{}},
		{name: "all", scope: eviction.Scope{Volumes: true, Containers: true},
			want: map[string]uint64{"pod": 5 << 20, "a": 2 << 20, "a on disk": 7, "a's log": 3, "b on disk": 7, "b's log": 3, "volume v": 11}},
		{name: "a container that has just gone", scope: eviction.Scope{Containers: true}, disk: container.ErrNotFound, want: map[string]uint64{"pod": 5 << 20, "a": 2 << 20}},
		{name: "what fails does not hide the rest", scope: eviction.Scope{Volumes: true, Containers: true}, disk: full,
			want: map[string]uint64{"pod": 5 << 20, "a": 2 << 20, "volume v": 11}, err: full},
		{name: "volumes counted in part", scope: eviction.Scope{Volumes: true}, volumes: broken, want: map[string]uint64{"pod": 5 << 20, "a": 2 << 20, "volume v": 11}, err: broken},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := &Meter{
				Observe: func(context.Context, types.UID) (*observed.Pod, error) { return obs, nil }, Groups: tt.groups, Clock: clocktesting.NewFakeClock(time.Now()),
				Disk: func(context.Context, string) (container.DiskUsage, error) {
					return container.DiskUsage{Rootfs: 7, Log: 3}, tt.disk
				},
				Volumes: func(context.Context, *corev1.Pod) (map[string]diskusage.Usage, error) {
					return map[string]diskusage.Usage{"v": {Bytes: 11}}, tt.volumes
				},
			}
			ps, err := m.Measure(t.Context(), pod, tt.scope)
			if !errors.Is(err, tt.err) {
				t.Errorf("error %v, want %v", err, tt.err)
			}
			got := map[string]uint64{}
			if ps.Memory != nil {
				got["pod"] = *ps.Memory.UsageBytes
			}
			for _, c := range ps.Containers {
				if c.Memory != nil {
					got[c.Name] = *c.Memory.UsageBytes
				}
				if c.Rootfs != nil {
					got[c.Name+" on disk"], got[c.Name+"'s log"] = *c.Rootfs.UsedBytes, *c.Logs.UsedBytes
				}
			}
			for _, v := range ps.VolumeStats {
				got["volume "+v.Name] = *v.UsedBytes
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
