// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	nodes "minik8s.io/minik8s/pkg/node"
)

// ordersSocket is where the process of a cluster takes orders about its nodes, from whoever may open its data directory.
const ordersSocket = "orders.sock"

// refusal is the answer to an order that is not carried out.
type refusal struct {
	Error string `json:"error"`
}

// listen opens the socket, and returns what serves it until ctx ends.
func (f *fleet) listen() (serve func(context.Context) error, err error) {
	l, err := listenIn(f.config.DataDir, ordersSocket)
	if err != nil {
		return nil, fmt.Errorf("opening the socket for orders about nodes: %w", err)
	}
	mux := http.NewServeMux()
	order := func(carryOut func(*http.Request, nodes.Node) (nodes.Node, error)) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			var n nodes.Node
			err := json.NewDecoder(io.LimitReader(r.Body, 1<<16)).Decode(&n)
			if err == nil {
				n, err = carryOut(r, n)
			}
			var answer any = n
			if err != nil {
				answer = refusal{err.Error()}
				w.WriteHeader(http.StatusConflict)
			}
			_ = json.NewEncoder(w).Encode(answer) // whoever asked has gone
		}
	}
	mux.HandleFunc("POST /add", order(func(r *http.Request, n nodes.Node) (nodes.Node, error) { return f.add(r.Context(), n) }))
	mux.HandleFunc("POST /stop", order(func(r *http.Request, n nodes.Node) (nodes.Node, error) { return f.stop(r.Context(), n.Name) }))
	mux.HandleFunc("POST /start", order(func(r *http.Request, n nodes.Node) (nodes.Node, error) { return f.resumeOne(r.Context(), n.Name) }))
	mux.HandleFunc("POST /remove", order(func(r *http.Request, n nodes.Node) (nodes.Node, error) {
		return f.remove(r.Context(), n.Name, r.URL.Query().Get("force") == "true")
	}))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	return func(ctx context.Context) error {
		server.BaseContext = func(net.Listener) context.Context { return ctx }
		stop := context.AfterFunc(ctx, func() { _ = server.Close() })
		defer stop()
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("taking orders about nodes: %w", err)
		}
		return nil
	}, nil
}

// listenIn listens on a socket in a folder, in place of what was left by that name. Its path may be longer than an address.
func listenIn(dir, name string) (net.Listener, error) {
	root, err := os.OpenFile(dir, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: handle(root, name)})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false) // by a path that means something else by then
	if err := os.Chmod(filepath.Join(dir, name), 0o600); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

func handle(dir *os.File, name string) string {
	return filepath.Join("/proc/self/fd", strconv.Itoa(int(dir.Fd())), name)
}

// Order asks the process of a cluster to do something with a node of its machine: "add", "remove", "stop" or "start". It returns the node
// as it is then.
func Order(ctx context.Context, c Config, what string, n nodes.Node, force bool) (nodes.Node, error) {
	if c.NodeCount() == 0 {
		return n, &Problem{Cause: fmt.Sprintf("cluster %q is a control plane without nodes", c.Name), Remedy: "start it with --nodes 1 or more"}
	}
	body, err := json.Marshal(n)
	if err != nil {
		return n, err
	}
	url := "http://minik8s/" + what
	if force {
		url += "?force=true"
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return n, err
	}
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dialIn(ctx, c.DataDir, ordersSocket) }}
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport}).Do(request)
	if errors.Is(err, unix.ECONNREFUSED) || errors.Is(err, fs.ErrNotExist) {
		return n, &Problem{Cause: fmt.Sprintf("cluster %q is not running", c.Name), Remedy: "start it with: minik8s up --name " + c.Name, Err: err}
	}
	if err != nil {
		return n, fmt.Errorf("asking the cluster's process: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		var r refusal
		if err := json.NewDecoder(response.Body).Decode(&r); err != nil || r.Error == "" {
			return n, fmt.Errorf("the cluster's process answers %s", response.Status)
		}
		return n, errors.New(r.Error)
	}
	return n, json.NewDecoder(response.Body).Decode(&n)
}

func dialIn(ctx context.Context, dir, name string) (net.Conn, error) {
	root, err := os.OpenFile(dir, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return (&net.Dialer{}).DialContext(ctx, "unix", handle(root, name))
}

// Nodes returns the nodes of a cluster that are on this machine, the first of them, too.
func Nodes(c Config) ([]nodes.Node, error) {
	list, err := nodesDir(c).List()
	if c.NodeCount() > 0 {
		list = append([]nodes.Node{{Name: c.Kubelet.NodeName, State: nodes.Running}}, list...)
	}
	return list, err
}

// AwaitNode waits until a node that was started at a time is Ready.
func AwaitNode(ctx context.Context, c Config, name string, since time.Time) error {
	config, err := Admin(c)
	if err != nil {
		return err
	}
	return waitSteps(ctx, config, []Step{nodeStep(name, since)}, func(string) {})
}
