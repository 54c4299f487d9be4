// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package prober

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	testingclock "k8s.io/utils/clock/testing"

	"minik8s.io/minik8s/pkg/kubelet/container"
)

func TestState(t *testing.T) {
	tests := []struct {
		name             string
		kind             Kind
		failure, success int32
		outcomes         string // s and f
		want             string // result after each: s, f or u; h if held
	}{
		{name: "liveness fails after three", kind: Liveness, outcomes: "ffsfff", want: "sssssh"},
		{name: "readiness needs two successes", kind: Readiness, success: 2, failure: 2, outcomes: "ssffss", want: "fssffs"},
		{name: "readiness comes at once", kind: Readiness, outcomes: "sfff", want: "sssf"},
		{name: "startup", kind: Startup, failure: 2, outcomes: "fs", want: "us"},
		{name: "startup fails", kind: Startup, failure: 2, outcomes: "ff", want: "uh"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := Initial(tt.kind, false)
			got := ""
			for _, o := range tt.outcomes {
				r := Success
				if o == 'f' {
					r = Failure
				}
				s = s.Next(tt.kind, &corev1.Probe{FailureThreshold: tt.failure, SuccessThreshold: tt.success}, r)
				if s.Held {
					got += "h"
				} else {
					got += string("usf"[s.Result])
				}
			}
			if got != tt.want {
				t.Errorf("results %q, want %q", got, tt.want)
			}
		})
	}
}

type execFunc func(ctx context.Context, id string, o container.ExecOptions) (int, error)

func (f execFunc) Exec(ctx context.Context, id string, o container.ExecOptions) (int, error) {
	return f(ctx, id, o)
}

func TestAttemptExec(t *testing.T) {
	tests := []struct {
		name string
		exec execFunc
		want Outcome
	}{
		{"success", func(_ context.Context, _ string, o container.ExecOptions) (int, error) {
			_, err := o.Stdout.Write([]byte("fine"))
			return 0, err
		}, Outcome{Result: Success, Output: "fine"}},
		{"failure", func(_ context.Context, _ string, o container.ExecOptions) (int, error) {
			_, err := o.Stderr.Write([]byte(strings.Repeat("x", 20<<10)))
			return 2, err
		}, Outcome{Result: Failure, Output: strings.Repeat("x", 10<<10)}},
		{"timeout", func(ctx context.Context, _ string, _ container.ExecOptions) (int, error) {
			<-ctx.Done()
			return 0, ctx.Err()
		}, Outcome{Result: Failure, Output: `command timed out: ["true"] timed out after 1s`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"true"}}}}
			if diff := cmp.Diff(tt.want, Attempt(t.Context(), Ways{Exec: tt.exec}, p, Target{Container: &corev1.Container{}})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	for _, err := range []error{
		errors.New("engine away"),
		fmt.Errorf("not begun: %w: %w", container.ErrUnavailable, context.DeadlineExceeded), // the engine was slow, not the command
	} {
		broken := execFunc(func(context.Context, string, container.ExecOptions) (int, error) { return 0, err })
		p := &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{}}}
		if out := Attempt(t.Context(), Ways{Exec: broken}, p, Target{Container: &corev1.Container{}}); out.Err == nil {
			t.Errorf("an attempt that went wrong gave %+v", out)
		}
	}
}

// A command may refer to variables of its container that the spec gives a value.
func TestAttemptExec_Variables(t *testing.T) {
	t.Parallel()
	var got []string
	exec := execFunc(func(_ context.Context, _ string, o container.ExecOptions) (int, error) {
		got = o.Command
		return 0, nil
	})
	c := &corev1.Container{Env: []corev1.EnvVar{{Name: "PORT", Value: "80"}, {Name: "NODE", ValueFrom: &corev1.EnvVarSource{}}}}
	p := &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"check", "$(PORT)", "$$(PORT)", "$(NODE)", "$(NO)"}}}}
	if out := Attempt(t.Context(), Ways{Exec: exec}, p, Target{Container: c}); out.Result != Success {
		t.Errorf("outcome %+v", out)
	}
	if diff := cmp.Diff([]string{"check", "80", "$(PORT)", "", "$(NO)"}, got); diff != "" {
		t.Errorf("command (-want +got):\n%s", diff)
	}
}

