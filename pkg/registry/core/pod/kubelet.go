// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/proxy"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	"minik8s.io/minik8s/pkg/apis/core/podspec"
	"minik8s.io/minik8s/pkg/registry"
)

// kubelet finds what of a pod is to be asked from the kubelet of its node.
type kubelet struct {
	pods       *registry.Store[*corev1.Pod]
	conn       registry.Kubelet
	authorizer authorizer.Authorizer
}

// pod fetches a pod for a request that only its kubelet can answer.
func (k kubelet) pod(ctx context.Context, name string) (*corev1.Pod, error) {
	p, err := k.pods.Object(ctx, name, &metav1.GetOptions{})
	if err == nil && k.conn == nil {
		return nil, apierrors.NewServiceUnavailable("this API server has no connection to nodes")
	}
	return p, err
}

// location is the URL of what a kubelet serves for a pod; container is "" for what concerns the whole pod.
func (k kubelet) location(ctx context.Context, p *corev1.Pod, action, container string, params url.Values) (*url.URL, error) {
	if p.Spec.NodeName == "" {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("pod %s does not have a host assigned", p.Name))
	}
	base, err := k.conn.Location(ctx, p.Spec.NodeName)
	if err != nil {
		return nil, err
	}
	u := *base
	u.Path = strings.TrimSuffix(u.Path, "/") + fmt.Sprintf("/%s/%s/%s", action, p.Namespace, p.Name)
	if container != "" {
		u.Path += "/" + container
	}
	u.RawQuery = params.Encode()
	return &u, nil
}

// chooseContainer is the container that a request means: the named one, or the only one.
func chooseContainer(name string, p *corev1.Pod) (string, error) {
	if name != "" {
		for _, c := range podspec.All(&p.Spec, nil) {
			if c.Name == name {
				return name, nil
			}
		}
		return "", apierrors.NewBadRequest(fmt.Sprintf("container %s is not valid for pod %s", name, p.Name))
	}
	if len(p.Spec.Containers) == 1 {
		return p.Spec.Containers[0].Name, nil
	}
	msg := fmt.Sprintf("a container name must be specified for pod %s", p.Name)
	if len(p.Spec.Containers) > 0 {
		var names []string
		for _, c := range podspec.All(&p.Spec, nil) {
			names = append(names, c.Name)
		}
		msg += fmt.Sprintf(", choose one of: %v", names)
	}
	return "", apierrors.NewBadRequest(msg)
}

// authorizeCreate makes clients that open a stream by GET, as WebSockets must, have the right to create it, as POST
// needs; else a right to read would be one to execute.
func (k kubelet) authorizeCreate(ctx context.Context) error {
	info, ok := genericapirequest.RequestInfoFrom(ctx)
	if !ok || k.authorizer == nil || info.Verb == "create" {
		return nil
	}
	user, ok := genericapirequest.UserFrom(ctx)
	if !ok {
		return apierrors.NewForbidden(corev1.Resource(info.Resource+"/"+info.Subresource), info.Name, errors.New("the request has no user"))
	}
	decision, reason, err := k.authorizer.Authorize(ctx, authorizer.AttributesRecord{
		User: user, Verb: "create", Namespace: info.Namespace, APIGroup: info.APIGroup, APIVersion: info.APIVersion,
		Resource: info.Resource, Subresource: info.Subresource, Name: info.Name, ResourceRequest: true, Path: info.Path,
	})
	if decision == authorizer.DecisionAllow {
		return nil
	}
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	if reason == "" {
		reason = fmt.Sprintf("User %q cannot create resource %q", user.GetName(), info.Resource+"/"+info.Subresource)
	}
	return apierrors.NewForbidden(corev1.Resource(info.Resource+"/"+info.Subresource), info.Name, errors.New(reason))
}

// upgrade passes a stream on to the kubelet.
func upgrade(location *url.URL, transport http.RoundTripper, responder rest.Responder) http.Handler {
	return proxy.NewUpgradeAwareHandler(location, transport, false, true, proxy.NewErrorResponder(responder))
}

// streamMethods are those by which clients open streams: WebSockets by GET, SPDY by POST.
func streamMethods() []string { return []string{http.MethodGet, http.MethodPost} }
