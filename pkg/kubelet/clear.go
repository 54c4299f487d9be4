// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"minik8s.io/minik8s/pkg/kubelet/container"
	"minik8s.io/minik8s/pkg/kubelet/internal/cgroup"
	"minik8s.io/minik8s/pkg/kubelet/internal/kubeletdir"
	"minik8s.io/minik8s/pkg/kubelet/internal/podlog"
	"minik8s.io/minik8s/pkg/kubelet/internal/volume/mount"
	"minik8s.io/minik8s/pkg/network/hostport"
)

// StandardDir is where drivers and plugins look for the directory of a kubelet; see Config.StandardDir.
const StandardDir = kubeletdir.Standard

// Clear removes what the kubelet of a cluster that is gone has left on the machine outside its root directory: host port rules,
// links to logs and to that directory. Containers, the pod network, cgroups (ClearGroups) and the root directory, which must be there,
// are others' to remove; containers must be gone before. It can be repeated.
func Clear(cluster, rootDir string) error {
	ports, err := hostport.New(cluster, "")
	if err == nil {
		err = ports.Purge()
	}
	return errors.Join(err, ClearApart(rootDir))
}

// ClearApart is Clear for a kubelet with a network namespace of its own, with which its rules go.
func ClearApart(rootDir string) error {
	return errors.Join(clearLogs(rootDir), kubeletdir.Release(StandardDir, rootDir), mount.Unshare(rootDir))
}

// enginePatience is how long the engine may take to say how cgroups are made.
const enginePatience = 30 * time.Second

// ClearGroups removes the cgroups below some roots. The engine is asked how they are made; containers must be gone before. It can be
// repeated. One that does not answer in time is away: container.ErrUnavailable.
func ClearGroups(ctx context.Context, runtime container.Runtime, roots ...string) error {
	engine, err := container.Bounded(runtime, enginePatience).Version(ctx)
	if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("%w: %w", container.ErrUnavailable, err)
	}
	if err != nil {
		return fmt.Errorf("asking the engine for its cgroup driver: %w", err)
	}
	errs := make([]error, len(roots))
	for i, root := range roots {
		groups, err := cgroup.New(cgroup.Config{Root: root, Driver: engine.CgroupDriver, Version: engine.CgroupVersion})
		if err == nil {
			err = groups.Purge()
		}
		errs[i] = err
	}
	return errors.Join(errs...)
}

// clearLogs removes the links to the logs of the pods that have a directory.
func clearLogs(rootDir string) error {
	pods, err := os.ReadDir(filepath.Join(rootDir, "pods"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("listing pods on disk: %w", err)
	}
	var errs []error
	for _, p := range pods {
		errs = append(errs, podlog.Standard().DropPod(types.UID(p.Name())))
	}
	return errors.Join(errs...)
}

// claim makes the kubelet's directories, and the link by which drivers find them. Who has another's there finds out by the log,
// as pods without drivers run all the same.
func (k *Kubelet) claim(ctx context.Context) error {
	if err := kubeletdir.Prepare(k.cfg.RootDir); err != nil || k.cfg.StandardDir == "" {
		return err
	}
	if err := kubeletdir.Claim(k.cfg.StandardDir, k.cfg.RootDir); err != nil {
		klog.FromContext(ctx).Info("Drivers and plugins on this machine may not find the kubelet", "reason", err.Error())
	}
	return nil
}
