// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io/fs"
	"math/big"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubeletconfigv1 "k8s.io/kubelet/config/v1"
	credentialproviderv1 "k8s.io/kubelet/pkg/apis/credentialprovider/v1"
	statsv1alpha1 "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
	testclock "k8s.io/utils/clock/testing"

	"minik8s.io/minik8s/pkg/kubelet/container"
	"minik8s.io/minik8s/pkg/kubelet/container/fake"
	"minik8s.io/minik8s/pkg/kubelet/internal/allocation"
	"minik8s.io/minik8s/pkg/kubelet/internal/observed"
	"minik8s.io/minik8s/pkg/kubelet/internal/podworker"
)

// told returns the series whose names begin with one of these words, without the buckets of histograms.
func told(t *testing.T, m *Metrics, words ...string) []string {
	t.Helper()
	w := httptest.NewRecorder()
	promhttp.HandlerFor(m.Gatherer(), promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	out := []string{}
	for line := range strings.Lines(w.Body.String()) {
		for _, word := range words {
			if strings.HasPrefix(line, word) && !strings.Contains(line, "_bucket{") {
				out = append(out, strings.TrimSpace(line))
			}
		}
	}
	return out
}

func equal(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestRuntime(t *testing.T) {
	clock := testclock.NewFakePassiveClock(time.Unix(1700000000, 0))
	m := New("n1", clock)
	engine := fake.New(fake.Config{})
	r := m.Runtime(engine)
	ctx := t.Context()
	sb, err := r.CreateSandbox(ctx, container.SandboxConfig{Pod: container.Pod{UID: "u"}})
	if err == nil {
		_, err = r.StartSandbox(ctx, sb)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.Inspect(ctx, sb); err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.Inspect(ctx, "absent"); err == nil {
		t.Fatal("something absent was inspected")
	}
	if _, err := r.Image(ctx, "absent"); err == nil {
		t.Fatal("there is an absent image")
	}
	if _, err := r.CreateContainer(ctx, "absent", container.ContainerConfig{Type: container.TypeInit}); err == nil {
		t.Fatal("a container in no sandbox")
	}
	if _, err := r.Exec(ctx, "absent", container.ExecOptions{Command: []string{"x"}}); err == nil {
		t.Fatal("a command in no container")
	}
	if _, err := r.Exec(ctx, "absent", container.ExecOptions{Command: []string{"x"}, Stdin: strings.NewReader("")}); err == nil {
		t.Fatal("a command in no container")
	}
	equal(t, "operations", told(t, m, "kubelet_runtime_operations_total"),
		`kubelet_runtime_operations_total{operation_type="container_status"} 1`, `kubelet_runtime_operations_total{operation_type="create_container"} 1`,
		`kubelet_runtime_operations_total{operation_type="exec"} 1`, `kubelet_runtime_operations_total{operation_type="exec_sync"} 1`,
		`kubelet_runtime_operations_total{operation_type="image_status"} 1`, `kubelet_runtime_operations_total{operation_type="podsandbox_status"} 1`,
		`kubelet_runtime_operations_total{operation_type="run_podsandbox"} 1`)
	equal(t, "errors", told(t, m, "kubelet_runtime_operations_errors_total", "kubelet_run_podsandbox_errors"),
		`kubelet_runtime_operations_errors_total{operation_type="container_status"} 1`,
		`kubelet_runtime_operations_errors_total{operation_type="create_container"} 1`, `kubelet_runtime_operations_errors_total{operation_type="exec"} 1`,
		`kubelet_runtime_operations_errors_total{operation_type="exec_sync"} 1`)
	m.NotStarted(container.TypeEphemeral, "ErrImagePull")
	equal(t, "started", told(t, m, "kubelet_started"), `kubelet_started_containers_errors_total{code="ErrImagePull",container_type="ephemeral_container"} 1`,
		`kubelet_started_containers_total{container_type="init_container"} 1`,
		"kubelet_started_pods_errors_total 0", "kubelet_started_pods_total 1")
	if got := told(t, m, `kubelet_runtime_operations_duration_seconds_count{operation_type="exec"}`); len(got) > 0 {
		t.Errorf("a stream was timed: %v", got)
	}
	equal(t, "node", told(t, m, "kubelet_node_name"), `kubelet_node_name{node="n1"} 1`)
}

// steps are the life of a pod as a test has it.
type steps struct {
	sync func() error
}

func (s *steps) Sync(context.Context, *corev1.Pod) (podworker.Result, error) {
	return podworker.Result{}, s.sync()
}
func (s *steps) Terminate(context.Context, *corev1.Pod, time.Duration) error { return nil }
func (s *steps) Cleanup(context.Context, *corev1.Pod, bool) error            { return nil }
func (s *steps) Forget(*corev1.Pod)                                          {}

func TestLife(t *testing.T) {
	clock := testclock.NewFakeClock(time.Unix(1700000000, 0))
	m := New("n1", clock)
	phase := corev1.PodPending
	s := &steps{sync: func() error { clock.Step(2 * time.Second); return nil }}
	l := m.Life(s, func(*corev1.Pod) corev1.PodPhase { return phase })
	sync := func(p *corev1.Pod) {
		t.Helper()
		_, _ = l.Sync(t.Context(), p)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u"}}
	sync(pod)
	s.sync = func() error { clock.Step(2 * time.Second); return errors.New("no such luck") }
	sync(pod)
	s.sync = func() error { clock.Step(2 * time.Second); phase = corev1.PodRunning; return nil }
	sync(pod.DeepCopy())
	sync(pod.DeepCopy())
	// It ran before this kubelet did.
	sync(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "old"}, Status: corev1.PodStatus{Phase: corev1.PodRunning}})
	if err := l.Terminate(t.Context(), pod, 0); err != nil {
		t.Fatal(err)
	}
	equal(t, "start", told(t, m, "kubelet_pod_start_duration"), "kubelet_pod_start_duration_seconds_sum 6", "kubelet_pod_start_duration_seconds_count 1")
	equal(t, "workers", told(t, m, "kubelet_pod_worker_duration_seconds_count"),
		`kubelet_pod_worker_duration_seconds_count{operation_type="create"} 2`, `kubelet_pod_worker_duration_seconds_count{operation_type="kill"} 1`,
		`kubelet_pod_worker_duration_seconds_count{operation_type="sync"} 1`, `kubelet_pod_worker_duration_seconds_count{operation_type="update"} 2`)
	l.Forget(pod)
	if n := len(m.starts.all); n != 1 {
		t.Errorf("%d pods are remembered, want 1", n)
	}
}

// Each pod that runs here is counted once, by how many containers it has and where it says what they ask for.
func TestLife_Kinds(t *testing.T) {
	m := New("n1", testclock.NewFakeClock(time.Unix(1700000000, 0)))
	l := m.Life(&steps{sync: func() error { return nil }}, func(*corev1.Pod) corev1.PodPhase { return corev1.PodPending })
	asks := corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}}
	for i, spec := range []corev1.PodSpec{
		{Containers: []corev1.Container{{}, {}}},
		{Containers: []corev1.Container{{Resources: asks}}},
		{Containers: []corev1.Container{{}}, InitContainers: []corev1.Container{{Resources: asks}}},
		{Containers: []corev1.Container{{}}, Resources: &asks},
		{Containers: []corev1.Container{{Resources: asks}}, Resources: &asks},
	} {
		for range 2 {
			if _, err := l.Sync(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(strconv.Itoa(i))}, Spec: spec}); err != nil {
				t.Fatal(err)
			}
		}
	}
	equal(t, "pods", told(t, m, "kubelet_containers_per_pod", "kubelet_pod_level_resources"),
		"kubelet_containers_per_pod_count_sum 6", "kubelet_containers_per_pod_count_count 5",
		`kubelet_pod_level_resources_admission_total{config_mode="",qos_class="besteffort"} 1`,
		`kubelet_pod_level_resources_admission_total{config_mode="container_level",qos_class="burstable"} 2`,
		`kubelet_pod_level_resources_admission_total{config_mode="pod_and_container_level",qos_class="burstable"} 1`,
		`kubelet_pod_level_resources_admission_total{config_mode="pod_level",qos_class="burstable"} 1`)
}

