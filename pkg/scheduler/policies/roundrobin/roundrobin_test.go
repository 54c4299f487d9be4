// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package roundrobin

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"minik8s.io/minik8s/pkg/scheduler/framework"
	pt "minik8s.io/minik8s/pkg/scheduler/plugintest"
)

func TestSuite(t *testing.T) { pt.Run(t, Name, New) }

// rounds is what the API keeps.
func rounds(pairs ...string) *corev1.ConfigMap {
	c := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: configMap}, Data: map[string]string{}}
	for i := 0; i < len(pairs); i += 2 {
		c.Data[pairs[i]] = pairs[i+1]
	}
	return c
}

// newPlugin returns a plugin on nodes of these names.
func newPlugin(t *testing.T, names []string, objects ...runtime.Object) (*pt.Handle, *RoundRobin) {
	t.Helper()
	var nodes []*corev1.Node
	for _, name := range names {
		nodes = append(nodes, pt.Node(name))
	}
	h := pt.NewHandle(pt.Nodes(nodes), objects...)
	return h, pt.NewPlugin(t, h, New).(*RoundRobin)
}

// best is the node with the highest score, of which there must be one only.
func best(t *testing.T, h *pt.Handle, r *RoundRobin) string {
	t.Helper()
	var found []string
	for name, score := range pt.Score(t, h, r, pt.Pod("p")) {
		if score == 100 {
			found = append(found, name)
		}
	}
	if len(found) != 1 {
		t.Fatalf("the best nodes are %v, want one", found)
	}
	return found[0]
}

// take gives a pod its turn, up to where it is bound.
func take(t *testing.T, r *RoundRobin, node string) {
	t.Helper()
	pod := pt.Pod("p")
	state := framework.NewCycleState(framework.NewPodInfo(pod))
	if s := r.Reserve(t.Context(), state, pod, node); !s.IsSuccess() {
		t.Fatal(s.AsError())
	}
	if _, s := r.PreBindPreFlight(t.Context(), state, pod, node); !s.IsSuccess() {
		t.Fatal(s.AsError())
	}
	if s := r.PreBind(t.Context(), state, pod, node); !s.IsSuccess() {
		t.Fatal(s.AsError())
	}
}

func TestTurns(t *testing.T) {
	h, r := newPlugin(t, []string{"c", "a", "b"})
	var got []string
	for range 7 {
		node := best(t, h, r)
		got = append(got, node)
		take(t, r, node)
	}
	if diff := cmp.Diff(strings.Split("a b c a b c a", " "), got); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
	c, err := h.Fake.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(t.Context(), configMap, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{corev1.DefaultSchedulerName: "a"}, c.Data); diff != "" {
		t.Errorf("what is kept (-want +got):\n%s", diff)
	}
	// Another scheduler goes on.
	other, r := newPlugin(t, []string{"a", "b", "c"}, c)
	if got := best(t, other, r); got != "b" {
		t.Errorf("after a restart comes %s, want b", got)
	}
}

func TestNext(t *testing.T) {
	for _, tc := range []struct {
		name  string
		nodes []string
		kept  []runtime.Object
		turns []string
		want  string
	}{
		{"nobody had a turn", []string{"b", "a"}, nil, nil, "a"},
		{"another profile's round", []string{"b", "a"}, []runtime.Object{rounds("other", "a")}, nil, "a"},
		{"kept", []string{"c", "b", "a"}, []runtime.Object{rounds("default-scheduler", "b")}, nil, "c"},
		{"the last node is gone", []string{"d", "c", "a"}, []runtime.Object{rounds("default-scheduler", "b")}, nil, "c"},
		{"the last node is gone and was at the end", []string{"b", "a"}, []runtime.Object{rounds("default-scheduler", "c")}, nil, "a"},
		{"a node that came", []string{"a", "ab", "b"}, nil, []string{"a"}, "ab"},
		{"the last turn was one without a choice", []string{"a", "b", "c"}, []runtime.Object{rounds("default-scheduler", "a")}, []string{"c"}, "a"},
		{"one node", []string{"a"}, nil, []string{"a"}, "a"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h, r := newPlugin(t, tc.nodes, tc.kept...)
			for _, node := range tc.turns {
				take(t, r, node)
			}
			if got := best(t, h, r); got != tc.want {
				t.Errorf("next is %s, want %s", got, tc.want)
			}
		})
	}
}

