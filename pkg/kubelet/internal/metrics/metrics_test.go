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
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	statsv1alpha1 "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
	testclock "k8s.io/utils/clock/testing"

	"minik8s.io/minik8s/pkg/kubelet/container"
	"minik8s.io/minik8s/pkg/kubelet/container/fake"
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
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.Inspect(ctx, sb.ID); err != nil {
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
	equal(t, "started", told(t, m, "kubelet_started"), `kubelet_started_containers_total{container_type="init_container"} 1`,
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
	equal(t, "start", told(t, m, "kubelet_pod_start"), "kubelet_pod_start_duration_seconds_sum 6", "kubelet_pod_start_duration_seconds_count 1")
	equal(t, "workers", told(t, m, "kubelet_pod_worker_duration_seconds_count"),
		`kubelet_pod_worker_duration_seconds_count{operation_type="create"} 2`, `kubelet_pod_worker_duration_seconds_count{operation_type="kill"} 1`,
		`kubelet_pod_worker_duration_seconds_count{operation_type="sync"} 1`, `kubelet_pod_worker_duration_seconds_count{operation_type="update"} 2`)
	l.Forget(pod)
	if n := len(l.(*life).pods); n != 1 {
		t.Errorf("%d pods are remembered, want 1", n)
	}
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
	m.Pods(func() []*corev1.Pod { return pods }, func() map[types.UID]*observed.Pod { return view })
	equal(t, "pods", told(t, m, "kubelet_active", "kubelet_desired", "kubelet_managed", "kubelet_running"),
		`kubelet_active_pods{static=""} 1`, `kubelet_active_pods{static="true"} 1`, `kubelet_desired_pods{static=""} 2`, `kubelet_desired_pods{static="true"} 1`,
		"kubelet_managed_ephemeral_containers 2", `kubelet_running_containers{container_state="exited"} 2`,
		`kubelet_running_containers{container_state="running"} 1`, "kubelet_running_pods 1")
	view = nil // what is gone is not told any more
	equal(t, "pods", told(t, m, "kubelet_running"), "kubelet_running_pods 0")
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
		{"not yet", nil, errors.New("no such luck"), []string{}},
		{"broken", &tls.Certificate{Certificate: [][]byte{{1}}}, nil, []string{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := New("n1", testclock.NewFakePassiveClock(now))
			m.Certificate(func() (*tls.Certificate, error) { return test.cert, test.err })
			equal(t, "certificate", told(t, m, "kubelet_certificate"), test.want...)
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
	for name, want := range map[string]bool{"rest_client_requests_total": true, "apiserver_request_total": false, "etcd_requests_total": false, "go_threads": true} {
		if got := ofAnyComponent(name); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
