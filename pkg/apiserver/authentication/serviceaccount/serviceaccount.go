// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package serviceaccount signs and checks the tokens of ServiceAccounts: JWTs that are bound to an audience, to a time
// and to objects, with which they die (KEP-1205). It checks the older ones that are kept in Secrets, too. Touch it when
// tokens carry something more.
package serviceaccount

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/utils/clock"

	"minik8s.io/minik8s/pkg/pki"
	"minik8s.io/minik8s/pkg/registry"
)

// Config of the tokens of one API server.
type Config struct {
	// Issuer is the iss claim; tokens of OtherIssuers are accepted besides, for a change of name.
	Issuer       string
	OtherIssuers []string
	// Key signs (PEM); nil: nothing is issued. Keys verify besides; each is a private or public key or certificate.
	Key  []byte
	Keys [][]byte
	// Audiences of the API: tokens for others are not accepted.
	Audiences authenticator.Audiences
	// ExactLifetime keeps the tokens that pods get by default from lasting a year, as they do during upstream's transition
	// to bound tokens.
	ExactLifetime bool
	// Stores tell whether the objects that a token is bound to are still there.
	Stores *registry.Stores
	// Secrets notes the use of tokens that are kept in Secrets; nil: it is not noted.
	Secrets corev1client.SecretsGetter
	// SkipLookup accepts such tokens without looking whether their Secret is still there.
	SkipLookup bool
	// Clock; default the real one.
	Clock clock.PassiveClock
}

// Tokens issues and authenticates. Safe for concurrent use.
type Tokens struct {
	config Config
	signer crypto.Signer
	method jwt.SigningMethod
	keyID  string
	keys   map[string]crypto.PublicKey
}

var (
	_ registry.TokenIssuer = (*Tokens)(nil)
	_ authenticator.Token  = (*Tokens)(nil)
)

// claims are those of a token, in upstream's form.
type claims struct {
	jwt.RegisteredClaims
	legacyClaims
	Kubernetes private `json:"kubernetes.io,omitzero"`
}

type private struct {
	Namespace      string           `json:"namespace,omitempty"`
	ServiceAccount ref              `json:"serviceaccount,omitzero"`
	Pod            *ref             `json:"pod,omitempty"`
	Secret         *ref             `json:"secret,omitempty"`
	Node           *ref             `json:"node,omitempty"`
	WarnAfter      *jwt.NumericDate `json:"warnafter,omitempty"`
}

type ref struct {
	Name string `json:"name,omitempty"`
	UID  string `json:"uid,omitempty"`
}

// New reads the keys.
func New(c Config) (*Tokens, error) {
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
	registerMetrics()
	t := &Tokens{config: c, keys: map[string]crypto.PublicKey{}}
	if c.Key != nil {
		signer, err := pki.ParseKey(c.Key)
		if err != nil {
			return nil, fmt.Errorf("reading the key that signs tokens: %w", err)
		}
		if t.method, err = methodOf(signer.Public()); err != nil {
			return nil, err
		}
		if t.keyID, err = t.addKey(signer.Public()); err != nil {
			return nil, err
		}
		t.signer = signer
	}
	for _, data := range c.Keys {
		if err := t.addPEM(data); err != nil {
			return nil, fmt.Errorf("reading a key that verifies tokens: %w", err)
		}
	}
	return t, nil
}

func (t *Tokens) addPEM(data []byte) error {
	found := false
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		key, err := publicKey(block)
		if err != nil {
			return err
		}
		if _, err := t.addKey(key); err != nil {
			return err
		}
		found = true
	}
	if !found {
		return errors.New("no PEM block found")
	}
	return nil
}

func publicKey(block *pem.Block) (crypto.PublicKey, error) {
	switch block.Type {
	case "PUBLIC KEY":
		return x509.ParsePKIXPublicKey(block.Bytes)
	case "RSA PUBLIC KEY":
		return x509.ParsePKCS1PublicKey(block.Bytes)
	case "CERTIFICATE":
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		return cert.PublicKey, nil
	}
	signer, err := pki.ParseKey(pem.EncodeToMemory(block))
	if err != nil {
		return nil, err
	}
	return signer.Public(), nil
}

