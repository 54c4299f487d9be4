// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package probe has the defaults and validation of probes and lifecycle hooks: what a container is asked or told, and
// how often. Touch it when there is another kind of handler.
package probe

import (
	"fmt"
	"regexp"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"minik8s.io/minik8s/pkg/apis/core/port"
)

// realTime are the signals without a fixed number.
var realTime = regexp.MustCompile(`^SIGRTM(IN(\+([1-9]|1[0-5]))?|AX(-([1-9]|1[0-4]))?)$`)

// SetDefaults fills in a probe; nil is left alone.
func SetDefaults(p *corev1.Probe) {
	if p == nil {
		return
	}
	setDefault(&p.TimeoutSeconds, 1)
	setDefault(&p.PeriodSeconds, 10)
	setDefault(&p.SuccessThreshold, 1)
	setDefault(&p.FailureThreshold, 3)
	setHTTPDefaults(p.HTTPGet)
	if p.GRPC != nil && p.GRPC.Service == nil {
		p.GRPC.Service = new(string)
	}
}

// SetHookDefaults fills in lifecycle hooks; nil is left alone.
func SetHookDefaults(l *corev1.Lifecycle) {
	if l == nil {
		return
	}
	for _, h := range []*corev1.LifecycleHandler{l.PostStart, l.PreStop} {
		if h != nil {
			setHTTPDefaults(h.HTTPGet)
		}
	}
}

func setDefault(v *int32, value int32) {
	if *v == 0 {
		*v = value
	}
}

func setHTTPDefaults(h *corev1.HTTPGetAction) {
	if h == nil {
		return
	}
	if h.Path == "" {
		h.Path = "/"
	}
	if h.Scheme == "" {
		h.Scheme = corev1.URISchemeHTTP
	}
}

// ValidateLiveness checks a liveness probe; nil is fine.
func ValidateLiveness(p *corev1.Probe, path *field.Path) field.ErrorList {
	return append(validate(p, path), mustSucceedOnce(p, path)...)
}

// ValidateStartup checks a startup probe; nil is fine.
func ValidateStartup(p *corev1.Probe, path *field.Path) field.ErrorList {
	return append(validate(p, path), mustSucceedOnce(p, path)...)
}

// ValidateReadiness checks a readiness probe; nil is fine.
func ValidateReadiness(p *corev1.Probe, path *field.Path) field.ErrorList {
	errs := validate(p, path)
	if p != nil && p.TerminationGracePeriodSeconds != nil {
		errs = append(errs, field.Invalid(path.Child("terminationGracePeriodSeconds"), p.TerminationGracePeriodSeconds, "must not be set for readinessProbes"))
	}
	return errs
}

func mustSucceedOnce(p *corev1.Probe, path *field.Path) field.ErrorList {
	if p != nil && p.SuccessThreshold != 1 {
		return field.ErrorList{field.Invalid(path.Child("successThreshold"), p.SuccessThreshold, "must be 1")}
	}
	return nil
}

func validate(p *corev1.Probe, path *field.Path) field.ErrorList {
	if p == nil {
		return nil
	}
	errs := handler{exec: p.Exec, http: p.HTTPGet, tcp: p.TCPSocket, grpc: p.GRPC}.validate(nil, path)
	for _, n := range []struct {
		name  string
		value int32
	}{
		{"initialDelaySeconds", p.InitialDelaySeconds},
		{"timeoutSeconds", p.TimeoutSeconds},
		{"periodSeconds", p.PeriodSeconds},
		{"successThreshold", p.SuccessThreshold},
		{"failureThreshold", p.FailureThreshold},
	} {
		errs = append(errs, apivalidation.ValidateNonnegativeField(int64(n.value), path.Child(n.name))...)
	}
	if g := p.TerminationGracePeriodSeconds; g != nil && *g <= 0 {
		errs = append(errs, field.Invalid(path.Child("terminationGracePeriodSeconds"), *g, "must be greater than 0"))
	}
	return errs
}

