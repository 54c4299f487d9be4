// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package oidc knows users by the JWTs of OpenID Connect providers, as an AuthenticationConfiguration describes them, and
// follows the file that it came from. Touch it when reading or replacing that configuration changes; checking of tokens is
// k8s.io/apiserver's.
package oidc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/apis/apiserver/install"
	"k8s.io/apiserver/pkg/apis/apiserver/validation"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	authenticationcel "k8s.io/apiserver/pkg/authentication/cel"
	"k8s.io/apiserver/pkg/authentication/token/union"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/apiserver/pkg/server/options/authenticationconfig/metrics"
	"k8s.io/apiserver/pkg/util/filesystem"
	"k8s.io/apiserver/plugin/pkg/authenticator/token/oidc"
	"k8s.io/klog/v2"
)

// Config says which providers are trusted.
type Config struct {
	// Providers are those of the start; no more than these if File is empty.
	Providers []apiserver.JWTAuthenticator
	// SigningAlgorithms are accepted in tokens (RFC 7518); empty means all that are sound.
	SigningAlgorithms []string
	// File is read again when it changes. Its anonymous part may not change.
	File string

	// ReservedIssuers may not be providers: this server issues tokens under these names itself.
	ReservedIssuers []string
	// Audiences of this API server.
	Audiences authenticator.Audiences
	// ServerID is a label of metrics.
	ServerID string
}

// Load reads an AuthenticationConfiguration and validates it.
func Load(path string, reservedIssuers []string) (*apiserver.AuthenticationConfiguration, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return decode(data, reservedIssuers)
}

// Validate checks a configuration that did not come from a file.
func Validate(c *apiserver.AuthenticationConfiguration, reservedIssuers []string) field.ErrorList {
	return validation.ValidateAuthenticationConfiguration(authenticationcel.NewDefaultCompiler(), c, reservedIssuers)
}

func decode(data []byte, reservedIssuers []string) (*apiserver.AuthenticationConfiguration, error) {
	if len(data) == 0 {
		return nil, errors.New("empty config data")
	}
	scheme := runtime.NewScheme()
	install.Install(scheme)
	obj, err := runtime.Decode(serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDecoder(), data)
	if err != nil {
		return nil, err
	}
	c, ok := obj.(*apiserver.AuthenticationConfiguration)
	if !ok {
		return nil, fmt.Errorf("expected AuthenticationConfiguration, got %T", obj)
	}
	if err := Validate(c, reservedIssuers).ToAggregate(); err != nil {
		return nil, fmt.Errorf("invalid authentication configuration: %w", err)
	}
	return c, nil
}

// Authenticator trusts the providers of the latest valid configuration. Safe for concurrent use.
type Authenticator struct {
	config  Config
	ctx     context.Context
	current atomic.Pointer[providers]

	// read and anonymous are what the file said last and at first. Only the watch of the file uses them.
	read      []byte
	anonymous *apiserver.AnonymousAuthConfig
}

var _ authenticator.Token = (*Authenticator)(nil)

// providers are the authenticators of one configuration; stop ends their upkeep of keys.
type providers struct {
	authenticator.Token
	healthy func() error
	stop    context.CancelFunc
	issuers []string
}

// New returns an authenticator whose upkeep of keys and watch of the file ends with ctx.
func New(ctx context.Context, c Config) (*Authenticator, error) {
	if len(c.SigningAlgorithms) == 0 {
		c.SigningAlgorithms = oidc.AllValidSigningAlgorithms()
	}
	a := &Authenticator{config: c, ctx: ctx}
	p, err := a.build(c.Providers)
	if err != nil {
		return nil, err
	}
	a.current.Store(p)
	if c.File == "" {
		return a, nil
	}
	if a.read, err = os.ReadFile(c.File); err != nil {
		return nil, err
	}
	initial, err := decode(a.read, c.ReservedIssuers)
	if err != nil {
		return nil, err
	}
	a.anonymous = initial.Anonymous
	metrics.RegisterMetrics()
	metrics.RecordAuthenticationConfigLastConfigInfo(c.ServerID, string(a.read))
	go filesystem.WatchUntil(ctx, time.Minute, c.File, a.reload, func(err error) {
		klog.FromContext(ctx).Error(err, "Watching the authentication configuration", "file", c.File)
	})
	return a, nil
}

