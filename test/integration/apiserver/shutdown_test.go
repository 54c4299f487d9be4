// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/rest"

	"minik8s.io/minik8s/pkg/apiserver"
	"minik8s.io/minik8s/test/integration/framework"
)

// ownConnection is a client that shares no connection with other clients, and counts the connections that it makes.
func ownConnection(t *testing.T, c *framework.Cluster) (client *http.Client, connections *atomic.Int32) {
	t.Helper()
	connections = &atomic.Int32{}
	config := c.Admin()
	config.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		connections.Add(1)
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { utilnet.CloseIdleConnectionsFor(transport) })
	return &http.Client{Transport: transport}, connections
}

// head is an answer without its body.
type head struct {
	Status     string
	StatusCode int
	Header     http.Header
}

// ask makes a request and reads the whole answer.
func ask(client *http.Client, method, url, body string, header ...string) (head, string, error) {
	request, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		return head{}, "", err
	}
	request.Header.Set("Content-Type", jsonType)
	for _, name := range header {
		request.Header.Set(name, "yes")
	}
	response, err := client.Do(request)
	if err != nil {
		return head{}, "", err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	return head{response.Status, response.StatusCode, response.Header}, string(data), err
}

// gate holds requests that ask for it by a header field, once the server has taken them.
type gate struct{ held, release chan struct{} }

func newGate() *gate { return &gate{held: make(chan struct{}), release: make(chan struct{})} }

func (g *gate) install(c *genericapiserver.Config) error {
	build := c.BuildHandlerChainFunc
	c.BuildHandlerChainFunc = func(handler http.Handler, c *genericapiserver.Config) http.Handler {
		return build(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Hold") != "" {
				g.held <- struct{}{}
				<-g.release
			}
			handler.ServeHTTP(w, r)
		}), c)
	}
	return nil
}

// A server that ends answers what it has taken, and turns away what comes later, with a hint to come again.
func TestShutdown_AnswersEveryRequest(t *testing.T) {
	const workers = 32
	g := newGate()
	c := framework.Start(t, framework.Options{APIServer: func(c *apiserver.Config) { c.Machinery = g.install }})
	maps := c.Admin().Host + "/api/v1/namespaces/default/configmaps"

	watcher, _ := ownConnection(t, c)
	watch, err := watcher.Get(maps + "?watch=true")
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Body.Close()
	slow, _ := ownConnection(t, c)
	taken := make(chan error, 1)
	go func() {
		response, text, err := ask(slow, http.MethodGet, maps, "", "Hold")
		if err == nil && response.StatusCode != http.StatusOK {
			err = fmt.Errorf("%s: %s", response.Status, text)
		}
		taken <- err
	}()
	<-g.held

	var clients, begun sync.WaitGroup
	for w := range workers {
		client, _ := ownConnection(t, c)
		begun.Add(1)
		clients.Go(func() {
			for i := 0; ; i++ {
				method, url, body := http.MethodGet, maps+"?limit=10", ""
				if w%2 == 0 {
					method, url, body = http.MethodPost, maps, fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m-%d-%d"}}`, w, i)
				}
				response, text, err := ask(client, method, url, body)
				if i == 0 {
					begun.Done()
				}
				switch {
				case err != nil:
					t.Errorf("%s: %v", method, err)
					return
				case response.StatusCode == http.StatusTooManyRequests || response.StatusCode == http.StatusServiceUnavailable:
					if response.Header.Get("Retry-After") == "" {
						t.Errorf("%s: %s without Retry-After: %s", method, response.Status, text)
					}
					return // the client goes to another server
				case response.StatusCode/100 != 2:
					t.Errorf("%s: %s: %s", method, response.Status, text)
				}
			}
		})
	}
	begun.Wait()
	stopped := make(chan error, 1)
	go func() { stopped <- c.Stop() }()
	clients.Wait()
	close(g.release)
	if err := <-taken; err != nil {
		t.Errorf("the request under way: %v", err)
	}
	// A watch ends as if its time were over.
	if _, err := io.Copy(io.Discard, watch.Body); err != nil {
		t.Errorf("the watch ended with %v", err)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

// Where several servers share the load, a connection is given up now and then, so that the client asks another one.
func TestGoaway(t *testing.T) {
	for _, tc := range []struct {
		chance float64
		want   int32
	}{{0, 1}, {1, 5}} {
		t.Run(fmt.Sprint(tc.chance), func(t *testing.T) {
			c := framework.Start(t, framework.Options{APIServer: func(c *apiserver.Config) {
				c.Machinery = func(g *genericapiserver.Config) error { g.GoawayChance = tc.chance; return nil }
			}})
			client, connections := ownConnection(t, c)
			for range 5 {
				if response, text, err := ask(client, http.MethodGet, c.Admin().Host+"/api/v1/namespaces/default", ""); err != nil || response.StatusCode != http.StatusOK {
					t.Fatalf("%v: %s", err, text)
				}
			}
			if got := connections.Load(); got != tc.want {
				t.Errorf("5 requests made %d connections, want %d", got, tc.want)
			}
		})
	}
}

// What a request may take is bounded by the server, and by the client if it wants less.
func TestRequestTimeout(t *testing.T) {
	t.Parallel()
	for timeout, want := range map[string]int{"1m": 200, "1ns": 504, "0": 200, "": 200, "-1s": 200, "soon": 400} {
		if got := send(t, http.MethodGet, "/api/v1/namespaces?timeout="+timeout, "", jsonType, ""); got.code != want {
			t.Errorf("with timeout %q: %d, want %d: %s", timeout, got.code, want, got.body)
		}
	}
}

// Without priority and fairness, more requests at once than the server takes are turned away.
func TestMaxInFlight(t *testing.T) {
	const taken = 2
	g := newGate()
	c := framework.Start(t, framework.Options{APIServer: func(c *apiserver.Config) {
		c.WithoutFairness = true
		c.Machinery = func(config *genericapiserver.Config) error {
			config.MaxRequestsInFlight, config.MaxMutatingRequestsInFlight = taken, 1
			return g.install(config)
		}
	}})
	user := c.User("ann", "system:authenticated") // administrators are never turned away
	transport, err := rest.TransportFor(user)
	if err != nil {
		t.Fatal(err)
	}
	defer utilnet.CloseIdleConnectionsFor(transport)
	client := &http.Client{Transport: transport}
	var holding sync.WaitGroup
	for range taken {
		holding.Go(func() {
			if response, _, err := ask(client, http.MethodGet, user.Host+"/version", "", "Hold"); err != nil || response.StatusCode != http.StatusOK {
				t.Errorf("a request that was taken answers %v (%v)", response, err)
			}
		})
		<-g.held
	}
	response, _, err := ask(client, http.MethodGet, user.Host+"/version", "")
	if err != nil {
		t.Fatal(err)
	}
	if response.StatusCode != http.StatusTooManyRequests || response.Header.Get("Retry-After") != "1" {
		t.Errorf("one request too many: %s, Retry-After %q", response.Status, response.Header.Get("Retry-After"))
	}
	close(g.release)
	holding.Wait()
	if response, _, err := ask(client, http.MethodGet, user.Host+"/version", ""); err != nil || response.StatusCode != http.StatusOK {
		t.Errorf("when there is room again: %v (%v)", response, err)
	}
}
