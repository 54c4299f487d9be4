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

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
)

// manage runs our controllers, and nothing else, in this process: each controller has the token of its ServiceAccount, as
// upstream's have, because upstream's API server verifies a certificate anew for each request; and the memory that the start
// took is given back when it is over, as minik8s up does.
func manage(ctx context.Context) (err error) {
	set := flag.NewFlagSet(managerCommand, flag.ContinueOnError)
	kubeconfig := set.String("kubeconfig", "", "how to reach the API server")
	profile := set.String("profile", "", "files to write profiles of the whole run to, at the end: this with .cpu.pprof and .heap.pprof")
	root := set.String("root-ca-file", "", "what is published to namespaces")
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
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return err
	}
	config.ContentType, config.AcceptContentTypes = apiruntime.ContentTypeProtobuf, apiruntime.ContentTypeProtobuf+",application/json"
	ctrl.SetLogger(klog.Background())
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	loops, err := controllers.New(controllers.Config{
		RESTConfig: config,
		ClientFor: func(account string) (*rest.Config, error) {
			return as(ctx, client, config, account)
		},
		RootCA: cert,
	})
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

// as returns how a ServiceAccount in kube-system, which is made if it is not there, reaches the API server that config is for.
func as(ctx context.Context, client kubernetes.Interface, config *rest.Config, account string) (*rest.Config, error) {
	accounts := client.CoreV1().ServiceAccounts(metav1.NamespaceSystem)
	_, err := accounts.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: account}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return nil, fmt.Errorf("making an account: %w", err)
	}
	token, err := accounts.CreateToken(ctx, account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("making a token: %w", err)
	}
	c := rest.AnonymousClientConfig(config)
	c.BearerToken = token.Status.Token
	return c, nil
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