// AuthenticateToken implements authenticator.Token.
func (a *Authenticator) AuthenticateToken(ctx context.Context, token string) (*authenticator.Response, bool, error) {
	return a.current.Load().AuthenticateToken(ctx, token)
}

func (a *Authenticator) build(list []apiserver.JWTAuthenticator) (*providers, error) {
	ctx, stop := context.WithCancel(a.ctx)
	p := &providers{stop: stop}
	var all []authenticator.Token
	var checks []func() error
	for _, jwt := range list {
		options := oidc.Options{
			JWTAuthenticator: jwt, SupportedSigningAlgs: a.config.SigningAlgorithms, DisallowedIssuers: a.config.ReservedIssuers, APIServerID: a.config.ServerID,
		}
		if ca := jwt.Issuer.CertificateAuthority; ca != "" {
			content, err := dynamiccertificates.NewStaticCAContent("oidc-authenticator", []byte(ca))
			if err != nil {
				stop()
				return nil, fmt.Errorf("reading the CA of issuer %q: %w", jwt.Issuer.URL, err)
			}
			options.CAContentProvider = content
		}
		one, err := oidc.New(ctx, options)
		if err != nil {
			stop()
			return nil, fmt.Errorf("preparing issuer %q: %w", jwt.Issuer.URL, err)
		}
		all, checks, p.issuers = append(all, one), append(checks, one.HealthCheck), append(p.issuers, jwt.Issuer.URL)
	}
	p.Token = authenticator.WrapAudienceAgnosticToken(a.config.Audiences, union.NewFailOnError(all...))
	p.healthy = func() error {
		var errs []error
		for _, check := range checks {
			errs = append(errs, check())
		}
		return errors.Join(errs...)
	}
	return p, nil
}

// replaceTimeout is how long new providers may take to become reachable; after that the old ones stay in force until the
// next look at the file.
const replaceTimeout = 10 * time.Minute

// reload takes over what the file says now, if that is valid and its providers can be reached.
func (a *Authenticator) reload() {
	log := klog.FromContext(a.ctx).WithValues("file", a.config.File)
	data, err := os.ReadFile(a.config.File)
	if err != nil {
		log.Error(err, "Reading the authentication configuration")
		metrics.RecordAuthenticationConfigAutomaticReloadFailure(a.config.ServerID)
		return
	}
	if bytes.Equal(data, a.read) {
		return
	}
	c, err := decode(data, a.config.ReservedIssuers)
	if err == nil && !reflect.DeepEqual(c.Anonymous, a.anonymous) {
		err = field.Forbidden(field.NewPath("anonymous"), "changed from initial configuration file")
	}
	if err != nil {
		a.read = data // it will not become valid by itself
		log.Error(err, "The authentication configuration is not valid: the previous one stays in force")
		metrics.RecordAuthenticationConfigAutomaticReloadFailure(a.config.ServerID)
		return
	}
	if err := a.replace(c.JWT); err != nil {
		log.Error(err, "Taking over the authentication configuration")
		metrics.RecordAuthenticationConfigAutomaticReloadFailure(a.config.ServerID)
		return
	}
	a.read = data
	log.Info("Reloaded the authentication configuration")
	metrics.RecordAuthenticationConfigAutomaticReloadSuccess(a.config.ServerID, string(data))
}

func (a *Authenticator) replace(list []apiserver.JWTAuthenticator) error {
	p, err := a.build(list)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(a.ctx, replaceTimeout)
	defer cancel()
	var last error
	if err := wait.PollUntilContextCancel(ctx, 10*time.Second, true, func(context.Context) (bool, error) {
		last = p.healthy()
		return last == nil, nil
	}); err != nil {
		p.stop()
		return errors.Join(err, last)
	}
	old := a.current.Swap(p)
	go a.retire(old)
	return nil
}

// grace is how long requests that began before a reload may still use the old providers.
const grace = time.Minute

func (a *Authenticator) retire(old *providers) {
	defer utilruntime.HandleCrash()
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-a.ctx.Done():
	case <-timer.C:
	}
	old.stop()
	inUse := map[string]bool{}
	for _, issuer := range a.current.Load().issuers {
		inUse[issuer] = true
	}
	for _, issuer := range old.issuers {
		if !inUse[issuer] {
			oidc.DeleteJWKSFetchMetrics(issuer, a.config.ServerID)
		}
	}
}
