// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
)

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
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: "application/json"}})
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