// From when a source has told of a pod counts until its worker begins, and how long it takes to run.
func TestLife_Seen(t *testing.T) {
	clock := testclock.NewFakeClock(time.Unix(1700000000, 0))
	m := New("n1", clock)
	phase := corev1.PodPending
	l := m.Life(&steps{sync: func() error { clock.Step(2 * time.Second); phase = corev1.PodRunning; return nil }}, func(*corev1.Pod) corev1.PodPhase { return phase })
	pod, never := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u"}}, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "never"}}
	m.Seen("u", clock.Now())
	m.Seen("never", clock.Now())
	clock.Step(3 * time.Second)
	for range 2 {
		if _, err := l.Sync(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
	}
	equal(t, "worker", told(t, m, "kubelet_pod_worker_start"), "kubelet_pod_worker_start_duration_seconds_sum 3", "kubelet_pod_worker_start_duration_seconds_count 1")
	equal(t, "start", told(t, m, "kubelet_pod_start_duration"), "kubelet_pod_start_duration_seconds_sum 5", "kubelet_pod_start_duration_seconds_count 1")
	l.Forget(never)
	if n := len(m.starts.seen); n != 0 {
		t.Errorf("%d pods are remembered, want none", n)
	}
}

// A node that is registered is timed, once, and one that was there is not.
func TestStartup(t *testing.T) {
	clock := testclock.NewFakeClock(time.Unix(1700000000, 0))
	for _, test := range []struct {
		name string
		boot time.Time
		do   func(*Startup)
		want [5]string // whole, after, before the kubelet, before registration, registration
	}{
		{"it was there", time.Unix(1699999990, 0), func(s *Startup) { s.Registering(); s.Ready() }, [5]string{"0", "0", "0", "0", "0"}},
		{"new", time.Unix(1699999990, 0), func(s *Startup) {
			for range 2 {
				clock.Step(time.Second)
				s.Registering()
			}
			clock.Step(2 * time.Second)
			s.Registered()
			for range 2 {
				clock.Step(5 * time.Second)
				s.Ready()
			}
			s.Registered()
		}, [5]string{"19", "5", "10", "1", "3"}},
		{"new, of a machine that does not say since when it is up", time.Time{}, func(s *Startup) {
			s.Registering()
			s.Registered()
			clock.Step(time.Second)
			s.Ready()
		}, [5]string{"0", "1", "0", "0", "0"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			clock.SetTime(time.Unix(1700000000, 0))
			m := New("n1", clock)
			test.do(m.Startup(test.boot))
			var want []string
			for i, name := range []string{"", "post_registration_", "pre_kubelet_", "pre_registration_", "registration_"} {
				want = append(want, "kubelet_node_startup_"+name+"duration_seconds "+test.want[i])
			}
			equal(t, "startup", told(t, m, "kubelet_node_startup"), want...)
		})
	}
}

func TestResizes(t *testing.T) {
	m := New("n1", testclock.NewFakePassiveClock(time.Unix(1700000000, 0)))
	m.ResizeRequested(allocation.Request{Resource: "cpu", Requirement: "limits", Operation: "add"})
	m.ResizeInfeasible("swap_limitation")
	m.DeferredAccepted("pod_resized")
	m.DeferredResize(&corev1.Pod{Spec: corev1.PodSpec{Priority: new(int32(7))}}, "accepted", time.Minute)
	m.Resized(1500*time.Microsecond, true)
	equal(t, "resizes", told(t, m, "kubelet_container_requested", "kubelet_pod_infeasible", "kubelet_pod_deferred", "kubelet_pod_resize"),
		`kubelet_container_requested_resizes_total{operation="add",requirement="limits",resource="cpu"} 1`,
		`kubelet_pod_deferred_accepted_resizes_total{retry_trigger="pod_resized"} 1`,
		`kubelet_pod_deferred_resize_duration_seconds_sum{priority_bucket="medium",resolution="accepted"} 60`,
		`kubelet_pod_deferred_resize_duration_seconds_count{priority_bucket="medium",resolution="accepted"} 1`,
		`kubelet_pod_infeasible_resizes_total{reason_detail="swap_limitation"} 1`,
		`kubelet_pod_resize_duration_milliseconds_sum{success="true"} 1`, `kubelet_pod_resize_duration_milliseconds_count{success="true"} 1`)
}

func TestCredentialConfig(t *testing.T) {
	m := New("n1", testclock.NewFakePassiveClock(time.Unix(1700000000, 0)))
	m.CredentialProviders("sha256:00")
	equal(t, "configuration", told(t, m, "kubelet_credential_provider_config"), `kubelet_credential_provider_config_info{hash="sha256:00"} 1`)
}

// A pod has started when the API server says so of all its containers; images that it waited for do not count against the node.
func TestLife_SinceCreation(t *testing.T) {
	clock := testclock.NewFakeClock(time.Unix(1700000000, 0))
	m := New("n1", clock)
	l := m.Life(&steps{sync: func() error { return nil }}, func(*corev1.Pod) corev1.PodPhase { return corev1.PodPending })
	running := corev1.ContainerStatus{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
	sync := func(uid types.UID, st corev1.PodStatus) {
		t.Helper()
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid, CreationTimestamp: metav1.Unix(1700000000, 0)}, Status: st}
		if _, err := l.Sync(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
	}
	sync("u", corev1.PodStatus{})
	sync("old", corev1.PodStatus{StartTime: &metav1.Time{}}) // of an earlier kubelet
	clock.Step(time.Second)
	m.ImagePulling("u")
	clock.Step(2 * time.Second)
	m.ImagePulling("u") // the first has failed
	clock.Step(4 * time.Second)
	m.ImagePulled("u", 1, 4*time.Second)
	sync("u", corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{running, {}}})
	equal(t, "half", told(t, m, "kubelet_pod_start_sli", "kubelet_pod_start_total"),
		"kubelet_pod_start_sli_duration_seconds_sum 0", "kubelet_pod_start_sli_duration_seconds_count 0",
		"kubelet_pod_start_total_duration_seconds_sum 0", "kubelet_pod_start_total_duration_seconds_count 0")
	clock.Step(8 * time.Second)
	for range 2 {
		sync("u", corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{running, running}})
		sync("old", corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{running}})
		clock.Step(time.Second)
	}
	equal(t, "all", told(t, m, "kubelet_pod_start_sli", "kubelet_pod_start_total"),
		"kubelet_pod_start_sli_duration_seconds_sum 9", "kubelet_pod_start_sli_duration_seconds_count 1",
		"kubelet_pod_start_total_duration_seconds_sum 15", "kubelet_pod_start_total_duration_seconds_count 1")
	sync("later", corev1.PodStatus{})
	sync("later", corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{running}})
	equal(t, "first", told(t, m, "kubelet_first_network_pod"), "kubelet_first_network_pod_start_sli_duration_seconds 9")
}

