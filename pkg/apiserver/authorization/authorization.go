// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package authorization decides whether a user may make a request, by the configured authorizers in order. Touch it to
// add another (a folder, and a case in build).
package authorization

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	authorizationcel "k8s.io/apiserver/pkg/authorization/cel"
	"k8s.io/apiserver/pkg/authorization/metrics"
	"k8s.io/apiserver/pkg/authorization/union"
	webhookutil "k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/apiserver/plugin/pkg/authorizer/webhook"
	webhookmetrics "k8s.io/apiserver/plugin/pkg/authorizer/webhook/metrics"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"minik8s.io/minik8s/pkg/apiserver/authorization/node"
	"minik8s.io/minik8s/pkg/apiserver/authorization/policy"
	"minik8s.io/minik8s/pkg/apiserver/authorization/rbac"
)

// Names of authorizers, as --authorization-mode and the type in an AuthorizationConfiguration spell them.
const (
	Node        = "Node"
	RBAC        = "RBAC"
	AlwaysAllow = "AlwaysAllow"
	AlwaysDeny  = "AlwaysDeny"
	Remote      = string(apiserver.TypeWebhook)
)

// nodePatience is how far the watch of a node may be ahead of ours: both are fed by the same process, but under load not at once.
const nodePatience = 250 * time.Millisecond

// Modes are all of them.
var Modes = []string{AlwaysAllow, AlwaysDeny, Remote, RBAC, Node}

// Config of the authorizers.
type Config struct {
	// Modes are authorizers in order.
	Modes []string
	// Webhook is that of the mode of this name; required by it.
	Webhook *Webhook
	// File is an AuthorizationConfiguration, in place of Modes and Webhook. It is read again when it changes.
	File string
	// Backoff between attempts to reach webhooks.
	Backoff wait.Backoff
}

// Webhook is a remote authorizer as flags describe it.
type Webhook struct {
	// Kubeconfig says how to reach it.
	Kubeconfig string
	// Version of authorization.k8s.io that it speaks: v1 or v1beta1.
	Version string
	// AllowedTTL and DeniedTTL are how long its answers are trusted.
	AllowedTTL, DeniedTTL time.Duration
}

// configuration says in the structured form what Modes and Webhook say.
func (c Config) configuration() (*apiserver.AuthorizationConfiguration, error) {
	out := &apiserver.AuthorizationConfiguration{}
	for _, mode := range c.Modes {
		a := apiserver.AuthorizerConfiguration{Type: apiserver.AuthorizerType(mode), Name: strings.ToLower(mode)}
		if mode == Remote {
			if c.Webhook == nil {
				return nil, errors.New("authorization mode Webhook needs a kubeconfig of the webhook")
			}
			a.Name = "default"
			a.Webhook = &apiserver.WebhookConfiguration{
				AuthorizedTTL: metav1.Duration{Duration: c.Webhook.AllowedTTL}, CacheAuthorizedRequests: c.Webhook.AllowedTTL != 0,
				UnauthorizedTTL: metav1.Duration{Duration: c.Webhook.DeniedTTL}, CacheUnauthorizedRequests: c.Webhook.DeniedTTL != 0,
				Timeout: metav1.Duration{Duration: 30 * time.Second}, FailurePolicy: apiserver.FailurePolicyNoOpinion,
				SubjectAccessReviewVersion: c.Webhook.Version,
				ConnectionInfo:             apiserver.WebhookConnectionInfo{Type: apiserver.AuthorizationWebhookConnectionInfoTypeKubeConfigFile, KubeConfigFile: &c.Webhook.Kubeconfig},
			}
		}
		out.Authorizers = append(out.Authorizers, a)
	}
	return out, nil
}

// Server is what authorizers use of the server that they are part of.
type Server struct {
	// Informers feed the authorizers; the caller starts them.
	Informers informers.SharedInformerFactory
	// RBAC is the authorizer of this name; required by that mode.
	RBAC *rbac.Authorizer
	// ID is a label of metrics.
	ID string
}

// Authorizer decides and tells what it allows. Safe for concurrent use.
type Authorizer interface {
	authorizer.Authorizer
	authorizer.RuleResolver
}

// New returns the union of the configured authorizers. system:masters may do all, whatever they say. Watching the file ends
// with ctx.
func New(ctx context.Context, c Config, s Server) (Authorizer, error) {
	l := &local{config: c, compiler: authorizationcel.NewDefaultCompiler(), fixed: map[apiserver.AuthorizerType]Authorizer{}}
	if c.File != "" {
		return follow(ctx, l, s)
	}
	configuration, err := c.configuration()
	if err != nil {
		return nil, err
	}
	if err := l.addFixed(configuration, s); err != nil {
		return nil, err
	}
	return l.build(configuration)
}

// local makes unions of authorizers. Those inside this process are made once and outlive changes of the configuration.
type local struct {
	config   Config
	compiler authorizationcel.Compiler
	fixed    map[apiserver.AuthorizerType]Authorizer
}

