// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package removednode makes the certificates of a node end with its Node object: who deletes the Node has thrown the machine out,
// also if it is registered again later, for which it gets new certificates. Certificates cannot be called back in Kubernetes, and
// upstream's work until they end. Touch it when a removed machine still gets in, or a present one does not.
package removednode

import (
	"context"
	"fmt"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	corelisters "k8s.io/client-go/listers/core/v1"

	"minik8s.io/minik8s/pkg/apiserver/authorization/node"
	"minik8s.io/minik8s/pkg/pki"
)

// Authenticator asks another one that looks at certificates, and refuses those of nodes that were issued before their Node was
// registered, or whose Node is not there. Safe for concurrent use.
type Authenticator struct {
	// Certificates finds out whose certificate it is.
	Certificates authenticator.Request
	Nodes        corelisters.NodeLister
	// Synced says that Nodes knows all of them.
	Synced func() bool
}

// AuthenticateRequest implements authenticator.Request.
func (a *Authenticator) AuthenticateRequest(r *http.Request) (*authenticator.Response, bool, error) {
	response, ok, err := a.Certificates.AuthenticateRequest(r)
	if !ok || err != nil {
		return response, ok, err
	}
	name, isNode := node.Identify(response.User)
	if !isNode {
		return response, ok, nil
	}
	cert := r.TLS.PeerCertificates[0]
	if err := a.awaitNodes(r.Context()); err != nil {
		return nil, false, fmt.Errorf("looking for node %q: the nodes are not known yet: %w", name, err)
	}
	n, err := a.Nodes.Get(name)
	if apierrors.IsNotFound(err) {
		return nil, false, fmt.Errorf("node %q is not registered any more", name)
	}
	if err != nil {
		return nil, false, fmt.Errorf("looking for node %q: %w", name, err)
	}
	// Both know whole seconds only.
	if pki.Issued(cert).Before(n.CreationTimestamp.Truncate(time.Second)) {
		return nil, false, fmt.Errorf("the certificate of node %q is from before the node was registered", name)
	}
	return response, true, nil
}

// awaitNodes waits for what comes a moment after the server has begun to serve.
func (a *Authenticator) awaitNodes(ctx context.Context) error {
	const often, most = 10 * time.Millisecond, 10 * time.Second
	return wait.PollUntilContextTimeout(ctx, often, most, true, func(context.Context) (bool, error) { return a.Synced(), nil })
}