// The first pod of which it is told how long it took to start is one that has a network of its own.
func TestLife_FirstNetworkPod(t *testing.T) {
	clock := testclock.NewFakeClock(time.Unix(1700000000, 0))
	m := New("n1", clock)
	l := m.Life(&steps{sync: func() error { return nil }}, func(*corev1.Pod) corev1.PodPhase { return corev1.PodPending })
	for _, host := range []bool{true, false} {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(strconv.FormatBool(host)), CreationTimestamp: metav1.Unix(1700000000, 0)}, Spec: corev1.PodSpec{HostNetwork: host}}
		if _, err := l.Sync(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		clock.Step(2 * time.Second)
		p = p.DeepCopy()
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
		if _, err := l.Sync(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	equal(t, "first", told(t, m, "kubelet_first_network_pod"), "kubelet_first_network_pod_start_sli_duration_seconds 4")
}

func TestStatusDelivered(t *testing.T) {
	m := New("n1", testclock.NewFakePassiveClock(time.Unix(1700000000, 0)))
	m.StatusDelivered(2 * time.Second)
	equal(t, "status", told(t, m, "kubelet_pod_status_sync_duration_seconds_sum", "kubelet_pod_status_sync_duration_seconds_count"),
		"kubelet_pod_status_sync_duration_seconds_sum 2", "kubelet_pod_status_sync_duration_seconds_count 1")
}

func TestPods(t *testing.T) {
	m := New("n1", testclock.NewFakePassiveClock(time.Unix(1700000000, 0)))
	pods := []*corev1.Pod{
		{Status: corev1.PodStatus{Phase: corev1.PodRunning}, Spec: corev1.PodSpec{EphemeralContainers: make([]corev1.EphemeralContainer, 2)}},
		{Status: corev1.PodStatus{Phase: corev1.PodSucceeded}},
		{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"kubernetes.io/config.source": "file"}}},
	}
	view := map[types.UID]*observed.Pod{
		"a": {Sandboxes: []*container.Sandbox{{State: container.StateRunning}}, Containers: []*container.Container{{State: container.StateRunning}, {State: container.StateExited}}},
		"b": {Sandboxes: []*container.Sandbox{{State: container.StateExited}}, Containers: []*container.Container{{State: container.StateExited}}},
	}
	working := []podworker.State{
		{Pod: &corev1.Pod{}}, {Pod: pods[2], Stage: podworker.Terminating}, {Pod: &corev1.Pod{}, Stage: podworker.Finished},
		{Pod: &corev1.Pod{Spec: corev1.PodSpec{Containers: make([]corev1.Container, 1)}}, Stage: podworker.Terminating, Gone: true},
		{Pod: &corev1.Pod{}, Stage: podworker.Terminating, Gone: true},
	}
	m.Pods(func() []*corev1.Pod { return pods }, func() []podworker.State { return working }, func() map[types.UID]*observed.Pod { return view })
	equal(t, "pods", told(t, m, "kubelet_active", "kubelet_desired", "kubelet_managed", "kubelet_running"),
		`kubelet_active_pods{static=""} 1`, `kubelet_active_pods{static="true"} 1`, `kubelet_desired_pods{static=""} 2`, `kubelet_desired_pods{static="true"} 1`,
		"kubelet_managed_ephemeral_containers 2", `kubelet_running_containers{container_state="exited"} 2`,
		`kubelet_running_containers{container_state="running"} 1`, "kubelet_running_pods 1")
	equal(t, "mirrors", told(t, m, "kubelet_mirror_pods"), "kubelet_mirror_pods 1")
	equal(t, "working", slices.DeleteFunc(told(t, m, "kubelet_working_pods"), func(s string) bool { return strings.HasSuffix(s, " 0") }),
		`kubelet_working_pods{config="desired",lifecycle="sync",static=""} 1`,
		`kubelet_working_pods{config="desired",lifecycle="terminated",static=""} 1`,
		`kubelet_working_pods{config="desired",lifecycle="terminating",static="true"} 1`,
		`kubelet_working_pods{config="orphan",lifecycle="terminating",static=""} 1`,
		`kubelet_working_pods{config="runtime_only",lifecycle="terminating",static="unknown"} 1`)
	if got := told(t, m, "kubelet_working_pods"); len(got) != 15 {
		t.Errorf("%d combinations: %v", len(got), got)
	}
	view = nil // what is gone is not told any more
	equal(t, "pods", told(t, m, "kubelet_running"), "kubelet_running_pods 0")
}

