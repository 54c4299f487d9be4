// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"crypto/x509"
	"fmt"
	"slices"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	certificateslisters "k8s.io/client-go/listers/certificates/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"minik8s.io/minik8s/pkg/apis/certificates/certificaterequest"
	"minik8s.io/minik8s/pkg/apiserver/authorization/policy"
)

// servingApprover approves the requests of joined nodes for certificates to serve with, if they are about the addresses that the
// nodes have joined with. Upstream leaves that to people or to the provider, who knows the machines; here it was a person who
// said the address.
type servingApprover struct {
	client   kubernetes.Interface
	requests certificateslisters.CertificateSigningRequestLister
	queue    workqueue.TypedRateLimitingInterface[string]
}

func (r *runner) buildServingApprover() (func(context.Context) error, error) {
	client, _, err := r.informers("minik8s", policy.ServingApproverUser)
	if err != nil {
		return nil, err
	}
	serving := func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector("spec.signerName", certificatesv1.KubeletServingSignerName).String()
	}
	shared := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTweakListOptions(serving))
	requests := shared.Certificates().V1().CertificateSigningRequests()
	a := &servingApprover{client: client, requests: requests.Lister(), queue: workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](100*time.Millisecond, time.Minute))}
	_, err = requests.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { a.queue.Add(obj.(*certificatesv1.CertificateSigningRequest).Name) },
	})
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

func (a *servingApprover) run(ctx context.Context) {
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

// sync approves a request if it may. Others are left to people.
func (a *servingApprover) sync(ctx context.Context, name string) error {
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
	joined, err := a.client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, policy.JoinedNodes, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		joined, err = &corev1.ConfigMap{}, nil
	}
	if err != nil {
		return fmt.Errorf("looking for the addresses of nodes: %w", err)
	}
	if refusal := servingRefusal(request, joined.Data); refusal != nil {
		klog.FromContext(ctx).Info("Not approving the certificate of a node", "request", name, "user", request.Spec.Username, "reason", refusal)
		return nil
	}
	approved := request.DeepCopy()
	approved.Status.Conditions = append(approved.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue,
		Reason: "AutoApproved", Message: "Auto approving kubelet serving certificate for the address that the node has joined with.",
	})
	_, err = a.client.CertificatesV1().CertificateSigningRequests().UpdateApproval(ctx, name, approved, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// servingRefusal says why a request is not approved, nil if it is: it must be the node's own, and about its name and the address
// that it has joined with. joined is the content of policy.JoinedNodes.
func servingRefusal(request *certificatesv1.CertificateSigningRequest, joined map[string]string) error {
	content, err := certificaterequest.Parse(request.Spec.Request)
	if err != nil {
		return err
	}
	if err := certificaterequest.ValidateKubeletServing(content, request.Spec.Usages); err != nil {
		return err
	}
	if request.Spec.Username != content.Subject.CommonName || !slices.Contains(request.Spec.Groups, nodeGroup) {
		return fmt.Errorf("%q asks for a certificate of %q", request.Spec.Username, content.Subject.CommonName)
	}
	return foreignName(content, joined)
}

func foreignName(content *x509.CertificateRequest, joined map[string]string) error {
	for name, known := range joined {
		if content.Subject.CommonName != nodeUser(name) {
			continue
		}
		for _, dns := range content.DNSNames {
			if dns != name {
				return fmt.Errorf("%q is not the node's name", dns)
			}
		}
		for _, ip := range content.IPAddresses {
			if own := parseJoined(known).address; own != ip.String() {
				return fmt.Errorf("the node has joined with address %q, not %s", own, ip)
			}
		}
		return nil
	}
	return fmt.Errorf("%q is no node that has joined", content.Subject.CommonName)
}
