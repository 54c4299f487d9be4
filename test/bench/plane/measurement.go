// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"minik8s.io/minik8s/test/bench/figure"
	"minik8s.io/minik8s/test/bench/load"
	"minik8s.io/minik8s/test/program"
)

// measurement is that of one control plane.
type measurement struct {
	*bench
	side  figure.Side
	plane *plane
}

// all measures everything, each part after the one before.
func (m *measurement) all(ctx context.Context) error {
	clients, err := m.plane.clients(64)
	if err != nil {
		return err
	}
	if err := m.atRest(ctx, "empty", 0.3, 0.3); err != nil {
		return err
	}
	if err := m.profiled(ctx, "pending", func() error { return m.creates(ctx, clients, "pending", m.pods) }); err != nil {
		return err
	}
	beating, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	defer func() {
		stop()
		<-done
	}()
	if err := m.profiled(ctx, "binding", func() error { return m.binding(ctx, clients[0]) }); err != nil {
		close(done)
		return err
	}
	go func() {
		defer close(done)
		beat(beating, clients[0], m.nodes)
	}()
	if err := m.profiled(ctx, "scheduled", func() error { return m.creates(ctx, clients[:16], "while scheduled", m.pods/2) }); err != nil {
		return err
	}
	if err := m.bound(ctx, clients[0]); err != nil {
		return err
	}
	if err := m.deployment(ctx, clients[0], m.pods/10); err != nil {
		return err
	}
	if err := m.job(ctx, clients[0], m.pods/5); err != nil {
		return err
	}
	if err := m.memory("loaded", 0.4); err != nil {
		return err
	}
	if err := m.profiled(ctx, "rest", func() error { return m.atRest(ctx, "with all pods", 0.35, 0.3) }); err != nil {
		return err
	}
	if err := m.oneByOne(ctx, clients[0], m.pods/20); err != nil {
		return err
	}
	if err := m.services(ctx, clients, m.pods); err != nil {
		return err
	}
	return m.namespace(ctx, clients, m.pods)
}

func (m *measurement) add(name, unit string, aims figure.Figure, value float64) {
	aims.Name, aims.Unit = name, unit
	m.table.Add(m.side, aims, value)
}

// profiled runs f, and takes profiles of our process meanwhile and after it, if they are asked for.
func (m *measurement) profiled(ctx context.Context, name string, f func() error) error {
	if m.side == figure.Upstream {
		return f()
	}
	client, err := rest.HTTPClientFor(m.plane.config)
	if err != nil {
		return err
	}
	return m.profiles.Run(ctx, client, m.plane.config.Host, m.side.String()+"-"+name, f)
}

// cost measures what f takes of time and of the processor.
func (m *measurement) cost(f func() error) (took, processor time.Duration, err error) {
	before, err := m.plane.usage()
	if err != nil {
		return 0, 0, err
	}
	begin := time.Now()
	if err := f(); err != nil {
		return 0, 0, err
	}
	took = time.Since(begin)
	after, err := m.plane.usage()
	return took, after.Processor - before.Processor, err
}

// atRest measures a plane of which nobody wants anything but its nodes.
func (m *measurement) atRest(ctx context.Context, state string, memory, processor float64) error {
	if err := program.Pause(ctx, m.rest); err != nil { // what came before has its consequences
		return err
	}
	took, used, err := m.cost(func() error { return program.Pause(ctx, m.rest) }) // this is what is measured
	if err != nil {
		return err
	}
	m.add("at rest, "+state+": processor", "% of a core", figure.Figure{AtMost: processor}, 100*used.Seconds()/took.Seconds())
	u, err := m.plane.usage()
	m.add("at rest, "+state+": memory", "MiB", figure.Figure{AtMost: memory}, float64(u.Resident)/(1<<20))
	return err
}

// memory notes the present one, and the most that there was.
func (m *measurement) memory(state string, atMost float64) error {
	u, err := m.plane.usage()
	m.add(state+": memory", "MiB", figure.Figure{AtMost: atMost}, float64(u.Resident)/(1<<20))
	m.add(state+": memory at its peak", "MiB", figure.Figure{AtMost: atMost}, float64(u.Peak)/(1<<20))
	return err
}