func TestPods_Resizes(t *testing.T) {
	m := New("n1", testclock.NewFakePassiveClock(time.Unix(1700000000, 0)))
	pod := func(priority *int32, kind corev1.PodConditionType, status corev1.ConditionStatus, reason string) *corev1.Pod {
		return &corev1.Pod{Spec: corev1.PodSpec{Priority: priority}, Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: kind, Status: status, Reason: reason}}}}
	}
	pods := []*corev1.Pod{
		pod(nil, corev1.PodResizePending, corev1.ConditionTrue, corev1.PodReasonDeferred),
		pod(new(int32(0)), corev1.PodResizePending, corev1.ConditionTrue, corev1.PodReasonDeferred),
		pod(new(int32(2_000_001_000)), corev1.PodResizePending, corev1.ConditionTrue, corev1.PodReasonInfeasible),
		pod(new(int32(100_000)), corev1.PodResizePending, corev1.ConditionTrue, corev1.PodReasonInfeasible),
		pod(new(int32(99_999)), corev1.PodResizePending, corev1.ConditionTrue, corev1.PodReasonInfeasible),
		pod(new(int32(-999)), corev1.PodResizePending, corev1.ConditionTrue, corev1.PodReasonInfeasible),
		pod(new(int32(-1000)), corev1.PodResizePending, corev1.ConditionTrue, corev1.PodReasonInfeasible),
		pod(nil, corev1.PodResizePending, corev1.ConditionFalse, corev1.PodReasonInfeasible),
		pod(nil, corev1.PodResizeInProgress, corev1.ConditionTrue, ""),
		pod(nil, corev1.PodReady, corev1.ConditionTrue, ""),
	}
	m.Pods(func() []*corev1.Pod { return pods }, func() []podworker.State { return nil }, func() map[types.UID]*observed.Pod { return nil })
	equal(t, "resizes", told(t, m, "kubelet_pod_pending_resizes", "kubelet_pod_in_progress_resizes"), "kubelet_pod_in_progress_resizes 1",
		`kubelet_pod_pending_resizes{priority_bucket="high",reason="infeasible"} 1`, `kubelet_pod_pending_resizes{priority_bucket="low",reason="infeasible"} 1`,
		`kubelet_pod_pending_resizes{priority_bucket="medium",reason="infeasible"} 1`, `kubelet_pod_pending_resizes{priority_bucket="normal",reason="deferred"} 2`,
		`kubelet_pod_pending_resizes{priority_bucket="system-critical",reason="infeasible"} 1`, `kubelet_pod_pending_resizes{priority_bucket="very-low",reason="infeasible"} 1`)
}