// addKey files a key under its id: the hash of its encoding, as upstream has it, so that all servers agree.
func (t *Tokens) addKey(key crypto.PublicKey) (string, error) {
	if _, err := methodOf(key); err != nil {
		return "", err
	}
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return "", fmt.Errorf("encoding public key: %w", err)
	}
	sum := sha256.Sum256(der)
	id := base64.RawURLEncoding.EncodeToString(sum[:])
	t.keys[id] = key
	return id, nil
}

func methodOf(key crypto.PublicKey) (jwt.SigningMethod, error) {
	switch k := key.(type) {
	case *rsa.PublicKey:
		return jwt.SigningMethodRS256, nil
	case *ecdsa.PublicKey:
		switch k.Curve.Params().BitSize {
		case 256:
			return jwt.SigningMethodES256, nil
		case 384:
			return jwt.SigningMethodES384, nil
		case 521:
			return jwt.SigningMethodES512, nil
		}
	}
	return nil, fmt.Errorf("a %T cannot sign tokens: use RSA or ECDSA", key)
}

// Issue implements registry.TokenIssuer.
func (t *Tokens) Issue(ctx context.Context, account types.NamespacedName, uid types.UID, bound *registry.BoundObject, spec authenticationv1.TokenRequestSpec) (string, metav1.Time, error) {
	if t.signer == nil {
		return "", metav1.Time{}, errors.New("this server has no key to sign tokens with")
	}
	seconds := int64(3600)
	if spec.ExpirationSeconds != nil {
		seconds = *spec.ExpirationSeconds
	}
	now := t.config.Clock.Now()
	audiences := spec.Audiences
	if len(audiences) == 0 {
		audiences = t.config.Audiences
	}
	asked := time.Duration(seconds) * time.Second
	lasts := t.lifetime(asked, bound, audiences)
	c := &claims{
		RegisteredClaims: jwt.RegisteredClaims{
			Issuer: t.config.Issuer, Subject: serviceaccount.MakeUsername(account.Namespace, account.Name), Audience: audiences,
			ExpiresAt: jwt.NewNumericDate(now.Add(lasts)), NotBefore: jwt.NewNumericDate(now), IssuedAt: jwt.NewNumericDate(now), ID: uuid.NewString(),
		},
		Kubernetes: private{Namespace: account.Namespace, ServiceAccount: ref{Name: account.Name, UID: string(uid)}},
	}
	if lasts > asked {
		c.Kubernetes.WarnAfter = jwt.NewNumericDate(now.Add(asked))
	}
	if bound != nil {
		o := &ref{Name: bound.Name, UID: string(bound.UID)}
		switch bound.Kind {
		case "Pod":
			c.Kubernetes.Pod = o
			if bound.NodeName != "" {
				c.Kubernetes.Node = &ref{Name: bound.NodeName, UID: string(bound.NodeUID)}
			}
		case "Secret":
			c.Kubernetes.Secret = o
		case "Node":
			c.Kubernetes.Node = o
		default:
			return "", metav1.Time{}, fmt.Errorf("a token cannot be bound to a %s", bound.Kind)
		}
	}
	token := jwt.NewWithClaims(t.method, c)
	delete(token.Header, "typ") // which upstream does not say
	token.Header["kid"] = t.keyID
	signed, err := token.SignedString(t.signer)
	if err != nil {
		return "", metav1.Time{}, fmt.Errorf("signing token: %w", err)
	}
	audit.AddAuditAnnotation(ctx, serviceaccount.IssuedCredentialIDAuditAnnotationKey, "JTI="+c.ID)
	return signed, metav1.NewTime(now.Add(asked)), nil
}

// projectedLifetime is what the kubelet asks for on behalf of a pod that did not choose a lifetime, an odd number so that it
// can be told; extendedLifetime is what it gets instead, for clients that do not read their token again.
const (
	projectedLifetime = 3607 * time.Second
	extendedLifetime  = 365 * 24 * time.Hour
)

