// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Command targets tells Prometheus which kubelets there are, by the form that it asks for over HTTP (http_sd_configs): Debian's
// Prometheus is built without what asks Kubernetes itself. Touch it when Prometheus shall know more of nodes.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// address is where Prometheus asks, which is a container of the same pod.
const address = "127.0.0.1:9091"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx); err != nil {
		log.Fatal(err)
	}
}

func serve(ctx context.Context) error {
	config, err := rest.InClusterConfig()
	if err != nil {
		return err
	}
	config.Timeout = 5 * time.Second
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /nodes", func(w http.ResponseWriter, r *http.Request) {
		nodes, err := client.CoreV1().Nodes().List(r.Context(), metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable) // Prometheus keeps what it was told before
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(kubelets(nodes.Items))
	})
	server := &http.Server{Addr: address, Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving: %w", err)
	}
	return nil
}

// group is some targets, and what Prometheus writes on all that they tell.
type group struct {
	Targets []string          `json:"targets"`
	Labels  map[string]string `json:"labels"`
}

// kubelets are the addresses of the nodes' kubelets.
func kubelets(nodes []corev1.Node) []group {
	out := []group{}
	for _, n := range nodes {
		for _, a := range n.Status.Addresses {
			if a.Type == corev1.NodeInternalIP {
				port := strconv.Itoa(int(n.Status.DaemonEndpoints.KubeletEndpoint.Port))
				out = append(out, group{Targets: []string{net.JoinHostPort(a.Address, port)}, Labels: map[string]string{"node": n.Name}})
				break
			}
		}
	}
	return out
}