func TestVolumes(t *testing.T) {
	m := New("n1", testclock.NewFakePassiveClock(time.Unix(1700000000, 0)))
	claim := &statsv1alpha1.PVCReference{Namespace: "ns", Name: "data"}
	fs := statsv1alpha1.FsStats{CapacityBytes: new(uint64(100)), UsedBytes: new(uint64(40))}
	m.Volumes(func() []statsv1alpha1.VolumeStats {
		return []statsv1alpha1.VolumeStats{{Name: "v", FsStats: fs, PVCRef: claim}, {Name: "again", FsStats: fs, PVCRef: claim}, {Name: "empty", FsStats: fs}}
	})
	equal(t, "volumes", told(t, m, "kubelet_volume"), `kubelet_volume_stats_capacity_bytes{namespace="ns",persistentvolumeclaim="data"} 100`,
		`kubelet_volume_stats_used_bytes{namespace="ns",persistentvolumeclaim="data"} 40`)
}

func TestRelisted(t *testing.T) {
	m := New("n1", testclock.NewFakePassiveClock(time.Unix(1700000000, 0)))
	m.Relisted(time.Second, 0)
	m.Relisted(2*time.Second, time.Minute)
	equal(t, "listings", told(t, m, "kubelet_pleg"), "kubelet_pleg_last_seen_seconds 1.7e+09", "kubelet_pleg_relist_duration_seconds_sum 3",
		"kubelet_pleg_relist_duration_seconds_count 2", "kubelet_pleg_relist_interval_seconds_sum 60", "kubelet_pleg_relist_interval_seconds_count 1")
}

func TestCertificate(t *testing.T) {
	now := time.Unix(1700000000, 0)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: now, NotAfter: now.Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name string
		cert *tls.Certificate
		err  error
		want []string
	}{
		{"an hour", &tls.Certificate{Certificate: [][]byte{der}}, nil, []string{"kubelet_certificate_manager_server_ttl_seconds 3600"}},
		{"not yet", nil, errors.New("no such luck"), []string{"kubelet_certificate_manager_server_ttl_seconds +Inf"}},
		{"broken", &tls.Certificate{Certificate: [][]byte{{1}}}, nil, []string{"kubelet_certificate_manager_server_ttl_seconds +Inf"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := New("n1", testclock.NewFakePassiveClock(now))
			current := func() (*tls.Certificate, error) { return test.cert, test.err }
			m.Certificate(current)
			equal(t, "certificate", told(t, m, "kubelet_certificate"), test.want...)
			m.ClientCertificate(current)
			want := strings.Replace(test.want[0], "server", "client", 1)
			equal(t, "that of the client", told(t, m, "kubelet_certificate_manager_client"), want)
		})
	}
}

