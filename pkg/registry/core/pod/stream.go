// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
	streamproxy "k8s.io/apiserver/pkg/util/proxy"
	"k8s.io/streaming/pkg/httpstream/wsstream"
)

// ExecREST is the exec subresource: it runs a command in a container.
type ExecREST struct{ kubelet kubelet }

// AttachREST is the attach subresource: it connects to the main process of a container.
type AttachREST struct{ kubelet kubelet }

// PortForwardREST is the portforward subresource: it connects to ports inside the pod.
type PortForwardREST struct{ kubelet kubelet }

var (
	_ rest.Connecter = (*ExecREST)(nil)
	_ rest.Connecter = (*AttachREST)(nil)
	_ rest.Connecter = (*PortForwardREST)(nil)
)

// New implements rest.Storage.
func (r *ExecREST) New() runtime.Object { return &corev1.PodExecOptions{} }

// Destroy implements rest.Storage; the main resource owns the store.
func (r *ExecREST) Destroy() {}

// ConnectMethods implements rest.Connecter.
func (r *ExecREST) ConnectMethods() []string { return streamMethods() }

// NewConnectOptions implements rest.Connecter.
func (r *ExecREST) NewConnectOptions() (runtime.Object, bool, string) {
	return &corev1.PodExecOptions{}, false, ""
}

// Connect implements rest.Connecter.
func (r *ExecREST) Connect(ctx context.Context, name string, options runtime.Object, responder rest.Responder) (http.Handler, error) {
	o, ok := options.(*corev1.PodExecOptions)
	if !ok {
		return nil, fmt.Errorf("invalid options object: %#v", options)
	}
	params := streamParams(o.Stdin, o.Stdout, o.Stderr, o.TTY)
	for _, arg := range o.Command {
		params.Add("command", arg)
	}
	streams := streamproxy.Options{Stdin: o.Stdin, Stdout: o.Stdout, Stderr: o.Stderr, Tty: o.TTY}
	return r.kubelet.streams(ctx, name, o.Container, "exec", params, streams, responder)
}

// New implements rest.Storage.
func (r *AttachREST) New() runtime.Object { return &corev1.PodAttachOptions{} }

// Destroy implements rest.Storage; the main resource owns the store.
func (r *AttachREST) Destroy() {}

// ConnectMethods implements rest.Connecter.
func (r *AttachREST) ConnectMethods() []string { return streamMethods() }

// NewConnectOptions implements rest.Connecter.
func (r *AttachREST) NewConnectOptions() (runtime.Object, bool, string) {
	return &corev1.PodAttachOptions{}, false, ""
}

// Connect implements rest.Connecter.
func (r *AttachREST) Connect(ctx context.Context, name string, options runtime.Object, responder rest.Responder) (http.Handler, error) {
	o, ok := options.(*corev1.PodAttachOptions)
	if !ok {
		return nil, fmt.Errorf("invalid options object: %#v", options)
	}
	streams := streamproxy.Options{Stdin: o.Stdin, Stdout: o.Stdout, Stderr: o.Stderr, Tty: o.TTY}
	return r.kubelet.streams(ctx, name, o.Container, "attach", streamParams(o.Stdin, o.Stdout, o.Stderr, o.TTY), streams, responder)
}

// streamParams are the names by which kubelets know the streams.
func streamParams(stdin, stdout, stderr, tty bool) url.Values {
	params := url.Values{}
	for name, wanted := range map[string]bool{"input": stdin, "output": stdout, "error": stderr, "tty": tty} {
		if wanted {
			params.Set(name, "1")
		}
	}
	return params
}

// streams connects a client with a process. WebSockets with the v5 protocol are translated to SPDY (KEP-4006), all else
// goes through as it is.
func (k kubelet) streams(ctx context.Context, name, container, action string, params url.Values, streams streamproxy.Options, responder rest.Responder) (http.Handler, error) {
	if err := k.authorizeCreate(ctx); err != nil {
		return nil, err
	}
	p, err := k.pod(ctx, name)
	if err != nil {
		return nil, err
	}
	container, err = chooseContainer(container, p)
	if err != nil {
		return nil, err
	}
	location, err := k.location(ctx, p, action, container, params)
	if err != nil {
		return nil, err
	}
	translator := streamproxy.NewStreamTranslatorHandler(location, k.conn.Transport(), 0, streams)
	return streamproxy.NewTranslatingHandler(upgrade(location, k.conn.Transport(), responder), translator, wsstream.IsWebSocketRequestWithStreamCloseProtocol), nil
}

// New implements rest.Storage.
func (r *PortForwardREST) New() runtime.Object { return &corev1.PodPortForwardOptions{} }

// Destroy implements rest.Storage; the main resource owns the store.
func (r *PortForwardREST) Destroy() {}

// ConnectMethods implements rest.Connecter.
func (r *PortForwardREST) ConnectMethods() []string { return streamMethods() }

// NewConnectOptions implements rest.Connecter.
func (r *PortForwardREST) NewConnectOptions() (runtime.Object, bool, string) {
	return &corev1.PodPortForwardOptions{}, false, ""
}

// Connect implements rest.Connecter. WebSockets with the tunnelling protocol carry SPDY (KEP-4006), all else goes
// through as it is.
func (r *PortForwardREST) Connect(ctx context.Context, name string, options runtime.Object, responder rest.Responder) (http.Handler, error) {
	o, ok := options.(*corev1.PodPortForwardOptions)
	if !ok {
		return nil, fmt.Errorf("invalid options object: %#v", options)
	}
	if err := r.kubelet.authorizeCreate(ctx); err != nil {
		return nil, err
	}
	p, err := r.kubelet.pod(ctx, name)
	if err != nil {
		return nil, err
	}
	params := url.Values{}
	if len(o.Ports) > 0 {
		ports := make([]string, len(o.Ports))
		for i, port := range o.Ports {
			ports[i] = strconv.Itoa(int(port))
		}
		params.Set("port", strings.Join(ports, ","))
	}
	location, err := r.kubelet.location(ctx, p, "portForward", "", params)
	if err != nil {
		return nil, err
	}
	handler := upgrade(location, r.kubelet.conn.Transport(), responder)
	return streamproxy.NewTranslatingHandler(handler, streamproxy.NewTunnelingHandler(handler), wsstream.IsWebSocketRequestWithTunnelingProtocol), nil
}
