// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package useragent

import (
	"runtime"
	"strings"
	"testing"
)

func TestOf(t *testing.T) {
	platform := "(" + runtime.GOOS + "/" + runtime.GOARCH + ")"
	for _, tt := range []struct{ name, version, commit, want string }{
		{"release", "v1.37.2", "0123456789abcdef", "kubelet/v1.37.2 " + platform + " kubernetes/0123456"},
		{"between releases", "v1.37.2-12+0123456789", "01234", "kubelet/v1.37.2 " + platform + " kubernetes/01234"},
		{"not stamped", "", "", "kubelet/unknown " + platform + " kubernetes/unknown"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := of("kubelet", tt.version, tt.commit); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
	if got := Of("kube-proxy"); !strings.HasPrefix(got, "kube-proxy/v") {
		t.Errorf("the field manager of %q is not kube-proxy", got)
	}
}
