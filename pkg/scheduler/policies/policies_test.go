// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"encoding/json"
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"minik8s.io/minik8s/pkg/scheduler/configuration"
	"minik8s.io/minik8s/pkg/scheduler/framework"
	"minik8s.io/minik8s/pkg/scheduler/plugins"
	pt "minik8s.io/minik8s/pkg/scheduler/plugintest"
)

func TestAddProfiles(t *testing.T) {
	names := []string{"default-scheduler", "round-robin", "random", "least-pod", "least-cpu", "least-mem"}
	for _, tc := range []struct {
		name    string
		own     bool // it has a profile
		policy  Policy
		want    []string
		scorers int // of the first profile
		wantErr string
	}{
		{"none", false, "", names, 4, ""},
		{"default", false, Default, names, 4, ""},
		{"one", false, "LeastMem", names, 1, ""},
		{"own profiles", true, "", []string{"own"}, 4, ""},
		{"own profiles and default", true, Default, []string{"own"}, 4, ""},
		{"own profiles and one", true, "Random", nil, 0,
			"policy Random is for a configuration without profiles, and this one has some: enable the plugin Random in one of them instead"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := &configv1.KubeSchedulerConfiguration{}
			if tc.own {
				c.Profiles = []configv1.KubeSchedulerProfile{{SchedulerName: new("own")}}
			}
			if err := AddProfiles(c, tc.policy); err != nil || tc.wantErr != "" {
				if err == nil || err.Error() != tc.wantErr {
					t.Errorf("error %v, want %q", err, tc.wantErr)
				}
				return
			}
			configuration.Default(c)
			if err := configuration.Validate(c).ToAggregate(); err != nil {
				t.Fatal(err)
			}
			var got []string
			for i, p := range build(t, c) {
				got = append(got, p.Name())
				if want := map[bool]int{true: tc.scorers, false: 1}[i == 0]; scorers(t, p) != want {
					t.Errorf("%d plugins of profile %s score nodes, want %d", scorers(t, p), p.Name(), want)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("profiles (-want +got):\n%s", diff)
			}
		})
	}
}

// build makes the profiles of a configuration.
func build(t *testing.T, c *configv1.KubeSchedulerConfiguration) []*framework.Profile {
	t.Helper()
	registry := plugins.Registry()
	maps.Copy(registry, Registry())
	var all []*framework.Profile
	for _, cfg := range c.Profiles {
		p, err := framework.NewProfile(t.Context(), pt.NewHandle(nil).Services, registry, cfg)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	return all
}

// scorers is how many plugins score nodes.
func scorers(t *testing.T, p *framework.Profile) int {
	t.Helper()
	pod, node := pt.Pod("p", pt.Requests("cpu", "1")), framework.NewNodeInfo(pt.Node("a"))
	state := framework.NewCycleState(framework.NewPodInfo(pod))
	nodes := framework.NewSnapshot(node).Nodes()
	if _, _, s := p.RunPreFilter(t.Context(), state, pod, nodes); !s.IsSuccess() {
		t.Fatal(s.AsError())
	}
	if s := p.RunPreScorePlugins(t.Context(), state, pod, nodes); !s.IsSuccess() {
		t.Fatal(s.AsError())
	}
	scores, s := p.RunScorePlugins(t.Context(), state, pod, nodes)
	if !s.IsSuccess() {
		t.Fatal(s.AsError())
	}
	return len(scores[0].Scores)
}

func TestPolicy_Text(t *testing.T) {
	for _, tc := range []struct {
		text string
		want Policy
		err  string
	}{
		{"LeastCpu", "LeastCpu", ""},
		{"leastcpu", "LeastCpu", ""},
		{"DEFAULT", Default, ""},
		{"MostCpu", "", `there is no scheduler policy "MostCpu": use one of Default, RoundRobin, Random, LeastPod, LeastCpu, LeastMem`},
		{"", "", `there is no scheduler policy "": use one of Default, RoundRobin, Random, LeastPod, LeastCpu, LeastMem`},
	} {
		t.Run(tc.text, func(t *testing.T) {
			var p Policy
			err := p.UnmarshalText([]byte(tc.text))
			if p != tc.want || (err == nil) != (tc.err == "") || err != nil && err.Error() != tc.err {
				t.Errorf("got %q, %v", p, err)
			}
		})
	}
	// A configuration without one says nothing of it.
	type file struct {
		Policy Policy `json:"policy,omitempty"`
	}
	for want, f := range map[string]file{"{}": {}, `{"policy":"Random"}`: {"Random"}} {
		if got, err := json.Marshal(f); err != nil || string(got) != want {
			t.Errorf("got %s, %v, want %s", got, err, want)
		}
	}
}
