// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package configuration

import (
	"strings"
	"testing"
)

const head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		err        string // of Parse
		invalid    string // of Validate
	}{
		{name: "empty", text: ""},
		{name: "two profiles", text: "profiles:\n- schedulerName: default-scheduler\n- schedulerName: packing\n  pluginConfig:\n  - name: NodeResourcesFit\n    args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}\n"},
		{name: "unknown field", text: "profile: []\n", err: `unknown field "profile"`},
		{name: "twice", text: "parallelism: 1\nparallelism: 2\n", err: `"parallelism" already set`},
		{name: "two of a name", text: "profiles:\n- schedulerName: a\n- schedulerName: a\n", invalid: `profiles[1].schedulerName: Duplicate value: "a"`},
		{name: "no name", text: "profiles:\n- schedulerName: a\n- {}\n", invalid: "profiles[1].schedulerName: Required value"},
		{name: "percentage", text: "percentageOfNodesToScore: 101\n", invalid: "percentageOfNodesToScore: Invalid value: 101: not in valid range [0-100]"},
		{name: "parallelism", text: "parallelism: 0\n", invalid: "parallelism: Invalid value: 0"},
		{name: "back-off", text: "podInitialBackoffSeconds: 5\npodMaxBackoffSeconds: 2\n", invalid: "podMaxBackoffSeconds: Invalid value: 2"},
		{name: "another cluster", text: "clientConnection: {kubeconfig: /etc/kubernetes/scheduler.conf}\n", invalid: "clientConnection.kubeconfig: Forbidden"},
		{name: "requests per second", text: "clientConnection: {qps: 5}\n", invalid: "clientConnection: Forbidden"},
		{name: "lease", text: "leaderElection: {leaseDuration: 3s}\n", invalid: "leaderElection: Forbidden"},
		{name: "profiling", text: "enableProfiling: true\n", invalid: "enableProfiling: Forbidden"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, err := Parse([]byte(head + tt.text))
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Fatalf("Parse: got %v, want %q", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			Default(c)
			err = Validate(c).ToAggregate()
			switch {
			case tt.invalid == "" && err != nil:
				t.Error(err)
			case tt.invalid != "" && (err == nil || !strings.Contains(err.Error(), tt.invalid)):
				t.Errorf("Validate: got %v, want %q", err, tt.invalid)
			}
		})
	}
}
