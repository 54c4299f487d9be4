// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	netns "minik8s.io/minik8s/pkg/network/namespace"
	"minik8s.io/minik8s/test/bench/figure"
	"minik8s.io/minik8s/test/e2e/cluster"
)

// image is this program in an image that is made for the measurement.
const image = "minik8s.io/bench-network:1"

// fleet is a cluster with nodes on this machine.
type fleet struct {
	cluster.Cluster
	client kubernetes.Interface
	// nodes are their names; the first is the machine itself.
	nodes []string
}

// startFleet starts a cluster and returns how long that took.
func (b *bench) startFleet(ctx context.Context, name string, nodes int) (*fleet, time.Duration, error) {
	f := &fleet{Cluster: cluster.Cluster{Binary: b.minik8s, Name: "bench-" + name, DataDir: filepath.Join(b.dir, name)}}
	begin := time.Now()
	up, err := f.Up(ctx, fmt.Sprintf("--nodes=%d", nodes))
	took := time.Since(begin)
	if err != nil {
		return nil, 0, err
	}
	if _, f.client, err = cluster.Client(up.Kubeconfig); err != nil {
		return f, took, err
	}
	list, err := f.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return f, took, err
	}
	for _, n := range list.Items {
		f.nodes = append(f.nodes, n.Name)
	}
	slices.SortFunc(f.nodes, func(a, b string) int { return cmp.Compare(f.apart(a), f.apart(b)) })
	return f, took, nil
}

// netNS is the network namespace of a node that is not the machine itself.
func (f *fleet) netNS(node string) string { return filepath.Join(f.DataDir, "netns", node) }

// apart is 0 for the node that is the machine itself, else 1.
func (f *fleet) apart(node string) int {
	if _, err := os.Stat(f.netNS(node)); err != nil {
		return 0
	}
	return 1
}

// end removes the cluster; there may be none.
func (f *fleet) end(ctx context.Context) error {
	if f == nil {
		return nil
	}
	return f.Down(context.WithoutCancel(ctx), "--purge")
}

// pods measures what goes through between pods, beside two containers on Docker's bridge, and how soon a pod that has become ready is
// reached from another node.
func (b *bench) pods(ctx context.Context) (err error) {
	if err := b.buildImage(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, docker(context.WithoutCancel(ctx), nil, "image", "rm", image)) }()
	f, _, err := b.startFleet(ctx, "pods", 2)
	defer func() { err = errors.Join(err, f.end(ctx)) }()
	if err != nil {
		return err
	}
	if err := b.flows(ctx, f); err != nil {
		return err
	}
	return b.ready(ctx, f)
}

// buildImage makes an image of this program alone.
func (b *bench) buildImage(ctx context.Context) error {
	dir, err := os.MkdirTemp(b.dir, "image-")
	if err != nil {
		return err
	}
	own, err := os.Executable()
	if err != nil {
		return err
	}
	program, err := os.ReadFile(own)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "network"), program, 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "Dockerfile"), []byte("FROM scratch\nCOPY network /network\nENTRYPOINT [\"/network\"]\n"), 0o600); err != nil {
		return err
	}
	return docker(ctx, nil, "build", "--quiet", "--tag", image, dir)
}

// docker runs the client of that name, and writes what it prints, if somebody wants to know.
func docker(ctx context.Context, out *bytes.Buffer, args ...string) error {
	cmd := exec.CommandContext(ctx, "docker", args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if out != nil {
		cmd.Stdout = out
	}
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("docker %s: %w: %s", args[0], err, stderr.String())
	}
	return nil
}

// flows measures, in turns, what goes through Docker's bridge and what goes between pods in all ways.
func (b *bench) flows(ctx context.Context, f *fleet) error {
	const bridged = "minik8s-bench-peer"
	var address bytes.Buffer
	if err := docker(ctx, nil, "run", "--detach", "--rm", "--name", bridged, image, peerCommand); err != nil {
		return err
	}
	defer func() { _ = docker(context.WithoutCancel(ctx), nil, "rm", "--force", bridged) }()
	if err := docker(ctx, &address, "inspect", "--format", "{{.NetworkSettings.IPAddress}}", bridged); err != nil {
		return err
	}
	peer, err := f.start(ctx, "peer", f.nodes[0], peerCommand)
	if err != nil {
		return err
	}
	service, err := f.expose(ctx, "peer")
	if err != nil {
		return err
	}
	ways := []struct{ name, node, to string }{
		{"pod to pod", f.nodes[0], peer.Status.PodIP}, {"pod to Service", f.nodes[0], service},
		{"pod to pod on another node", f.nodes[1], peer.Status.PodIP}, {"pod to Service of another node", f.nodes[1], service},
	}
	for i := range b.runs {
		var out bytes.Buffer
		if err := docker(ctx, &out, "run", "--rm", image, sendCommand, strings.TrimSpace(address.String())); err != nil {
			return err
		}
		beside, err := read(out.Bytes())
		if err != nil {
			return err
		}
		for k, way := range ways {
			data, err := f.run(ctx, fmt.Sprintf("send-%d-%d", i, k), way.node, sendCommand, way.to)
			if err != nil {
				return err
			}
			own, err := read(data)
			if err != nil {
				return err
			}
			for side, flow := range map[figure.Side]flow{figure.Upstream: beside, figure.Ours: own} {
				name := way.name + ", beside Docker's bridge: "
				b.table.Add(side, figure.Figure{Name: name + "throughput", Unit: "Gbit/s"}, flow.Gigabits)
				b.table.Add(side, figure.Figure{Name: name + "there and back, median", Unit: "us"}, float64(flow.Median.Nanoseconds())/1000)
				b.table.Add(side, figure.Figure{Name: name + "there and back, 99 %", Unit: "us"}, float64(flow.Most.Nanoseconds())/1000)
			}
		}
	}
	return nil
}

