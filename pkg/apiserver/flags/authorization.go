// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package flags

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apiserver/pkg/server/options"
	"k8s.io/klog/v2"

	"minik8s.io/minik8s/pkg/apiserver"
	"minik8s.io/minik8s/pkg/apiserver/authorization"
)

// authorizationFlags say who decides.
type authorizationFlags struct {
	modes   []string
	file    string
	webhook authorization.Webhook

	given func(name string) bool
}

func newAuthorizationFlags() authorizationFlags {
	return authorizationFlags{webhook: authorization.Webhook{Version: "v1beta1", AllowedTTL: 5 * time.Minute, DeniedTTL: 30 * time.Second}}
}

func (f *authorizationFlags) add(fs *pflag.FlagSet) {
	f.given = fs.Changed
	fs.StringSliceVar(&f.modes, "authorization-mode", nil, "Authorizers, in order, of: "+strings.Join(authorization.Modes, ",")+". Default: AlwaysAllow, unless --authorization-config is given.")
	fs.StringVar(&f.file, "authorization-config", "", "File with an AuthorizationConfiguration. It is read again when it changes. Excludes --authorization-mode and --authorization-webhook-*.")
	fs.StringVar(&f.webhook.Kubeconfig, "authorization-webhook-config-file", "", "Kubeconfig of the webhook of the mode Webhook.")
	fs.StringVar(&f.webhook.Version, "authorization-webhook-version", f.webhook.Version, "Version of authorization.k8s.io that the webhook speaks.")
	fs.DurationVar(&f.webhook.AllowedTTL, "authorization-webhook-cache-authorized-ttl", f.webhook.AllowedTTL, "How long the webhook is believed that something is allowed.")
	fs.DurationVar(&f.webhook.DeniedTTL, "authorization-webhook-cache-unauthorized-ttl", f.webhook.DeniedTTL, "How long the webhook is believed that something is not allowed.")
}

// complete fills in the default, and closes the door to anonymous users if it lets everybody do everything.
func (f *authorizationFlags) complete(who *authenticationFlags) {
	if f.file == "" && len(f.modes) == 0 {
		f.modes = []string{authorization.AlwaysAllow}
	}
	if who.anonymous && slices.Contains(f.modes, authorization.AlwaysAllow) {
		klog.InfoS("Anonymous requests are refused: the authorizer AlwaysAllow would let them do everything")
		who.anonymous = false
	}
}

func (f *authorizationFlags) validate() []error {
	if f.file != "" {
		others := []string{
			"authorization-mode", "authorization-webhook-config-file", "authorization-webhook-version",
			"authorization-webhook-cache-authorized-ttl", "authorization-webhook-cache-unauthorized-ttl",
		}
		if slices.ContainsFunc(others, f.given) {
			return []error{errors.New("--authorization-config can not be specified when --authorization-mode or --authorization-webhook-* flags are defined")}
		}
		if _, err := authorization.Load(f.file); err != nil {
			return []error{err}
		}
		return nil
	}
	var errs []error
	for i, mode := range f.modes {
		switch {
		case mode == "ABAC":
			errs = append(errs, errors.New("authorization-mode ABAC is not supported: use RBAC or Webhook"))
		case !slices.Contains(authorization.Modes, mode):
			errs = append(errs, fmt.Errorf("authorization-mode %q is not a valid mode", mode))
		case slices.Contains(f.modes[:i], mode):
			errs = append(errs, fmt.Errorf("authorization-mode %q has mode specified more than once", f.modes))
		case mode == authorization.Remote && f.webhook.Kubeconfig == "":
			errs = append(errs, errors.New("authorization-mode Webhook's authorization config file not passed"))
		}
	}
	if f.webhook.Kubeconfig != "" && !slices.Contains(f.modes, authorization.Remote) {
		errs = append(errs, errors.New("cannot specify --authorization-webhook-config-file without mode Webhook"))
	}
	return errs
}

func (f *authorizationFlags) apply(c *apiserver.Config) {
	c.Authorization = authorization.Config{Modes: f.modes, File: f.file, Backoff: *options.DefaultAuthWebhookRetryBackoff()}
	if f.webhook.Kubeconfig != "" {
		c.Authorization.Webhook = &f.webhook
	}
}
