// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cni

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"syscall"
	"time"

	"github.com/containernetworking/cni/pkg/invoke"
	"github.com/containernetworking/cni/pkg/types"
	"github.com/containernetworking/cni/pkg/version"
	"k8s.io/klog/v2"
)

// dying is how long a program that has ended or was killed may have its output held open by what it has started.
const dying = 2 * time.Second

// programs starts the programs of a network. libcni's own way of it waits for as long as anybody has the output of one, who may be
// a child that outlives it.
type programs struct{ version.PluginDecoder }

var _ invoke.Exec = (*programs)(nil)

// FindInPath implements invoke.Exec.
func (*programs) FindInPath(program string, dirs []string) (string, error) {
	return invoke.FindInPath(program, dirs)
}

// ExecPlugin implements invoke.Exec. When ctx ends the program is killed, with what it has started.
func (*programs) ExecPlugin(ctx context.Context, path string, config []byte, environ []string) ([]byte, error) {
	var answer, said bytes.Buffer
	cmd := exec.CommandContext(ctx, path)
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = environ, bytes.NewReader(config), &answer, &said
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = dying
	err := cmd.Run()
	if errors.Is(err, exec.ErrWaitDelay) && ctx.Err() == nil {
		err = nil // it has ended well, and left something behind on purpose
	}
	if err != nil {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("netplugin was ended: %w", ctx.Err())
		}
		return nil, failure(err, answer.Bytes(), said.Bytes())
	}
	if said.Len() > 0 {
		klog.FromContext(ctx).Info("A program of the network says", "program", path, "text", said.String())
	}
	return answer.Bytes(), nil
}

// failure is what a program has answered that has failed, or else what is known. The texts are libcni's.
func failure(err error, answer, said []byte) error {
	told := &types.Error{}
	switch {
	case len(answer) == 0 && len(said) == 0:
		return fmt.Errorf("netplugin failed with no error message: %w", err)
	case len(answer) == 0:
		return fmt.Errorf("netplugin failed: %q", said)
	}
	if err := json.Unmarshal(answer, told); err != nil {
		return fmt.Errorf("netplugin failed but error parsing its diagnostic message %q: %w", answer, err)
	}
	return told
}
