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

	"minik8s.io/minik8s/pkg/apiserver/policycheck"
	"minik8s.io/minik8s/pkg/controllers"
	"minik8s.io/minik8s/pkg/heap"
	"minik8s.io/minik8s/pkg/pki"
)

// manage runs our controllers, and nothing else, in this process, as minik8s up does: each controller has a certificate for
// its ServiceAccount, and the memory that the start took is given back when it is over. The flags are upstream's.
func manage(ctx context.Context) (err error) {
	set := flag.NewFlagSet(managerCommand, flag.ContinueOnError)
	kubeconfig := set.String("kubeconfig", "", "how to reach the API server")
	profile := set.String("profile", "", "files to write profiles of the whole run to, at the end: this with .cpu.pprof and .heap.pprof")
	root := set.String("root-ca-file", "", "what is published to namespaces")
	token := set.String("service-account-private-key-file", "", "what tokens in Secrets are signed with")
	cert := set.String("cluster-signing-cert-file", "", "CA of clients, also of the controllers")
	key := set.String("cluster-signing-key-file", "", "key of that CA")
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
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return err
	}
	config.QPS = -1
	config.DisableCompression = true
	config.ContentType, config.AcceptContentTypes = apiruntime.ContentTypeProtobuf, apiruntime.ContentTypeProtobuf+",application/json"
	ctrl.SetLogger(klog.Background())
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	c := controllers.Config{RESTConfig: config}
	for file, to := range map[string]*[]byte{*root: &c.RootCA, *token: &c.TokenKey, *key: &c.SigningCA.Key} {
		if *to, err = os.ReadFile(file); err != nil {
			return err
		}
	}
	if c.SigningCA.Cert, err = os.ReadFile(*cert); err != nil {
		return err
	}
	ca, err := pki.LoadCA(c.SigningCA)
	if err != nil {
		return err
	}
	c.ClientFor = func(account string) (*rest.Config, error) { return as(ca, config, account) }
	if c.CheckPolicy, err = policycheck.New(config); err != nil {
		return fmt.Errorf("preparing to check policies: %w", err)
	}
	loops, err := controllers.New(c)
	if err != nil {
		return err
	}
	go func() {
		if works(ctx, client) == nil {
			heap.Manage(ctx, 0)
		}
	}()
	return loops.Start(ctx)
}

// as returns how a ServiceAccount in kube-system reaches the API server that config is for.
func as(ca *pki.CA, config *rest.Config, account string) (*rest.Config, error) {
	pair, err := ca.Issue(pki.Request{CommonName: "system:serviceaccount:kube-system:" + account, Organizations: []string{"system:serviceaccounts", "system:serviceaccounts:kube-system"}})
	if err != nil {
		return nil, fmt.Errorf("making a certificate for %s: %w", account, err)
	}
	c := rest.AnonymousClientConfig(config)
	c.CertData, c.KeyData = pair.Cert, pair.Key
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
