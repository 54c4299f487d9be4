// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package credentialprovider asks plugins, programs on the node, for logins to registries, and remembers what they have said for as
// long as they allow (KEP-2133, KEP-4412). Touch it when the way of asking them changes, or for whom an answer counts.
package credentialprovider

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	kubeletconfigv1 "k8s.io/kubelet/config/v1"
	kubeletconfigv1beta1 "k8s.io/kubelet/config/v1beta1"
	credentialproviderv1 "k8s.io/kubelet/pkg/apis/credentialprovider/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
)

const (
	// deadline is what a plugin may take, as upstream's.
	deadline = time.Minute
	// patience is what the API server may take to tell of a service account and its token.
	patience = 30 * time.Second
)

// Plugin answers a request; it is a program but in tests.
type Plugin interface {
	Ask(ctx context.Context, p *kubeletconfigv1.CredentialProvider, r *credentialproviderv1.CredentialProviderRequest) (*credentialproviderv1.CredentialProviderResponse, error)
}

// Config configures Providers. All fields are required.
type Config struct {
	// Providers are valid; see configuration.CredentialProviders.
	Providers []kubeletconfigv1.CredentialProvider
	Plugin    Plugin
	// Account gets a service account, and Token a token of that of a pod, for an audience.
	Account func(ctx context.Context, namespace, name string) (*corev1.ServiceAccount, error)
	Token   func(ctx context.Context, pod *corev1.Pod, audience string) (string, error)
	Clock   clock.PassiveClock
}

// Credential is a login for the images that match a pattern.
type Credential struct {
	Pattern            string
	Username, Password string
	// Account is whose token the plugin had for it; nil: every pod of the node may use what is pulled with it.
	Account *kubeletconfigv1beta1.ImagePullServiceAccount
}

// Providers are the plugins of a node. Safe for concurrent use.
type Providers struct {
	config Config
	asking singleflight.Group

	mu      sync.Mutex // guards answers
	answers map[key]answer
}

// key is for what an answer counts: an image, a registry or everything (scope ""), and the service account or token that it is for.
type key struct {
	provider, scope          string
	namespace, name          string
	uid, annotations, tokens string
}

type answer struct {
	auth    map[string]credentialproviderv1.AuthConfig
	expires time.Time
}

// New returns Providers that have not asked yet.
func New(config Config) *Providers { return &Providers{config: config, answers: map[key]answer{}} }

// Credentials are the logins of all plugins that are for a repository, a name with its registry and without tag and digest, in the
// order of the plugins. Of one that has none to offer, fails or takes too long only the log tells. The error is that of ctx.
func (p *Providers) Credentials(ctx context.Context, pod *corev1.Pod, repository string) ([]Credential, error) {
	var all []Credential
	for i := range p.config.Providers {
		provider := &p.config.Providers[i]
		some, err := p.of(ctx, provider, pod, repository)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			klog.FromContext(ctx).Error(err, "Failed to provide credentials for image", "provider", provider.Name, "image", repository, "pod", klog.KObj(pod))
		}
		all = append(all, some...)
	}
	return all, nil
}

// of are the logins of one plugin.
func (p *Providers) of(ctx context.Context, provider *kubeletconfigv1.CredentialProvider, pod *corev1.Pod, repository string) ([]Credential, error) {
	if !matches(provider.MatchImages, repository) {
		return nil, nil
	}
	who, r, wanted, err := p.request(ctx, provider, pod, repository)
	if err != nil || !wanted {
		return nil, err
	}
	auth, known := p.known(who, repository)
	if !known {
		if auth, err = p.ask(ctx, provider, r, who); err != nil {
			return nil, err
		}
	}
	var account *kubeletconfigv1beta1.ImagePullServiceAccount
	if who.name != "" {
		account = &kubeletconfigv1beta1.ImagePullServiceAccount{UID: who.uid, Namespace: who.namespace, Name: who.name}
	}
	var out []Credential
	for pattern, a := range auth {
		out = append(out, Credential{Pattern: pattern, Username: a.Username, Password: a.Password, Account: account})
	}
	return out, nil
}