// ValidateHooks checks lifecycle hooks and the stop signal. grace is the pod's termination grace period in seconds, nil
// if unknown; os is the operating system that the pod names, "" if none.
func ValidateHooks(l *corev1.Lifecycle, grace *int64, os corev1.OSName, path *field.Path) field.ErrorList {
	if l == nil {
		return nil
	}
	var errs field.ErrorList
	hook := func(h *corev1.LifecycleHandler, p *field.Path) {
		if h != nil {
			errs = append(errs, handler{exec: h.Exec, http: h.HTTPGet, tcp: h.TCPSocket, sleep: h.Sleep}.validate(grace, p)...)
		}
	}
	hook(l.PostStart, path.Child("postStart"))
	hook(l.PreStop, path.Child("preStop"))
	if l.StopSignal != nil {
		errs = append(errs, validateStopSignal(*l.StopSignal, os, path.Child("stopSignal"))...)
	}
	return errs
}

func validateStopSignal(signal corev1.Signal, os corev1.OSName, path *field.Path) field.ErrorList {
	switch {
	case os == "":
		return field.ErrorList{field.Forbidden(path, "may not be set for containers with empty `spec.os.name`")}
	case os == corev1.Windows && signal != corev1.SIGTERM && signal != corev1.SIGKILL:
		return field.ErrorList{field.NotSupported(path, signal, []corev1.Signal{corev1.SIGKILL, corev1.SIGTERM})}
	case unix.SignalNum(string(signal)) == 0 && !realTime.MatchString(string(signal)):
		return field.ErrorList{field.Invalid(path, signal, "must be a Linux signal, such as SIGTERM or SIGRTMIN+3")}
	}
	return nil
}

// handler is what probes and hooks have in common: exactly one action.
type handler struct {
	exec  *corev1.ExecAction
	http  *corev1.HTTPGetAction
	tcp   *corev1.TCPSocketAction
	grpc  *corev1.GRPCAction
	sleep *corev1.SleepAction
}

func (h handler) validate(grace *int64, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	n := 0
	action := func(set bool, name string, check func(p *field.Path) field.ErrorList) {
		if !set {
			return
		}
		if n++; n > 1 {
			errs = append(errs, field.Forbidden(path.Child(name), "may not specify more than 1 handler type"))
			return
		}
		errs = append(errs, check(path.Child(name))...)
	}
	action(h.exec != nil, "exec", func(p *field.Path) field.ErrorList {
		if len(h.exec.Command) == 0 {
			return field.ErrorList{field.Required(p.Child("command"), "")}
		}
		return nil
	})
	action(h.http != nil, "httpGet", func(p *field.Path) field.ErrorList { return validateHTTP(h.http, p) })
	action(h.tcp != nil, "tcpSocket", func(p *field.Path) field.ErrorList {
		return port.ValidateNumberOrName(h.tcp.Port, p.Child("port"))
	})
	action(h.grpc != nil, "grpc", func(p *field.Path) field.ErrorList {
		return port.ValidateNumberOrName(intstr.FromInt32(h.grpc.Port), p.Child("port"))
	})
	action(h.sleep != nil, "sleep", func(p *field.Path) field.ErrorList {
		if s := h.sleep.Seconds; grace != nil && (s < 0 || s > *grace) {
			return field.ErrorList{field.Invalid(p, s, fmt.Sprintf("must be non-negative and less than terminationGracePeriodSeconds (%d)", *grace))}
		}
		return nil
	})
	if n == 0 {
		errs = append(errs, field.Required(path, "must specify a handler type"))
	}
	return errs
}

func validateHTTP(h *corev1.HTTPGetAction, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if h.Path == "" {
		errs = append(errs, field.Required(path.Child("path"), ""))
	}
	errs = append(errs, port.ValidateNumberOrName(h.Port, path.Child("port"))...)
	if h.Scheme != corev1.URISchemeHTTP && h.Scheme != corev1.URISchemeHTTPS {
		errs = append(errs, field.NotSupported(path.Child("scheme"), h.Scheme, []corev1.URIScheme{corev1.URISchemeHTTP, corev1.URISchemeHTTPS}))
	}
	for _, header := range h.HTTPHeaders {
		for _, msg := range validation.IsHTTPHeaderName(header.Name) {
			errs = append(errs, field.Invalid(path.Child("httpHeaders"), header.Name, msg))
		}
	}
	return errs
}
