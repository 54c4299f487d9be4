// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package checkpoint keeps the pods of this node on disk, so that a kubelet that restarts while the API server is away
// knows what it runs. Touch it when something else of a pod must survive.
package checkpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/moby/sys/atomicwriter"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"minik8s.io/minik8s/pkg/kubelet/internal/status"
)

// Store is a directory with a file per pod.
type Store struct{ dir string }

// Open returns the store in dir, which is made if it is missing.
func Open(dir string) (*Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making checkpoint directory: %w", err)
	}
	return &Store{dir: dir}, nil
}

// Save writes pod. The file is replaced in one step: a kill, or a loss of power, leaves the old or the new one.
func (s *Store) Save(pod *corev1.Pod) error {
	pod = pod.DeepCopy()
	pod.ManagedFields = nil
	pod.APIVersion, pod.Kind = "v1", "Pod"
	data, err := json.Marshal(pod)
	if err != nil {
		return fmt.Errorf("encoding checkpoint of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	if err := atomicwriter.WriteFile(s.path(pod.UID), data, 0o600); err != nil {
		return fmt.Errorf("checkpointing pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

// Remove forgets a pod. Absence is success.
func (s *Store) Remove(uid types.UID) error {
	for _, file := range []string{s.path(uid), s.failure(uid)} {
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing checkpoint of pod %s: %w", uid, err)
		}
	}
	return nil
}

// Fail notes that the kubelet has decided to end a pod, which it does not do again after a restart of its own accord.
func (s *Store) Fail(uid types.UID, f status.Failure) error {
	data, err := json.Marshal(f)
	if err != nil {
		return fmt.Errorf("encoding the end of pod %s: %w", uid, err)
	}
	if err := atomicwriter.WriteFile(s.failure(uid), data, 0o600); err != nil {
		return fmt.Errorf("noting the end of pod %s: %w", uid, err)
	}
	return nil
}

// Failure is what Fail has noted of a pod, nil if nothing. A note that says nothing any more says that the pod was ended, all the same.
func (s *Store) Failure(uid types.UID) (*status.Failure, error) {
	data, err := os.ReadFile(s.failure(uid))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the end of pod %s: %w", uid, err)
	}
	f := &status.Failure{}
	if err := json.Unmarshal(data, f); err != nil {
		return &status.Failure{Message: fmt.Sprintf("The pod was ended by its node, and the note of the reason is damaged: %v", err)}, nil
	}
	return f, nil
}

func (s *Store) failure(uid types.UID) string {
	return filepath.Join(s.dir, filepath.Base(string(uid))+".failure")
}

// Load returns all pods. Unreadable files are returned as one joined error beside the pods that could be read.
func (s *Store) Load() ([]*corev1.Pod, error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, fmt.Errorf("reading checkpoints: %w", err)
	}
	var pods []*corev1.Pod
	var errs []error
	for _, e := range entries {
		name := e.Name()
		if strings.HasPrefix(name, ".tmp-") {
			_ = os.Remove(filepath.Join(s.dir, name))
			continue
		}
		if !strings.HasSuffix(name, ".json") {
			continue
		}
		data, err := os.ReadFile(filepath.Join(s.dir, name))
		if err != nil {
			errs = append(errs, fmt.Errorf("reading checkpoint: %w", err))
			continue
		}
		pod := &corev1.Pod{}
		if err := json.Unmarshal(data, pod); err != nil || string(pod.UID)+".json" != name {
			errs = append(errs, fmt.Errorf("checkpoint %q is not a pod: %w", name, errors.Join(err, fs.ErrInvalid)))
			continue
		}
		pods = append(pods, pod)
	}
	return pods, errors.Join(errs...)
}

func (s *Store) path(uid types.UID) string {
	return filepath.Join(s.dir, filepath.Base(string(uid))+".json")
}
