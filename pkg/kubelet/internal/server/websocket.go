// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	"k8s.io/klog/v2"
	"k8s.io/streaming/pkg/httpstream/wsstream"
	utilexec "k8s.io/utils/exec"
)

// serveWebSocket serves exec and attach to clients that speak v5.channel.k8s.io, in which a client can close stdin.
// The streaming library serves the older protocols. doing says in errors what failed. See KEP-4006.
func serveWebSocket(w http.ResponseWriter, r *http.Request, o *remotecommand.Options, idle time.Duration, doing string, do func(context.Context, streams) error) {
	logger := klog.FromContext(r.Context())
	channels := make([]wsstream.ChannelType, remotecommand.StreamResize+1)
	if o.Stdin {
		channels[remotecommand.StreamStdIn] = wsstream.ReadChannel
	}
	if o.Stdout {
		channels[remotecommand.StreamStdOut] = wsstream.WriteChannel
	}
	if o.Stderr {
		channels[remotecommand.StreamStdErr] = wsstream.WriteChannel
	}
	channels[remotecommand.StreamErr] = wsstream.WriteChannel
	channels[remotecommand.StreamResize] = wsstream.ReadChannel
	conn := wsstream.NewConn(map[string]wsstream.ChannelProtocolConfig{
		remotecommand.StreamProtocolV5Name: {Binary: true, Channels: channels},
	})
	conn.SetIdleTimeout(idle)
	_, ends, err := conn.Open(w, r)
	if err != nil {
		logger.Error(err, "Unable to upgrade to a WebSocket")
		return
	}
	defer conn.Close()

	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	resize := make(chan remotecommand.TerminalSize)
	go func() {
		defer close(resize)
		decoder := json.NewDecoder(ends[remotecommand.StreamResize])
		for {
			var size remotecommand.TerminalSize
			if decoder.Decode(&size) != nil {
				return
			}
			select {
			case resize <- size:
			case <-ctx.Done():
				return
			}
		}
	}()
	err = do(ctx, streams{
		in: ends[remotecommand.StreamStdIn], out: ends[remotecommand.StreamStdOut], err: ends[remotecommand.StreamStdErr], resize: resize,
	})
	data, err := json.Marshal(result(err, doing))
	if err == nil {
		_, err = ends[remotecommand.StreamErr].Write(data)
	}
	if err != nil {
		logger.V(2).Info("Unable to tell the client how its command ended", "err", err)
	}
}

// result is what the client gets on the error stream.
func result(err error, doing string) metav1.Status {
	var exit utilexec.ExitError
	switch {
	case err == nil:
		return metav1.Status{Status: metav1.StatusSuccess}
	case errors.As(err, &exit) && exit.Exited():
		return metav1.Status{
			Status: metav1.StatusFailure, Reason: remotecommand.NonZeroExitCodeReason,
			Message: fmt.Sprintf("command terminated with non-zero exit code: %v", exit),
			Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{
				Type: remotecommand.ExitCodeCauseType, Message: strconv.Itoa(exit.ExitStatus()),
			}}},
		}
	}
	return metav1.Status{
		Status: metav1.StatusFailure, Reason: metav1.StatusReasonInternalError, Code: http.StatusInternalServerError,
		Message: fmt.Sprintf("Internal error occurred: error %s container: %v", doing, err),
	}
}
