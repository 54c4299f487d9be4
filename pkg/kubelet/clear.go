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
// the cgroups below cgroupRoot, and links to logs and to that directory. Containers, the pod network and the root directory,
// which must be there, are their owners' to remove; containers must be gone before. It can be repeated.
func Clear(ctx context.Context, cluster string, runtime container.Runtime, cgroupRoot, rootDir string) error {
	ports, err := hostport.New(cluster, "")
	if err == nil {
		err = ports.Purge()
	}
	return errors.Join(err, ClearApart(ctx, runtime, cgroupRoot, rootDir))
}

// ClearApart is Clear for a kubelet with a network namespace of its own, with which its rules go.
func ClearApart(ctx context.Context, runtime container.Runtime, cgroupRoot, rootDir string) error {
	err := errors.Join(clearLogs(rootDir), kubeletdir.Release(StandardDir, rootDir), mount.Unshare(rootDir))
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