// creates makes pods from all clients at the same time.
func (m *measurement) creates(ctx context.Context, clients []kubernetes.Interface, state string, n int) error {
	var mu sync.Mutex
	var latencies []float64
	took, processor, err := m.cost(func() error {
		_, err := load.Each(ctx, clients, n, func(ctx context.Context, c kubernetes.Interface, i int) error {
			begin := time.Now()
			_, err := c.CoreV1().Pods(metav1.NamespaceDefault).Create(ctx, load.Pod(fmt.Sprintf("%d-%d", len(clients), i)), metav1.CreateOptions{})
			mu.Lock()
			defer mu.Unlock()
			latencies = append(latencies, float64(time.Since(begin).Microseconds())/1000)
			return err
		})
		return err
	})
	if err != nil {
		return err
	}
	name := fmt.Sprintf("creates, %s, %d clients: ", state, len(clients))
	m.add(name+"pods", "/s", figure.Figure{AtLeast: 2.5}, float64(n)/took.Seconds())
	m.add(name+"processor per 10,000", "s", figure.Figure{AtMost: 0.4}, processor.Seconds()*1e4/float64(n))
	m.add(name+"median", "ms", figure.Figure{}, figure.Percentile(latencies, 0.5))
	m.add(name+"99 %", "ms", figure.Figure{AtMost: 0.5}, figure.Percentile(latencies, 0.99))
	return nil
}

// binding gives the pods that wait nodes.
func (m *measurement) binding(ctx context.Context, c kubernetes.Interface) error {
	took, processor, err := m.cost(func() error {
		if err := addNodes(ctx, c, m.nodes); err != nil {
			return err
		}
		return m.bound(ctx, c)
	})
	m.add("binding of those pods: pods", "/s", figure.Figure{AtLeast: 2.5}, float64(m.pods)/took.Seconds())
	m.add("binding of those pods: processor per 10,000", "s", figure.Figure{AtMost: 0.4}, processor.Seconds()*1e4/float64(m.pods))
	return err
}

// bound waits until no pod waits for a node.
func (m *measurement) bound(ctx context.Context, c kubernetes.Interface) error {
	return wait.PollUntilContextCancel(ctx, 10*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		list, err := c.CoreV1().Pods(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=", Limit: 1})
		return err == nil && len(list.Items) == 0, err
	})
}

// workload measures how long it takes until one that is made has all its pods, on nodes.
func (m *measurement) workload(ctx context.Context, c kubernetes.Interface, name string, pods int, create func() error, has func() (int32, error)) error {
	took, processor, err := m.cost(func() error {
		if err := create(); err != nil {
			return err
		}
		return wait.PollUntilContextCancel(ctx, 10*time.Millisecond, true, func(ctx context.Context) (bool, error) {
			if n, err := has(); err != nil || int(n) != pods {
				return false, err
			}
			return true, m.bound(ctx, c)
		})
	})
	title := fmt.Sprintf("%s of %d: ", name, pods)
	m.add(title+"all on nodes", "ms", figure.Figure{AtMost: 0.4}, float64(took.Milliseconds()))
	m.add(title+"processor", "s", figure.Figure{AtMost: 0.4}, processor.Seconds())
	return err
}

func (m *measurement) deployment(ctx context.Context, c kubernetes.Interface, pods int) error {
	api, selector := c.AppsV1().Deployments(metav1.NamespaceDefault), map[string]string{"app": "deployed"}
	return m.workload(ctx, c, "Deployment", pods, func() error {
		_, err := api.Create(ctx, &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Name: "deployed"},
			Spec: appsv1.DeploymentSpec{
				Replicas: new(int32(pods)), Selector: &metav1.LabelSelector{MatchLabels: selector},
				Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: selector}, Spec: load.Pod("").Spec},
			},
		}, metav1.CreateOptions{})
		return err
	}, func() (int32, error) {
		d, err := api.Get(ctx, "deployed", metav1.GetOptions{})
		if err != nil {
			return 0, err
		}
		return d.Status.Replicas, nil
	})
}

func (m *measurement) job(ctx context.Context, c kubernetes.Interface, pods int) error {
	api, spec := c.BatchV1().Jobs(metav1.NamespaceDefault), load.Pod("").Spec
	spec.RestartPolicy = corev1.RestartPolicyNever
	return m.workload(ctx, c, "Job", pods, func() error {
		_, err := api.Create(ctx, &batchv1.Job{
			ObjectMeta: metav1.ObjectMeta{Name: "worked"},
			Spec:       batchv1.JobSpec{Parallelism: new(int32(pods)), Completions: new(int32(pods)), Template: corev1.PodTemplateSpec{Spec: spec}},
		}, metav1.CreateOptions{})
		return err
	}, func() (int32, error) {
		j, err := api.Get(ctx, "worked", metav1.GetOptions{})
		if err != nil {
			return 0, err
		}
		return j.Status.Active, nil
	})
}