// Unless it is known who had the last turn nobody gets one; it is asked again for the next pod.
func TestPreScore_APIFails(t *testing.T) {
	h, r := newPlugin(t, []string{"a", "b"}, rounds("default-scheduler", "a"))
	failing := true
	h.Fake.PrependReactor("get", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
		return failing, nil, errors.New("try later")
	})
	state := framework.NewCycleState(framework.NewPodInfo(pt.Pod("p")))
	s := r.PreScore(t.Context(), state, pt.Pod("p"), h.Snapshot.Nodes())
	if s.IsSuccess() || s.IsRejected() || !strings.Contains(s.Message(), "finding out which node had the last turn: reading the ConfigMap scheduler-rounds: try later") {
		t.Errorf("got %v %q", s.Code(), s.Message())
	}
	failing = false
	if got := best(t, h, r); got != "b" {
		t.Errorf("next is %s, want b", got)
	}
}

// Of several pods on their way one writes for all that came by then. One that cannot write lets its pod go.
func TestPreBind_WritesForOthers(t *testing.T) {
	for _, tc := range []struct {
		name string
		err  error
	}{{"kept", nil}, {"not kept", errors.New("no")}} {
		t.Run(tc.name, func(t *testing.T) {
			h, r := newPlugin(t, []string{"a", "b"})
			var mu sync.Mutex
			var written []string
			entered, release := make(chan struct{}, 1), make(chan struct{})
			h.Fake.PrependReactor("patch", "configmaps", func(a clienttesting.Action) (bool, runtime.Object, error) {
				mu.Lock()
				written = append(written, string(a.(clienttesting.PatchAction).GetPatch()))
				mu.Unlock()
				select {
				case entered <- struct{}{}:
				default:
				}
				<-release
				return true, rounds(), tc.err
			})
			var binding sync.WaitGroup
			bind := func(node string) {
				pod := pt.Pod("p")
				state := framework.NewCycleState(framework.NewPodInfo(pod))
				if s := r.Reserve(t.Context(), state, pod, node); !s.IsSuccess() {
					t.Error(s.AsError())
				}
				binding.Go(func() {
					if s := r.PreBind(context.Background(), state, pod, node); !s.IsSuccess() {
						t.Error(s.AsError())
					}
				})
			}
			bind("a")
			<-entered // it is being written
			for node := range strings.FieldsSeq("b a b a b") {
				bind(node)
			}
			close(release)
			binding.Wait()
			want := []string{"a", "b"}
			if len(written) != 2 || !slices.EqualFunc(written, want, func(patch, node string) bool {
				return strings.Contains(patch, `"data":{"default-scheduler":"`+node+`"}`)
			}) {
				t.Errorf("written was %v, want the nodes %v", written, want)
			}
		})
	}
}

func TestNew_Name(t *testing.T) {
	for _, tc := range []struct{ name, profile, want string }{
		{"plain", "round-robin", ""},
		{"no key", "round robin", `the round of "round robin" cannot be kept: `},
		{"too long", strings.Repeat("x", 114), "cannot be kept"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := pt.NewHandle(nil)
			_, err := framework.NewProfile(t.Context(), h.Services, framework.Registry{Name: New}, configv1.KubeSchedulerProfile{
				SchedulerName: &tc.profile, Plugins: &configv1.Plugins{MultiPoint: configv1.PluginSet{Enabled: []configv1.Plugin{{Name: Name}}}},
			})
			if refused := strings.Contains(err.Error(), "cannot be kept"); refused != (tc.want != "") || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}
