// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	clientfake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	testingclock "k8s.io/utils/clock/testing"

	"minik8s.io/minik8s/pkg/kubelet/container"
)

func TestSync(t *testing.T) {
	clock := testingclock.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	client := clientfake.NewClientset()
	events := record.NewFakeRecorder(100)
	m := Machine{Addresses: Addresses("n", []netip.Addr{netip.MustParseAddr("192.0.2.1")}),
		Capacity: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}, Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}, NotReady: "down"}
	r := New(Config{Name: "n", Client: client, Recorder: events, Clock: clock, Labels: Labels("n"), Machine: func(context.Context) Machine { return m }})
	get := func() *corev1.Node {
		t.Helper()
		n, err := client.CoreV1().Nodes().Get(t.Context(), "n", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	step := func() int {
		t.Helper()
		client.ClearActions()
		if err := r.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		writes := 0
		for _, a := range client.Actions() {
			if a.GetVerb() != "get" {
				writes++
			}
		}
		return writes
	}
	step()
	n := get()
	if c := condition(n, corev1.NodeReady); c.Status != corev1.ConditionFalse || c.Reason != "KubeletNotReady" || c.Message != "down" {
		t.Errorf("ready condition %+v", c)
	}

	// Others add a resource, a condition, a label and a taint; a ready node keeps them.
	n.Status.Capacity["example.com/foo"] = resource.MustParse("5")
	n.Status.Allocatable["example.com/gone"] = resource.MustParse("5")
	n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: "Foreign", Status: corev1.ConditionTrue})
	n.Labels["mine"] = "1"
	delete(n.Labels, corev1.LabelHostname)
	n.Spec.Taints = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoSchedule}}
	if _, err := client.CoreV1().Nodes().Update(t.Context(), n, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	m.NotReady = ""
	clock.Step(10 * time.Second)
	step()
	n = get()
	if c := condition(n, corev1.NodeReady); c.Status != corev1.ConditionTrue || c.Reason != "KubeletReady" || !c.LastTransitionTime.Time.Equal(clock.Now()) {
		t.Errorf("ready condition %+v", c)
	}
	if c := condition(n, corev1.NodeDiskPressure); c.LastTransitionTime.Time.Equal(clock.Now()) {
		t.Errorf("disk pressure did not turn, but says so: %+v", c)
	}
	if _, there := n.Status.Allocatable["example.com/gone"]; there {
		t.Error("more is for pods than there is")
	}
	q := n.Status.Allocatable["example.com/foo"]
	if c := condition(n, "Foreign"); c == nil || q.Value() != 5 || n.Labels["mine"] != "1" || n.Labels[corev1.LabelHostname] != "n" || len(n.Spec.Taints) != 1 {
		t.Errorf("what others wrote is lost: %+v", n)
	}

	// Nothing is written while nothing changes, but every five minutes.
	clock.Step(10 * time.Second)
	if w := step(); w != 0 {
		t.Errorf("%d writes without a change", w)
	}
	clock.Step(5 * time.Minute)
	if w := step(); w != 1 {
		t.Errorf("%d writes after five minutes, want 1", w)
	}
	if err := client.CoreV1().Nodes().Delete(t.Context(), "n", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	step()
	if n := get(); n.Labels[corev1.LabelHostname] != "n" || len(n.Status.Conditions) != 4 {
		t.Errorf("registered again: %+v", n)
	}
	close(events.Events)
	turned := map[string]bool{}
	for e := range events.Events {
		turned[e] = true
	}
	for _, want := range []string{"Normal NodeReady Node n status is now: NodeReady", "Normal NodeHasNoDiskPressure Node n status is now: NodeHasNoDiskPressure"} {
		if !turned[want] {
			t.Errorf("no event %q in %v", want, turned)
		}
	}
}

func condition(n *corev1.Node, kind corev1.NodeConditionType) *corev1.NodeCondition {
	for i := range n.Status.Conditions {
		if n.Status.Conditions[i].Type == kind {
			return &n.Status.Conditions[i]
		}
	}
	return nil
}

func TestHost(t *testing.T) {
	h := Host{Root: "/"}
	capacity, err := h.Capacity(t.TempDir(), 50)
	if err != nil {
		t.Fatal(err)
	}
	if capacity.Pods().Value() != 50 || capacity.Cpu().IsZero() || capacity.Memory().IsZero() || capacity.StorageEphemeral().IsZero() {
		t.Errorf("capacity %v", capacity)
	}
	info := h.Info(container.Version{Name: "docker", Version: "20.10"}, "v1.37.2")
	if info.ContainerRuntimeVersion != "docker://20.10" || info.KubeletVersion != "v1.37.2" || info.KernelVersion == "" || info.BootID == "" {
		t.Errorf("info %+v", info)
	}
	want := []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.1"}, {Type: corev1.NodeInternalIP, Address: "fd00::1"}, {Type: corev1.NodeHostName, Address: "n"}}
	if diff := cmp.Diff(want, Addresses("n", []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("fd00::1")})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestHost_Swap(t *testing.T) {
	for text, want := range map[string]*corev1.NodeSwapStatus{
		"MemTotal: 8 kB\nSwapTotal: 2 kB\n": {Capacity: new(int64(2048))}, "MemTotal: 8 kB\nSwapTotal: 0 kB\n": nil, "": nil,
	} {
		root := t.TempDir()
		if err := os.Mkdir(filepath.Join(root, "proc"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, "proc/meminfo"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, (Host{Root: root}).Info(container.Version{}, "").Swap); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
}

func TestSync_Cordoned(t *testing.T) {
	events := record.NewFakeRecorder(100)
	client := clientfake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
	r := New(Config{Name: "n", Client: client, Recorder: events, Clock: testingclock.NewFakeClock(time.Now()), Machine: func(context.Context) Machine { return Machine{} }})
	for _, cordoned := range []bool{false, true, true, false} {
		n, err := client.CoreV1().Nodes().Get(t.Context(), "n", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		n.Spec.Unschedulable = cordoned
		if _, err := client.CoreV1().Nodes().Update(t.Context(), n, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := r.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	close(events.Events)
	var got []string
	for e := range events.Events {
		if strings.Contains(e, "Schedulable") {
			got = append(got, e)
		}
	}
	want := []string{"Normal NodeNotSchedulable Node n status is now: NodeNotSchedulable", "Normal NodeSchedulable Node n status is now: NodeSchedulable"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAllocatable(t *testing.T) {
	list := func(cpu, memory string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
	}
	got := Allocatable(list("4", "1Gi"), list("500m", "24Mi"), corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("100Mi"), "x": resource.MustParse("1")}, nil)
	if diff := cmp.Diff(list("3500m", "900Mi"), got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	huge := list("4", "1Gi")
	huge["hugepages-2Mi"] = resource.MustParse("256Mi")
	if got := Allocatable(huge, list("1", "512Mi")); got.Memory().String() != "256Mi" || got.Name("hugepages-2Mi", "").String() != "256Mi" {
		t.Errorf("with huge pages: %v", got)
	}
	if got := Allocatable(list("4", "1Gi"), list("5", "1Gi")); got.Cpu().Sign() != 0 || got.Memory().Sign() != 0 {
		t.Errorf("more than all: %v", got)
	}
}

func TestStatus_Pressure(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	calm := Status(corev1.NodeStatus{}, Machine{}, now)
	short := Status(calm, Machine{Pressure: []corev1.NodeConditionType{corev1.NodeDiskPressure}}, now.Add(time.Minute))
	n := &corev1.Node{Status: short}
	if c := condition(n, corev1.NodeDiskPressure); c.Status != corev1.ConditionTrue || c.Reason != "KubeletHasDiskPressure" || !c.LastTransitionTime.Time.Equal(now.Add(time.Minute)) {
		t.Errorf("%+v", c)
	}
	if c := condition(n, corev1.NodeMemoryPressure); c.Status != corev1.ConditionFalse || !c.LastTransitionTime.Time.Equal(now) {
		t.Errorf("%+v", c)
	}
	events := record.NewFakeRecorder(10)
	New(Config{Name: "n", Recorder: events}).events(calm, short)
	if got, want := <-events.Events, "Normal NodeHasDiskPressure Node n status is now: NodeHasDiskPressure"; got != want || len(events.Events) > 0 {
		t.Errorf("event %q, want %q", got, want)
	}
}

func TestHandlers(t *testing.T) {
	features := func(recursive bool) *corev1.NodeRuntimeHandlerFeatures {
		return &corev1.NodeRuntimeHandlerFeatures{RecursiveReadOnlyMounts: &recursive, UserNamespaces: new(false)}
	}
	got := Status(corev1.NodeStatus{}, Machine{Handlers: Handlers(container.Version{Handlers: []container.Handler{{RecursiveReadOnly: true}, {Name: "old"}}})}, time.Now())
	if diff := cmp.Diff([]corev1.NodeRuntimeHandler{{Features: features(true)}, {Name: "old", Features: features(false)}}, got.RuntimeHandlers); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(&corev1.NodeFeatures{SupplementalGroupsPolicy: new(true)}, got.Features); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestEvents_Rebooted(t *testing.T) {
	boot := func(id string) corev1.NodeStatus {
		return corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{BootID: id}}
	}
	for _, test := range []struct{ name, before, after, want string }{
		{"same boot", "a", "a", ""},
		{"registered just now", "", "a", ""},
		{"another boot", "a", "b", "Warning Rebooted Node n has been rebooted, boot id: b"},
	} {
		t.Run(test.name, func(t *testing.T) {
			events := record.NewFakeRecorder(10)
			New(Config{Name: "n", Recorder: events}).events(boot(test.before), boot(test.after))
			close(events.Events)
			if got := <-events.Events; got != test.want {
				t.Errorf("event %q, want %q", got, test.want)
			}
		})
	}
}

// TestSync_VolumesInUse: what is not known yet stays as it was told, and what the API server knows is told back.
func TestSync_VolumesInUse(t *testing.T) {
	t.Parallel()
	clock := testingclock.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	before := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: corev1.NodeStatus{VolumesInUse: []corev1.UniqueVolumeName{"old"}}}
	client := clientfake.NewClientset(before)
	var m Machine
	var told [][]corev1.UniqueVolumeName
	fails := false
	client.PrependReactor("patch", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) { return fails, nil, errors.New("away") })
	r := New(Config{
		Name: "n", Client: client, Recorder: record.NewFakeRecorder(100), Clock: clock, Machine: func(context.Context) Machine { return m },
		Told: func(v []corev1.UniqueVolumeName) { told = append(told, v) },
	})
	for _, tc := range []struct {
		name       string
		inUse      []corev1.UniqueVolumeName
		fails      bool
		want, told []corev1.UniqueVolumeName
	}{
		{"not known", nil, false, []corev1.UniqueVolumeName{"old"}, nil},
		{"not told", []corev1.UniqueVolumeName{"new"}, true, []corev1.UniqueVolumeName{"old"}, nil},
		{"told", []corev1.UniqueVolumeName{"new"}, false, []corev1.UniqueVolumeName{"new"}, []corev1.UniqueVolumeName{"new"}},
		{"told before", []corev1.UniqueVolumeName{"new"}, false, []corev1.UniqueVolumeName{"new"}, []corev1.UniqueVolumeName{"new"}},
		{"none", []corev1.UniqueVolumeName{}, false, nil, []corev1.UniqueVolumeName{}},
	} {
		m.VolumesInUse, fails, told = tc.inUse, tc.fails, nil
		if err := r.Sync(t.Context()); (err != nil) != tc.fails {
			t.Fatalf("%s: %v", tc.name, err)
		}
		n, err := client.CoreV1().Nodes().Get(t.Context(), "n", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(n.Status.VolumesInUse, tc.want) || n.Annotations["volumes.kubernetes.io/controller-managed-attach-detach"] != "true" {
			t.Errorf("%s: in use are %v, annotations %v", tc.name, n.Status.VolumesInUse, n.Annotations)
		}
		if (len(told) > 0) != (tc.told != nil) || len(told) > 0 && !slices.Equal(told[0], tc.told) {
			t.Errorf("%s: told %v, want %v", tc.name, told, tc.told)
		}
	}
}

// An API server that takes the first request of each kind and never answers it hears of the node all the same.
func TestReporter_LostAnswers(t *testing.T) {
	var mu sync.Mutex
	lost, answered := map[string]bool{}, make(chan string, 1000)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		request := r.Method + " " + r.URL.Path
		mu.Lock()
		first := !lost[request]
		lost[request] = true
		mu.Unlock()
		if first {
			<-r.Context().Done()
			return
		}
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.Method == http.MethodPut:
			_, _ = w.Write(body)
		case r.URL.Path == "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n":
			fmt.Fprint(w, `{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"n","namespace":"kube-node-lease"}}`)
		default:
			fmt.Fprint(w, `{"apiVersion":"v1","kind":"Node","metadata":{"name":"n","uid":"u"}}`)
		}
		select {
		case answered <- request:
		default:
		}
	}))
	defer server.Close()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL, QPS: -1, Timeout: time.Second, ContentConfig: rest.ContentConfig{ContentType: "application/json"}})
	if err != nil {
		t.Fatal(err)
	}
	r := New(Config{
		Name: "n", Client: client, Recorder: record.NewFakeRecorder(1000), Clock: clock.RealClock{}, LeaseSeconds: 1,
		Machine: func(context.Context) Machine { return Machine{} },
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- r.Start(ctx) }()
	await := []string{"PUT /apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n", "PATCH /api/v1/nodes/n/status"}
	for deadline := time.After(20 * time.Second); len(await) > 0; {
		select {
		case request := <-answered:
			await = slices.DeleteFunc(await, func(want string) bool { return want == request })
		case <-deadline:
			t.Fatalf("no %q", await)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// steps are those that somebody was told of.
type steps []string

func (s *steps) Registering() { *s = append(*s, "registering") }
func (s *steps) Registered()  { *s = append(*s, "registered") }
func (s *steps) Ready()       { *s = append(*s, "ready") }

// TestSync_Steps: how a node comes up is told, and whether it was there before.
func TestSync_Steps(t *testing.T) {
	t.Parallel()
	clock := testingclock.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	client := clientfake.NewClientset()
	var told steps
	var m Machine
	r := New(Config{
		Name: "n", Client: client, Recorder: record.NewFakeRecorder(100), Clock: clock, Machine: func(context.Context) Machine { return m }, Steps: &told,
	})
	for _, tc := range []struct {
		name, notReady string
		want           steps
	}{
		{"it is not there", "not yet", steps{"registering", "registered"}},
		{"not ready", "not yet", steps{"registering"}},
		{"ready", "", steps{"registering", "ready"}},
		{"nothing to tell", "", steps{"registering"}},
	} {
		m.NotReady, told = tc.notReady, nil
		if err := r.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tc.want, told); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
}
