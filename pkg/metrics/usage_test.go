// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
)

var epoch = time.Unix(1_000_000_000, 0)

func after(seconds float64) time.Time {
	return epoch.Add(time.Duration(seconds * float64(time.Second)))
}

// read is a point at a second, of what started at another, that has used seconds of CPU.
func read(at, started, cpu float64) point {
	return point{at: after(at), started: after(started), cpu: time.Duration(cpu * float64(time.Second)), memory: 7, hasCPU: true, hasMemory: true}
}

func samplesOf(points ...point) []sample {
	var all []sample
	for _, p := range points {
		all = append(all, sample{at: p.at, node: p})
	}
	return all
}

func TestCompare(t *testing.T) {
	unstarted := func(at, cpu float64) point {
		p := read(at, 0, cpu)
		p.started = time.Time{}
		return p
	}
	tests := []struct {
		name    string
		history []sample
		window  time.Duration // 0: nothing is known
		cpu     float64
	}{
		{name: "nothing"},
		{name: "one sample of a node", history: samplesOf(unstarted(100, 5))},
		{name: "two samples of a node", history: samplesOf(unstarted(100, 5), unstarted(160, 35)), window: 60 * time.Second, cpu: 0.5},
		{name: "two that are too near", history: samplesOf(unstarted(100, 5), unstarted(101, 6))},
		{name: "the newest that is old enough", history: samplesOf(unstarted(100, 0), unstarted(160, 30), unstarted(165, 30), unstarted(171, 41)), window: 11 * time.Second, cpu: 1},
		{name: "the oldest, if none is", history: samplesOf(unstarted(100, 0), unstarted(103, 3), unstarted(106, 3)), window: 6 * time.Second, cpu: 0.5},
		{name: "the counter began anew", history: samplesOf(unstarted(100, 50), unstarted(160, 2))},
		{name: "a new container, too young", history: samplesOf(read(109, 100, 9))},
		{name: "a new container, since its start", history: samplesOf(read(112, 100, 6)), window: 12 * time.Second, cpu: 0.5},
		{name: "a new container of which there is a sample", history: samplesOf(read(102, 100, 0), read(108, 100, 3)), window: 6 * time.Second, cpu: 0.5},
		{name: "since its start is longer than since the sample", history: samplesOf(read(102, 100, 0), read(111, 100, 5.5)), window: 11 * time.Second, cpu: 0.5},
		{name: "an old container of which there is one sample", history: samplesOf(read(1000, 100, 9))},
		{name: "an old container that is looked at again soon", history: samplesOf(read(1000, 100, 9), read(1005, 100, 14)), window: 5 * time.Second, cpu: 1},
		{name: "a container that was started again", history: samplesOf(read(100, 0, 9), read(160, 140, 10)), window: 20 * time.Second, cpu: 0.5},
		{name: "and whose samples are of both", history: samplesOf(read(100, 0, 9), read(150, 140, 1), read(162, 140, 7)), window: 12 * time.Second, cpu: 0.5},
		{name: "without memory", history: samplesOf(unstarted(100, 5), point{at: after(160), hasCPU: true})},
		{name: "of no time at all", history: samplesOf(unstarted(100, 5), unstarted(100, 5))},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, ok := compare(test.history, func(s sample) point { return s.node })
			if ok != (test.window > 0) {
				t.Fatalf("known: %t, %+v", ok, got)
			}
			if !ok {
				return
			}
			want := usage{at: test.history[len(test.history)-1].at, window: test.window, cpu: test.cpu, memory: 7}
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(usage{})); diff != "" {
				t.Errorf("usage (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRemember(t *testing.T) {
	tests := []struct {
		name   string
		have   []float64
		at     float64
		remain []float64
	}{
		{"the first", nil, 0, []float64{0}},
		{"at rest two are kept", []float64{0, 60}, 120, []float64{60, 120}},
		{"one that is old enough for the next", []float64{0, 60, 65}, 70, []float64{60, 65, 70}},
		{"all that are younger", []float64{0, 5, 9}, 11, []float64{0, 5, 9, 11}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var history []sample
			for _, at := range test.have {
				history = append(history, sample{at: after(at)})
			}
			var got []float64
			for _, s := range remember(history, sample{at: after(test.at)}) {
				got = append(got, s.at.Sub(epoch).Seconds())
			}
			if diff := cmp.Diff(test.remain, got); diff != "" {
				t.Errorf("kept (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPodUsage_AllContainersOrNone(t *testing.T) {
	pod := types.NamespacedName{Namespace: "n", Name: "p"}
	history := []sample{
		{at: after(100), pods: map[types.NamespacedName]map[string]point{pod: {"b": read(100, 0, 10)}}},
		{at: after(115), pods: map[types.NamespacedName]map[string]point{pod: {"b": read(115, 0, 25), "a": read(115, 110, 0)}}},
	}
	if got, ok := podUsage(history, pod); ok {
		t.Errorf("a container of five seconds is told: %+v", got)
	}
	history[1].pods[pod]["a"] = read(115, 105, 5)
	got, ok := podUsage(history, pod)
	if !ok || len(got) != 2 || got[0].name != "a" || got[0].cpu != 0.5 || got[1].name != "b" || got[1].cpu != 1 {
		t.Errorf("got %+v, %t", got, ok)
	}
	if _, ok := podUsage(history, types.NamespacedName{Namespace: "n", Name: "q"}); ok {
		t.Error("a pod that the node does not know is told of")
	}
}

func TestUsage_Resources(t *testing.T) {
	list := usage{cpu: 0.0449622691, memory: 3048 << 10}.resources()
	if cpu, memory := list.Cpu().String(), list.Memory().String(); cpu != "44962269n" || memory != "3048Ki" {
		t.Errorf("cpu %s, memory %s", cpu, memory)
	}
}

const answer = `# HELP container_cpu_usage_seconds_total Cumulative cpu time consumed by the container in core-seconds
# TYPE container_cpu_usage_seconds_total counter
container_cpu_usage_seconds_total{container="c",namespace="n",pod="p"} 1.5 1000000000500
container_cpu_usage_seconds_total{container="d",namespace="n",pod="p"} 2
# TYPE container_memory_working_set_bytes gauge
container_memory_working_set_bytes{container="c",namespace="n",pod="p"} 1.048576e+06 1000000000500
# TYPE container_start_time_seconds gauge
container_start_time_seconds{container="c",namespace="n",pod="p"} 9.999999e+08
# TYPE node_cpu_usage_seconds_total counter
node_cpu_usage_seconds_total 100.25 1000000000500
# TYPE node_memory_working_set_bytes gauge
node_memory_working_set_bytes 2048 1000000000500
# TYPE resource_scrape_error gauge
resource_scrape_error 0
`

func TestDecode(t *testing.T) {
	got, err := decode(strings.NewReader(answer), epoch)
	if err != nil {
		t.Fatal(err)
	}
	pod := types.NamespacedName{Namespace: "n", Name: "p"}
	want := sample{
		at: epoch, node: point{at: after(0.5), cpu: 100250 * time.Millisecond, memory: 2048, hasCPU: true, hasMemory: true},
		pods: map[types.NamespacedName]map[string]point{pod: {
			"c": {at: after(0.5), started: after(-100), cpu: 1500 * time.Millisecond, memory: 1 << 20, hasCPU: true, hasMemory: true},
			"d": {at: epoch, cpu: 2 * time.Second, hasCPU: true},
		}},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(sample{}, point{})); diff != "" {
		t.Errorf("sample (-want +got):\n%s", diff)
	}
	for name, text := range map[string]string{
		"that failed": strings.Replace(answer, "resource_scrape_error 0", "resource_scrape_error 1", 1),
		"cut off":     answer[:len(answer)-2],
		"not text":    "{\"kind\": \"Status\"}",
	} {
		if _, err := decode(strings.NewReader(text), epoch); err == nil {
			t.Errorf("an answer %s is believed", name)
		}
	}
}
