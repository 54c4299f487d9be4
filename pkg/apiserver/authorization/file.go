// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package authorization

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/apis/apiserver/load"
	"k8s.io/apiserver/pkg/apis/apiserver/validation"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	authorizationcel "k8s.io/apiserver/pkg/authorization/cel"
	"k8s.io/apiserver/pkg/server/options/authorizationconfig/metrics"
	"k8s.io/apiserver/pkg/util/filesystem"
	"k8s.io/klog/v2"
)

// Load reads an AuthorizationConfiguration and validates it.
func Load(path string) (*apiserver.AuthorizationConfiguration, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return decode(data, authorizationcel.NewDefaultCompiler())
}

func decode(data []byte, compiler authorizationcel.Compiler) (*apiserver.AuthorizationConfiguration, error) {
	c, err := load.LoadFromData(data)
	if err != nil {
		return nil, fmt.Errorf("failed to load AuthorizationConfiguration from file: %w", err)
	}
	if errs := validation.ValidateAuthorizationConfiguration(compiler, nil, c, sets.New(Modes...), sets.New(Remote)); len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	for _, a := range c.Authorizers {
		if want := strings.ToLower(string(a.Type)); string(a.Type) != Remote && a.Name != want {
			return nil, fmt.Errorf("expected name %s for authorizer %s instead of %s", want, a.Type, a.Name)
		}
	}
	return c, nil
}

// followed is the union that a file describes, as it was when it was valid last. Safe for concurrent use.
type followed struct {
	current atomic.Pointer[Authorizer]

	// What the watch of the file uses, and nobody else.
	local    *local
	log      klog.Logger
	serverID string
	// required are the local authorizers that the file began with; it must go on to name them.
	required []apiserver.AuthorizerType
	read     []byte
	last     *apiserver.AuthorizationConfiguration
}

func follow(ctx context.Context, l *local, s Server) (Authorizer, error) {
	data, err := os.ReadFile(l.config.File)
	if err != nil {
		return nil, err
	}
	c, err := decode(data, l.compiler)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", l.config.File, err)
	}
	if err := l.addFixed(c, s); err != nil {
		return nil, err
	}
	a, err := l.build(c)
	if err != nil {
		return nil, err
	}
	f := &followed{local: l, log: klog.FromContext(ctx).WithValues("file", l.config.File), serverID: s.ID, read: data, last: c}
	for _, a := range c.Authorizers {
		if string(a.Type) != Remote {
			f.required = append(f.required, a.Type)
		}
	}
	f.current.Store(&a)
	metrics.RegisterMetrics()
	metrics.RecordAuthorizationConfigLastConfigInfo(s.ID, string(data))
	go filesystem.WatchUntil(ctx, time.Minute, l.config.File, f.reload, func(err error) {
		f.log.Error(err, "Watching the authorization configuration")
	})
	return f, nil
}

// reload takes over what the file says now, if it is valid.
func (f *followed) reload() {
	data, err := os.ReadFile(f.local.config.File)
	if err == nil {
		if bytes.Equal(data, f.read) {
			return
		}
		f.read = data
		err = f.replace(data)
	}
	if err != nil {
		f.log.Error(err, "Reloading the authorization configuration: the previous one stays in force")
		metrics.RecordAuthorizationConfigAutomaticReloadFailure(f.serverID)
		return
	}
	f.log.Info("Reloaded the authorization configuration")
	metrics.RecordAuthorizationConfigAutomaticReloadSuccess(f.serverID, string(data))
}

func (f *followed) replace(data []byte) error {
	c, err := decode(data, f.local.compiler)
	if err != nil {
		return err
	}
	for _, required := range f.required {
		if !slices.ContainsFunc(c.Authorizers, func(a apiserver.AuthorizerConfiguration) bool { return a.Type == required }) {
			return fmt.Errorf("missing required type: %s", required)
		}
	}
	if reflect.DeepEqual(c, f.last) {
		return nil
	}
	a, err := f.local.build(c)
	if err != nil {
		return err
	}
	f.last = c
	f.current.Store(&a)
	return nil
}

// Authorize implements authorizer.Authorizer.
func (f *followed) Authorize(ctx context.Context, attrs authorizer.Attributes) (authorizer.Decision, string, error) {
	return (*f.current.Load()).Authorize(ctx, attrs)
}

// ConditionsAwareAuthorize implements authorizer.Authorizer.
func (f *followed) ConditionsAwareAuthorize(ctx context.Context, attrs authorizer.Attributes) authorizer.ConditionsAwareDecision {
	return (*f.current.Load()).ConditionsAwareAuthorize(ctx, attrs)
}

// EvaluateConditions implements authorizer.Authorizer.
func (f *followed) EvaluateConditions(ctx context.Context, d authorizer.ConditionsAwareDecision, data authorizer.ConditionsData) (authorizer.Decision, string, error) {
	return (*f.current.Load()).EvaluateConditions(ctx, d, data)
}

// RulesFor implements authorizer.RuleResolver.
func (f *followed) RulesFor(ctx context.Context, u user.Info, namespace string) ([]authorizer.ResourceRuleInfo, []authorizer.NonResourceRuleInfo, bool, error) {
	return (*f.current.Load()).RulesFor(ctx, u, namespace)
}
