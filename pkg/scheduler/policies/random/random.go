// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package random has no preference. The scheduler takes one of the nodes with the
// highest score, each with the same probability, by random numbers that it goes on
// drawing as long as it runs: so where all scores are the same the choice is uniform,
// pods of the same second are independent of each other, and scheduler.Config.Seed
// makes it repeatable. Touch it if that is to be decided here.
package random

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
)

// Name of the plugin.
const Name = "Random"

// Random is the plugin.
type Random struct{}

var _ fwk.ScorePlugin = Random{}

// New returns the plugin.
func New(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return Random{}, nil }

// Name returns the plugin's name.
func (Random) Name() string { return Name }

// Score is the same for all nodes.
func (Random) Score(context.Context, fwk.CycleState, *corev1.Pod, fwk.NodeInfo) (int64, *fwk.Status) {
	return fwk.MaxScore, nil
}

// ScoreExtensions implements fwk.ScorePlugin.
func (Random) ScoreExtensions() fwk.ScoreExtensions { return nil }
