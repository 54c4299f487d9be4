// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// kubeletPort is used for nodes that report none.
	kubeletPort = 10250
	// maxAnswer bounds what a kubelet may answer, in bytes: a node of many pods tells less than a hundredth of it.
	maxAnswer = 64 << 20
)

// location is the URL of what a kubelet counts; port may be 0.
func location(address string, port int32) string {
	u := url.URL{Scheme: "https", Host: net.JoinHostPort(address, strconv.Itoa(int(cmp.Or(port, kubeletPort)))), Path: "/metrics/resource"}
	return u.String()
}

// scrape asks the kubelet of a node.
func (c *Collector) scrape(ctx context.Context, node *corev1.Node) (sample, error) {
	where, err := c.kubeletURL(node)
	if err != nil {
		return sample{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, where, nil)
	if err != nil {
		return sample{}, fmt.Errorf("asking the kubelet: %w", err)
	}
	now := c.cfg.Clock.Now()
	response, err := c.cfg.Kubelets.RoundTrip(request) // which follows no redirects
	if err != nil {
		return sample{}, fmt.Errorf("asking the kubelet: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return sample{}, fmt.Errorf("asking the kubelet at %s: %s", where, response.Status)
	}
	s, err := decode(io.LimitReader(response.Body, maxAnswer), now)
	if err != nil {
		return sample{}, fmt.Errorf("reading the kubelet's answer: %w", err)
	}
	return s, nil
}

// decode reads what a kubelet tells at /metrics/resource (KEP-727). What has no time of its own is of now.
func decode(text io.Reader, now time.Time) (sample, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(text)
	if err != nil {
		return sample{}, err
	}
	if failed := families["resource_scrape_error"].GetMetric(); len(failed) > 0 && value(failed[0]) != 0 {
		return sample{}, errors.New("the kubelet could not measure")
	}
	s := sample{at: now, pods: map[types.NamespacedName]map[string]point{}}
	for _, m := range families["node_cpu_usage_seconds_total"].GetMetric() {
		s.node.setCPU(m, now)
	}
	for _, m := range families["node_memory_working_set_bytes"].GetMetric() {
		s.node.setMemory(m)
	}
	for name, set := range map[string]func(*point, *dto.Metric){
		"container_cpu_usage_seconds_total":  func(p *point, m *dto.Metric) { p.setCPU(m, now) },
		"container_memory_working_set_bytes": (*point).setMemory,
		"container_start_time_seconds":       func(p *point, m *dto.Metric) { p.started = seconds(value(m)) },
	} {
		for _, m := range families[name].GetMetric() {
			pod, container := labels(m)
			containers := s.pods[pod]
			if containers == nil {
				containers = map[string]point{}
				s.pods[pod] = containers
			}
			p := containers[container]
			set(&p, m)
			containers[container] = p
		}
	}
	return s, nil
}

func (p *point) setCPU(m *dto.Metric, now time.Time) {
	p.cpu, p.at, p.hasCPU = time.Duration(value(m)*float64(time.Second)), now, true
	if m.TimestampMs != nil {
		p.at = time.UnixMilli(m.GetTimestampMs())
	}
}

func (p *point) setMemory(m *dto.Metric) { p.memory, p.hasMemory = int64(value(m)), true }

// value is that of a metric of whatever type: a counter, a gauge, or one of which that is not said.
func value(m *dto.Metric) float64 {
	return m.GetCounter().GetValue() + m.GetGauge().GetValue() + m.GetUntyped().GetValue()
}

func seconds(unix float64) time.Time { return time.UnixMilli(int64(unix * 1000)) }

func labels(m *dto.Metric) (pod types.NamespacedName, container string) {
	for _, l := range m.GetLabel() {
		switch l.GetName() {
		case "namespace":
			pod.Namespace = l.GetValue()
		case "pod":
			pod.Name = l.GetValue()
		case "container":
			container = l.GetValue()
		}
	}
	return pod, container
}