func (t *Tokens) lifetime(asked time.Duration, bound *registry.BoundObject, audiences []string) time.Duration {
	elsewhere := slices.ContainsFunc(audiences, func(a string) bool { return !slices.Contains(t.config.Audiences, a) })
	if t.config.ExactLifetime || bound == nil || bound.Kind != "Pod" || asked != projectedLifetime || elsewhere {
		return asked
	}
	return extendedLifetime
}

// AuthenticateToken implements authenticator.Token. A token of another issuer is left to others.
func (t *Tokens) AuthenticateToken(ctx context.Context, raw string) (*authenticator.Response, bool, error) {
	peek := &claims{}
	if _, _, err := jwt.NewParser().ParseUnverified(raw, peek); err != nil || !t.knows(peek.Issuer) {
		return nil, false, nil //nolint:nilerr // it is left to others
	}
	legacy := peek.Issuer == LegacyIssuer
	options := []jwt.ParserOption{jwt.WithValidMethods([]string{"RS256", "ES256", "ES384", "ES512"}), jwt.WithTimeFunc(t.config.Clock.Now), jwt.WithLeeway(time.Minute)}
	if !legacy {
		options = append(options, jwt.WithExpirationRequired())
	}
	c := &claims{}
	if _, err := jwt.NewParser(options...).ParseWithClaims(raw, c, t.keyFor); err != nil {
		return nil, false, invalid(err)
	}
	audiences, ok := authenticator.AudiencesFrom(ctx)
	if !ok {
		audiences = t.config.Audiences
	}
	meant := authenticator.Audiences(c.Audience)
	if len(meant) == 0 {
		meant = t.config.Audiences
		audit.AddAuditAnnotation(ctx, "authentication.k8s.io/legacy-token", c.Subject)
		legacyTokens.WithContext(ctx).Inc()
	}
	granted := meant.Intersect(audiences)
	if len(granted) == 0 && len(t.config.Audiences) > 0 {
		return nil, false, fmt.Errorf("token audiences %q is invalid for the target audiences %q", meant, audiences)
	}
	var info *serviceaccount.ServiceAccountInfo
	var err error
	if legacy {
		info, err = t.checkLegacy(ctx, raw, c)
	} else {
		info, err = t.check(ctx, c)
	}
	if err != nil {
		return nil, false, err
	}
	return &authenticator.Response{User: info.UserInfo(), Audiences: granted}, true, nil
}

// invalid says why a token is not accepted, in upstream's words.
func invalid(err error) error {
	switch {
	case errors.Is(err, jwt.ErrTokenSignatureInvalid):
		return errors.New("go-jose/go-jose: error in cryptographic primitive") // the words of upstream's library
	case errors.Is(err, jwt.ErrTokenExpired):
		return errors.New("service account token has expired")
	case errors.Is(err, jwt.ErrTokenNotValidYet):
		return errors.New("service account token is not valid yet")
	}
	return fmt.Errorf("service account token claims could not be validated: %w", err)
}

func (t *Tokens) knows(issuer string) bool {
	return issuer == t.config.Issuer || issuer == LegacyIssuer || slices.Contains(t.config.OtherIssuers, issuer)
}

func (t *Tokens) keyFor(token *jwt.Token) (any, error) {
	id, _ := token.Header["kid"].(string)
	if key, ok := t.keys[id]; ok {
		return key, nil
	}
	set := jwt.VerificationKeySet{}
	for _, k := range t.keys {
		set.Keys = append(set.Keys, k)
	}
	return set, nil
}

