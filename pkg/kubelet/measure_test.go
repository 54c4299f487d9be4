// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"maps"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"minik8s.io/minik8s/pkg/kubelet/container/fake"
)

// series returns the values of the series whose text has all of these parts.
func series(t *testing.T, g prometheus.Gatherer, parts ...string) []float64 {
	t.Helper()
	w := httptest.NewRecorder()
	promhttp.HandlerFor(g, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != 200 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	var out []float64
lines:
	for line := range strings.Lines(w.Body.String()) {
		for _, p := range parts {
			if strings.HasPrefix(line, "#") || !strings.Contains(line, p) {
				continue lines
			}
		}
		_, values, ok := strings.Cut(line, "} ")
		if !ok {
			_, values, _ = strings.Cut(line, " ")
		}
		v, err := strconv.ParseFloat(strings.Fields(values)[0], 64)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, v)
	}
	return out
}

// measured checks the figures of a container that is busy, on a node with the pod web that has answered requests and has a volume.
func measured(t *testing.T, w *world, k *Kubelet, uid string) {
	t.Helper()
	w.create(newPod("busy", func(p *corev1.Pod) {
		p.UID = types.UID(uid)
		c := &p.Spec.Containers[0]
		c.Image, c.Args = podImage, []string{"busy"}
		c.Resources = corev1.ResourceRequirements{Limits: amounts("100m", "32Mi")}
	}))
	w.await("ready", "busy", ready)
	usage, err := k.cgroupMetrics()
	if err != nil {
		t.Fatal(err)
	}
	within := func(what string, ok func() bool) {
		t.Helper()
		for deadline := time.After(30 * time.Second); !ok(); {
			select {
			case <-deadline:
				t.Errorf("not within 30 s: %s", what)
				return
			case <-time.After(100 * time.Millisecond):
			}
		}
	}
	busy := []string{"container_cpu_usage_seconds_total{", `container="c"`, `cpu="total"`, `pod="busy"`}
	first := 0.0
	within("a container's CPU time", func() bool {
		v := series(t, usage, busy...)
		if len(v) == 1 {
			first = v[0]
		}
		return first > 0
	})
	within("more of it", func() bool { v := series(t, usage, busy...); return len(v) == 1 && v[0] > first+0.05 })
	within("it is throttled", func() bool {
		v := series(t, usage, "container_cpu_cfs_throttled_periods_total{", `container="c"`, `pod="busy"`)
		return len(v) == 1 && v[0] > 0
	})
	for _, want := range []struct {
		parts []string
		value func(float64) bool
	}{
		{[]string{"container_spec_memory_limit_bytes{", `container="c"`, `pod="busy"`}, func(v float64) bool { return v == 32<<20 }},
		{[]string{"container_spec_cpu_quota{", `container="c"`, `pod="busy"`}, func(v float64) bool { return v == 10000 }},
		{[]string{"container_memory_working_set_bytes{", `container="c"`, `pod="busy"`}, func(v float64) bool { return v > 0 && v < 32<<20 }},
		{[]string{"container_network_receive_bytes_total{", `container=""`, `interface="eth0"`, `pod="web"`}, func(v float64) bool { return v > 0 }},
		{[]string{"container_processes{", `container="c"`, `pod="web"`}, func(v float64) bool { return v >= 1 }}, // and now and then a probe
		{[]string{"container_memory_working_set_bytes{", `id="/"`}, func(v float64) bool { return v > 0 }},
		{[]string{"machine_cpu_cores{"}, func(v float64) bool { return v >= 1 }},
		{[]string{"container_scrape_error "}, func(v float64) bool { return v == 0 }},
	} {
		if v := series(t, usage, want.parts...); len(v) != 1 || !want.value(v[0]) {
			t.Errorf("%v: %v", want.parts, v)
		}
	}
	own := k.metrics.Gatherer()
	for _, name := range []string{
		"kubelet_running_pods ", `kubelet_running_containers{container_state="running"}`, "kubelet_pod_start_duration_seconds_count",
		`kubelet_pod_worker_duration_seconds_count{operation_type="create"}`, `kubelet_runtime_operations_total{operation_type="start_container"}`,
		"kubelet_pleg_relist_duration_seconds_count", "kubelet_started_pods_total ",
		`kubelet_cgroup_manager_duration_seconds_count{operation_type="create"}`,
		`storage_operation_duration_seconds_count{migrated="false",operation_name="volume_mount",status="success",volume_plugin="kubernetes.io/empty-dir"}`,
		`volume_manager_total_volumes{plugin_name="kubernetes.io/empty-dir",state="actual_state_of_world"}`,
	} {
		if v := series(t, own, name); len(v) != 1 || v[0] < 1 {
			t.Errorf("%s: %v", name, v)
		}
	}
	if v := series(t, k.probes.Gatherer(), "prober_probe_total{", `pod="web"`, `probe_type="Readiness"`, `result="successful"`); len(v) != 1 || v[0] < 1 {
		t.Errorf("probes of web: %v", v)
	}
	within("figures of a volume", func() bool {
		sum, err := k.stats.Summary(t.Context(), false)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range sum.Pods {
			for _, v := range p.VolumeStats {
				if p.PodRef.Name == "web" && v.Name == "v" && *v.CapacityBytes > 0 && *v.InodesUsed == 1 {
					return true
				}
			}
		}
		return false
	})
	within("what containers have written", func() bool {
		sum, err := k.stats.Summary(t.Context(), false)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range sum.Pods {
			if c := p.Containers; p.PodRef.Name == "busy" && len(c) == 1 && c[0].Rootfs != nil && *c[0].Rootfs.CapacityBytes > 0 && c[0].Logs != nil {
				return *p.EphemeralStorage.UsedBytes >= *c[0].Rootfs.UsedBytes+*c[0].Logs.UsedBytes && *sum.Node.Runtime.ImageFs.UsedBytes > 0
			}
		}
		return false
	})
	for _, name := range []string{"usage_bytes", "limit_bytes", "inodes_free", "inodes_total"} {
		if v := series(t, usage, "container_fs_"+name+"{", `container="c"`, `pod="busy"`, `device="/`); len(v) != 1 {
			t.Errorf("container_fs_%s: %v", name, v)
		}
	}
	w.remove("busy")
	w.await("gone", "busy", func(p *corev1.Pod) bool { return p == nil })
	within("its series went with it", func() bool { return len(series(t, usage, `pod="busy"`)) == 0 })
}

