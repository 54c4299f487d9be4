// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/record"

	"minik8s.io/minik8s/pkg/heap"
	"minik8s.io/minik8s/pkg/router"
	"minik8s.io/minik8s/test/bench/figure"
	"minik8s.io/minik8s/test/program"
)

// routerCommand is the first argument of a process that is our router and nothing else.
const routerCommand = "router"

// Where the two routers and what is behind them listen in the room.
const (
	nginxPort  = 8001
	routerPort = 8002
	pagePort   = 9090
)

// connections are how many clients ask at the same time.
const connections = 64

// router measures requests through nginx and through our router, in a room, to the same server. Each has the first core alone; the
// clients and the server have the others.
func (b *bench) router(ctx context.Context) (err error) {
	nginx, err := exec.LookPath(b.nginx)
	if err != nil {
		return fmt.Errorf("%w: install nginx (Debian: apt-get install nginx-light), or say with -only what else to measure", err)
	}
	s, err := b.startServer(ctx)
	if err != nil {
		return err
	}
	defer s.Stop()
	dir, err := os.MkdirTemp(b.dir, "room-")
	if err != nil {
		return err
	}
	r, err := newRoom(ctx, s.URL)
	if err != nil {
		return err
	}
	defer r.close()
	pages, err := r.listen(ctx, fmt.Sprintf("0.0.0.0:%d", pagePort))
	if err != nil {
		return err
	}
	go accept(pages, page)
	page := s.next()
	if err := s.route(ctx, page); err != nil {
		return err
	}
	programs, err := b.startRouters(ctx, r, dir, nginx, page)
	defer func() {
		for _, p := range programs {
			p.Stop()
		}
	}()
	if err != nil {
		return err
	}
	release, err := keepOff(0)
	if err != nil {
		return err
	}
	defer release()
	sides := figure.Sides{figure.Upstream, figure.Ours}
	for i := range b.runs + 1 { // the first warms up
		for _, side := range sides.InRun(i) {
			took, err := r.ask(ctx, ports[side], b.load)
			if err != nil {
				return fmt.Errorf("%s: %w", side, err)
			}
			if i > 0 {
				const what = "HTTP on one core, our router beside nginx: "
				b.table.Add(side, figure.Figure{Name: what + "requests", Unit: "/s", AtLeast: 0.7}, float64(len(took))/b.load.Seconds())
				b.latency(side, what+"time", 0, took)
			}
		}
	}
	return nil
}

var ports = map[figure.Side]uint16{figure.Upstream: nginxPort, figure.Ours: routerPort}

// route makes an Ingress to a Service with one endpoint.
func (s *server) route(ctx context.Context, page netip.Addr) error {
	if _, err := s.client.NetworkingV1().IngressClasses().Create(ctx, router.Class(), metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("making a class of Ingresses: %w", err)
	}
	const name = "page"
	if _, err := s.add(ctx, name, page); err != nil {
		return err
	}
	endpoints := slice(name, page)
	endpoints.Ports[0].Port = new(int32(pagePort))
	if _, err := s.client.DiscoveryV1().EndpointSlices(namespace).Update(ctx, endpoints, metav1.UpdateOptions{}); err != nil {
		return err
	}
	_, err := s.client.NetworkingV1().Ingresses(namespace).Create(ctx, &networkingv1.Ingress{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: networkingv1.IngressSpec{Rules: []networkingv1.IngressRule{{Host: host, IngressRuleValue: networkingv1.IngressRuleValue{
			HTTP: &networkingv1.HTTPIngressRuleValue{Paths: []networkingv1.HTTPIngressPath{{
				Path: "/", PathType: new(networkingv1.PathTypePrefix),
				Backend: networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: name, Port: networkingv1.ServiceBackendPort{Number: servicePort}}},
			}}},
		}}}},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("making an Ingress: %w", err)
	}
	return nil
}

// host is whose page is asked for.
const host = "page.example"

// nginxConfig is what is recommended for a proxy: connections to the server are kept.
const nginxConfig = `daemon off; worker_processes 1; pid %[1]s/nginx.pid; error_log %[1]s/nginx.err;
events { worker_connections 1024; }
http {
  access_log off; client_body_temp_path %[1]s/b; proxy_temp_path %[1]s/p; fastcgi_temp_path %[1]s/f; uwsgi_temp_path %[1]s/u; scgi_temp_path %[1]s/s;
  keepalive_requests 1000000000;
  upstream page { server %[2]s; keepalive %[3]d; keepalive_requests 1000000000; }
  server {
    listen %[4]d; server_name %[5]s;
    location / { proxy_pass http://page; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Host $host;
      proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for; proxy_set_header X-Forwarded-Proto $scheme; }
  }
}
`

