// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package useragent names the clients of the API server as upstream's binaries are named, each of which here is a part of one
// program: what precedes the first slash is the field manager of what a client writes, and audit logs have it all. Touch it
// when upstream changes how its user agents look.
package useragent

import (
	"fmt"
	"runtime"
	"strings"

	"k8s.io/component-base/version"
)

// Of returns the user agent of a component, for example "kubelet/v1.37.2 (linux/amd64) kubernetes/0123abc".
func Of(component string) string {
	info := version.Get()
	return of(component, info.GitVersion, info.GitCommit)
}

// of leaves of the version what precedes the first dash, and of the commit seven characters.
func of(component, version, commit string) string {
	version, _, _ = strings.Cut(version, "-")
	commit = commit[:min(len(commit), 7)]
	if version == "" {
		version = "unknown"
	}
	if commit == "" {
		commit = "unknown"
	}
	return fmt.Sprintf("%s/%s (%s/%s) kubernetes/%s", component, version, runtime.GOOS, runtime.GOARCH, commit)
}
