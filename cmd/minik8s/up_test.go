// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
)

// What is printed after a start can be pasted: by a user who called sudo too, who may not read root's files.
func TestPrintNext(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name      string
		result    upResult
		sudo      bool
		want, not []string
	}{
		{
			"plain", upResult{Name: "minik8s", Server: "https://s", Kubeconfig: "/d/kubeconfig"}, false,
			[]string{"export KUBECONFIG=/d/kubeconfig\n", `"minik8s" is running at https://s`, "minik8s down  "}, []string{"sudo", "--name"},
		},
		{
			"named", upResult{Name: "ci", Kubeconfig: "/d/kubeconfig", Started: true, Ready: true, Seconds: 1}, false,
			[]string{`"ci" is Ready after 1.00s`, "minik8s down --name ci "}, []string{"sudo"},
		},
		{
			"not waited for", upResult{Name: "ci", Server: "https://s", Kubeconfig: "/d/kubeconfig", Started: true, Seconds: 1}, false,
			[]string{`"ci" is starting at https://s`}, []string{"Ready"},
		},
		{
			"sudo", upResult{Name: "ci", Kubeconfig: "/d/kubeconfig"}, true,
			[]string{"sudo minik8s kubeconfig --name ci > ci.kubeconfig && export KUBECONFIG=$PWD/ci.kubeconfig\n", "sudo minik8s down --name ci "}, []string{"/d/kubeconfig"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var b strings.Builder
			if err := printNext(&b, tc.result, tc.sudo); err != nil {
				t.Fatal(err)
			}
			for _, w := range tc.want {
				if !strings.Contains(b.String(), w) {
					t.Errorf("no %q in\n%s", w, &b)
				}
			}
			for _, w := range tc.not {
				if strings.Contains(b.String(), w) {
					t.Errorf("%q in\n%s", w, &b)
				}
			}
		})
	}
}