// startRouters starts both on the first core, and waits until the page is reached through each.
func (b *bench) startRouters(ctx context.Context, r *room, dir, nginx string, page netip.Addr) (all []*program.Program, err error) {
	nsenter, err := exec.LookPath("nsenter")
	if err != nil {
		return nil, err
	}
	own, err := os.Executable()
	if err != nil {
		return nil, err
	}
	config := filepath.Join(dir, "nginx.conf")
	text := fmt.Sprintf(nginxConfig, dir, netip.AddrPortFrom(page, pagePort), connections, nginxPort, host)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, err
	}
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if err := b.identity.Kubeconfig(kubeconfig, r.api, "admin", "system:masters"); err != nil {
		return nil, err
	}
	for side, command := range map[figure.Side][]string{
		figure.Upstream: {nginx, "-c", config, "-e", filepath.Join(dir, "nginx.err"), "-g", "user root;"},
		figure.Ours:     {own, routerCommand, "--kubeconfig=" + kubeconfig},
	} {
		p, err := program.Start(dir, nsenter, side.String(), append([]string{"--net=" + r.path, "taskset", "--cpu-list", "0"}, command...)...)
		if err != nil {
			return all, err
		}
		all = append(all, p)
		if err := p.Await(ctx, 20*time.Millisecond, func(ctx context.Context) error {
			_, err := r.ask(ctx, ports[side], 0)
			return err
		}); err != nil {
			return all, err
		}
	}
	return all, nil
}

// serveRouter runs our router, and nothing else, in this process.
func serveRouter(ctx context.Context) error {
	set := flag.NewFlagSet(routerCommand, flag.ContinueOnError)
	kubeconfig := set.String("kubeconfig", "", "how to reach the API server")
	if err := set.Parse(os.Args[2:]); err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return err
	}
	r, err := router.New(router.Config{REST: config, Recorder: &record.FakeRecorder{}, Address: nodeIP, HTTPPort: routerPort, HTTPSPort: routerPort + 1})
	if err != nil {
		return err
	}
	go heap.Manage(ctx, heap.ServerRoom())
	return r.Start(ctx)
}

// keepOff lets this process's threads run on all cores but one, until release is called.
func keepOff(core int) (release func(), err error) {
	var before, now unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return nil, err
	}
	now = before
	if now.Clear(core); now.Count() == 0 {
		return nil, errors.New("there is one core only: clients would take of what the router has")
	}
	set := func(cores *unix.CPUSet) error {
		tasks, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return err
		}
		for _, t := range tasks {
			id, err := strconv.Atoi(t.Name())
			if err != nil {
				return err
			}
			if err := unix.SchedSetaffinity(id, cores); err != nil && !errors.Is(err, unix.ESRCH) {
				return err
			}
		}
		return nil
	}
	return func() { _ = set(&before) }, set(&now)
}

// body is what a page has.
var body = bytes.Repeat([]byte("x"), 1024)

// page answers requests that have no body, as quickly as can be: it is the routers that are measured.
func page(c net.Conn) {
	defer c.Close()
	in := bufio.NewReader(c)
	answer := append(fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n", len(body)), body...)
	for {
		if _, err := header(in); err != nil {
			return
		}
		if _, err := c.Write(answer); err != nil {
			return
		}
	}
}

// header reads to the empty line, and returns the length that it says the body has.
func header(in *bufio.Reader) (length int, err error) {
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return 0, err
		}
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			return length, nil
		}
		if name, value, _ := bytes.Cut(line, []byte(":")); bytes.EqualFold(name, []byte("Content-Length")) {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return 0, err
			}
		}
	}
}

// ask sends requests on all connections for some time, at least one on each, and returns how long each took.
func (r *room) ask(ctx context.Context, port uint16, long time.Duration) ([]time.Duration, error) {
	end := time.Now().Add(long)
	var mu sync.Mutex
	var took []time.Duration
	var failed error
	var all sync.WaitGroup
	for range connections {
		all.Go(func() {
			own, err := r.askOn(ctx, port, end)
			mu.Lock()
			defer mu.Unlock()
			took, failed = append(took, own...), errors.Join(failed, err)
		})
	}
	all.Wait()
	return took, failed
}

// askOn sends one request after the other on a connection.
func (r *room) askOn(ctx context.Context, port uint16, end time.Time) (took []time.Duration, err error) {
	c, err := r.dial(ctx, netip.AddrPortFrom(nodeIP, port))
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if err := c.SetDeadline(end.Add(10 * time.Second)); err != nil {
		return nil, err
	}
	in := bufio.NewReader(c)
	request := []byte("GET / HTTP/1.1\r\nHost: " + host + "\r\nUser-Agent: bench\r\n\r\n")
	for first := true; first || time.Now().Before(end); first = false {
		begun := time.Now()
		if _, err := c.Write(request); err != nil {
			return took, err
		}
		status, err := in.ReadSlice('\n')
		if err != nil {
			return took, err
		}
		if !bytes.Contains(status, []byte(" 200 ")) {
			return took, fmt.Errorf("the answer is %q", status)
		}
		length, err := header(in)
		if err != nil {
			return took, err
		}
		if length != len(body) {
			return took, fmt.Errorf("the answer has %d bytes, want %d", length, len(body))
		}
		if _, err := io.CopyN(io.Discard, in, int64(length)); err != nil {
			return took, err
		}
		took = append(took, time.Since(begun))
	}
	return took, nil
}
