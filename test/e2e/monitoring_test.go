// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestMonitoring runs examples/monitoring: Debian's Prometheus finds every part, by the rights that the manifest gives it, and knows an
// answer to everything that the dashboard asks.
func TestMonitoring(t *testing.T) {
	k := shared(t)
	example := filepath.Join(suite.root, "examples", "monitoring")
	if out, err := exec.CommandContext(t.Context(), filepath.Join(example, "build")).CombinedOutput(); err != nil {
		t.Fatalf("building the image: %v\n%s", err, out)
	}
	manifest := filepath.Join(example, "prometheus.yaml")
	k.kubectl(t, "apply", "-f", manifest)
	t.Cleanup(func() {
		if r, err := k.run(context.Background(), "delete", "-f", manifest, "--timeout=60s"); err != nil || r.Code != 0 {
			t.Errorf("deleting the example: %v\n%s", err, r)
		}
	})
	eventually(t, time.Minute, "Prometheus", k.ready("monitoring", "app=prometheus", 1))

	t.Run("targets", func(t *testing.T) {
		eventually(t, time.Minute, "every part", func(ctx context.Context) error { return k.seenByPrometheus(ctx, 9) })
	})
	t.Run("dashboard", func(t *testing.T) {
		expressions, err := dashboard(filepath.Join(example, "dashboard.json"))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range expressions {
			// A rate is known after two looks.
			eventually(t, time.Minute, e, func(ctx context.Context) error {
				var answer struct{ Result []json.RawMessage }
				if err := k.prometheus(ctx, "query?query="+url.QueryEscape(e), &answer); err != nil {
					return err
				}
				if len(answer.Result) == 0 {
					return errors.New("no answer")
				}
				return nil
			})
		}
	})
}

// seenByPrometheus checks that there are so many targets, and that all of them answer.
func (k *kube) seenByPrometheus(ctx context.Context, want int) error {
	var answer struct {
		ActiveTargets []struct{ ScrapePool, ScrapeURL, Health, LastError string }
	}
	if err := k.prometheus(ctx, "targets", &answer); err != nil {
		return err
	}
	if len(answer.ActiveTargets) != want {
		return fmt.Errorf("%d targets, want %d", len(answer.ActiveTargets), want)
	}
	for _, target := range answer.ActiveTargets {
		if target.Health != "up" {
			return fmt.Errorf("%s (%s) is %s: %s", target.ScrapePool, target.ScrapeURL, target.Health, target.LastError)
		}
	}
	return nil
}

// prometheus asks the API of Prometheus through the API server's proxy.
func (k *kube) prometheus(ctx context.Context, query string, to any) error {
	r, err := k.run(ctx, "get", "--raw", "/api/v1/namespaces/monitoring/services/prometheus:http/proxy/api/v1/"+query)
	if err != nil {
		return err
	}
	if r.Code != 0 {
		return fmt.Errorf("asking Prometheus: %s", r)
	}
	answer := struct {
		Status string
		Data   any
	}{Data: to}
	if err := json.Unmarshal([]byte(r.Stdout), &answer); err != nil {
		return fmt.Errorf("Prometheus answers %s: %w", r.Stdout, err)
	}
	if answer.Status != "success" {
		return fmt.Errorf("Prometheus answers %s", r.Stdout)
	}
	return nil
}

// dashboard lists the expressions of a dashboard of Grafana.
func dashboard(path string) ([]string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var d struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(data, &d); err != nil {
		return nil, err
	}
	var out []string
	for _, p := range d.Panels {
		if len(p.Targets) == 0 {
			return nil, fmt.Errorf("panel %q asks nothing", strings.TrimSpace(p.Title))
		}
		for _, target := range p.Targets {
			out = append(out, target.Expr)
		}
	}
	return out, nil
}
