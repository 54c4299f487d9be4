// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"minik8s.io/minik8s/pkg/apiserver"
	"minik8s.io/minik8s/pkg/controllers"
)

// controllerFlags say which controllers run in the process of the API server.
type controllerFlags struct {
	enabled     []string
	leaderElect bool
}

func (f *controllerFlags) add(set *pflag.FlagSet) {
	set.StringSliceVar(&f.enabled, "controllers", nil, "A list of controllers to run in this process, as kube-controller-manager's flag of this name: '*' runs all, 'foo' runs the controller foo, '-foo' does not. By default none run. "+
		"This flag is minik8s's own.")
	set.BoolVar(&f.leaderElect, "leader-elect", false, "Let the controllers wait for the Lease kube-system/kube-controller-manager before they begin. This flag is minik8s's own.")
}

// complete lets a server with controllers end without waiting a minute for watches of its clients: tests that use it wait only
// for 20 s.
func (f *controllerFlags) complete(all *pflag.FlagSet) error {
	const flag = "shutdown-send-retry-after"
	if len(f.enabled) == 0 || all.Changed(flag) {
		return nil
	}
	return all.Set(flag, "true")
}

// serve runs the server, and in it the controllers, until ctx ends. rootCA is what clients trust the server by.
func (f *controllerFlags) serve(ctx context.Context, server *apiserver.Server, rootCA []byte) error {
	if len(f.enabled) == 0 {
		return server.Start(ctx)
	}
	ctrllog.SetLogger(klog.Background())
	loops, err := controllers.New(controllers.Config{
		RESTConfig: as(server.Loopback(), "system:kube-controller-manager"),
		ClientFor: func(account string) (*rest.Config, error) {
			return as(server.Loopback(), "system:serviceaccount:kube-system:"+account, "system:serviceaccounts", "system:serviceaccounts:kube-system"), nil
		},
		RootCA:         rootCA,
		LeaderElection: f.leaderElect,
		Enabled:        f.enabled,
	})
	if err != nil {
		return fmt.Errorf("--controllers: %w", err)
	}
	parts, ctx := errgroup.WithContext(ctx)
	// The server ends last, so that the controllers can finish what they have begun.
	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	parts.Go(func() error { return server.Start(serving) })
	parts.Go(func() error {
		defer stopServing()
		if err := waitServing(ctx, server.Loopback()); err != nil || ctx.Err() != nil {
			return err
		}
		return loops.Start(ctx)
	})
	return parts.Wait()
}

// as lets all that config sends be a user's, who has that user's rights.
func as(config *rest.Config, user string, groups ...string) *rest.Config {
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: groups}
	return config
}

// waitServing waits until the server is ready: the rights of controllers are among what it begins with. The end of ctx is no
// error.
func waitServing(ctx context.Context, config *rest.Config) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making the client that waits for the server: %w", err)
	}
	_ = wait.PollUntilContextCancel(ctx, 10*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		return client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error() == nil, nil
	})
	return nil
}
