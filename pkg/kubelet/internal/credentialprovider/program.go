// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package credentialprovider

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	kubeletconfigv1 "k8s.io/kubelet/config/v1"
	credentialproviderv1 "k8s.io/kubelet/pkg/apis/credentialprovider/v1"
	sigsjson "sigs.k8s.io/json"
)

const (
	// maxAnswer and maxComplaint bound what is taken of a program's output.
	maxAnswer, maxComplaint = 1 << 20, 4 << 10
	// dying is how long a program that was killed may keep its output open, as what it has started may.
	dying = 2 * time.Second
)

// Programs are the plugins in a directory. They are started without a shell, with the environment of the kubelet and what their
// configuration adds to it.
type Programs struct{ Dir string }

var _ Plugin = Programs{}

// Ask implements Plugin. When ctx ends the program is killed, with what it has started.
func (d Programs) Ask(ctx context.Context, p *kubeletconfigv1.CredentialProvider, r *credentialproviderv1.CredentialProviderRequest) (*credentialproviderv1.CredentialProviderResponse, error) {
	input, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("failed to encode auth request: %w", err)
	}
	var out, complaint limited
	out.most, complaint.most = maxAnswer, maxComplaint
	cmd := exec.CommandContext(ctx, filepath.Join(d.Dir, p.Name), p.Args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(input), &out, &complaint
	cmd.Env = os.Environ()
	for _, v := range p.Env {
		cmd.Env = append(cmd.Env, v.Name+"="+v.Value)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = dying
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return nil, fmt.Errorf("error execing credential provider plugin %s for image %s: %w: %s", p.Name, r.Image, err, complaint.taken)
	}
	if out.over {
		return nil, fmt.Errorf("credential provider plugin %s has answered more than %d bytes", p.Name, maxAnswer)
	}
	response := &credentialproviderv1.CredentialProviderResponse{}
	strict, err := sigsjson.UnmarshalStrict(out.taken, response)
	if err != nil || len(strict) > 0 {
		return nil, errors.New("error decoding credential provider plugin response from stdout") // it may hold secrets
	}
	if response.APIVersion != p.APIVersion {
		return nil, fmt.Errorf("apiVersion from credential plugin response did not match expected apiVersion:%s, actual apiVersion:%s", p.APIVersion, response.APIVersion)
	}
	if response.Kind != "CredentialProviderResponse" {
		return nil, fmt.Errorf("failed to decode CredentialProviderResponse, unexpected Kind: %q", response.Kind)
	}
	return response, nil
}

// limited takes so many bytes, and drops the rest.
type limited struct {
	taken []byte
	most  int
	over  bool
}

func (l *limited) Write(p []byte) (int, error) {
	n := min(len(p), l.most-len(l.taken))
	l.over = l.over || n < len(p)
	l.taken = append(l.taken, p[:n]...)
	return len(p), nil
}
