// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package container

import (
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"minik8s.io/minik8s/pkg/apis/core/env"
	"minik8s.io/minik8s/pkg/apis/core/image"
	"minik8s.io/minik8s/pkg/apis/core/port"
	"minik8s.io/minik8s/pkg/apis/core/probe"
	"minik8s.io/minik8s/pkg/apis/core/quantity"
	"minik8s.io/minik8s/pkg/apis/core/ratchet"
	"minik8s.io/minik8s/pkg/apis/core/securitycontext"
	"minik8s.io/minik8s/pkg/apis/core/volume"
)

// Pod is what the containers of a pod have in common, as their validation needs it.
type Pod struct {
	// Volumes are the pod's valid volumes by name.
	Volumes map[string]corev1.VolumeSource
	// Claims are the names of its resource claims.
	Claims sets.Set[string]
	// GracePeriod is its termination grace period in seconds, nil if unknown.
	GracePeriod   *int64
	RestartPolicy corev1.RestartPolicy
	// HostUsers tells that it has the node's user namespace.
	HostUsers bool
	// OS is the operating system that it names, "" if none.
	OS corev1.OSName
	// SysAdmin lets containers that may not escalate privileges have the capability to do so, as an update may keep.
	SysAdmin bool
}

var (
	messagePolicies = []corev1.TerminationMessagePolicy{corev1.TerminationMessageReadFile, corev1.TerminationMessageFallbackToLogsOnError}
	resizable       = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}
	resizePolicies  = []corev1.ResourceResizeRestartPolicy{corev1.NotRequired, corev1.RestartContainer}
)

// Validate checks the regular containers.
func Validate(containers []corev1.Container, pod Pod, path *field.Path) field.ErrorList {
	if len(containers) == 0 {
		return field.ErrorList{field.Required(path, "")}
	}
	var errs field.ErrorList
	names := sets.New[string]()
	for i := range containers {
		c, p := &containers[i], path.Index(i)
		errs = append(errs, validate(c, pod, p)...)
		if names.Has(c.Name) {
			errs = append(errs, field.Duplicate(p.Child("name"), c.Name))
		}
		names.Insert(c.Name)
		errs = append(errs, validateLife(c, pod, p)...)
		errs = append(errs, validateRestart(c, p)...)
	}
	return append(errs, port.ValidateHostConflicts(containers, path)...)
}

// validateLife checks hooks and probes.
func validateLife(c *corev1.Container, pod Pod, path *field.Path) field.ErrorList {
	errs := probe.ValidateHooks(c.Lifecycle, pod.GracePeriod, pod.OS, path.Child("lifecycle"))
	errs = append(errs, probe.ValidateLiveness(c.LivenessProbe, path.Child("livenessProbe"))...)
	errs = append(errs, probe.ValidateReadiness(c.ReadinessProbe, path.Child("readinessProbe"))...)
	return append(errs, probe.ValidateStartup(c.StartupProbe, path.Child("startupProbe"))...)
}

// ValidateInit checks the init containers beside the regular ones.
func ValidateInit(containers, regular []corev1.Container, pod Pod, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	names := sets.New[string]()
	for _, c := range regular {
		names.Insert(c.Name)
	}
	for i := range containers {
		c, p := &containers[i], path.Index(i)
		errs = append(errs, validate(c, pod, p)...)
		if names.Has(c.Name) {
			errs = append(errs, field.Duplicate(p.Child("name"), c.Name))
		} else if c.Name != "" {
			names.Insert(c.Name)
		}
		// They run one after the other, so only ports within one can collide.
		errs = append(errs, port.ValidateHostConflicts(containers[i:i+1], path)...)
		if c.RestartPolicy == nil && len(c.RestartPolicyRules) > 0 { // the rules themselves are not looked at then
			errs = append(errs, field.Required(p.Child("restartPolicy"), "must specify restartPolicy when restart rules are used"))
		} else {
			errs = append(errs, validateRestart(c, p)...)
		}
		if Restartable(c) {
			errs = append(errs, validateLife(c, pod, p)...)
			continue
		}
		for j, r := range c.ResizePolicy {
			if r.RestartPolicy == corev1.RestartContainer {
				at := p.Child("resizePolicy").Index(j).Child("restartPolicy")
				errs = append(errs, ratchet.Mark("resize of init containers", field.Invalid(at, r.RestartPolicy, "must not be set to 'RestartContainer' for non-sidecar initContainers"))...)
			}
		}
		for _, f := range []struct {
			name string
			set  bool
		}{
			{"lifecycle", c.Lifecycle != nil},
			{"livenessProbe", c.LivenessProbe != nil},
			{"readinessProbe", c.ReadinessProbe != nil},
			{"startupProbe", c.StartupProbe != nil},
		} {
			if f.set {
				errs = append(errs, field.Forbidden(p.Child(f.name), "may not be set for init containers without restartPolicy=Always"))
			}
		}
	}
	return errs
}