func TestAttemptHTTP(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/ok", func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte(r.Host + " " + r.UserAgent() + " " + r.Header.Get("X-A")))
	})
	mux.HandleFunc("/fail", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	mux.HandleFunc("/here", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/fail", http.StatusFound) })
	mux.HandleFunc("/away", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://elsewhere.invalid/", http.StatusFound)
	})
	srv := httptest.NewServer(mux)
	defer srv.Close()
	tlsSrv := httptest.NewTLSServer(mux)
	defer tlsSrv.Close()
	port := func(s *httptest.Server) int {
		u, err := url.Parse(s.URL)
		if err != nil {
			t.Fatal(err)
		}
		n, err := strconv.Atoi(u.Port())
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	c := &corev1.Container{Name: "c", Ports: []corev1.ContainerPort{{Name: "web", ContainerPort: int32(port(srv))}}}
	tests := []struct {
		name    string
		action  corev1.HTTPGetAction
		result  Result
		warning bool
		output  string
	}{
		{name: "named port, headers", action: corev1.HTTPGetAction{Path: "/ok", Port: intstr.FromString("web"), HTTPHeaders: []corev1.HTTPHeader{{Name: "Host", Value: "h"}, {Name: "X-A", Value: "b"}}},
			result: Success, output: "h kube-probe/1.37 b"},
		{name: "failure", action: corev1.HTTPGetAction{Path: "/fail", Port: intstr.FromString("web")}, result: Failure, output: "HTTP probe failed with statuscode: 503"},
		{name: "redirect here is followed", action: corev1.HTTPGetAction{Path: "/here", Port: intstr.FromString("web")}, result: Failure, output: "HTTP probe failed with statuscode: 503"},
		{name: "redirect away is a warning", action: corev1.HTTPGetAction{Path: "/away", Port: intstr.FromString("web")}, result: Success, warning: true, output: "Probe terminated redirects, Response body: <a href=\"http://elsewhere.invalid/\">Found</a>.\n\n"},
		{name: "https", action: corev1.HTTPGetAction{Path: "/ok", Scheme: corev1.URISchemeHTTPS, Port: intstr.FromInt32(int32(port(tlsSrv))), HTTPHeaders: []corev1.HTTPHeader{{Name: "Host", Value: "h"}, {Name: "User-Agent", Value: "me"}}},
			result: Success, output: "h me "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			out := Attempt(t.Context(), Ways{}, &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &tt.action}}, Target{Container: c, PodIP: "127.0.0.1"})
			want := Outcome{Result: tt.result, Warning: tt.warning, Output: tt.output}
			if diff := cmp.Diff(want, out); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if out := Attempt(t.Context(), Ways{}, &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromString("none")}}}, Target{Container: c, PodIP: "127.0.0.1"}); out.Err == nil {
		t.Errorf("an unknown port gave %+v", out)
	}
}

func TestAttemptTCPAndGRPC(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := grpc.NewServer()
	h := health.NewServer()
	h.SetServingStatus("down", healthpb.HealthCheckResponse_NOT_SERVING)
	healthpb.RegisterHealthServer(srv, h)
	go func() { _ = srv.Serve(l) }()
	port := int32(l.Addr().(*net.TCPAddr).Port)
	target := Target{Container: &corev1.Container{}, PodIP: "127.0.0.1"}
	try := func(p corev1.ProbeHandler) Outcome {
		return Attempt(t.Context(), Ways{}, &corev1.Probe{ProbeHandler: p}, target)
	}
	tcp := corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(port)}}
	rpc := func(service string) corev1.ProbeHandler {
		return corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: port, Service: new(service)}}
	}
	if out := try(tcp); out.Result != Success {
		t.Errorf("tcp: %+v", out)
	}
	if out := try(rpc("")); out.Result != Success {
		t.Errorf("grpc: %+v", out)
	}
	if out := try(rpc("down")); out.Result != Failure || out.Output != `service unhealthy (responded with "NOT_SERVING")` {
		t.Errorf("grpc service that is down: %+v", out)
	}
	if out := try(rpc("unknown")); out.Result != Failure || !strings.HasPrefix(out.Output, "error: health rpc probe failed: ") {
		t.Errorf("grpc service that is unknown: %+v", out)
	}
	srv.Stop()
	if out := try(tcp); out.Result != Failure || !strings.Contains(out.Output, "connection refused") {
		t.Errorf("closed tcp: %+v", out)
	}
	if out := try(rpc("")); out.Result != Failure || !strings.HasPrefix(out.Output, "timeout: failed to connect service") {
		t.Errorf("closed grpc: %+v", out)
	}
}

