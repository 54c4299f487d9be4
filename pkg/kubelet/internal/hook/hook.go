// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package hook runs the postStart and preStop hooks of containers. Touch it when a kind of handler is added.
package hook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"minik8s.io/minik8s/pkg/kubelet/container"
	"minik8s.io/minik8s/pkg/kubelet/internal/httpget"
	"minik8s.io/minik8s/pkg/kubelet/internal/podspec"
	"minik8s.io/minik8s/pkg/network/namespace"
)

// Execer is the part of container.Runtime that hooks need.
type Execer interface {
	Exec(ctx context.Context, id string, o container.ExecOptions) (exitCode int, err error)
}

// Runner runs hooks.
type Runner struct {
	Exec   Execer
	Clock  clock.Clock
	Client *http.Client // nil uses one that trusts any certificate
	// Dial connects from where the node is. nil: from where the process is.
	Dial namespace.Dial
	// Recorder takes events of pods.
	Recorder record.EventRecorder
	// SleepEnded is told of each sleep that did not last as long as it was to. nil: nobody is told.
	SleepEnded func()
	// FellBack is told of each request by HTTPS that was answered by HTTP only. nil: nobody is told.
	FellBack func()
}

// maxOutput bounds what is kept of a hook's output.
const maxOutput = 10 << 10

// Run runs h in or against the container of pod with the given id. podIP is where HTTP goes. A tcpSocket handler fails, as
// it does upstream.
func (r *Runner) Run(ctx context.Context, pod *corev1.Pod, h *corev1.LifecycleHandler, c *corev1.Container, id, podIP string) error {
	switch {
	case h.Exec != nil:
		var out bytes.Buffer
		w := &limited{w: &out, left: maxOutput}
		code, err := r.Exec.Exec(ctx, id, container.ExecOptions{Command: h.Exec.Command, Stdout: w, Stderr: w})
		if err != nil {
			return fmt.Errorf("exec lifecycle hook (%v) for container %q failed: %w", h.Exec.Command, c.Name, err)
		}
		if code != 0 {
			return fmt.Errorf("exec lifecycle hook (%v) for container %q failed: command exited with %d, message: %q", h.Exec.Command, c.Name, code, out.String())
		}
		return nil
	case h.HTTPGet != nil:
		return r.get(ctx, pod, h.HTTPGet, c, podIP)
	case h.Sleep != nil:
		t := r.Clock.NewTimer(time.Duration(h.Sleep.Seconds) * time.Second)
		defer t.Stop()
		select {
		case <-ctx.Done():
			if r.SleepEnded != nil {
				r.SleepEnded()
			}
			return ctx.Err()
		case <-t.C():
			return nil
		}
	default:
		return fmt.Errorf("lifecycle hook of container %q: invalid handler: %v", c.Name, h)
	}
}

// get asks a server of the container. One that is to speak HTTPS and speaks HTTP is asked without encryption, and without what is secret
// of the request.
func (r *Runner) get(ctx context.Context, pod *corev1.Pod, a *corev1.HTTPGetAction, c *corev1.Container, podIP string) error {
	req, err := httpget.Request(ctx, a, c, podIP, "kube-lifecycle/1.37")
	if err != nil {
		return fmt.Errorf("http lifecycle hook for container %q failed: %w", c.Name, err)
	}
	client := r.Client
	if client == nil {
		client = &http.Client{Transport: httpget.Transport(r.Dial), CheckRedirect: there}
	}
	resp, err := client.Do(req)
	if errors.Is(err, http.ErrSchemeMismatch) {
		plain := req.Clone(ctx)
		plain.URL.Scheme = "http"
		plain.Header.Del("Authorization")
		if answer, perr := client.Do(plain); perr == nil {
			resp, err = answer, nil
			if r.FellBack != nil {
				r.FellBack()
			}
			r.Recorder.Event(podspec.PodRef(pod), corev1.EventTypeWarning, "LifecycleHTTPFallback",
				fmt.Sprintf("request to HTTPS lifecycle hook %s got HTTP response, retry with HTTP succeeded", req.URL.Host))
		}
	}
	if err != nil {
		return fmt.Errorf("http lifecycle hook (%s) for container %q failed: %w", a.Path, c.Name, err)
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxOutput))
	return resp.Body.Close()
}

// there follows a redirect to the same host only, as upstream: a pod must not have its node ask others, whom the pod may not reach. A hook
// that leads elsewhere has run.
func there(next *http.Request, via []*http.Request) error {
	switch {
	case next.URL.Hostname() != via[0].URL.Hostname():
		return http.ErrUseLastResponse
	case len(via) >= 10:
		return errors.New("stopped after 10 redirects")
	}
	return nil
}

// limited drops what is more than left bytes.
type limited struct {
	w    *bytes.Buffer
	left int
}

func (l *limited) Write(p []byte) (int, error) {
	n := min(len(p), l.left)
	l.left -= n
	l.w.Write(p[:n])
	return len(p), nil
}
