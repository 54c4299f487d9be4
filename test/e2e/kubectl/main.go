// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Command kubectl is upstream's kubectl and nothing else: the module k8s.io/kubectl as published, built into a program of
// its own, so that the tests use what users have. There is no reason to touch it.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
)

func main() {
	_, _ = logs.GlogSetter(cmd.GetLogVerbosity(os.Args)) // as upstream's does, before there are flags
	if err := cli.RunNoErrOutput(cmd.NewDefaultKubectlCommand()); err != nil {
		util.CheckErr(err) // prints as kubectl does, and exits
	}
}
