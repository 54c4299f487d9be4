// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	configv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"minik8s.io/minik8s/test/bench/figure"
	"minik8s.io/minik8s/test/program"
)

// decisionNodes are the sizes of clusters in which decisions are counted, and how many pods they have room for that wait.
var decisionNodes = []struct{ nodes, pods int }{{100, 3_000}, {5_000, 10_000}, {15_000, 10_000}}

// unbindName is the plugin that binds nothing. Upstream's scheduler has one of the same name and arguments in test/conformance/unbind.
const unbindName = "Unbind"

// unbind is a plugin by which a binding costs nothing: it appends a byte to a file for each pod that it is to bind.
type unbind struct{ file *os.File }

// unbindArgs are its arguments.
type unbindArgs struct {
	File string `json:"file"`
}

func newUnbind(_ context.Context, args runtime.Object, _ fwk.Handle) (fwk.Plugin, error) {
	raw, ok := args.(*runtime.Unknown)
	if !ok {
		return nil, fmt.Errorf("%s needs arguments", unbindName)
	}
	var a unbindArgs
	if err := json.Unmarshal(raw.Raw, &a); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(a.File, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return nil, err
	}
	return unbind{file}, nil
}

func (unbind) Name() string { return unbindName }

func (u unbind) Bind(context.Context, fwk.CycleState, *corev1.Pod, string) *fwk.Status {
	_, err := u.file.Write([]byte{'.'})
	return fwk.AsStatus(err)
}

// unbound is a configuration by which nothing is bound, and the file is that of the plugin.
func unbound(file string) (*configv1.KubeSchedulerConfiguration, error) {
	args, err := json.Marshal(unbindArgs{File: file})
	if err != nil {
		return nil, err
	}
	return &configv1.KubeSchedulerConfiguration{Profiles: []configv1.KubeSchedulerProfile{{
		SchedulerName: new(corev1.DefaultSchedulerName),
		Plugins: &configv1.Plugins{Bind: configv1.PluginSet{
			Enabled: []configv1.Plugin{{Name: unbindName}}, Disabled: []configv1.Plugin{{Name: "*"}},
		}},
		PluginConfig: []configv1.PluginConfig{{Name: unbindName, Args: runtime.RawExtension{Raw: args}}},
	}}}, os.WriteFile(file, nil, 0o600)
}

// decisions counts how many pods a second the schedulers find a node for, one after the other in the same cluster, if to bind a pod
// costs nothing: all pods wait when a scheduler starts, and wait still when it ends.
func (b *bench) decisions(ctx context.Context, number, nodes, pods int) error {
	name := fmt.Sprintf("Decisions/%dNodes_%dPods", nodes, pods)
	return b.cluster(ctx, name, func(ctx context.Context, r *run, s *program.Server) error {
		if err := r.createNodes(ctx, 0, operation{Count: nodes}); err != nil {
			return err
		}
		if err := r.createPods(ctx, 1, operation{Count: pods, SkipWaitToCompletion: true}); err != nil {
			return err
		}
		for _, side := range b.sides.InRun(number) {
			if err := b.decide(ctx, side, name, pods, s); err != nil {
				return fmt.Errorf("%s: %w", side, err)
			}
		}
		return nil
	})
}

// decide has one scheduler decide of all pods once.
func (b *bench) decide(ctx context.Context, side figure.Side, name string, pods int, s *program.Server) error {
	file := filepath.Join(s.Dir, "decisions")
	settings, err := unbound(file)
	if err != nil {
		return err
	}
	process, err := b.startScheduler(launch{side: side, upstream: b.unbind, settings: settings, name: filepath.Base(name)}, s)
	if err != nil {
		return err
	}
	defer process.Stop()
	var first, last moment
	if err := process.Await(ctx, 5*time.Millisecond, func(context.Context) error {
		made, err := os.Stat(file)
		if err != nil {
			return err
		}
		n := int(made.Size())
		if n > 0 && first.decisions == 0 {
			first, err = look(n, process)
		}
		if n < pods {
			return errors.Join(err, fmt.Errorf("%d of %d decisions", n, pods))
		}
		last, err = look(n, process)
		return err
	}); err != nil {
		return err
	}
	n := float64(last.decisions - first.decisions)
	b.table.Add(side, figure.Figure{Name: name, Unit: "/s", AtLeast: 5}, n/last.at.Sub(first.at).Seconds())
	b.table.Add(side, figure.Figure{Name: name + ": CPU of the scheduler per 1,000 decisions", Unit: "s", AtMost: 0.2}, (last.cost-first.cost).Seconds()*1000/n)
	return nil
}

// moment is how far a scheduler was, and what it had cost.
type moment struct {
	at        time.Time
	decisions int
	cost      time.Duration
}

func look(decisions int, p *program.Program) (moment, error) {
	u, err := p.Usage()
	return moment{time.Now(), decisions, u.Processor}, err
}
