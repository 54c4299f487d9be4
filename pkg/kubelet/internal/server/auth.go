// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

// TTLs say how long answers of the API server are believed. The defaults are upstream's.
type TTLs struct {
	Token           time.Duration // 2 minutes if 0
	Allowed, Denied time.Duration // 5 minutes and 30 seconds if 0
}

const (
	// unknownTokenTTL: a token that is not known may soon be.
	unknownTokenTTL = 10 * time.Second
	reviewTimeout   = 10 * time.Second
	maxCached       = 4096
)

// auth lets in who has a certificate of the cluster or a token that the API server knows, and who may do to this node
// what the request would. Nobody is anonymous.
type auth struct {
	node    string
	cas     func() (*x509.CertPool, error)
	client  kubernetes.Interface
	clock   clock.PassiveClock
	ttls    TTLs
	tokens  *ttlCache[[sha256.Size]byte, *authenticationv1.UserInfo]
	allowed *ttlCache[string, bool]
}

func newAuth(c Config) *auth {
	return &auth{
		node: c.NodeName, cas: c.ClientCAs, client: c.Client, clock: c.Clock,
		ttls: TTLs{
			Token:   cmp.Or(c.TTLs.Token, 2*time.Minute),
			Allowed: cmp.Or(c.TTLs.Allowed, 5*time.Minute), Denied: cmp.Or(c.TTLs.Denied, 30*time.Second),
		},
		tokens:  &ttlCache[[sha256.Size]byte, *authenticationv1.UserInfo]{clock: c.Clock},
		allowed: &ttlCache[string, bool]{clock: c.Clock},
	}
}