// TestManager follows a container through startup, readiness and the failure of liveness on a fake clock.
func TestManager(t *testing.T) {
	clock := testingclock.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	var mu sync.Mutex
	code := map[string]int{"startup": 1, "live": 0, "ready": 0}
	set := func(k string, v int) { mu.Lock(); code[k] = v; mu.Unlock() }
	ran := make(chan string, 100)
	exec := execFunc(func(_ context.Context, _ string, o container.ExecOptions) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		ran <- o.Command[0]
		return code[o.Command[0]], nil
	})
	changed := make(chan types.UID, 100)
	events := record.NewFakeRecorder(100)
	ctx, cancel := context.WithCancel(t.Context())
	counted := NewMetrics()
	m := New(ctx, Config{Exec: exec, Recorder: events, Clock: clock, Metrics: counted, Changed: func(u types.UID) { changed <- u }})
	probe := func(name string) *corev1.Probe {
		return &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{name}}}, PeriodSeconds: 1, FailureThreshold: 2}
	}
	c := &corev1.Container{Name: "c", StartupProbe: probe("startup"), LivenessProbe: probe("live"), ReadinessProbe: probe("ready")}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns", UID: "u"}, Spec: corev1.PodSpec{Containers: []corev1.Container{*c}}}
	m.Update(pod, "", []Running{{Spec: c, ID: "id", StartedAt: clock.Now()}})

	// until moves the clock until ok holds of the verdict.
	until := func(what string, ok func(Verdict) bool) {
		t.Helper()
		for range 400 {
			if ok(m.Verdict("u", "id")) {
				return
			}
			if clock.HasWaiters() {
				clock.Step(500 * time.Millisecond)
			}
			select {
			case <-changed:
			case <-ran:
			case <-time.After(5 * time.Millisecond):
			}
		}
		t.Fatalf("%s: verdict %+v", what, m.Verdict("u", "id"))
	}
	if v := m.Verdict("u", "id"); v.Started || v.Ready || v.LivenessFailed || v.StartupFailed {
		t.Errorf("verdict at first %+v", v)
	}
	if got := <-ran; got != "startup" {
		t.Errorf("first probe is %q, want startup: the others wait for it", got)
	}
	set("startup", 0)
	until("started", func(v Verdict) bool { return v.Started })
	until("ready", func(v Verdict) bool { return v.Ready })
	set("live", 1)
	until("liveness failed", func(v Verdict) bool { return v.LivenessFailed })
	m.StopKilling("u")
	if v := m.Verdict("u", "id"); v.LivenessFailed {
		t.Error("liveness of a pod that is being stopped still counts")
	}
	set("ready", 1)
	until("not ready", func(v Verdict) bool { return !v.Ready })
	series := names(t, counted)
	for _, want := range []string{
		`prober_probe_duration_seconds_count{container="c",namespace="ns",pod="p",probe_type="Readiness"}`,
		`prober_probe_total{container="c",namespace="ns",pod="p",pod_uid="u",probe_type="Liveness",result="failed"}`,
		`prober_probe_total{container="c",namespace="ns",pod="p",pod_uid="u",probe_type="Readiness",result="failed"}`,
		`prober_probe_total{container="c",namespace="ns",pod="p",pod_uid="u",probe_type="Readiness",result="successful"}`,
		`prober_probe_total{container="c",namespace="ns",pod="p",pod_uid="u",probe_type="Startup",result="successful"}`,
	} {
		if !slices.Contains(series, want) {
			t.Errorf("no %s among %v", want, series)
		}
	}
	m.Remove("u")
	if left := names(t, counted); len(left) > 0 {
		t.Errorf("series of a pod that is gone: %v", left)
	}
	if m.Known("u", "id") {
		t.Error("probes are left after Remove")
	}
	cancel()
	m.Wait()
	close(events.Events)
	var texts []string
	for e := range events.Events {
		texts = append(texts, e)
	}
	all := strings.Join(texts, "\n")
	for _, want := range []string{"Warning Unhealthy Startup probe failed: ", "Warning Unhealthy Liveness probe failed: ", "Warning Unhealthy Readiness probe failed: "} {
		if !strings.Contains(all, want) {
			t.Errorf("no event %q in:\n%s", want, all)
		}
	}
}