// oneByOne makes a pod when the one before has a node and nothing else is to be done.
func (m *measurement) oneByOne(ctx context.Context, c kubernetes.Interface, n int) error {
	pods := c.CoreV1().Pods(metav1.NamespaceDefault)
	const label = "single"
	w, err := pods.Watch(ctx, metav1.ListOptions{LabelSelector: label})
	if err != nil {
		return err
	}
	defer w.Stop()
	var took []float64
	for i := range n {
		pod := load.Pod(fmt.Sprint("single-", i))
		pod.Labels = map[string]string{label: ""}
		begin := time.Now()
		if _, err := pods.Create(ctx, pod, metav1.CreateOptions{}); err != nil {
			return err
		}
		for on := ""; on == ""; {
			e, ok := <-w.ResultChan()
			if !ok {
				return fmt.Errorf("the watch ended at pod %d: %w", i, ctx.Err())
			}
			if got, ok := e.Object.(*corev1.Pod); ok && got.Name == pod.Name {
				on = got.Spec.NodeName
			}
		}
		took = append(took, float64(time.Since(begin).Microseconds())/1000)
		if err := program.Pause(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
	name := fmt.Sprintf("one pod at a time, %d nodes, from its creation until it is bound: ", m.nodes)
	m.add(name+"median", "ms", figure.Figure{}, figure.Percentile(took, 0.5))
	m.add(name+"99 %", "ms", figure.Figure{Within: 10}, figure.Percentile(took, 0.99))
	return nil
}

// services makes many, and waits until each has an EndpointSlice.
func (m *measurement) services(ctx context.Context, clients []kubernetes.Interface, n int) error {
	const namespace = "services"
	c := clients[0]
	if _, err := c.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{}); err != nil {
		return err
	}
	took, processor, err := m.cost(func() error {
		if _, err := load.Each(ctx, clients, n, func(ctx context.Context, c kubernetes.Interface, i int) error {
			_, err := c.CoreV1().Services(namespace).Create(ctx, &corev1.Service{
				ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("s", i)},
				Spec:       corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Selector: map[string]string{"app": fmt.Sprint(i)}, Ports: []corev1.ServicePort{{Port: 80}}},
			}, metav1.CreateOptions{})
			return err
		}); err != nil {
			return err
		}
		return wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
			list, err := c.DiscoveryV1().EndpointSlices(namespace).List(ctx, metav1.ListOptions{Limit: 1})
			if err != nil {
				return false, err
			}
			there := len(list.Items)
			if list.RemainingItemCount != nil {
				there += int(*list.RemainingItemCount)
			}
			return there >= n, nil
		})
	})
	title := fmt.Sprintf("%d Services: ", n)
	m.add(title+"all with an EndpointSlice", "ms", figure.Figure{AtMost: 0.4}, float64(took.Milliseconds()))
	m.add(title+"processor", "s", figure.Figure{AtMost: 0.4}, processor.Seconds())
	return err
}

// namespace deletes one that is full.
func (m *measurement) namespace(ctx context.Context, clients []kubernetes.Interface, n int) error {
	const name = "full"
	c := clients[0]
	if _, err := c.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
		return err
	}
	_, err := load.Each(ctx, clients, n, func(ctx context.Context, c kubernetes.Interface, i int) error {
		_, err := c.CoreV1().ConfigMaps(name).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(i)}, Data: map[string]string{"a": "b"}}, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return err
	}
	took, processor, err := m.cost(func() error {
		if err := c.CoreV1().Namespaces().Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			return err
		}
		return wait.PollUntilContextCancel(ctx, 10*time.Millisecond, true, func(ctx context.Context) (bool, error) {
			_, err := c.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return true, nil
			}
			return false, err
		})
	})
	title := fmt.Sprintf("namespace of %d ConfigMaps: ", n)
	m.add(title+"gone", "ms", figure.Figure{AtMost: 0.4}, float64(took.Milliseconds()))
	m.add(title+"processor", "s", figure.Figure{AtMost: 0.4}, processor.Seconds())
	return err
}
