// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Command informer is a client-go program as one would write it for any Kubernetes: it watches the pods of a namespace
// through a shared informer and prints a line for each change. Touch it to show another use of informers.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	namespace := flag.String("namespace", "", "namespace to watch; default all")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *namespace); err != nil {
		fmt.Fprintf(os.Stderr, "error: %v\n", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, namespace string) error {
	rules := clientcmd.NewDefaultClientConfigLoadingRules() // KUBECONFIG, else ~/.kube/config
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	return watch(ctx, client, namespace, os.Stdout)
}

// watch prints changes until ctx ends. Once it has seen what is there already it prints "synced".
func watch(ctx context.Context, client kubernetes.Interface, namespace string, out io.Writer) error {
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(namespace))
	p := &printer{out: out}
	registration, err := factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) { p.print("ADDED", o) },
		UpdateFunc: func(before, after any) {
			if line(before) != line(after) { // much of a pod changes that this program does not show
				p.print("MODIFIED", after)
			}
		},
		DeleteFunc: func(o any) {
			if gone, ok := o.(cache.DeletedFinalStateUnknown); ok { // the watch was interrupted and missed the end
				o = gone.Obj
			}
			p.print("DELETED", o)
		},
	})
	if err != nil {
		return err
	}
	factory.Start(ctx.Done())
	defer factory.Shutdown()
	if cache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
		p.println("synced")
	}
	<-ctx.Done()
	return nil
}

// printer keeps lines whole. Safe for concurrent use.
type printer struct {
	mu  sync.Mutex // guards out
	out io.Writer
}

func (p *printer) print(what string, o any) { p.println(what + " " + line(o)) }

func (p *printer) println(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, _ = fmt.Fprintln(p.out, line)
}

// line is what is printed of a pod.
func line(o any) string {
	pod, ok := o.(*corev1.Pod)
	if !ok {
		return fmt.Sprintf("%T", o)
	}
	ready, restarts := 0, int32(0)
	for _, s := range pod.Status.ContainerStatuses {
		restarts += s.RestartCount
		if s.Ready {
			ready++
		}
	}
	return fmt.Sprintf("%s/%s phase=%s ready=%d/%d restarts=%d node=%s ip=%s",
		pod.Namespace, pod.Name, pod.Status.Phase, ready, len(pod.Spec.Containers), restarts, pod.Spec.NodeName, pod.Status.PodIP)
}