// names are the series with their labels, without the buckets of histograms.
func names(t *testing.T, m *Metrics) []string {
	t.Helper()
	w := httptest.NewRecorder()
	promhttp.HandlerFor(m.Gatherer(), promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest("GET", "/metrics/probes", nil))
	var out []string
	for line := range strings.Lines(w.Body.String()) {
		if series, _, ok := strings.Cut(line, "} "); ok && !strings.HasPrefix(line, "#") && !strings.Contains(line, "_bucket{") {
			out = append(out, series+"}")
		}
	}
	return out
}

// TestLateAttempt checks that an attempt that ends after its pod leaves no series.
func TestLateAttempt(t *testing.T) {
	counted := NewMetrics()
	m := New(t.Context(), Config{Metrics: counted, Clock: testingclock.NewFakeClock(time.Unix(1, 0))})
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns", UID: "u"}}
	k, p := key{"u", "id", Liveness}, &probe{cancel: func() {}, pod: pod}
	m.probes[k] = p
	m.count(p, k, "c", Outcome{Err: errors.New("engine away")}, time.Second)
	if got := names(t, counted); !slices.Contains(got, `prober_probe_total{container="c",namespace="ns",pod="p",pod_uid="u",probe_type="Liveness",result="unknown"}`) {
		t.Errorf("got %v", got)
	}
	m.Remove("u")
	m.count(p, k, "c", Outcome{Result: Success}, time.Second)
	if got := names(t, counted); len(got) > 0 {
		t.Errorf("left: %v", got)
	}
}

// TestErrorsAreNoFailures: while the engine restarts no probe can be made, and no container is to blame.
func TestErrorsAreNoFailures(t *testing.T) {
	clock := testingclock.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	tried := make(chan struct{}, 1000)
	exec := execFunc(func(context.Context, string, container.ExecOptions) (int, error) {
		tried <- struct{}{}
		return 0, container.ErrUnavailable
	})
	events := record.NewFakeRecorder(1000)
	ctx, cancel := context.WithCancel(t.Context())
	m := New(ctx, Config{Exec: exec, Recorder: events, Clock: clock, Changed: func(types.UID) {}})
	probe := &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"x"}}}, PeriodSeconds: 1, FailureThreshold: 1}
	c := &corev1.Container{Name: "c", LivenessProbe: probe, ReadinessProbe: probe}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns", UID: "u"}, Spec: corev1.PodSpec{Containers: []corev1.Container{*c}}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", ContainerID: "docker://id", Ready: true, Started: new(true)}}
	m.Update(pod, "", []Running{{Spec: c, ID: "id", StartedAt: clock.Now()}})
	for done := 0; done < 30; {
		if clock.HasWaiters() {
			clock.Step(500 * time.Millisecond)
		}
		select {
		case <-tried:
			done++
		case <-time.After(5 * time.Millisecond):
		}
	}
	if v := m.Verdict("u", "id"); v.LivenessFailed || !v.Ready {
		t.Errorf("after ten probes that could not be made: %+v", v)
	}
	cancel()
	m.Wait()
	if text := <-events.Events; !strings.Contains(text, "probe errored and resulted in unknown state") {
		t.Errorf("the event is %q", text)
	}
}

func TestAdoption(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	m := New(ctx, Config{Recorder: record.NewFakeRecorder(1), Clock: testingclock.NewFakeClock(time.Now()), Changed: func(types.UID) {}})
	c := &corev1.Container{Name: "c", ReadinessProbe: &corev1.Probe{PeriodSeconds: 10}, StartupProbe: &corev1.Probe{PeriodSeconds: 10}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u"}, Spec: corev1.PodSpec{Containers: []corev1.Container{*c}}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", ContainerID: "docker://id", Ready: true, Started: new(true)}}
	m.Update(pod, "", []Running{{Spec: c, ID: "id"}, {Spec: c, ID: "new", StartedAt: time.Now().Add(time.Hour)}})
	if v := m.Verdict("u", "id"); !v.Started || !v.Ready {
		t.Errorf("a container that was ready under an earlier kubelet: %+v", v)
	}
	if v := m.Verdict("u", "new"); v.Started || v.Ready {
		t.Errorf("another container of the same name: %+v", v)
	}
	cancel()
	m.Wait()
}

