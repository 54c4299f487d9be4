// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"errors"
	"testing"
)

// Of a device upstream has other words than of a file system, and another reason.
func TestFailed(t *testing.T) {
	t.Parallel()
	why := errors.New("why")
	for _, tc := range []struct {
		block  bool
		what   string
		reason string
		want   string
	}{
		{false, SetUp, "FailedMount", `MountVolume.SetUp failed for volume "v" : why`},
		{false, Expand, "FailedMount", `MountVolume.Setup failed while expanding volume for volume "v" : why`},
		{true, SetUp, "FailedMapVolume", `MapVolume.SetUpDevice failed for volume "v" : why`},
		{true, MountDevice, "FailedMapVolume", `MapVolume.SetUpDevice failed for volume "v" : why`},
		{true, MapPodDevice, "FailedMapVolume", `MapVolume.MapPodDevice failed for volume "v" : why`},
		{true, Expand, "FailedMapVolume", `MapVolume.MarkVolumeAsMounted failed while expanding volume for volume "v" : why`},
		{true, NodeAffinity, "FailedMount", `MapVolume.NodeAffinity check failed for volume "v" : why`},
	} {
		err := Failed(tc.block, tc.what, "v", why)
		event, is := errors.AsType[*EventError](err)
		if !is || event.Reason != tc.reason || err.Error() != tc.want || !errors.Is(err, why) {
			t.Errorf("%t %s: %+v", tc.block, tc.what, err)
		}
		if again := Failed(tc.block, SetUp, "other", err); again != err { //nolint:errorlint // itself, not in another
			t.Errorf("%t %s: it is told again as %v", tc.block, tc.what, again)
		}
	}
}
