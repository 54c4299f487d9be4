// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Command unbind is upstream's kube-scheduler with a plugin that binds nothing, so that only what it decides takes time. Touch it
// together with test/bench/scheduler, which has the same plugin for ours.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-base/cli"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
)

const name = "Unbind"

func main() {
	os.Exit(cli.Run(app.NewSchedulerCommand(app.WithPlugin(name, newUnbind))))
}

// unbind appends a byte to a file for each pod that it is to bind.
type unbind struct{ file *os.File }

func newUnbind(_ context.Context, args runtime.Object, _ fwk.Handle) (fwk.Plugin, error) {
	raw, ok := args.(*runtime.Unknown)
	if !ok {
		return nil, fmt.Errorf("%s needs arguments", name)
	}
	var a struct {
		File string `json:"file"`
	}
	if err := json.Unmarshal(raw.Raw, &a); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(a.File, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return nil, err
	}
	return unbind{file}, nil
}

func (unbind) Name() string { return name }

func (u unbind) Bind(context.Context, fwk.CycleState, *corev1.Pod, string) *fwk.Status {
	_, err := u.file.Write([]byte{'.'})
	return fwk.AsStatus(err)
}