func TestRequests(t *testing.T) {
	m := New("n1", testclock.NewFakePassiveClock(time.Unix(1700000000, 0)))
	h := m.Requests(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }))
	for _, path := range []string{"/pods", "/metrics/cadvisor", "/exec/a/b/c", "/strange/1", "/strange/2"} {
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", path, nil))
	}
	equal(t, "requests", told(t, m, "kubelet_http_requests_total"),
		`kubelet_http_requests_total{long_running="false",method="GET",path="metrics/cadvisor",server_type="readwrite"} 1`,
		`kubelet_http_requests_total{long_running="false",method="GET",path="other",server_type="readwrite"} 2`,
		`kubelet_http_requests_total{long_running="false",method="GET",path="pods",server_type="readwrite"} 1`,
		`kubelet_http_requests_total{long_running="true",method="GET",path="exec",server_type="readwrite"} 1`)
}

// TestProcess checks that the process's own are there, and nothing of an API server in it.
func TestProcess(t *testing.T) {
	m := New("n1", testclock.NewFakePassiveClock(time.Unix(1700000000, 0)))
	if got := told(t, m, "process_start_time_seconds", "go_goroutines", "kubernetes_build_info"); len(got) != 3 {
		t.Errorf("got %v", got)
	}
}

func TestDRA(t *testing.T) {
	m := New("n1", testclock.NewFakePassiveClock(time.Unix(1700000000, 0)))
	d := m.DRA(func() map[string]int { return map[string]int{"<any>": 2, "d.io": 1} })
	d.Operation("PrepareResources", time.Second, nil)
	d.Operation("PrepareResources", time.Second, errors.New("x"))
	d.Call("d.io", "/v1.DRAPlugin/NodePrepareResources", 2*time.Second, context.DeadlineExceeded)
	equal(t, "metrics", told(t, m, "dra_"),
		`dra_grpc_operations_duration_seconds_sum{driver_name="d.io",grpc_status_code="Unknown",method_name="/v1.DRAPlugin/NodePrepareResources"} 2`,
		`dra_grpc_operations_duration_seconds_count{driver_name="d.io",grpc_status_code="Unknown",method_name="/v1.DRAPlugin/NodePrepareResources"} 1`,
		`dra_operations_duration_seconds_sum{is_error="false",operation_name="PrepareResources"} 1`,
		`dra_operations_duration_seconds_count{is_error="false",operation_name="PrepareResources"} 1`,
		`dra_operations_duration_seconds_sum{is_error="true",operation_name="PrepareResources"} 1`,
		`dra_operations_duration_seconds_count{is_error="true",operation_name="PrepareResources"} 1`,
		`dra_resource_claims_in_use{driver_name="<any>"} 2`,
		`dra_resource_claims_in_use{driver_name="d.io"} 1`)
}

func TestDecisions(t *testing.T) {
	clock := testclock.NewFakePassiveClock(time.Unix(1700000000, 0))
	m := New("n1", clock)
	equal(t, "before anything happens", told(t, m, "kubelet_restarted", "kubelet_orphaned", "kubelet_graceful", "kubelet_evictions"),
		"kubelet_graceful_shutdown_end_time_seconds 0", "kubelet_graceful_shutdown_start_time_seconds 0", "kubelet_orphaned_runtime_pods_total 0",
		`kubelet_restarted_pods_total{static=""} 0`, `kubelet_restarted_pods_total{static="true"} 0`)
	m.Evicted("memory.available", clock.Now().Add(-2*time.Second))
	m.Evicted("emptydirfs.limit", time.Time{})
	m.Preempted("memory")
	for _, reason := range []string{"OutOfcpu", "OutOfexample.com/gpu", "made up"} {
		m.Rejected(reason)
	}
	m.Restarted(true)
	m.Orphaned()
	m.SleepEnded()
	m.HookFellBack()
	m.ImageCollected("age")
	for _, size := range []int64{0, 10 << 20, 10<<20 + 1, 1 << 40} {
		m.ImagePulled("nobody", size, time.Second)
	}
	equal(t, "pulls", slices.DeleteFunc(told(t, m, "kubelet_image_pull"), func(s string) bool { return strings.Contains(s, "_sum{") }),
		`kubelet_image_pull_duration_seconds_count{image_size_in_bytes="0-10MB"} 1`, `kubelet_image_pull_duration_seconds_count{image_size_in_bytes="10MB-100MB"} 1`,
		`kubelet_image_pull_duration_seconds_count{image_size_in_bytes="GT100GB"} 1`, `kubelet_image_pull_duration_seconds_count{image_size_in_bytes="N/A"} 1`)
	m.ImageEnsured(corev1.PullIfNotPresent, "true", "false")
	equal(t, "images", told(t, m, "kubelet_image_manager"),
		`kubelet_image_manager_ensure_image_requests_total{present_locally="true",pull_policy="ifnotpresent",pull_required="false"} 1`)
	m.Shutdown(clock.Now(), clock.Now().Add(1500*time.Millisecond))
	equal(t, "what has happened", told(t, m, "kubelet_restarted", "kubelet_orphaned", "kubelet_graceful", "kubelet_evictions", "kubelet_eviction_",
		"kubelet_preemptions", "kubelet_admission", "kubelet_sleep", "kubelet_lifecycle", "kubelet_image_garbage"),
		`kubelet_admission_rejections_total{reason="Other"} 1`, `kubelet_admission_rejections_total{reason="OutOfExtendedResources"} 1`,
		`kubelet_admission_rejections_total{reason="OutOfcpu"} 1`,
		`kubelet_eviction_stats_age_seconds_sum{eviction_signal="memory.available"} 2`, `kubelet_eviction_stats_age_seconds_count{eviction_signal="memory.available"} 1`,
		`kubelet_evictions{eviction_signal="emptydirfs.limit"} 1`, `kubelet_evictions{eviction_signal="memory.available"} 1`,
		"kubelet_graceful_shutdown_end_time_seconds 1.7000000015e+09", "kubelet_graceful_shutdown_start_time_seconds 1.7e+09",
		`kubelet_image_garbage_collected_total{reason="age"} 1`, "kubelet_lifecycle_handler_http_fallbacks_total 1", "kubelet_orphaned_runtime_pods_total 1",
		`kubelet_preemptions{preemption_signal="memory"} 1`,
		`kubelet_restarted_pods_total{static=""} 0`, `kubelet_restarted_pods_total{static="true"} 1`, "kubelet_sleep_action_terminated_early_total 1")
}