// validate checks what all kinds of containers have.
func validate(c *corev1.Container, pod Pod, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if c.Name == "" {
		errs = append(errs, field.Required(path.Child("name"), ""))
	} else {
		for _, msg := range validation.IsDNS1123Label(c.Name) {
			errs = append(errs, field.Invalid(path.Child("name"), c.Name, msg))
		}
	}
	if c.Image == "" {
		errs = append(errs, field.Required(path.Child("image"), ""))
	}
	errs = append(errs, oneOf(c.TerminationMessagePolicy, messagePolicies, path.Child("terminationMessagePolicy"))...)
	errs = append(errs, port.Validate(c.Ports, path.Child("ports"))...)
	errs = append(errs, env.Validate(c.Env, path.Child("env"))...)
	errs = append(errs, env.ValidateFrom(c.EnvFrom, path.Child("envFrom"))...)
	errs = append(errs, volume.ValidateMounts(c, pod.Volumes, path.Child("volumeMounts"))...)
	errs = append(errs, volume.ValidateDevices(c, pod.Volumes, path.Child("volumeDevices"))...)
	errs = append(errs, image.ValidatePullPolicy(c.ImagePullPolicy, path.Child("imagePullPolicy"))...)
	errs = append(errs, quantity.ValidateRequirements(&c.Resources, quantity.Container, pod.Claims, path.Child("resources"))...)
	errs = append(errs, validateResizePolicy(c.ResizePolicy, pod.RestartPolicy, path.Child("resizePolicy"))...)
	return append(errs, securitycontext.ValidateContainer(c.SecurityContext, pod.HostUsers, pod.SysAdmin, path.Child("securityContext"))...)
}

func oneOf[T ~string](value T, allowed []T, path *field.Path) field.ErrorList {
	switch {
	case value == "":
		return field.ErrorList{field.Required(path, "")}
	case !slices.Contains(allowed, value):
		return field.ErrorList{field.NotSupported(path, value, allowed)}
	}
	return nil
}

func validateResizePolicy(policies []corev1.ContainerResizePolicy, restart corev1.RestartPolicy, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := sets.New[corev1.ResourceName]()
	for i, p := range policies {
		if seen.Has(p.ResourceName) {
			errs = append(errs, field.Duplicate(path.Index(i), p.ResourceName))
		}
		seen.Insert(p.ResourceName)
		errs = append(errs, oneOf(p.ResourceName, resizable, path)...)
		errs = append(errs, oneOf(p.RestartPolicy, resizePolicies, path)...)
		if restart == corev1.RestartPolicyNever && p.RestartPolicy != corev1.NotRequired {
			errs = append(errs, field.Invalid(path, p.RestartPolicy, "must be 'NotRequired' when pod `restartPolicy` is 'Never'"))
		}
	}
	return errs
}

// ValidateImagePadding refuses blanks around the image, which pods may not have though pod templates may.
func ValidateImagePadding(containers []corev1.Container, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, c := range containers {
		errs = append(errs, imagePadding(c.Image, path.Index(i))...)
	}
	return errs
}

func imagePadding(image string, path *field.Path) field.ErrorList {
	if strings.TrimSpace(image) != image {
		return field.ErrorList{field.Invalid(path.Child("image"), image, "must not have leading or trailing whitespace")}
	}
	return nil
}

// ephemeralFields are those that make sense in a container that somebody adds to a running pod to look around.
var ephemeralFields = sets.New(
	"name", "image", "command", "args", "workingDir", "envFrom", "env", "volumeMounts", "volumeDevices",
	"terminationMessagePath", "terminationMessagePolicy", "imagePullPolicy", "securityContext", "stdin", "stdinOnce", "tTY",
)

// ValidateEphemeral checks the ephemeral containers beside all others.
func ValidateEphemeral(containers []corev1.EphemeralContainer, others []string, pod Pod, path *field.Path) field.ErrorList {
	const forbidden = "cannot be set for an Ephemeral Container"
	var errs field.ErrorList
	names := sets.New(others...)
	for i := range containers {
		e, p := &containers[i], path.Index(i)
		c := (*corev1.Container)(&e.EphemeralContainerCommon)
		errs = append(errs, validate(c, pod, p)...)
		errs = append(errs, imagePadding(c.Image, p)...)
		if names.Has(c.Name) {
			errs = append(errs, field.Duplicate(p.Child("name"), c.Name))
		}
		names.Insert(c.Name)
		if t := e.TargetContainerName; t != "" && !slices.Contains(others, t) {
			errs = append(errs, field.NotFound(p.Child("targetContainerName"), t))
		}
		v := reflect.ValueOf(e.EphemeralContainerCommon)
		for j := range v.NumField() {
			name := v.Type().Field(j).Name // and not its JSON name: clients know "tTY"
			name = strings.ToLower(name[:1]) + name[1:]
			if !v.Field(j).IsZero() && !ephemeralFields.Has(name) {
				errs = append(errs, field.Forbidden(p.Child(name), forbidden))
			}
		}
		for j, m := range e.VolumeMounts {
			mount := p.Child("volumeMounts").Index(j)
			if m.SubPath != "" {
				errs = append(errs, field.Forbidden(mount.Child("subPath"), forbidden))
			}
			if m.SubPathExpr != "" {
				errs = append(errs, field.Forbidden(mount.Child("subPathExpr"), forbidden))
			}
		}
	}
	return errs
}