func (a *auth) protect(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		logger := klog.FromContext(r.Context())
		user, err := a.authenticate(r)
		if err != nil {
			logger.Error(err, "Unable to authenticate a request", "path", r.URL.Path)
		}
		if err != nil || user == nil {
			http.Error(w, "Unauthorized", http.StatusUnauthorized)
			return
		}
		verb, subresources := attributes(r)
		ok, err := a.authorize(r.Context(), user, verb, subresources)
		if err != nil {
			logger.Error(err, "Unable to authorize a request", "user", user.Username, "verb", verb, "subresources", subresources)
			http.Error(w, fmt.Sprintf("Authorization error (user=%s, verb=%s, resource=nodes, subresource(s)=%v)",
				user.Username, verb, subresources), http.StatusInternalServerError)
			return
		}
		if !ok {
			http.Error(w, fmt.Sprintf("Forbidden (user=%s, verb=%s, resource=nodes, subresource(s)=%v)",
				user.Username, verb, subresources), http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// attributes says what right a request needs: any one of subresources of the node is enough (see KEP-2862).
func attributes(r *http.Request) (verb string, subresources []string) {
	switch r.Method {
	case http.MethodPost:
		verb = "create"
	case http.MethodPut:
		verb = "update"
	case http.MethodPatch:
		verb = "patch"
	case http.MethodDelete:
		verb = "delete"
	default:
		verb = "get"
	}
	first, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	switch first {
	case "stats", "metrics", "statusz":
		return verb, []string{first}
	case "flagz":
		return verb, []string{"configz"}
	case "logs":
		return verb, []string{"log"}
	case "checkpoint":
		return verb, []string{first}
	case "healthz", "configz", "pods":
		return verb, []string{first, "proxy"}
	case "runningpods":
		return verb, []string{"pods", "proxy"}
	}
	return verb, []string{"proxy"}
}

// authenticate returns nil if the request says nobody that is known.
func (a *auth) authenticate(r *http.Request) (*authenticationv1.UserInfo, error) {
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 && a.cas != nil {
		user, err := a.certificate(r.TLS.PeerCertificates)
		if err == nil {
			return user, nil
		}
		if r.Header.Get("Authorization") == "" {
			return nil, err
		}
	}
	scheme, token, _ := strings.Cut(strings.TrimSpace(r.Header.Get("Authorization")), " ")
	token = strings.TrimSpace(token)
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return nil, nil
	}
	return a.token(r.Context(), token)
}

func (a *auth) certificate(chain []*x509.Certificate) (*authenticationv1.UserInfo, error) {
	intermediates := x509.NewCertPool()
	for _, c := range chain[1:] {
		intermediates.AddCert(c)
	}
	roots, err := a.cas()
	if err != nil {
		return nil, err
	}
	_, err = chain[0].Verify(x509.VerifyOptions{
		Roots: roots, Intermediates: intermediates, CurrentTime: a.clock.Now(),
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		return nil, fmt.Errorf("verifying client certificate of %q: %w", chain[0].Subject.CommonName, err)
	}
	if chain[0].Subject.CommonName == "" {
		return nil, errors.New("client certificate without common name")
	}
	groups := append([]string{}, chain[0].Subject.Organization...)
	return &authenticationv1.UserInfo{Username: chain[0].Subject.CommonName, Groups: append(groups, "system:authenticated")}, nil
}

func (a *auth) token(ctx context.Context, token string) (*authenticationv1.UserInfo, error) {
	key := sha256.Sum256([]byte(token))
	if user, ok := a.tokens.get(key); ok {
		return user, nil
	}
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
	got, err := a.client.AuthenticationV1().TokenReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("asking for a review of the token: %w", err)
	}
	if !got.Status.Authenticated {
		a.tokens.put(key, nil, min(unknownTokenTTL, a.ttls.Token))
		return nil, nil
	}
	a.tokens.put(key, &got.Status.User, a.ttls.Token)
	return &got.Status.User, nil
}

func (a *auth) authorize(ctx context.Context, user *authenticationv1.UserInfo, verb string, subresources []string) (bool, error) {
	for _, sub := range subresources {
		ok, err := a.may(ctx, user, verb, sub)
		if ok || err != nil {
			return ok, err
		}
	}
	return false, nil
}

func (a *auth) may(ctx context.Context, user *authenticationv1.UserInfo, verb, subresource string) (bool, error) {
	spec := authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, UID: user.UID, Groups: user.Groups,
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: verb, Version: "v1", Resource: "nodes", Subresource: subresource, Name: a.node,
		},
	}
	for k, v := range user.Extra {
		if spec.Extra == nil {
			spec.Extra = map[string]authorizationv1.ExtraValue{}
		}
		spec.Extra[k] = authorizationv1.ExtraValue(v)
	}
	id, err := json.Marshal(spec)
	if err != nil {
		return false, err
	}
	if ok, known := a.allowed.get(string(id)); known {
		return ok, nil
	}
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	review := &authorizationv1.SubjectAccessReview{Spec: spec}
	got, err := a.client.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("asking for an access review: %w", err)
	}
	ok, ttl := got.Status.Allowed, a.ttls.Denied
	if ok {
		ttl = a.ttls.Allowed
	}
	a.allowed.put(string(id), ok, ttl)
	return ok, nil
}

// ttlCache forgets values after a time. It holds at most maxCached, so that strangers cannot fill the memory.
type ttlCache[K comparable, V any] struct {
	clock  clock.PassiveClock
	mu     sync.Mutex
	values map[K]expiring[V]
}

type expiring[V any] struct {
	value V
	until time.Time
}

func (c *ttlCache[K, V]) get(k K) (V, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.values[k]
	if !ok || !c.clock.Now().Before(e.until) {
		var none V
		return none, false
	}
	return e.value, true
}

func (c *ttlCache[K, V]) put(k K, v V, ttl time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock.Now()
	if len(c.values) >= maxCached {
		for key, e := range c.values {
			if !now.Before(e.until) {
				delete(c.values, key)
			}
		}
	}
	if c.values == nil || len(c.values) >= maxCached {
		c.values = map[K]expiring[V]{}
	}
	c.values[k] = expiring[V]{v, now.Add(ttl)}
}