// groups are cgroups of pods, in memory.
type groups map[types.UID]bool

func (g groups) PodPath(uid types.UID) (string, error) {
	if !g[uid] {
		return "", fs.ErrNotExist
	}
	return "/", nil
}

func (g groups) EnsurePod(p *corev1.Pod) (string, error) { g[p.UID] = true; return "/", nil }

func (g groups) RemovePod(uid types.UID) error { delete(g, uid); return nil }

func (g groups) Shrink(*corev1.Pod, *container.Container, int64) error { return nil }

func (g groups) Tune(*corev1.Pod, *corev1.Container, string) error { return nil }

// provider is a plugin that answers, or fails, after a while.
type provider func() error

func (p provider) Ask(context.Context, *kubeletconfigv1.CredentialProvider, *credentialproviderv1.CredentialProviderRequest) (*credentialproviderv1.CredentialProviderResponse, error) {
	return &credentialproviderv1.CredentialProviderResponse{}, p()
}

func TestCredentials(t *testing.T) {
	clock := testclock.NewFakeClock(time.Unix(1700000000, 0))
	m := New("n1", clock)
	var answer error
	p := m.Credentials(provider(func() error { clock.Step(2 * time.Second); return answer }))
	for _, answer = range []error{nil, errors.New("no such login"), nil} {
		if _, err := p.Ask(t.Context(), &kubeletconfigv1.CredentialProvider{Name: "p"}, nil); !errors.Is(err, answer) {
			t.Errorf("got %v, want %v", err, answer)
		}
	}
	equal(t, "credentials", told(t, m, "kubelet_credential_provider_plugin_duration_sum", "kubelet_credential_provider_plugin_duration_count", "kubelet_credential_provider_plugin_errors"),
		`kubelet_credential_provider_plugin_duration_sum{plugin_name="p"} 6`, `kubelet_credential_provider_plugin_duration_count{plugin_name="p"} 3`,
		`kubelet_credential_provider_plugin_errors_total{plugin_name="p"} 1`)
}

func TestCertificateStates(t *testing.T) {
	m := New("n1", testclock.NewFakePassiveClock(time.Unix(1700000000, 0)))
	m.CertificateStates(func() map[[2]string]int { return map[[2]string]int{{"s", "fresh"}: 2} })
	equal(t, "certificates", told(t, m, "kubelet_podcertificate"), `kubelet_podcertificate_states{signer_name="s",state="fresh"} 2`)
}

