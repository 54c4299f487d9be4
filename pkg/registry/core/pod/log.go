// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	genericrest "k8s.io/apiserver/pkg/registry/generic/rest"
	"k8s.io/apiserver/pkg/registry/rest"

	"minik8s.io/minik8s/pkg/registry/destination"
)

// LogREST is the log subresource: what a container has written, from the kubelet of its node.
type LogREST struct{ kubelet kubelet }

var (
	_ rest.GetterWithOptions = (*LogREST)(nil)
	_ rest.StorageMetadata   = (*LogREST)(nil)
)

// New implements rest.Storage.
func (r *LogREST) New() runtime.Object { return &corev1.Pod{} }

// Destroy implements rest.Storage; the main resource owns the store.
func (r *LogREST) Destroy() {}

// ProducesMIMETypes implements rest.StorageMetadata.
func (r *LogREST) ProducesMIMETypes(string) []string { return []string{"text/plain"} }

// ProducesObject implements rest.StorageMetadata.
func (r *LogREST) ProducesObject(string) any { return "" }

// NewGetOptions implements rest.GetterWithOptions.
func (r *LogREST) NewGetOptions() (runtime.Object, bool, string) {
	return &corev1.PodLogOptions{}, false, ""
}

// Get implements rest.GetterWithOptions. The log of a pod without a node is empty.
func (r *LogREST) Get(ctx context.Context, name string, options runtime.Object) (runtime.Object, error) {
	o, ok := options.(*corev1.PodLogOptions)
	if !ok {
		return nil, fmt.Errorf("invalid options object: %#v", options)
	}
	if errs := validateLogOptions(o); len(errs) > 0 {
		return nil, apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("PodLogOptions").GroupKind(), name, errs)
	}
	p, err := r.kubelet.pod(ctx, name)
	if err != nil {
		return nil, err
	}
	container, err := chooseContainer(o.Container, p)
	if err != nil {
		return nil, err
	}
	stream := &logStream{LocationStreamer: &genericrest.LocationStreamer{
		Transport:       r.kubelet.conn.Transport(),
		ContentType:     "text/plain",
		Flush:           o.Follow,
		ResponseChecker: genericrest.NewGenericHttpResponseChecker(corev1.Resource("pods/log"), name),
		RedirectChecker: genericrest.PreventRedirects,
	}}
	if p.Spec.NodeName == "" {
		return stream, nil
	}
	if stream.Location, err = r.kubelet.location(ctx, p, "containerLogs", container, logParams(o)); err != nil {
		return nil, err
	}
	if o.InsecureSkipTLSVerifyBackend {
		if stream.Transport, err = unverified(stream.Transport); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
	}
	return stream, nil
}

// logStream reads the log from the kubelet.
type logStream struct{ *genericrest.LocationStreamer }

// InputStream implements rest.ResourceStreamer.
func (s *logStream) InputStream(ctx context.Context, version, accept string) (io.ReadCloser, bool, string, error) {
	stream, flush, contentType, err := s.LocationStreamer.InputStream(ctx, version, accept)
	if stream != nil {
		stream = &endAlone{ReadCloser: stream}
	}
	return stream, flush, contentType, err
}

// endAlone reports the end of a stream in a Read of its own. A short body comes together with io.EOF, and then the
// library that copies a stream to a WebSocket drops it.
type endAlone struct {
	io.ReadCloser
	err error
}

func (r *endAlone) Read(p []byte) (int, error) {
	if r.err != nil {
		return 0, r.err
	}
	n, err := r.ReadCloser.Read(p)
	if n > 0 && err != nil {
		r.err, err = err, nil
	}
	return n, err
}

// unverified is t without a check of the other side's certificate, for one request. As nothing proves then that a kubelet
// answers, it goes to judged addresses only.
func unverified(t http.RoundTripper) (http.RoundTripper, error) {
	base, ok := t.(*http.Transport)
	if !ok || base.TLSClientConfig == nil {
		return nil, fmt.Errorf("insecureSkipTLSVerifyBackend is not supported by this server's connection to nodes")
	}
	c := base.Clone()
	c.TLSClientConfig.InsecureSkipVerify = true
	c.DisableKeepAlives = true // nobody would ever close the idle connection
	return destination.Fenced(c), nil
}

func validateLogOptions(o *corev1.PodLogOptions) field.ErrorList {
	const positive = "must be greater than 0"
	var errs field.ErrorList
	if n := o.TailLines; n != nil && *n < 0 {
		errs = append(errs, field.Invalid(field.NewPath("tailLines"), *n, apivalidation.IsNegativeErrorMsg))
	}
	if n := o.LimitBytes; n != nil && *n < 1 {
		errs = append(errs, field.Invalid(field.NewPath("limitBytes"), *n, positive))
	}
	switch {
	case o.SinceSeconds != nil && o.SinceTime != nil:
		errs = append(errs, field.Forbidden(field.NewPath(""), "at most one of `sinceTime` or `sinceSeconds` may be specified"))
	case o.SinceSeconds != nil && *o.SinceSeconds < 1:
		errs = append(errs, field.Invalid(field.NewPath("sinceSeconds"), *o.SinceSeconds, positive))
	}
	if o.Stream == nil {
		return errs
	}
	known := []string{corev1.LogStreamAll, corev1.LogStreamStderr, corev1.LogStreamStdout}
	switch {
	case !slices.Contains(known, *o.Stream):
		errs = append(errs, field.NotSupported(field.NewPath("stream"), *o.Stream, known))
	case *o.Stream != corev1.LogStreamAll && o.TailLines != nil:
		errs = append(errs, field.Forbidden(field.NewPath(""), "`tailLines` and specific `stream` are mutually exclusive for now"))
	}
	return errs
}

func logParams(o *corev1.PodLogOptions) url.Values {
	params := url.Values{}
	for name, set := range map[string]bool{"follow": o.Follow, "previous": o.Previous, "timestamps": o.Timestamps} {
		if set {
			params.Set(name, "true")
		}
	}
	for name, n := range map[string]*int64{"sinceSeconds": o.SinceSeconds, "tailLines": o.TailLines, "limitBytes": o.LimitBytes} {
		if n != nil {
			params.Set(name, strconv.FormatInt(*n, 10))
		}
	}
	if o.SinceTime != nil {
		params.Set("sinceTime", o.SinceTime.Format(time.RFC3339))
	}
	if o.Stream != nil && *o.Stream != corev1.LogStreamAll {
		params.Set("stream", *o.Stream)
	}
	return params
}
