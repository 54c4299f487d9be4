// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package slurm

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	batchv1alpha1 "minik8s.io/minik8s/pkg/addons/apis/batch/v1alpha1"
	"minik8s.io/minik8s/pkg/addons/slurm/internal/login"
)

// logins are the ways by which the login nodes of jobs were reached last, in memory only. They are for jobs whose Secret has gone with their
// namespace, and for nothing else: whoever takes a Secret away otherwise means it. The zero value has none. Safe for concurrent use.
type logins struct {
	mu    sync.Mutex
	known map[client.ObjectKey]way // guarded by mu
}

// way is the one of a job; another job of its name has another uid.
type way struct {
	uid    types.UID
	config login.Config
}

func (l *logins) keep(job *batchv1alpha1.SlurmJob, config login.Config) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.known == nil {
		l.known = map[client.ObjectKey]way{}
	}
	l.known[client.ObjectKeyFromObject(job)] = way{job.UID, config}
}

func (l *logins) of(job *batchv1alpha1.SlurmJob) (login.Config, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w, known := l.known[client.ObjectKeyFromObject(job)]
	return w.config, known && w.uid == job.UID
}

func (l *logins) forget(job client.ObjectKey) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.known, job)
}