// TestMetrics_Names checks that a node that has run a pod tells what people watch, by upstream's names.
func TestMetrics_Names(t *testing.T) {
	w := newWorld(t, fake.Config{})
	w.start()
	w.create(newPod("a", nil))
	w.await("ready", "a", ready)
	w.remove("a")
	w.await("gone", "a", func(p *corev1.Pod) bool { return p == nil })
	w.create(newPod("b", nil))
	w.await("ready", "b", ready)
	families, err := w.kubelet.metrics.Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	told := map[string]bool{}
	for _, f := range families {
		told[f.GetName()] = true
	}
	// What is told only once it has happened is in the tests of what does it.
	for _, name := range []string{
		"kubelet_active_pods", "kubelet_cgroup_version", "kubelet_cgroup_manager_duration_seconds", "kubelet_desired_pods", "kubelet_graceful_shutdown_end_time_seconds",
		"kubelet_graceful_shutdown_start_time_seconds", "kubelet_lifecycle_handler_http_fallbacks_total", "kubelet_managed_ephemeral_containers", "kubelet_mirror_pods",
		"kubelet_node_name", "kubelet_orphaned_runtime_pods_total", "kubelet_pleg_last_seen_seconds", "kubelet_pleg_relist_duration_seconds",
		"kubelet_pod_start_duration_seconds", "kubelet_pod_worker_duration_seconds", "kubelet_restarted_pods_total",
		"kubelet_run_podsandbox_duration_seconds", "kubelet_running_containers", "kubelet_running_pods", "kubelet_runtime_operations_duration_seconds",
		"kubelet_runtime_operations_total", "kubelet_sleep_action_terminated_early_total", "kubelet_started_containers_total",
		"kubelet_started_pods_total", "kubelet_terminated_containers_total", "kubelet_working_pods", "volume_manager_total_volumes",
		"kubernetes_build_info", "process_cpu_seconds_total", "go_goroutines",
	} {
		if !told[name] {
			t.Errorf("%s is not told", name)
		}
	}
}

// What upstream's kubelet is told by flags is told as such, and what is not set is left out.
func TestFlags(t *testing.T) {
	t.Parallel()
	k := &Kubelet{cfg: Config{NodeName: "n", RootDir: "/r", Labels: map[string]string{"b": "2", "a": "1"}}, hostIPs: []string{"192.0.2.1", "2001:db8::1"}}
	want := map[string]string{"hostname-override": "n", "root-dir": "/r", "node-ip": "192.0.2.1,2001:db8::1", "node-labels": "a=1,b=2"}
	if got := k.flags(); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
