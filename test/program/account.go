// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package program

import (
	"context"
	"fmt"
	"net/http"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
)

// Account is a ServiceAccount of a server with a token, as most clients in a cluster have.
type Account struct {
	server *Server
	token  string
}

// Accounts makes n ServiceAccounts in a namespace of their own, which may do what the rules say, in the whole cluster, and
// nothing else. It returns when the server knows that.
func (s *Server) Accounts(ctx context.Context, namespace string, n int, may ...rbacv1.PolicyRule) ([]Account, error) {
	admin, err := kubernetes.NewForConfigAndClient(s.Config(), s.HTTP())
	if err != nil {
		return nil, err
	}
	meta := metav1.ObjectMeta{Name: namespace}
	if _, err := admin.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: meta}, metav1.CreateOptions{}); err != nil {
		return nil, fmt.Errorf("making a namespace for accounts: %w", err)
	}
	if _, err := admin.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: meta, Rules: may}, metav1.CreateOptions{}); err != nil {
		return nil, fmt.Errorf("making a role: %w", err)
	}
	if _, err := admin.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: namespace},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "system:serviceaccounts:" + namespace}},
	}, metav1.CreateOptions{}); err != nil {
		return nil, fmt.Errorf("binding a role: %w", err)
	}
	accounts := make([]Account, n)
	for i := range accounts {
		if accounts[i], err = s.account(ctx, admin, namespace, fmt.Sprintf("client-%d", i)); err != nil {
			return nil, err
		}
	}
	return accounts, s.awaitRights(ctx, accounts[0], may[0])
}

func (s *Server) account(ctx context.Context, admin kubernetes.Interface, namespace, name string) (Account, error) {
	accounts := admin.CoreV1().ServiceAccounts(namespace)
	if _, err := accounts.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
		return Account{}, fmt.Errorf("making account %s: %w", name, err)
	}
	t, err := accounts.CreateToken(ctx, name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return Account{}, fmt.Errorf("making a token of account %s: %w", name, err)
	}
	return Account{server: s, token: t.Status.Token}, nil
}

// awaitRights waits until the server's authorizer has seen the binding.
func (s *Server) awaitRights(ctx context.Context, a Account, rule rbacv1.PolicyRule) error {
	client, err := kubernetes.NewForConfigAndClient(a.Config(), a.HTTP())
	if err != nil {
		return err
	}
	return s.APIServer.Await(ctx, 10*time.Millisecond, func(ctx context.Context) error {
		review, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb: rule.Verbs[0], Group: rule.APIGroups[0], Resource: rule.Resources[0],
			}},
		}, metav1.CreateOptions{})
		if err == nil && !review.Status.Allowed {
			err = fmt.Errorf("a new account may not do what its role says: %s", review.Status.Reason)
		}
		return err
	})
}

// HTTP is a client of the account, on a connection of its own.
func (a Account) HTTP() *http.Client {
	tls := a.server.identity.TLS()
	tls.Certificates = nil
	return &http.Client{Transport: transport.NewBearerAuthRoundTripper(a.token, &http.Transport{ForceAttemptHTTP2: true, DisableCompression: true, TLSClientConfig: tls})}
}

// Config is for clients of the account that ask as fast as they can.
func (a Account) Config() *rest.Config {
	c := rest.AnonymousClientConfig(a.server.Config())
	c.BearerToken = a.token
	return c
}
