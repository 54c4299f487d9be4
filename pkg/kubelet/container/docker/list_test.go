// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"testing"
	"time"

	dockercontainer "github.com/docker/docker/api/types/container"
)

func TestContainerOf_Times(t *testing.T) {
	t.Parallel()
	const never = "0001-01-01T00:00:00Z"
	at := func(second int) time.Time { return time.Date(2026, 1, 1, 0, 0, second, 0, time.UTC) }
	for _, tc := range []struct {
		name, started, finished string
		want                    time.Time
	}{
		{"usual", "2026-01-01T00:00:02Z", "2026-01-01T00:00:03Z", at(3)},
		{"ended before its start was noted", "2026-01-01T00:00:03Z", "2026-01-01T00:00:02Z", at(3)},
		{"never ran", never, never, at(1)},
	} {
		got := containerOf(dockercontainer.InspectResponse{
			ContainerJSONBase: &dockercontainer.ContainerJSONBase{
				Created: "2026-01-01T00:00:01Z", HostConfig: &dockercontainer.HostConfig{},
				State: &dockercontainer.State{Status: "exited", StartedAt: tc.started, FinishedAt: tc.finished},
			},
			Config: &dockercontainer.Config{},
		})
		if !got.FinishedAt.Equal(tc.want) {
			t.Errorf("%s: finished at %v, want %v", tc.name, got.FinishedAt, tc.want)
		}
	}
}
