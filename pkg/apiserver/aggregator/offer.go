// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	apiregistrationclient "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset/typed/apiregistration/v1"
)

// offeredPriority is that of metrics.k8s.io in the manifests of metrics-server.
var offeredPriority = priority{group: 100, version: 100}

// offer makes local APIServices for group versions that have none, also when one is deleted later. It changes none: one that is there is
// somebody's who has another server, or ours. (The controller of built-in groups would take theirs back.)
func (s *Server) offer(offered []schema.GroupVersion, client apiregistrationclient.APIServicesGetter) error {
	if len(offered) == 0 {
		return nil
	}
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[schema.GroupVersion]())
	byName := map[string]schema.GroupVersion{}
	for _, gv := range offered {
		byName[localService(gv, offeredPriority).Name] = gv
		queue.Add(gv)
	}
	_, err := s.apiServices.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		DeleteFunc: func(obj any) {
			if name, err := cache.DeletionHandlingObjectToName(obj); err == nil {
				if gv, ok := byName[name.Name]; ok {
					queue.Add(gv)
				}
			}
		},
	})
	if err != nil {
		return fmt.Errorf("watching APIServices: %w", err)
	}
	return s.AddPostStartHook("offered-apiservices", func(hook genericapiserver.PostStartHookContext) error {
		go func() {
			<-hook.Done()
			queue.ShutDown()
		}()
		go func() {
			for s.offerNext(hook, queue, client) {
			}
		}()
		return nil
	})
}

// offerNext makes one APIService, if it is not there. It returns false at the end.
func (s *Server) offerNext(ctx context.Context, queue workqueue.TypedRateLimitingInterface[schema.GroupVersion], client apiregistrationclient.APIServicesGetter) bool {
	gv, end := queue.Get()
	if end {
		return false
	}
	defer queue.Done(gv)
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	// To find it there by trying needs no cache that might be old.
	_, err := client.APIServices().Create(ctx, localService(gv, offeredPriority), metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		if ctx.Err() == nil {
			utilruntime.HandleErrorWithContext(ctx, err, "Making a local APIService", "groupVersion", gv)
		}
		queue.AddRateLimited(gv)
		return true
	}
	queue.Forget(gv)
	return true
}
