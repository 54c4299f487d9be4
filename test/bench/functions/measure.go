// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "minik8s.io/minik8s/pkg/addons/apis/functions/v1alpha1"
	"minik8s.io/minik8s/test/bench/alone"
	"minik8s.io/minik8s/test/bench/figure"
	"minik8s.io/minik8s/test/program"
)

const (
	namespace = "default"
	code      = "import time\ndef main(params):\n    if 'sleep' in params:\n        time.sleep(params['sleep'])\n    return params\n"
	look      = 20 * time.Millisecond
	patience  = 2 * time.Minute
)

// function makes a function, waits until it has been seen to work, and returns its URL.
func (b *bench) function(ctx context.Context, name string, spec v1alpha1.FunctionSpec) (string, error) {
	spec.Runtime, spec.Source = v1alpha1.Python, v1alpha1.Source{Inline: code}
	fn := &v1alpha1.Function{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: spec}
	if err := b.client.Create(ctx, fn); err != nil {
		return "", err
	}
	err := wait.PollUntilContextTimeout(ctx, look, patience, true, func(ctx context.Context) (bool, error) {
		err := b.client.Get(ctx, client.ObjectKeyFromObject(fn), fn)
		return meta.IsStatusConditionTrue(fn.Status.Conditions, v1alpha1.ConditionReady), err
	})
	if err != nil {
		return "", fmt.Errorf("function %s: %w: %v", name, err, fn.Status.Conditions)
	}
	var s corev1.Service
	if err := b.client.Get(ctx, client.ObjectKeyFromObject(fn), &s); err != nil {
		return "", err
	}
	return "http://" + s.Spec.ClusterIP, nil
}

// pods returns the pods of a function, or with the pool's label, that of which.
func (b *bench) pods(ctx context.Context, label string) ([]corev1.Pod, error) {
	key, value, _ := strings.Cut(label, "=")
	var pods corev1.PodList
	err := b.client.List(ctx, &pods, client.InNamespace(namespace), client.MatchingLabels{key: value})
	return pods.Items, err
}

// await waits until a number of pods run.
func (b *bench) await(ctx context.Context, label string, n int) error {
	have := 0
	err := wait.PollUntilContextTimeout(ctx, look, patience, true, func(ctx context.Context) (bool, error) {
		pods, err := b.pods(ctx, label)
		have = len(pods)
		for i := range pods {
			if n > 0 && pods[i].Status.Phase != corev1.PodRunning {
				return false, err
			}
		}
		return have == n, err
	})
	if err != nil {
		return fmt.Errorf("waiting for %d pods with %s, there are %d: %w", n, label, have, err)
	}
	return nil
}

func call(ctx context.Context, h *http.Client, url, body string) (time.Duration, error) {
	begin := time.Now()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	resp, err := h.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answers %s: %s", url, resp.Status, data)
	}
	return time.Since(begin), err
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// pool says how many pods are kept ready.
func (b *bench) pool(ctx context.Context, n int) error {
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "minik8s-functions"}, Data: map[string]string{"pool.python": strconv.Itoa(n)}}
	err := b.client.Create(ctx, cm)
	if apierrors.IsAlreadyExists(err) {
		err = b.client.Update(ctx, cm)
	}
	return err
}

// firstRequest measures the first request of a function without pods.
func (b *bench) firstRequest(ctx context.Context, name, url string, f figure.Figure) error {
	if err := b.await(ctx, "functions.minik8s.io/function="+name, 0); err != nil {
		return err
	}
	took, err := call(ctx, &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, url, "{}")
	b.table.Add(figure.Ours, f, ms(took))
	return err
}