// request is what a plugin is asked for a pod, and for whom the answer counts. wanted is false if it is not to be asked.
func (p *Providers) request(ctx context.Context, provider *kubeletconfigv1.CredentialProvider, pod *corev1.Pod, repository string) (
	who key, r *credentialproviderv1.CredentialProviderRequest, wanted bool, err error,
) {
	who.provider = provider.Name
	r = &credentialproviderv1.CredentialProviderRequest{Image: repository}
	r.APIVersion, r.Kind = provider.APIVersion, "CredentialProviderRequest"
	tokens := provider.TokenAttributes
	if tokens == nil {
		return who, r, true, nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	name := pod.Spec.ServiceAccountName
	if name == "" {
		return who, r, !ptr.Deref(tokens.RequireServiceAccount, true), nil
	}
	account, err := p.config.Account(ctx, pod.Namespace, name)
	if err != nil {
		return who, nil, false, fmt.Errorf("failed to get service account: %w", err)
	}
	annotations, missing := annotationsFor(tokens, account.Annotations)
	if missing != "" {
		klog.FromContext(ctx).V(5).Info("A credential provider is not asked for a service account without its annotation",
			"provider", provider.Name, "pod", klog.KObj(pod), "annotation", missing)
		return who, nil, false, nil
	}
	r.ServiceAccountAnnotations = annotations
	if r.ServiceAccountToken, err = p.config.Token(ctx, pod, tokens.ServiceAccountTokenAudience); err != nil {
		return who, nil, false, fmt.Errorf("failed to get service account token: %w", err)
	}
	text, err := json.Marshal(annotations) // in the order of the keys
	if err != nil {
		return who, nil, false, err
	}
	who.namespace, who.name, who.uid, who.annotations = pod.Namespace, name, string(account.UID), string(text)
	if tokens.CacheType == kubeletconfigv1.TokenServiceAccountTokenCacheType {
		who.tokens = hash(r.ServiceAccountToken)
	}
	return who, r, true, nil
}

// annotationsFor are the annotations that a plugin is told, and the first that it needs and that is missing.
func annotationsFor(a *kubeletconfigv1.ServiceAccountTokenAttributes, have map[string]string) (told map[string]string, missing string) {
	told = map[string]string{}
	for _, k := range a.RequiredServiceAccountAnnotationKeys {
		v, is := have[k]
		if !is {
			return nil, k
		}
		told[k] = v
	}
	for _, k := range a.OptionalServiceAccountAnnotationKeys {
		if v, is := have[k]; is {
			told[k] = v
		}
	}
	return told, ""
}

// known is an answer that counts still.
func (p *Providers) known(who key, repository string) (map[string]credentialproviderv1.AuthConfig, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, scope := range []string{repository, registry(repository), ""} {
		who.scope = scope
		if a, is := p.answers[who]; is && p.config.Clock.Now().Before(a.expires) {
			return a.auth, true
		}
	}
	return nil, false
}

// ask has a plugin answer, for all who ask the same at that time, and notes what it says.
func (p *Providers) ask(ctx context.Context, provider *kubeletconfigv1.CredentialProvider, r *credentialproviderv1.CredentialProviderRequest, who key) (
	map[string]credentialproviderv1.AuthConfig, error,
) {
	id := fmt.Sprintf("%q %q %q %q", provider.Name, r.Image, hash(r.ServiceAccountToken), who.annotations)
	asked := p.asking.DoChan(id, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), deadline) // others may wait for it when this caller does not
		defer cancel()
		return p.config.Plugin.Ask(ctx, provider, r)
	})
	var response *credentialproviderv1.CredentialProviderResponse
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case got := <-asked:
		if got.Err != nil {
			return nil, fmt.Errorf("failed to get credential from external registry credential provider: %w", got.Err)
		}
		response = got.Val.(*credentialproviderv1.CredentialProviderResponse)
	}
	if r.ServiceAccountToken != "" && provider.TokenAttributes.CacheType != kubeletconfigv1.TokenServiceAccountTokenCacheType {
		for _, a := range response.Auth {
			if a.Password == r.ServiceAccountToken {
				return nil, errors.New("credential provider plugin returned the service account token as the password which is not allowed when service account cache type is not set to 'Token'")
			}
		}
	}
	switch response.CacheKeyType {
	case credentialproviderv1.ImagePluginCacheKeyType:
		who.scope = r.Image
	case credentialproviderv1.RegistryPluginCacheKeyType:
		who.scope = registry(r.Image)
	case credentialproviderv1.GlobalPluginCacheKeyType:
		who.scope = ""
	default:
		return nil, fmt.Errorf("credential provider plugin did not return a valid cacheKeyType: %s", response.CacheKeyType)
	}
	if d := ptr.Deref(response.CacheDuration, ptr.Deref(provider.DefaultCacheDuration, metav1.Duration{})).Duration; d > 0 {
		p.note(who, answer{auth: response.Auth, expires: p.config.Clock.Now().Add(d)})
	}
	return response.Auth, nil
}

func (p *Providers) note(who key, a answer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.config.Clock.Now()
	maps.DeleteFunc(p.answers, func(_ key, old answer) bool { return !now.Before(old.expires) })
	p.answers[who] = a
}

func matches(patterns []string, repository string) bool {
	for _, m := range patterns {
		if Match(m, repository) {
			return true
		}
	}
	return false
}

// Match says whether a pattern, host[:port][/path], is for a repository: the parts of the host may have wildcards, the port is the
// same, and the path begins so.
func Match(pattern, repository string) bool {
	wantHost, wantPath, _ := strings.Cut(pattern, "/")
	haveHost, havePath, _ := strings.Cut(repository, "/")
	if !strings.HasPrefix(havePath, wantPath) {
		return false
	}
	wantHost, wantPort, _ := strings.Cut(wantHost, ":")
	haveHost, havePort, _ := strings.Cut(haveHost, ":")
	want, have := strings.Split(wantHost, "."), strings.Split(haveHost, ".")
	if wantPort != havePort || len(want) != len(have) {
		return false
	}
	for i := range want {
		if ok, err := path.Match(want[i], have[i]); err != nil || !ok {
			return false
		}
	}
	return true
}

func registry(repository string) string {
	host, _, _ := strings.Cut(repository, "/")
	return host
}

// hash tells secrets apart without keeping them.
func hash(secret string) string {
	if secret == "" {
		return ""
	}
	return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(secret)))
}
