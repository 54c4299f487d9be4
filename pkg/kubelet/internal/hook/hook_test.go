// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package hook

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/record"
)

var pod = &corev1.Pod{}

// What a hook cannot do is told, and not passed over.
func TestRun_Invalid(t *testing.T) {
	for name, h := range map[string]*corev1.LifecycleHandler{"tcpSocket": {TCPSocket: &corev1.TCPSocketAction{Host: "h"}}, "nothing": {}} {
		err := (&Runner{}).Run(t.Context(), pod, h, &corev1.Container{Name: "c"}, "id", "192.0.2.1")
		if err == nil || !strings.Contains(err.Error(), `lifecycle hook of container "c": invalid handler`) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A server of a pod sends the node to no other host.
func TestRun_Redirect(t *testing.T) {
	var asked []string
	elsewhere := ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Path)
		switch r.URL.Path {
		case "/away":
			http.Redirect(w, r, elsewhere, http.StatusFound)
		case "/here":
			http.Redirect(w, r, "/done", http.StatusFound)
		case "/around":
			http.Redirect(w, r, "/around", http.StatusFound)
		}
	}))
	defer server.Close()
	host, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	elsewhere = "http://" + net.JoinHostPort("localhost", port) + "/secret"
	run := func(path string) error {
		h := &corev1.LifecycleHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.Parse(port)}}
		return (&Runner{}).Run(t.Context(), pod, h, &corev1.Container{Name: "c"}, "id", host)
	}
	for _, path := range []string{"/away", "/here"} {
		if err := run(path); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	if diff := cmp.Diff([]string{"/away", "/here", "/done"}, asked); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
	if err := run("/around"); err == nil || !strings.Contains(err.Error(), "stopped after 10 redirects") {
		t.Errorf("in a circle: %v", err)
	}
}

// A server that is to speak HTTPS and does not is asked all the same, without what only HTTPS would protect.
func TestRun_HTTPFallback(t *testing.T) {
	t.Parallel()
	var asked http.Header
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { asked = r.Header }))
	t.Cleanup(server.Close)
	host, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	events := record.NewFakeRecorder(1)
	h := &corev1.LifecycleHandler{HTTPGet: &corev1.HTTPGetAction{Scheme: corev1.URISchemeHTTPS, Port: intstr.Parse(port),
		HTTPHeaders: []corev1.HTTPHeader{{Name: "Authorization", Value: "secret"}, {Name: "X-Test", Value: "x"}}}}
	times := 0
	r := &Runner{Recorder: events, FellBack: func() { times++ }}
	if err := r.Run(t.Context(), pod, h, &corev1.Container{Name: "c"}, "id", host); err != nil {
		t.Fatal(err)
	}
	if asked.Get("Authorization") != "" || asked.Get("X-Test") != "x" {
		t.Errorf("asked with %v", asked)
	}
	want := "Warning LifecycleHTTPFallback request to HTTPS lifecycle hook " + net.JoinHostPort(host, port) + " got HTTP response, retry with HTTP succeeded"
	if got := <-events.Events; got != want {
		t.Errorf("event %q, want %q", got, want)
	}
	server.Close()
	if err := r.Run(t.Context(), pod, h, &corev1.Container{Name: "c"}, "id", host); err == nil {
		t.Error("a hook whose server is away has succeeded")
	}
	if times != 1 {
		t.Errorf("fell back %d times", times)
	}
}