// cold measures starts in a container of its own, beside those of the same containers by Docker alone, until the server in them listens.
// Requests for resources keep the functions from the pool.
func (b *bench) cold(ctx context.Context) error {
	if err := b.pool(ctx, 0); err != nil {
		return err
	}
	requests := corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("16Mi")}}
	if _, err := b.function(ctx, "copied", v1alpha1.FunctionSpec{MinScale: 1, Resources: requests}); err != nil {
		return err
	}
	pods, err := b.pods(ctx, "functions.minik8s.io/function=copied")
	if err != nil {
		return err
	}
	if len(pods) != 1 {
		return fmt.Errorf("function copied has %d pods, want 1", len(pods))
	}
	copies, err := b.docker.Copies(ctx, pods[0].Name)
	if err != nil {
		return err
	}
	url, err := b.function(ctx, "cold", v1alpha1.FunctionSpec{IdleSeconds: 1, MaxScale: 20, Resources: requests})
	if err != nil {
		return err
	}
	f := figure.Figure{Name: "first request, a new container, median", Unit: "ms", Within: 250, AtMost: 1.3}
	for range b.starts {
		if err := errors.Join(b.firstRequest(ctx, "cold", url, f), b.ended(ctx, "cold-"), b.copy(ctx, copies, f)); err != nil {
			return err
		}
	}
	return nil
}

// ended waits until the engine has nothing of pods any more whose names begin so: what is measured next has it to itself.
func (b *bench) ended(ctx context.Context, prefix string) error {
	return wait.PollUntilContextTimeout(ctx, look, patience, true, func(ctx context.Context) (bool, error) {
		n, err := b.docker.Left(ctx, b.cluster.Name, prefix)
		return n == 0, err
	})
}

// copy measures how long Docker alone takes until the server of a copied pod listens.
func (b *bench) copy(ctx context.Context, copies *alone.Copies, f figure.Figure) (err error) {
	var pod alone.Pod
	defer func() { err = errors.Join(err, copies.Remove(ctx, pod)) }()
	begin := time.Now()
	if err := copies.Start(ctx, &pod); err != nil {
		return err
	}
	err = wait.PollUntilContextTimeout(ctx, time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", net.JoinHostPort(pod.Address.String(), "8080"))
		if err != nil {
			return false, nil //nolint:nilerr // it is not there yet
		}
		return true, conn.Close()
	})
	b.table.Add(figure.Upstream, f, ms(time.Since(begin)))
	return err
}

// pooled measures starts from the pool.
func (b *bench) pooled(ctx context.Context) error {
	if err := b.pool(ctx, 2); err != nil {
		return err
	}
	url, err := b.function(ctx, "pooled", v1alpha1.FunctionSpec{IdleSeconds: 1, MaxScale: 20})
	if err != nil {
		return err
	}
	f := figure.Figure{Name: "first request, from the pool, median", Unit: "ms", Within: 40}
	for range b.starts {
		if err := errors.Join(b.await(ctx, "functions.minik8s.io/pool=python", 2), b.firstRequest(ctx, "pooled", url, f)); err != nil {
			return err
		}
	}
	return nil
}

// burst measures how long twenty pods from the pool take for as many requests at the same time.
func (b *bench) burst(ctx context.Context) error {
	const n = 20
	if err := b.pool(ctx, n); err != nil {
		return err
	}
	url, err := b.function(ctx, "burst", v1alpha1.FunctionSpec{IdleSeconds: 1, MaxScale: n, Concurrency: 1})
	if err != nil {
		return err
	}
	if err := errors.Join(b.await(ctx, "functions.minik8s.io/function=burst", 0), b.await(ctx, "functions.minik8s.io/pool=python", n)); err != nil {
		return err
	}
	begin := time.Now()
	var group sync.WaitGroup
	failed := make([]error, n)
	for i := range n {
		group.Go(func() { _, failed[i] = call(ctx, http.DefaultClient, url, `{"sleep": 0.5}`) })
	}
	group.Wait()
	b.table.Add(figure.Ours, figure.Figure{Name: "0 to 20 pods from the pool", Unit: "ms", Within: 1500}, ms(time.Since(begin)-500*time.Millisecond))
	return errors.Join(append(failed, b.pool(ctx, 0))...)
}

