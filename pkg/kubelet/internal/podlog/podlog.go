// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package podlog keeps the links by which collectors of logs find those of containers, where they are on every node. Touch it
// when they are to be found elsewhere.
//
//	/var/log/pods/NAMESPACE_POD_UID/CONTAINER/ATTEMPT.log -> the engine's file
//	/var/log/containers/POD_NAMESPACE_CONTAINER-ID.log -> the link above
//
// The names are upstream's, the format of the files is the engine's.
package podlog

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"minik8s.io/minik8s/pkg/kubelet/container"
)

// Links are those of a machine. All clusters of it share the folders, so only what bears a pod's UID is touched. Methods are safe
// for concurrent use, but for those about one pod, which must come one after the other.
type Links struct {
	// Pods is the folder of the pods' folders, Containers that of the links to all.
	Pods, Containers string
}

// Standard are those where collectors look.
func Standard() Links { return Links{Pods: "/var/log/pods", Containers: "/var/log/containers"} }

// Keep makes the links of a container whose log is a file. It is cheap to repeat.
func (l Links) Keep(c *container.Container) error {
	if c.LogPath == "" {
		return nil
	}
	own := l.own(c)
	if err := link(c.LogPath, own); err != nil {
		return fmt.Errorf("linking the log of container %s: %w", c.ID, err)
	}
	if err := link(own, l.flat(c)); err != nil {
		return fmt.Errorf("linking the log of container %s: %w", c.ID, err)
	}
	return nil
}

// Drop removes the links of a container that has gone.
func (l Links) Drop(c *container.Container) error {
	return errors.Join(absent(os.Remove(l.flat(c))), absent(os.Remove(l.own(c))))
}

// DropPod removes all links of a pod, and what is empty then.
func (l Links) DropPod(uid types.UID) error {
	all, err := os.ReadDir(l.Pods)
	if err != nil {
		return absent(err)
	}
	var errs []error
	for _, d := range all {
		if uid == "" || !strings.HasSuffix(d.Name(), "_"+string(uid)) {
			continue
		}
		dir := filepath.Join(l.Pods, d.Name())
		errs = append(errs, l.dropFlat(dir), os.RemoveAll(dir))
		// Another pod's folder keeps them, and who comes after makes them again.
		_ = os.Remove(l.Containers)
		_ = os.Remove(l.Pods)
	}
	return errors.Join(errs...)
}

// dropFlat removes the links that lead into the folder of a pod.
func (l Links) dropFlat(dir string) error {
	namespace, rest, _ := strings.Cut(filepath.Base(dir), "_")
	name, _, _ := strings.Cut(rest, "_")
	links, err := os.ReadDir(l.Containers)
	errs := []error{absent(err)}
	for _, d := range links {
		path := filepath.Join(l.Containers, d.Name())
		if !strings.HasPrefix(d.Name(), name+"_"+namespace+"_") {
			continue
		}
		if target, err := os.Readlink(path); err == nil && strings.HasPrefix(target, dir+"/") {
			errs = append(errs, absent(os.Remove(path)))
		}
	}
	return errors.Join(errs...)
}

func (l Links) own(c *container.Container) string {
	pod := fmt.Sprintf("%s_%s_%s", c.Pod.Namespace, c.Pod.Name, c.Pod.UID)
	return filepath.Join(l.Pods, pod, c.Name, fmt.Sprintf("%d.log", c.Attempt))
}

func (l Links) flat(c *container.Container) string {
	return filepath.Join(l.Containers, fmt.Sprintf("%s_%s_%s-%s.log", c.Pod.Name, c.Pod.Namespace, c.Name, c.ID))
}

// link makes path a link to target.
func link(target, path string) error {
	if now, err := os.Readlink(path); err == nil && now == target {
		return nil
	}
	// Twice, since who removes the last link of another pod removes an empty folder too.
	for again := false; ; again = true {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil && again {
			return err
		}
		err := os.Symlink(target, path)
		if errors.Is(err, fs.ErrExist) {
			err = errors.Join(os.Remove(path), os.Symlink(target, path))
		}
		if err == nil || again {
			return err
		}
	}
}

// absent takes what is not there for removed.
func absent(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
