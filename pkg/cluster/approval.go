// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	certificateslisters "k8s.io/client-go/listers/certificates/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"minik8s.io/minik8s/pkg/apiserver/authorization/policy"
)

// rule decides about the requests for certificates of one signer, or leaves them to others. An error is for another try.
type rule interface {
	judge(ctx context.Context, request *certificatesv1.CertificateSigningRequest) error
}

// approver decides about the certificates of machines that join, one request after the other: of two that want the same name
// the second finds what became of the first.
type approver struct {
	requests certificateslisters.CertificateSigningRequestLister
	rules    map[string]rule // by the name of the signer
	queue    workqueue.TypedRateLimitingInterface[string]
}

// buildApprover makes what approves certificates of nodes. Each rule has rights of its own; they share what is watched.
func (r *runner) buildApprover() (func(context.Context) error, error) {
	serving, err := r.client("minik8s", policy.ServingApproverUser)
	if err != nil {
		return nil, err
	}
	joins, err := r.client("minik8s", policy.JoinApproverUser)
	if err != nil {
		return nil, err
	}
	shared := informers.NewSharedInformerFactory(serving, 0)
	requests := shared.Certificates().V1().CertificateSigningRequests()
	a := newApprover(requests.Lister(), map[string]rule{
		certificatesv1.KubeletServingSignerName:             servingRule{serving},
		certificatesv1.KubeAPIServerClientKubeletSignerName: joinRule{client: joins, config: r.config, servers: r.nodeIPs},
	})
	return a.watch(shared, requests.Informer())
}

func newApprover(requests certificateslisters.CertificateSigningRequestLister, rules map[string]rule) *approver {
	return &approver{requests: requests, rules: rules, queue: workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](100*time.Millisecond, time.Minute))}
}

func (a *approver) watch(shared informers.SharedInformerFactory, requests cache.SharedIndexInformer) (func(context.Context) error, error) {
	_, err := requests.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(obj any) {
		if request := obj.(*certificatesv1.CertificateSigningRequest); a.rules[request.Spec.SignerName] != nil {
			a.queue.Add(request.Name)
		}
	}})
	if err != nil {
		return nil, fmt.Errorf("watching certificate requests: %w", err)
	}
	return func(ctx context.Context) error {
		shared.StartWithContext(ctx)
		defer shared.Shutdown()
		a.run(ctx)
		return nil
	}, nil
}

func (a *approver) run(ctx context.Context) {
	stop := context.AfterFunc(ctx, a.queue.ShutDown)
	defer stop()
	for {
		name, shutdown := a.queue.Get()
		if shutdown {
			return
		}
		limited, cancel := context.WithTimeout(ctx, 30*time.Second)
		if err := a.sync(limited, name); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Approving the certificate of a node", "request", name)
			a.queue.AddRateLimited(name)
		} else {
			a.queue.Forget(name)
		}
		cancel()
		a.queue.Done(name)
	}
}

// sync has a request judged that nobody has decided about.
func (a *approver) sync(ctx context.Context, name string) error {
	request, err := a.requests.Get(name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if len(request.Status.Conditions) > 0 || len(request.Status.Certificate) > 0 {
		return nil
	}
	return a.rules[request.Spec.SignerName].judge(ctx, request)
}

// decide writes a decision. A request that is gone needs none.
func decide(ctx context.Context, client kubernetes.Interface, request *certificatesv1.CertificateSigningRequest, decision certificatesv1.CertificateSigningRequestCondition) error {
	decision.Status = corev1.ConditionTrue
	decided := request.DeepCopy()
	decided.Status.Conditions = append(decided.Status.Conditions, decision)
	_, err := client.CertificatesV1().CertificateSigningRequests().UpdateApproval(ctx, request.Name, decided, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