// warm measures calls of a pod that runs, by its Service and directly, and as many as clients can do.
func (b *bench) warm(ctx context.Context) error {
	if err := b.pool(ctx, 0); err != nil {
		return err
	}
	for _, label := range []string{"functions.minik8s.io/pool=python", "functions.minik8s.io/function=burst"} { // their end takes the processor, too
		if err := b.await(ctx, label, 0); err != nil {
			return err
		}
	}
	url, err := b.function(ctx, "warm", v1alpha1.FunctionSpec{MinScale: 1, MaxScale: 1, Concurrency: 1000})
	if err != nil {
		return err
	}
	if err := b.await(ctx, "functions.minik8s.io/function=warm", 1); err != nil {
		return err
	}
	pods, err := b.pods(ctx, "functions.minik8s.io/function=warm")
	if err != nil {
		return err
	}
	h := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	var took [2][]time.Duration
	for range b.calls { // in turns: what disturbs one disturbs the other
		for i, at := range []string{url, "http://" + pods[0].Status.PodIP + ":8080"} {
			d, err := call(ctx, h, at, `{"x": 1}`)
			if err != nil {
				return err
			}
			took[i] = append(took[i], d)
		}
	}
	ours, direct := figure.Percentile(took[0], 0.99), figure.Percentile(took[1], 0.99)
	b.table.Add(figure.Ours, figure.Figure{Name: "a call, beyond one of the pod itself, median", Unit: "ms"}, ms(figure.Median(took[0])-figure.Median(took[1])))
	b.table.Add(figure.Ours, figure.Figure{Name: "a call, beyond one of the pod itself, 99 %", Unit: "ms", Within: 2}, ms(ours-direct))
	return b.throughput(ctx, h, url)
}

// throughput measures how many calls the process of the cluster passes on with the time of one core.
func (b *bench) throughput(ctx context.Context, h *http.Client, url string) error {
	s, err := b.cluster.Status(ctx)
	if err != nil {
		return err
	}
	before, err := program.UsageOf(s.Pid)
	if err != nil {
		return err
	}
	var calls atomic.Int64
	end := time.Now().Add(b.load)
	var group sync.WaitGroup
	var failed atomic.Pointer[error]
	for range 16 {
		group.Go(func() {
			for time.Now().Before(end) {
				if _, err := call(ctx, h, url, `{"x": 1}`); err != nil {
					failed.Store(&err)
					return
				}
				calls.Add(1)
			}
		})
	}
	group.Wait()
	after, err := program.UsageOf(s.Pid)
	if err != nil {
		return err
	}
	if f := failed.Load(); f != nil {
		return *f
	}
	n := float64(calls.Load())
	b.table.Add(figure.Ours, figure.Figure{Name: "calls, of one pod", Unit: "1/s"}, n/b.load.Seconds())
	b.table.Add(figure.Ours, figure.Figure{Name: "calls passed on with the time of one core", Unit: "1/s", NotBelow: 5000}, n/(after.Processor-before.Processor).Seconds())
	return nil
}

// unused measures what functions take that nobody calls.
func (b *bench) unused(ctx context.Context) error {
	s, err := b.cluster.Status(ctx)
	if err != nil {
		return err
	}
	before, err := program.UsageOf(s.Pid)
	if err != nil {
		return err
	}
	for i := range b.idle {
		if _, err := b.function(ctx, fmt.Sprintf("idle-%d", i), v1alpha1.FunctionSpec{IdleSeconds: 1}); err != nil {
			return err
		}
	}
	for i := range b.idle {
		if err := b.await(ctx, fmt.Sprintf("functions.minik8s.io/function=idle-%d", i), 0); err != nil {
			return err
		}
	}
	after, err := program.UsageOf(s.Pid)
	if err != nil {
		return err
	}
	b.table.Add(figure.Ours, figure.Figure{Name: "memory of the process, for each idle function", Unit: "MiB", Within: 1},
		max(0, float64(after.Resident-before.Resident)/float64(b.idle)/(1<<20)))
	return nil
}