// A clock that was set back after a container's start holds up its probes for no longer than their initial delay.
func TestClockSetBack(t *testing.T) {
	clock := testingclock.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	ran := make(chan string, 1)
	exec := execFunc(func(context.Context, string, container.ExecOptions) (int, error) { ran <- "probe"; return 0, nil })
	ctx, cancel := context.WithCancel(t.Context())
	m := New(ctx, Config{Exec: exec, Recorder: record.NewFakeRecorder(10), Clock: clock, Changed: func(types.UID) {}})
	c := &corev1.Container{Name: "c", ReadinessProbe: &corev1.Probe{InitialDelaySeconds: 5, PeriodSeconds: 1,
		ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"x"}}}}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns", UID: "u"}}
	m.Update(pod, "", []Running{{Spec: c, ID: "id", StartedAt: clock.Now().Add(time.Hour)}})
	for !clock.HasWaiters() {
		<-time.After(time.Millisecond)
	}
	clock.Step(5 * time.Second)
	select {
	case <-ran:
	case <-time.After(10 * time.Second):
		t.Error("nothing is probed five seconds later")
	}
	cancel()
	m.Wait()
}

// Hundreds of probes that nobody answers end in time, each for itself, and hold up no other.
func TestHungProbes(t *testing.T) {
	var lc net.ListenConfig
	deaf, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0") // the kernel takes connections, nobody reads
	if err != nil {
		t.Fatal(err)
	}
	defer deaf.Close()
	port := deaf.Addr().(*net.TCPAddr).Port
	before := runtime.NumGoroutine()
	hang := execFunc(func(ctx context.Context, id string, _ container.ExecOptions) (int, error) {
		if id == "good" {
			return 0, nil
		}
		<-ctx.Done()
		return 0, ctx.Err()
	})
	ctx, cancel := context.WithCancel(t.Context())
	changed := make(chan types.UID, 1000)
	m := New(ctx, Config{Exec: hang, Recorder: record.NewFakeRecorder(10_000), Clock: clock.RealClock{}, Changed: func(u types.UID) { changed <- u }})
	at := intstr.FromInt(port)
	handlers := []corev1.ProbeHandler{
		{Exec: &corev1.ExecAction{Command: []string{"x"}}},
		{HTTPGet: &corev1.HTTPGetAction{Port: at, Scheme: corev1.URISchemeHTTP}},
		{HTTPGet: &corev1.HTTPGetAction{Port: at, Scheme: corev1.URISchemeHTTPS}},
		{GRPC: &corev1.GRPCAction{Port: int32(port), Service: new("")}},
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns", UID: "u"}}
	var all []Running
	for n := range 200 {
		c := &corev1.Container{Name: fmt.Sprint("c", n), LivenessProbe: &corev1.Probe{
			ProbeHandler: handlers[n%len(handlers)], PeriodSeconds: 1, TimeoutSeconds: 1, FailureThreshold: 1}}
		all = append(all, Running{Spec: c, ID: fmt.Sprint("id", n), StartedAt: time.Now()})
	}
	good := &corev1.Container{Name: "good", ReadinessProbe: &corev1.Probe{ProbeHandler: handlers[0], PeriodSeconds: 1, TimeoutSeconds: 1}}
	m.Update(pod, "127.0.0.1", append(all, Running{Spec: good, ID: "good", StartedAt: time.Now()}))
	deadline := time.After(30 * time.Second)
	for failed, ready := 0, false; failed < len(all) || !ready; {
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("%d of %d hung probes have failed, the good one: %t", failed, len(all), ready)
		}
		failed, ready = 0, m.Verdict("u", "good").Ready
		for _, r := range all {
			if m.Verdict("u", r.ID).LivenessFailed {
				failed++
			}
		}
	}
	m.Remove("u")
	cancel()
	m.Wait()
	for end := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before+5; <-time.After(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d goroutines before, %d after", before, runtime.NumGoroutine())
		}
	}
}
