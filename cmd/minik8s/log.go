// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"fmt"
	"strconv"

	"gopkg.in/natefinch/lumberjack.v2"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"minik8s.io/minik8s/pkg/cluster"
)

// startLog sets the one log of the process up: to standard error in the foreground, in the background to a file that is
// rotated at 10 MiB, three of them kept.
func startLog(c cluster.Config, background bool) (stop func(), err error) {
	fs := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(fs)
	if err := fs.Set("v", strconv.Itoa(c.Verbosity)); err != nil {
		return nil, fmt.Errorf("setting verbosity: %w", err)
	}
	ctrl.SetLogger(klog.Background())
	if !background {
		return klog.Flush, nil
	}
	if err := fs.Set("logtostderr", "false"); err != nil {
		return nil, err
	}
	if err := fs.Set("alsologtostderr", "false"); err != nil {
		return nil, err
	}
	if err := fs.Set("stderrthreshold", "FATAL"); err != nil {
		return nil, err
	}
	// A line goes to the one output, not again to that of every lower severity.
	if err := fs.Set("one_output", "true"); err != nil {
		return nil, err
	}
	file := &lumberjack.Logger{Filename: cluster.LogPath(c), MaxSize: 10, MaxBackups: 2}
	klog.SetOutput(file)
	return func() {
		klog.Flush()
		_ = file.Close()
	}, nil
}