// check makes sure that everything the token is bound to still exists.
func (t *Tokens) check(ctx context.Context, c *claims) (*serviceaccount.ServiceAccountInfo, error) {
	k := c.Kubernetes
	ctx = genericapirequest.WithNamespace(ctx, k.Namespace)
	if c.Subject != serviceaccount.MakeUsername(k.Namespace, k.ServiceAccount.Name) {
		return nil, errors.New("sub claim does not match the service account")
	}
	now := t.config.Clock.Now()
	account, err := t.get(ctx, "serviceaccounts", k.ServiceAccount.Name)
	if err != nil {
		return nil, err
	}
	if err := isAccount(account, k, now); err != nil {
		return nil, err
	}
	info := &serviceaccount.ServiceAccountInfo{Namespace: k.Namespace, Name: k.ServiceAccount.Name, UID: k.ServiceAccount.UID}
	if c.ID != "" {
		info.CredentialID = "JTI=" + c.ID
	}
	if k.Pod != nil {
		if err := t.alive(ctx, "pod", *k.Pod, now); err != nil {
			return nil, err
		}
		info.PodName, info.PodUID = k.Pod.Name, k.Pod.UID
	}
	if k.Secret != nil {
		if err := t.alive(ctx, "secret", *k.Secret, now); err != nil {
			return nil, err
		}
	}
	if k.Node != nil {
		// The node of a bound pod may go before the pod does; the pod is what counts then.
		if k.Pod == nil {
			if err := t.alive(genericapirequest.WithNamespace(ctx, metav1.NamespaceNone), "node", *k.Node, now); err != nil {
				return nil, err
			}
		}
		info.NodeName, info.NodeUID = k.Node.Name, k.Node.UID
	}
	t.countAge(ctx, c)
	return info, nil
}

// countAge tells tokens that were asked for a short time, got a long one, and are used beyond the short one: their clients
// do not read them again, and would fail without that extension.
func (t *Tokens) countAge(ctx context.Context, c *claims) {
	warn := c.Kubernetes.WarnAfter
	if warn == nil {
		return
	}
	if late := t.config.Clock.Now().Sub(warn.Time); late > 0 {
		audit.AddAuditAnnotation(ctx, "authentication.k8s.io/stale-token", fmt.Sprintf("subject: %s, seconds after warning threshold: %d", c.Subject, int64(late.Seconds())))
		staleTokens.WithContext(ctx).Inc()
		return
	}
	validTokens.WithContext(ctx).Inc()
}

// bindingGrace is how long a token outlives the end of its object's own grace period.
const bindingGrace = 60 * time.Second

// get reads from the watch cache: a token check must not cost a read of etcd on every request. What was just made, the
// cache may not know yet.
func (t *Tokens) get(ctx context.Context, resource, name string) (runtime.Object, error) {
	store, err := t.config.Stores.Get(schema.GroupResource{Group: corev1.GroupName, Resource: resource})
	if err != nil {
		return nil, err
	}
	if obj, err := store.Get(ctx, name, &metav1.GetOptions{ResourceVersion: "0"}); err == nil {
		return obj, nil
	}
	return store.Get(ctx, name, &metav1.GetOptions{})
}

// errInvalidated is all that is told if what a token is bound to is not there any more.
var errInvalidated = errors.New("service account token has been invalidated")

// alive makes sure that a pod, secret or node is there which a token is bound to.
func (t *Tokens) alive(ctx context.Context, kind string, r ref, now time.Time) error {
	obj, err := t.get(ctx, kind+"s", r.Name)
	if err != nil {
		return errInvalidated
	}
	return isBound(obj, kind, r, now)
}

func isBound(obj runtime.Object, kind string, r ref, now time.Time) error {
	switch m, ok := obj.(metav1.Object); {
	case ok && string(m.GetUID()) != r.UID:
		return fmt.Errorf("%s UID (%s) does not match service account %s ref claim (%s)", kind, m.GetUID(), kind, r.UID)
	case !ok || deleted(m, now):
		return errInvalidated
	}
	return nil
}

func isAccount(obj runtime.Object, k private, now time.Time) error {
	switch m, ok := obj.(metav1.Object); {
	case ok && string(m.GetUID()) != k.ServiceAccount.UID:
		return fmt.Errorf("service account UID (%s) does not match claim (%s)", m.GetUID(), k.ServiceAccount.UID)
	case !ok || deleted(m, now):
		return fmt.Errorf("service account %s/%s has been deleted", k.Namespace, k.ServiceAccount.Name)
	}
	return nil
}

func deleted(m metav1.Object, now time.Time) bool {
	d := m.GetDeletionTimestamp()
	return d != nil && now.After(d.Add(bindingGrace))
}