// addFixed makes the authorizers that are fed by informers, which cannot be added once the server runs.
func (l *local) addFixed(c *apiserver.AuthorizationConfiguration, s Server) error {
	shared := s.Informers
	for _, a := range c.Authorizers {
		switch string(a.Type) {
		case RBAC:
			if s.RBAC == nil {
				return errors.New("authorization mode RBAC needs the API group rbac.authorization.k8s.io, which is not served")
			}
			l.fixed[a.Type] = s.RBAC
		case Node:
			n := &node.Authorizer{Index: node.NewIndex(), Rules: policy.NodeRules(), Patience: nodePatience}
			for _, watched := range []cache.SharedIndexInformer{
				shared.Core().V1().Pods().Informer(), shared.Core().V1().PersistentVolumes().Informer(), shared.Core().V1().PersistentVolumeClaims().Informer(),
				shared.Storage().V1().VolumeAttachments().Informer(), shared.Resource().V1().ResourceSlices().Informer(),
				shared.Certificates().V1().PodCertificateRequests().Informer(),
			} {
				if _, err := watched.AddEventHandler(n.Index.Handler()); err != nil {
					return fmt.Errorf("watching what belongs to nodes: %w", err)
				}
			}
			l.fixed[a.Type] = n
		}
	}
	return nil
}

// joined is a union of authorizers.
type joined struct {
	authorizer.Authorizer
	authorizer.RuleResolver
}

func (l *local) build(c *apiserver.AuthorizationConfiguration) (Authorizer, error) {
	if len(c.Authorizers) == 0 {
		return nil, errors.New("at least one authorization mode must be passed")
	}
	all := []union.NamedAuthorizer{{AuthorizerName: "kubernetes.io/system-privileged-group", Authorizer: authorizerfactory.NewPrivilegedGroups(user.SystemPrivilegedGroup)}}
	var resolvers []authorizer.RuleResolver
	for _, a := range c.Authorizers {
		one, err := l.one(a)
		if err != nil {
			return nil, err
		}
		all = append(all, union.NamedAuthorizer{AuthorizerName: a.Name, Authorizer: metrics.InstrumentedAuthorizer(string(a.Type), a.Name, one)})
		resolvers = append(resolvers, one)
	}
	u, err := union.New(all...)
	if err != nil {
		return nil, err
	}
	return joined{u, union.NewRuleResolvers(resolvers...)}, nil
}

func (l *local) one(a apiserver.AuthorizerConfiguration) (Authorizer, error) {
	switch string(a.Type) {
	case AlwaysAllow:
		return authorizerfactory.NewAlwaysAllowAuthorizer(), nil
	case AlwaysDeny:
		return authorizerfactory.NewAlwaysDenyAuthorizer(), nil
	case Remote:
		return l.webhook(a.Name, a.Webhook)
	}
	if one, ok := l.fixed[a.Type]; ok {
		return one, nil
	}
	if string(a.Type) == RBAC || string(a.Type) == Node {
		return nil, fmt.Errorf("authorizer type %s is not allowed if it was not enabled at initial server startup", a.Type)
	}
	return nil, fmt.Errorf("unknown authorization mode %q: known are %v", a.Type, Modes)
}

// webhookMetrics are those that upstream's API server reports: all but the ones of single requests.
type webhookMetrics struct {
	webhookmetrics.NoopRequestMetrics
	webhookmetrics.WebhookMetrics
	authorizationcel.MatcherMetrics
}

func (l *local) webhook(name string, w *apiserver.WebhookConfiguration) (Authorizer, error) {
	if w.ConnectionInfo.KubeConfigFile == nil {
		return nil, fmt.Errorf("authorization webhook %q: connection by %s is not supported: use KubeConfigFile", name, w.ConnectionInfo.Type)
	}
	client, err := webhookutil.LoadKubeconfig(*w.ConnectionInfo.KubeConfigFile, nil)
	if err != nil {
		return nil, fmt.Errorf("reading how to reach authorization webhook %q: %w", name, err)
	}
	client.Timeout = w.Timeout.Duration
	onError := authorizer.DecisionNoOpinion
	if w.FailurePolicy == apiserver.FailurePolicyDeny {
		onError = authorizer.DecisionDeny
	}
	allowed, denied := w.AuthorizedTTL.Duration, w.UnauthorizedTTL.Duration
	if !w.CacheAuthorizedRequests {
		allowed = 0
	}
	if !w.CacheUnauthorizedRequests {
		denied = 0
	}
	m := webhookMetrics{WebhookMetrics: webhookmetrics.NewWebhookMetrics(), MatcherMetrics: authorizationcel.NewMatcherMetrics()}
	remote, err := webhook.New(client, w.SubjectAccessReviewVersion, allowed, denied, l.config.Backoff, onError, w.MatchConditions, name, m, l.compiler)
	if err != nil {
		return nil, fmt.Errorf("preparing authorization webhook %q: %w", name, err)
	}
	return remote, nil
}
