// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"minik8s.io/minik8s/pkg/kubelet/container"
)

func (s *Server) logs(w http.ResponseWriter, r *http.Request) {
	o, err := parseLogOptions(r.URL.Query())
	if err != nil {
		http.Error(w, fmt.Sprintf(`{"message": %q}`, "Unable to decode query: "+err.Error()), http.StatusBadRequest)
		return
	}
	if message := invalidLogOptions(o); message != "" {
		http.Error(w, fmt.Sprintf(`{"message": %q}`, "Invalid request: "+message), http.StatusUnprocessableEntity)
		return
	}
	name := r.PathValue("container")
	pod := s.pod(r)
	if pod == nil {
		http.Error(w, fmt.Sprintf("pod %q does not exist", r.PathValue("pod")), http.StatusNotFound)
		return
	}
	if containerSpec(pod, name) == nil {
		http.Error(w, fmt.Sprintf("container %q not found in pod %q", name, pod.Name), http.StatusNotFound)
		return
	}
	id, err := logged(pod, name, o.Previous)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	w.Header().Set("Content-Type", "text/plain")
	out := &logWriter{w: w, flush: o.Follow, left: -1, full: cancel}
	if o.LimitBytes != nil {
		out.left = *o.LimitBytes
	}
	if o.Follow {
		// The client learns at once that the log is there, not only when there is a line.
		_ = http.NewResponseController(w).Flush()
	}
	var stdout, stderr io.Writer = out, out
	if o.Stream != nil {
		switch *o.Stream {
		case corev1.LogStreamStdout:
			stderr = io.Discard
		case corev1.LogStreamStderr:
			stdout = io.Discard
		}
	}
	err = s.config.Host.Logs(ctx, id, logOptions(o, s.config.Clock.Now()), stdout, stderr)
	if err == nil || ctx.Err() != nil {
		return
	}
	if !o.Follow && !out.written() {
		http.Error(w, fmt.Sprintf("unable to retrieve container logs for docker://%s: %v", id, err), http.StatusBadRequest)
		return
	}
	klog.FromContext(ctx).Error(err, "Reading a container log broke off", "pod", klog.KObj(pod), "container", name)
}

func logOptions(o *corev1.PodLogOptions, now time.Time) container.LogOptions {
	e := container.LogOptions{Follow: o.Follow, Timestamps: o.Timestamps, Tail: -1}
	if o.TailLines != nil {
		e.Tail = *o.TailLines
	}
	switch {
	case o.SinceSeconds != nil:
		e.Since = now.Add(-time.Duration(*o.SinceSeconds) * time.Second)
	case o.SinceTime != nil:
		e.Since = o.SinceTime.Time
	}
	return e
}

func parseLogOptions(q url.Values) (*corev1.PodLogOptions, error) {
	o := &corev1.PodLogOptions{}
	var errs []error
	boolean := func(name string, to *bool) {
		if !q.Has(name) {
			return
		}
		// As everywhere in the API, a value that is neither 0 nor false means yes, an empty one too.
		switch v := q.Get(name); v {
		case "0", "false":
		default:
			*to = true
		}
	}
	number := func(name string, to **int64) {
		if v := q.Get(name); v != "" {
			n, err := strconv.ParseInt(v, 10, 64)
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", name, err))
				return
			}
			*to = &n
		}
	}
	boolean("follow", &o.Follow)
	boolean("previous", &o.Previous)
	boolean("timestamps", &o.Timestamps)
	number("sinceSeconds", &o.SinceSeconds)
	number("tailLines", &o.TailLines)
	if q.Get("tail") == "all" {
		o.TailLines = nil
	} else {
		number("tail", &o.TailLines) // its name of old, which counts
	}
	number("limitBytes", &o.LimitBytes)
	if v := q.Get("sinceTime"); v != "" {
		t, err := time.Parse(time.RFC3339, v)
		if err != nil {
			errs = append(errs, fmt.Errorf("sinceTime: %w", err))
		}
		o.SinceTime = &metav1.Time{Time: t}
	}
	if v := q.Get("stream"); v != "" {
		o.Stream = &v
	}
	return o, errors.Join(errs...)
}

func invalidLogOptions(o *corev1.PodLogOptions) string {
	switch {
	case o.TailLines != nil && *o.TailLines < 0:
		return "tailLines: must be greater than or equal to 0"
	case o.LimitBytes != nil && *o.LimitBytes < 1:
		return "limitBytes: must be greater than 0"
	case o.SinceSeconds != nil && o.SinceTime != nil:
		return "at most one of `sinceTime` or `sinceSeconds` may be specified"
	case o.SinceSeconds != nil && *o.SinceSeconds < 1:
		return "sinceSeconds: must be greater than 0"
	}
	if o.Stream != nil {
		switch *o.Stream {
		case corev1.LogStreamAll, corev1.LogStreamStdout, corev1.LogStreamStderr:
		default:
			return "stream: must be one of All, Stdout, Stderr"
		}
		if *o.Stream != corev1.LogStreamAll && o.TailLines != nil {
			return "`tailLines` and specific `stream` are mutually exclusive for now"
		}
	}
	return ""
}

// logWriter sends both streams of a log to the client, at most left bytes (without limit if negative), and says when
// it is full.
type logWriter struct {
	w     http.ResponseWriter
	flush bool
	full  func()

	mu   sync.Mutex
	left int64
	any  bool
}

func (l *logWriter) Write(data []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.left == 0 {
		return 0, io.ErrShortWrite
	}
	part := data
	if l.left > 0 && int64(len(part)) > l.left {
		part = part[:l.left]
	}
	n, err := l.w.Write(part)
	l.any = l.any || n > 0
	if err == nil && l.flush {
		err = http.NewResponseController(l.w).Flush()
	}
	if l.left > 0 {
		if l.left -= int64(n); l.left == 0 {
			l.full()
		}
	}
	if err == nil && n < len(data) {
		err = io.ErrShortWrite
	}
	return n, err
}

func (l *logWriter) written() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.any
}