func read(data []byte) (f flow, err error) {
	if err := json.Unmarshal(data, &f); err != nil {
		return f, fmt.Errorf("reading what the sender printed: %w: %s", err, data)
	}
	return f, nil
}

// pod is one of this program.
func pod(name, node string, args ...string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": name}},
		Spec: corev1.PodSpec{
			NodeName: node, RestartPolicy: corev1.RestartPolicyNever, TerminationGracePeriodSeconds: new(int64(1)),
			Containers: []corev1.Container{{Name: "c", Image: image, ImagePullPolicy: corev1.PullNever, Args: args}},
		},
	}
}

// start makes a pod that stays, and waits until it runs.
func (f *fleet) start(ctx context.Context, name, node string, args ...string) (*corev1.Pod, error) {
	return f.make(ctx, pod(name, node, args...), func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning })
}

// run makes a pod, waits until it has ended, and returns what it has printed.
func (f *fleet) run(ctx context.Context, name, node string, args ...string) ([]byte, error) {
	p, err := f.make(ctx, pod(name, node, args...), func(p *corev1.Pod) bool {
		return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
	})
	if err != nil {
		return nil, err
	}
	out, err := f.client.CoreV1().Pods(namespace).GetLogs(name, &corev1.PodLogOptions{}).DoRaw(ctx)
	if err == nil && p.Status.Phase == corev1.PodFailed {
		err = fmt.Errorf("pod %s failed: %s", name, out)
	}
	return out, err
}

func (f *fleet) make(ctx context.Context, p *corev1.Pod, until func(*corev1.Pod) bool) (found *corev1.Pod, err error) {
	pods := f.client.CoreV1().Pods(namespace)
	if _, err := pods.Create(ctx, p, metav1.CreateOptions{}); err != nil {
		return nil, fmt.Errorf("making pod %s: %w", p.Name, err)
	}
	err = wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		found, err = pods.Get(ctx, p.Name, metav1.GetOptions{})
		return err == nil && until(found), err
	})
	if err != nil {
		return nil, fmt.Errorf("waiting for pod %s: %w", p.Name, err)
	}
	return found, nil
}

// expose makes a Service of a pod, and returns its address.
func (f *fleet) expose(ctx context.Context, name string) (string, error) {
	s, err := f.client.CoreV1().Services(namespace).Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.ServiceSpec{Selector: map[string]string{"app": name}, Ports: []corev1.ServicePort{
			{Name: "sink", Port: sinkPort}, {Name: "echo", Port: echoPort},
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("making Service %s: %w", name, err)
	}
	return s.Spec.ClusterIP, nil
}

// gate is the condition that decides whether a pod is ready.
const gate = "bench.minik8s.io/gate"

// ready measures how long after the API has said that a pod is ready its Service leads to it on another node.
func (b *bench) ready(ctx context.Context, f *fleet) error {
	const name = "gated"
	p := pod(name, f.nodes[0], peerCommand)
	p.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: gate}}
	if _, err := f.make(ctx, p, func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning }); err != nil {
		return err
	}
	service, err := f.expose(ctx, name)
	if err != nil {
		return err
	}
	dial := netns.Dialer(f.netNS(f.nodes[1]))
	reached := func(ctx context.Context) bool {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		c, err := dial(ctx, "tcp", fmt.Sprintf("%s:%d", service, echoPort))
		return err == nil && c.Close() == nil
	}
	const what = "pod Ready in the API to its Service reached on another node"
	return b.times(ctx, figure.Ours, what, 100, func(int) (begun time.Time, err error) {
		if err := f.open(ctx, name, corev1.ConditionTrue); err != nil {
			return begun, err
		}
		begun = time.Now()
		if err := until(ctx, func() bool { return reached(ctx) }); err != nil {
			return begun, fmt.Errorf("a pod is ready and not reached: %w", err)
		}
		done := time.Since(begun)
		if err := f.open(ctx, name, corev1.ConditionFalse); err != nil {
			return begun, err
		}
		if err := until(ctx, func() bool { return !reached(ctx) }); err != nil {
			return begun, fmt.Errorf("a pod is not ready and reached: %w", err)
		}
		return time.Now().Add(-done), nil
	})
}

// until asks every half millisecond, for a minute.
func until(ctx context.Context, is func() bool) error {
	return wait.PollUntilContextTimeout(ctx, time.Millisecond/2, time.Minute, true, func(context.Context) (bool, error) { return is(), nil })
}

// open sets the gate of a pod, and returns when the API says that the pod is ready, or not.
func (f *fleet) open(ctx context.Context, name string, status corev1.ConditionStatus) error {
	pods := f.client.CoreV1().Pods(namespace)
	w, err := pods.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	if err != nil {
		return err
	}
	defer w.Stop()
	patch := fmt.Sprintf(`{"status":{"conditions":[{"type":%q,"status":%q}]}}`, gate, status)
	if _, err := pods.Patch(ctx, name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status"); err != nil {
		return fmt.Errorf("setting the gate of pod %s: %w", name, err)
	}
	limit := time.NewTimer(time.Minute)
	defer limit.Stop()
	for {
		select {
		case e, ok := <-w.ResultChan():
			if !ok {
				return errors.New("the watch of a pod ended")
			}
			p, ok := e.Object.(*corev1.Pod)
			if !ok {
				continue
			}
			for _, c := range p.Status.Conditions {
				if c.Type == corev1.PodReady && c.Status == status {
					return nil
				}
			}
		case <-limit.C:
			return fmt.Errorf("pod %s does not become Ready=%s", name, status)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
