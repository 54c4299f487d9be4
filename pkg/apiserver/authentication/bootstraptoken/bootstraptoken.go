// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package bootstraptoken knows machines that join a cluster by tokens that are kept in Secrets of type
// bootstrap.kubernetes.io/token in kube-system. Touch it when such a Secret means something more.
package bootstraptoken

import (
	"context"
	"crypto/subtle"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/informers"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/cluster-bootstrap/token/api"
	"k8s.io/cluster-bootstrap/util/secrets"
	"k8s.io/cluster-bootstrap/util/tokens"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

// Authenticator checks tokens of the form ID.SECRET. Safe for concurrent use.
type Authenticator struct {
	// Secrets lists those of kube-system.
	Secrets corelisters.SecretNamespaceLister
	Clock   clock.PassiveClock
}

var _ authenticator.Token = (*Authenticator)(nil)

// Secrets lists the bootstrap tokens of kube-system. The factory watches no other Secrets for it: a server that nobody joins
// would keep all of them in memory for nothing.
func Secrets(shared informers.SharedInformerFactory) corelisters.SecretNamespaceLister {
	only := func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector("type", string(api.SecretTypeBootstrapToken)).String()
	}
	informer := shared.InformerFor(&corev1.Secret{}, func(client kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
		index := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
		return coreinformers.NewFilteredSecretInformer(client, metav1.NamespaceSystem, resync, index, only)
	})
	return corelisters.NewSecretLister(informer.GetIndexer()).Secrets(metav1.NamespaceSystem)
}

// AuthenticateToken implements authenticator.Token. What is not a valid bootstrap token is left to others.
func (a *Authenticator) AuthenticateToken(ctx context.Context, token string) (*authenticator.Response, bool, error) {
	id, secret, err := tokens.ParseToken(token)
	if err != nil {
		return nil, false, nil //nolint:nilerr // it is left to others
	}
	stored, err := a.Secrets.Get(api.BootstrapTokenSecretPrefix + id)
	if apierrors.IsNotFound(err) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	groups, problem := check(stored, id, secret, a.Clock)
	if problem != "" {
		klog.FromContext(ctx).V(3).Info("A bootstrap token is not accepted", "secret", klog.KObj(stored), "reason", problem)
		return nil, false, nil
	}
	return &authenticator.Response{User: &user.DefaultInfo{Name: api.BootstrapUserPrefix + id, Groups: groups}}, true, nil
}

// check returns the groups that a token gives, or why it gives none.
func check(s *corev1.Secret, id, secret string, now clock.PassiveClock) (groups []string, problem string) {
	switch {
	case s.DeletionTimestamp != nil:
		return nil, "it is being deleted"
	case s.Type != api.SecretTypeBootstrapToken:
		return nil, "the type of the secret is not " + string(api.SecretTypeBootstrapToken)
	case subtle.ConstantTimeCompare([]byte(secrets.GetData(s, api.BootstrapTokenSecretKey)), []byte(secret)) != 1:
		return nil, api.BootstrapTokenSecretKey + " differs"
	case secrets.GetData(s, api.BootstrapTokenIDKey) != id:
		return nil, api.BootstrapTokenIDKey + " differs"
	case secrets.HasExpired(s, now.Now()):
		return nil, "it has expired"
	case secrets.GetData(s, api.BootstrapTokenUsageAuthentication) != "true":
		return nil, "it is not for authentication"
	}
	groups, err := secrets.GetGroups(s)
	if err != nil {
		return nil, err.Error()
	}
	return groups, ""
}