func TestPlugins(t *testing.T) {
	m := New("n1", testclock.NewFakePassiveClock(time.Unix(1700000000, 0)))
	m.StorageOperation("kubernetes.io/secret", "volume_mount", time.Second, nil)
	m.StorageOperation("kubernetes.io/secret", "volume_mount", time.Second, errors.New("x"))
	m.VolumeMounted("kubernetes.io/secret", 3*time.Second)
	m.CSICall("d.io", "/csi.v1.Node/NodePublishVolume", time.Second, nil)
	for _, err := range []error{nil, errors.New("x"), nil} {
		m.ImageMounted(err)
	}
	m.DevicePluginRegistered("v/r")
	m.DevicesAllocated("v/r", 2*time.Second)
	m.VolumeCounts(func() (wanted, there map[string]int) { return map[string]int{"a": 2}, map[string]int{"a": 1} })
	m.Plugins(func() (found, registered []string) { return []string{"/a", "/b"}, []string{"/a"} })
	c := m.Cgroups(groups{})
	for range 2 {
		if _, err := c.EnsurePod(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u"}}); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if err := c.RemovePod("u"); err != nil {
			t.Fatal(err)
		}
	}
	for method, err := range map[string]error{"List": nil, "Get": errors.New("x"), "Other": nil} {
		_, _ = m.PodResources(t.Context(), nil, &grpc.UnaryServerInfo{FullMethod: "/v1.PodResourcesLister/" + method}, func(context.Context, any) (any, error) { return nil, err })
	}
	_, _ = m.PodResources(t.Context(), nil, &grpc.UnaryServerInfo{FullMethod: "/v1alpha1.PodResourcesLister/List"}, func(context.Context, any) (any, error) { return nil, nil })
	for method, err := range map[string]error{"ListPods": nil, "GetPod": status.Error(codes.NotFound, "x")} {
		_, _ = m.PodsAPI(t.Context(), nil, &grpc.UnaryServerInfo{FullMethod: "/v1alpha1.Pods/" + method}, func(context.Context, any) (any, error) { return nil, err })
	}
	_ = m.PodsAPIStream(nil, nil, &grpc.StreamServerInfo{FullMethod: "/v1alpha1.Pods/WatchPods"}, func(any, grpc.ServerStream) error { return context.Canceled })
	counts := slices.DeleteFunc(told(t, m, "storage_", "csi_", "kubelet_device", "kubelet_image_volume", "kubelet_pod_resources", "kubelet_pod_requests", "volume_manager", "plugin_manager", "kubelet_cgroup_manager", "volume_operation"),
		func(s string) bool { return strings.Contains(s, "_sum{") })
	equal(t, "metrics", counts,
		`csi_operations_seconds_count{driver_name="d.io",grpc_status_code="OK",method_name="/csi.v1.Node/NodePublishVolume",migrated="false"} 1`,
		`kubelet_cgroup_manager_duration_seconds_count{operation_type="create"} 1`,
		`kubelet_cgroup_manager_duration_seconds_count{operation_type="destroy"} 1`,
		`kubelet_cgroup_manager_duration_seconds_count{operation_type="update"} 1`,
		`kubelet_device_plugin_alloc_duration_seconds_count{resource_name="v/r"} 1`,
		`kubelet_device_plugin_registration_total{resource_name="v/r"} 1`,
		`kubelet_image_volume_mounted_errors_total 1`,
		`kubelet_image_volume_mounted_succeed_total 2`,
		`kubelet_image_volume_requested_total 3`,
		`kubelet_pod_requests_get_total{server_api_version="v1alpha1",status_code="NotFound"} 1`,
		`kubelet_pod_requests_list_total{server_api_version="v1alpha1",status_code="OK"} 1`,
		`kubelet_pod_requests_total{server_api_version="v1alpha1",status_code="Canceled"} 1`,
		`kubelet_pod_requests_total{server_api_version="v1alpha1",status_code="NotFound"} 1`,
		`kubelet_pod_requests_total{server_api_version="v1alpha1",status_code="OK"} 1`,
		`kubelet_pod_requests_watch_total{server_api_version="v1alpha1",status_code="Canceled"} 1`,
		`kubelet_pod_resources_endpoint_errors_get{server_api_version="v1"} 1`,
		`kubelet_pod_resources_endpoint_requests_get{server_api_version="v1"} 1`,
		`kubelet_pod_resources_endpoint_requests_list{server_api_version="v1"} 1`,
		`kubelet_pod_resources_endpoint_requests_total{server_api_version="v1"} 3`,
		`kubelet_pod_resources_endpoint_requests_total{server_api_version="v1alpha1"} 1`,
		`plugin_manager_total_plugins{socket_path="/a",state="actual_state_of_world"} 1`,
		`plugin_manager_total_plugins{socket_path="/a",state="desired_state_of_world"} 1`,
		`plugin_manager_total_plugins{socket_path="/b",state="desired_state_of_world"} 1`,
		`storage_operation_duration_seconds_count{migrated="false",operation_name="volume_mount",status="fail-unknown",volume_plugin="kubernetes.io/secret"} 1`,
		`storage_operation_duration_seconds_count{migrated="false",operation_name="volume_mount",status="success",volume_plugin="kubernetes.io/secret"} 1`,
		`volume_manager_total_volumes{plugin_name="a",state="actual_state_of_world"} 1`,
		`volume_manager_total_volumes{plugin_name="a",state="desired_state_of_world"} 2`,
		`volume_operation_total_seconds_count{operation_name="overall_volume_mount",plugin_name="kubernetes.io/secret"} 1`)
}
