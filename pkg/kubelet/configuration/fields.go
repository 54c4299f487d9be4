// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package configuration

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	kubeletconfigv1beta1 "k8s.io/kubelet/config/v1beta1"
	"k8s.io/utils/ptr"
)

// config keeps the lines below short.
type config = kubeletconfigv1beta1.KubeletConfiguration

// setting is a field that this kubelet honours.
type setting struct {
	// name is that in files.
	name string
	// preset fills in the default; nil: the zero value is it, or another part of the program fills it in.
	preset func(*config)
	// check says what is wrong with the value, "" if nothing; nil: nothing can be.
	check func(*config) string
}

// fields are all that are honoured, in the order of upstream's type.
var fields = []setting{
	{name: "resolvConf", preset: func(c *config) { c.ResolverConfig = new("/etc/resolv.conf") }, check: func(c *config) string { return absolute(ptr.Deref(c.ResolverConfig, "")) }},
	{name: "clusterDomain"},
	{name: "clusterDNS"},
	{name: "maxPods", preset: func(c *config) { c.MaxPods = 110 }, check: func(c *config) string { return atLeast(int64(c.MaxPods), 1) }},
	{name: "podPidsLimit", preset: func(c *config) { c.PodPidsLimit = new(int64(-1)) }, check: func(c *config) string {
		if n := ptr.Deref(c.PodPidsLimit, -1); n == 0 || n < -1 {
			return "must be positive, or -1 for no limit"
		}
		return ""
	}},
	{name: "allowedUnsafeSysctls", check: unsafeSysctls},
	{name: "containerLogMaxSize", preset: func(c *config) { c.ContainerLogMaxSize = "10Mi" }, check: func(c *config) string {
		if q, err := resource.ParseQuantity(c.ContainerLogMaxSize); err != nil || q.Sign() <= 0 {
			return "must be a positive quantity"
		}
		return ""
	}},
	{name: "containerLogMaxFiles", preset: func(c *config) { c.ContainerLogMaxFiles = new(int32(5)) }, check: func(c *config) string {
		return atLeast(int64(ptr.Deref(c.ContainerLogMaxFiles, 0)), 2)
	}},
	{name: "registerWithTaints"},
}

// fixed are the fields that have one value here, in JSON. Files written for upstream's kubelet may say it.
var fixed = map[string]string{
	"authentication":            `{"anonymous":{"enabled":false},"webhook":{"enabled":true}}`,
	"authorization":             `{"mode":"Webhook"}`,
	"cgroupsPerQOS":             `true`,
	"enableServer":              `true`,
	"failSwapOn":                `false`,
	"hairpinMode":               `"hairpin-veth"`,
	"podLogsDir":                `"/var/log/pods"`,
	"makeIPTablesUtilChains":    `true`,
	"readOnlyPort":              `0`,
	"registerNode":              `true`,
	"nodeLeaseDurationSeconds":  `40`,
	"nodeStatusReportFrequency": `"5m0s"`,
	"nodeStatusUpdateFrequency": `"10s"`,
	"rotateCertificates":        `true`,
	"serializeImagePulls":       `false`,
}

func absolute(path string) string {
	if path != "" && !filepath.IsAbs(path) {
		return "must be an absolute path"
	}
	return ""
}

func atLeast(n, least int64) string {
	if n < least {
		return fmt.Sprintf("must be at least %d", least)
	}
	return ""
}

// namespaced begin the names of the sysctls that a pod has for itself. Another would change the node.
var namespaced = []string{"kernel.shm", "kernel.msg", "kernel.sem", "fs.mqueue.", "net."}

// unsafeSysctls are names, or the beginnings of names with a "*" behind.
func unsafeSysctls(c *config) string {
	for _, s := range c.AllowedUnsafeSysctls {
		name := strings.TrimSuffix(strings.ReplaceAll(s, "/", "."), "*")
		switch {
		case name == "" || strings.Contains(name, "*"):
			return fmt.Sprintf("%q is neither the name of a sysctl nor a group such as kernel.msg*", s)
		case !slices.ContainsFunc(namespaced, func(n string) bool { return strings.HasPrefix(name, n) }):
			return fmt.Sprintf("the sysctls %q are not known to be namespaced", s)
		}
	}
	return ""
}
