// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package csi

import (
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"minik8s.io/minik8s/pkg/kubelet/csitest"
)

func counting(every int64) *storagev1.CSIDriver {
	d := &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: driverName}}
	if every > 0 {
		d.Spec.NodeAllocatableUpdatePeriodSeconds = new(every)
	}
	return d
}

// A driver is asked as often as its CSIDriver says, and the CSINode tells what it answers.
func TestCounts(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		every int64
		due   []bool // at looks that are 10 s apart
	}{
		{0, []bool{false, false, false, false}},
		{10, []bool{false, true, true, true}},
		{30, []bool{false, false, true, false}},
	} {
		f := newFixture(t, &csitest.Driver{MaxVolumes: 3}, counting(tc.every))
		asked := map[string]time.Time{}
		for i, want := range tc.due {
			f.clock.by += lookAtCounts
			if due := f.dueCounts(t.Context(), asked); (len(due) == 1) != want {
				t.Errorf("every %d s: look %d: due are %v", tc.every, i, due)
			}
		}
	}
}

func TestAskCounts(t *testing.T) {
	t.Parallel()
	f := newFixture(t, &csitest.Driver{MaxVolumes: 3}, counting(10))
	nodes := f.client.StorageV1().CSINodes()
	stale, err := nodes.Get(t.Context(), "n", metav1.GetOptions{})
	f.check(err)
	stale.Spec.Drivers[0].Allocatable.Count = new(int32(8))
	_, err = nodes.Update(t.Context(), stale, metav1.UpdateOptions{})
	f.check(err)
	f.askCounts(t.Context(), []string{driverName, "nobody"})
	now, err := nodes.Get(t.Context(), "n", metav1.GetOptions{})
	f.check(err)
	if count := *now.Spec.Drivers[0].Allocatable.Count; count != 3 {
		t.Errorf("the CSINode says %d", count)
	}
}

func TestExhausted(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		every int64
		err   *storagev1.VolumeError
		want  bool
	}{
		{"no room", 10, &storagev1.VolumeError{ErrorCode: new(int32(codes.ResourceExhausted))}, true},
		{"no period", 0, &storagev1.VolumeError{ErrorCode: new(int32(codes.ResourceExhausted))}, false},
		{"another error", 10, &storagev1.VolumeError{ErrorCode: new(int32(codes.Internal))}, false},
		{"an error without code", 10, &storagev1.VolumeError{Message: "no"}, false},
		{"no error", 10, nil, false},
	} {
		f := newFixture(t, &csitest.Driver{MaxVolumes: 3}, counting(tc.every), &storagev1.VolumeAttachment{
			ObjectMeta: metav1.ObjectMeta{Name: attachmentName("v", driverName, "n")}, Status: storagev1.VolumeAttachmentStatus{AttachError: tc.err},
		})
		if got := f.exhausted(t.Context(), &volume{driver: driverName, handle: "v"}); got != tc.want {
			t.Errorf("%s: %t", tc.name, got)
		}
	}
}
