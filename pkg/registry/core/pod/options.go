// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"net/url"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
)

// AddConversions lets the options of logs, exec, attach, port-forward and proxy be read from the query of a URL.
func AddConversions(scheme *runtime.Scheme) error {
	for _, add := range []error{
		scheme.AddConversionFunc((*url.Values)(nil), (*corev1.PodLogOptions)(nil), func(in, out any, _ conversion.Scope) error {
			return readLogOptions(*in.(*url.Values), out.(*corev1.PodLogOptions))
		}),
		scheme.AddConversionFunc((*url.Values)(nil), (*corev1.PodExecOptions)(nil), func(in, out any, _ conversion.Scope) error {
			return readExecOptions(*in.(*url.Values), out.(*corev1.PodExecOptions))
		}),
		scheme.AddConversionFunc((*url.Values)(nil), (*corev1.PodAttachOptions)(nil), func(in, out any, _ conversion.Scope) error {
			return readAttachOptions(*in.(*url.Values), out.(*corev1.PodAttachOptions))
		}),
		scheme.AddConversionFunc((*url.Values)(nil), (*corev1.PodPortForwardOptions)(nil), func(in, out any, _ conversion.Scope) error {
			return readPortForwardOptions(*in.(*url.Values), out.(*corev1.PodPortForwardOptions))
		}),
		scheme.AddConversionFunc((*url.Values)(nil), (*corev1.PodProxyOptions)(nil), func(in, out any, _ conversion.Scope) error {
			out.(*corev1.PodProxyOptions).Path = in.(*url.Values).Get("path")
			return nil
		}),
	} {
		if add != nil {
			return add
		}
	}
	return nil
}

// query reads parameters as upstream's generated conversions do, keeping the first error.
type query struct {
	values url.Values
	err    error
}

func (q *query) note(err error) {
	if q.err == nil {
		q.err = err
	}
}

func (q *query) bool(name string, out *bool) {
	in := q.values[name]
	q.note(runtime.Convert_Slice_string_To_bool(&in, out, nil))
}

func (q *query) int64(name string, out **int64) {
	if in, ok := q.values[name]; ok && len(in) > 0 {
		q.note(runtime.Convert_Slice_string_To_Pointer_int64(&in, out, nil))
	}
}

func readLogOptions(values url.Values, o *corev1.PodLogOptions) error {
	q := query{values: values}
	o.Container = values.Get("container")
	q.bool("follow", &o.Follow)
	q.bool("previous", &o.Previous)
	q.bool("timestamps", &o.Timestamps)
	q.bool("insecureSkipTLSVerifyBackend", &o.InsecureSkipTLSVerifyBackend)
	q.int64("sinceSeconds", &o.SinceSeconds)
	q.int64("tailLines", &o.TailLines)
	q.int64("limitBytes", &o.LimitBytes)
	if in := values["sinceTime"]; len(in) > 0 {
		q.note(metav1.Convert_Slice_string_To_Pointer_v1_Time(&in, &o.SinceTime, nil))
	}
	if in := values["stream"]; len(in) > 0 {
		o.Stream = &in[0]
	}
	return q.err
}

func readExecOptions(values url.Values, o *corev1.PodExecOptions) error {
	q := query{values: values}
	q.bool("stdin", &o.Stdin)
	q.bool("stdout", &o.Stdout)
	q.bool("stderr", &o.Stderr)
	q.bool("tty", &o.TTY)
	o.Container = values.Get("container")
	o.Command = values["command"]
	return q.err
}

func readAttachOptions(values url.Values, o *corev1.PodAttachOptions) error {
	q := query{values: values}
	q.bool("stdin", &o.Stdin)
	q.bool("stdout", &o.Stdout)
	q.bool("stderr", &o.Stderr)
	q.bool("tty", &o.TTY)
	o.Container = values.Get("container")
	return q.err
}

func readPortForwardOptions(values url.Values, o *corev1.PodPortForwardOptions) error {
	in := values["ports"]
	return metav1.Convert_Slice_string_To_Slice_int32(&in, &o.Ports, nil)
}
