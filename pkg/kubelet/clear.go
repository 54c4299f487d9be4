// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"context"
	"errors"
	"fmt"

	"minik8s.io/minik8s/pkg/kubelet/container"
	"minik8s.io/minik8s/pkg/kubelet/internal/cgroup"
	"minik8s.io/minik8s/pkg/network/hostport"
)

// Clear removes what the kubelet of a cluster that is gone has left in the kernel: host port rules and the cgroups below
// cgroupRoot. Containers, the pod network and the root directory are their owners' to remove; containers must be gone
// before. It can be repeated.
func Clear(ctx context.Context, cluster string, runtime container.Runtime, cgroupRoot string) error {
	ports, err := hostport.New(cluster)
	if err == nil {
		err = ports.Purge()
	}
	engine, verr := runtime.Version(ctx)
	if verr != nil {
		return errors.Join(err, fmt.Errorf("asking the engine for its cgroup driver: %w", verr))
	}
	groups, gerr := cgroup.New(cgroup.Config{Root: cgroupRoot, Driver: engine.CgroupDriver, Version: engine.CgroupVersion})
	if gerr == nil {
		gerr = groups.Purge()
	}
	return errors.Join(err, gerr)
}
