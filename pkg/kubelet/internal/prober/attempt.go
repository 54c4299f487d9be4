// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package prober

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"

	"minik8s.io/minik8s/pkg/kubelet/container"
	"minik8s.io/minik8s/pkg/kubelet/internal/capped"
	"minik8s.io/minik8s/pkg/kubelet/internal/env"
	"minik8s.io/minik8s/pkg/kubelet/internal/httpget"
	"minik8s.io/minik8s/pkg/network/namespace"
)

const (
	agent = "kube-probe/1.37"
	// maxOutput bounds what events carry of a probe's answer.
	maxOutput = 10 << 10
)

// Target is the container that is probed.
type Target struct {
	ID        string
	Container *corev1.Container
	PodIP     string
}

// Outcome is what one attempt found. Err is set when the attempt itself went wrong, so that nothing is known.
type Outcome struct {
	Result  Result
	Warning bool // a success that deserves an event
	Output  string
	Err     error
}

// Execer is the part of container.Runtime that exec probes need.
type Execer interface {
	Exec(ctx context.Context, id string, o container.ExecOptions) (exitCode int, err error)
}

// Ways are how containers are reached.
type Ways struct {
	Exec Execer
	// Dial connects from where the node is. nil: from where the process is.
	Dial namespace.Dial
}

// Attempt probes once, within the probe's timeout.
func Attempt(ctx context.Context, w Ways, p *corev1.Probe, t Target) Outcome {
	timeout := time.Duration(max(p.TimeoutSeconds, 1)) * time.Second
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	switch {
	case p.Exec != nil:
		return execute(ctx, w.Exec, p.Exec, t, timeout)
	case p.HTTPGet != nil:
		return get(ctx, w.Dial, p.HTTPGet, t, timeout)
	case p.TCPSocket != nil:
		return connect(ctx, w.Dial, p.TCPSocket, t)
	case p.GRPC != nil:
		return call(ctx, w.Dial, p.GRPC, t, timeout)
	default:
		return Outcome{Err: fmt.Errorf("missing probe handler for container %s", t.Container.Name)}
	}
}

func execute(ctx context.Context, e Execer, a *corev1.ExecAction, t Target, timeout time.Duration) Outcome {
	out := &capped.Buffer{Max: maxOutput}
	var literal []string // of the container's variables only what the spec itself says is known here, as upstream
	for _, v := range t.Container.Env {
		literal = append(literal, v.Name+"="+v.Value)
	}
	command := env.Expand(a.Command, literal)
	code, err := e.Exec(ctx, t.ID, container.ExecOptions{Command: command, Stdout: out, Stderr: out})
	switch {
	case errors.Is(err, container.ErrUnavailable):
		return Outcome{Err: err} // the engine was slow, not the command
	case errors.Is(err, context.DeadlineExceeded):
		return Outcome{Result: Failure, Output: fmt.Sprintf("command timed out: %q timed out after %s", command, timeout)}
	case err != nil:
		return Outcome{Err: err}
	case code != 0:
		return Outcome{Result: Failure, Output: out.String()}
	default:
		return Outcome{Result: Success, Output: out.String()}
	}
}

func get(ctx context.Context, dial namespace.Dial, a *corev1.HTTPGetAction, t Target, timeout time.Duration) Outcome {
	req, err := httpget.Request(ctx, a, t.Container, t.PodIP, agent)
	if err != nil {
		return Outcome{Err: err}
	}
	transport := httpget.Transport(dial)
	defer transport.CloseIdleConnections()
	away := false // a redirect left the host
	client := &http.Client{Transport: transport, Timeout: timeout, CheckRedirect: func(next *http.Request, via []*http.Request) error {
		if next.URL.Hostname() != via[0].URL.Hostname() {
			away = true
			return http.ErrUseLastResponse
		}
		if len(via) >= 10 {
			return errors.New("stopped after 10 redirects")
		}
		if via[0].Host != via[0].URL.Host {
			next.Host = via[0].Host
		}
		return nil
	}}
	resp, err := client.Do(req)
	if err != nil {
		// The request itself never fails; what fails is the container.
		if ue, ok := errors.AsType[*url.Error](err); ok {
			err = ue
		}
		return Outcome{Result: Failure, Output: err.Error()}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxOutput))
	if err != nil {
		return Outcome{Result: Failure, Output: err.Error()}
	}
	switch {
	case resp.StatusCode < http.StatusOK || resp.StatusCode >= http.StatusBadRequest:
		return Outcome{Result: Failure, Output: fmt.Sprintf("HTTP probe failed with statuscode: %d", resp.StatusCode)}
	case away || resp.StatusCode >= http.StatusMultipleChoices:
		return Outcome{Result: Success, Warning: true, Output: "Probe terminated redirects, Response body: " + string(body)}
	default:
		return Outcome{Result: Success, Output: string(body)}
	}
}

func connect(ctx context.Context, dial namespace.Dial, a *corev1.TCPSocketAction, t Target) Outcome {
	port, err := httpget.Port(a.Port, t.Container)
	if err != nil {
		return Outcome{Err: err}
	}
	host := t.PodIP
	if a.Host != "" {
		host = a.Host
	}
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	conn, err := dial(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	if err != nil {
		return Outcome{Result: Failure, Output: err.Error()}
	}
	_ = conn.Close()
	return Outcome{Result: Success}
}

// call asks the gRPC health service (KEP-2727).
func call(ctx context.Context, dial namespace.Dial, a *corev1.GRPCAction, t Target, timeout time.Duration) Outcome {
	service := ""
	if a.Service != nil {
		service = *a.Service
	}
	addr := net.JoinHostPort(t.PodIP, strconv.Itoa(int(a.Port)))
	options := []grpc.DialOption{grpc.WithUserAgent(agent), grpc.WithTransportCredentials(insecure.NewCredentials())}
	if dial != nil {
		options = append(options, grpc.WithContextDialer(func(ctx context.Context, to string) (net.Conn, error) { return dial(ctx, "tcp", to) }))
	}
	conn, err := grpc.NewClient("passthrough:///"+addr, options...)
	if err != nil {
		return Outcome{Result: Failure, Output: fmt.Sprintf("error: failed to connect service at %q: %v", addr, err)}
	}
	defer conn.Close()
	ctx = metadata.NewOutgoingContext(ctx, metadata.Pairs("user-agent", agent))
	resp, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{Service: service})
	if err != nil {
		out := fmt.Sprintf("error: health rpc probe failed: %v", err)
		switch status.Code(err) {
		case codes.Unimplemented:
			out = fmt.Sprintf("error: this server does not implement the grpc health protocol (grpc.health.v1.Health): %s", status.Convert(err).Message())
		case codes.DeadlineExceeded:
			out = fmt.Sprintf("timeout: health rpc did not complete within %v", timeout)
		case codes.Unavailable:
			out = fmt.Sprintf("timeout: failed to connect service %q within %v: %v", addr, timeout, status.Convert(err).Message())
		}
		return Outcome{Result: Failure, Output: out}
	}
	if resp.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		return Outcome{Result: Failure, Output: fmt.Sprintf("service unhealthy (responded with %q)", resp.GetStatus().String())}
	}
	return Outcome{Result: Success, Output: "service healthy"}
}
