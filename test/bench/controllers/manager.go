// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"minik8s.io/minik8s/pkg/controllers"
	"minik8s.io/minik8s/pkg/memory"
	"minik8s.io/minik8s/pkg/pki"
)

// manage runs our controllers, and nothing else, in this process, as minik8s up does: each controller has a certificate of its
// own, and the memory that the start took is given back when it is over.
func manage(ctx context.Context) (err error) {
	set := flag.NewFlagSet(managerCommand, flag.ContinueOnError)
	kubeconfig := set.String("kubeconfig", "", "how to reach the API server")
	profile := set.String("profile", "", "files to write profiles of the whole run to, at the end: this with .cpu.pprof and .heap.pprof")
	root := set.String("root-ca-file", "", "what is published to namespaces")
	rootKey := set.String("root-ca-key-file", "", "key that issues the certificates of the controllers")
	if err := set.Parse(os.Args[2:]); err != nil {
		return err
	}
	if *profile != "" {
		stop, err := record(*profile)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, stop()) }()
	}
	cert, err := os.ReadFile(*root)
	if err != nil {
		return fmt.Errorf("reading the root CA: %w", err)
	}
	key, err := os.ReadFile(*rootKey)
	if err != nil {
		return fmt.Errorf("reading the key of the root CA: %w", err)
	}
	ca, err := pki.LoadCA(pki.Pair{Cert: cert, Key: key})
	if err != nil {
		return fmt.Errorf("loading the root CA: %w", err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return err
	}
	config.ContentType, config.AcceptContentTypes = apiruntime.ContentTypeProtobuf, apiruntime.ContentTypeProtobuf+",application/json"
	ctrl.SetLogger(klog.Background())
	as := func(user string, groups ...string) (*rest.Config, error) {
		pair, err := ca.Issue(pki.Request{CommonName: user, Organizations: groups})
		if err != nil {
			return nil, err
		}
		c := rest.CopyConfig(config)
		c.TLSClientConfig = rest.TLSClientConfig{CAData: cert, CertData: pair.Cert, KeyData: pair.Key}
		return c, nil
	}
	own, err := as("system:kube-controller-manager")
	if err != nil {
		return err
	}
	loops, err := controllers.New(controllers.Config{
		RESTConfig: own,
		ClientFor: func(account string) (*rest.Config, error) {
			return as("system:serviceaccount:kube-system:"+account, "system:serviceaccounts", "system:serviceaccounts:kube-system")
		},
		RootCA: cert,
	})
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	go func() {
		if works(ctx, client) == nil {
			memory.Manage(ctx, 0)
		}
	}()
	return loops.Start(ctx)
}

// record profiles this process until stop is called.
func record(name string) (stop func() error, err error) {
	processor, err := os.Create(name + ".cpu.pprof")
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(processor); err != nil {
		return nil, errors.Join(err, processor.Close())
	}
	return func() error {
		pprof.StopCPUProfile()
		runtime.GC() // what is in use is known since the last collection
		memory, err := os.Create(name + ".heap.pprof")
		if err != nil {
			return errors.Join(err, processor.Close())
		}
		return errors.Join(pprof.Lookup("allocs").WriteTo(memory, 0), memory.Close(), processor.Close())
	}, nil
}

// works waits until the controllers have done something.
func works(ctx context.Context, client kubernetes.Interface) error {
	return wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
		_, err := client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		return err == nil, nil
	})
}
