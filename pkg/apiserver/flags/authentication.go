// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package flags

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	apiserverapi "k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/server/options"
	certutil "k8s.io/client-go/util/cert"
	cliflag "k8s.io/component-base/cli/flag"

	"minik8s.io/minik8s/pkg/apiserver"
	"minik8s.io/minik8s/pkg/apiserver/authentication"
	"minik8s.io/minik8s/pkg/apiserver/authentication/oidc"
)

// authenticationFlags say who is accepted, and how ServiceAccount tokens are issued.
type authenticationFlags struct {
	file            string
	audiences       []string
	anonymous       bool
	bootstrapTokens bool
	tokenFile       string
	clientCert      options.ClientCertAuthenticationOptions
	requestHeader   options.RequestHeaderAuthenticationOptions

	oidc struct {
		issuer, client, ca            string
		usernameClaim, usernamePrefix string
		groupsClaim, groupsPrefix     string
		algorithms                    []string
		required                      map[string]string
	}
	webhook struct {
		file, version string
		ttl           time.Duration
	}

	issuers         []string
	signingKey      string
	keyFiles        []string
	keysURL         string
	maxExpiration   time.Duration
	extend, lookups bool

	// given tells whether a flag was set.
	given func(name string) bool
}

func newAuthenticationFlags() authenticationFlags {
	f := authenticationFlags{anonymous: true, extend: true, lookups: true}
	f.oidc.usernameClaim, f.oidc.algorithms = "sub", []string{"RS256"}
	f.webhook.version, f.webhook.ttl = "v1beta1", 2*time.Minute
	return f
}

func (f *authenticationFlags) add(fs *pflag.FlagSet) {
	f.given = fs.Changed
	fs.StringVar(&f.file, "authentication-config", "", "File with an AuthenticationConfiguration: issuers of JWTs, and where anonymous requests are let in. It is read again when it changes. Excludes the --oidc-* flags, and --anonymous-auth if it says something about that.")
	fs.StringSliceVar(&f.audiences, "api-audiences", nil, "Names of this API in tokens. Default: the issuers of ServiceAccount tokens.")
	fs.BoolVar(&f.anonymous, "anonymous-auth", f.anonymous, "Let requests without credentials in as system:anonymous, of the group system:unauthenticated.")
	fs.BoolVar(&f.bootstrapTokens, "enable-bootstrap-token-auth", false, "Accept tokens in secrets of type 'bootstrap.kubernetes.io/token' in the namespace 'kube-system'.")
	fs.StringVar(&f.tokenFile, "token-auth-file", "", "CSV file of tokens.")
	f.clientCert.AddFlags(fs)
	f.requestHeader.AddFlags(fs)

	o := &f.oidc
	fs.StringVar(&o.issuer, "oidc-issuer-url", "", "URL (https) of an OpenID Connect provider whose ID tokens are accepted.")
	fs.StringVar(&o.client, "oidc-client-id", "", "Client that the tokens must be for.")
	fs.StringVar(&o.ca, "oidc-ca-file", "", "CA of the provider's certificate. Default: those of the host.")
	fs.StringVar(&o.usernameClaim, "oidc-username-claim", o.usernameClaim, "Claim that is the user's name.")
	fs.StringVar(&o.usernamePrefix, "oidc-username-prefix", "", "Prefix of user names. Default: the issuer's URL and '#', unless the claim is 'email'. '-' means none.")
	fs.StringVar(&o.groupsClaim, "oidc-groups-claim", "", "Claim that has the user's groups: a string or an array of strings.")
	fs.StringVar(&o.groupsPrefix, "oidc-groups-prefix", "", "Prefix of groups.")
	fs.StringSliceVar(&o.algorithms, "oidc-signing-algs", o.algorithms, "Signing algorithms that are accepted: RS256, RS384, RS512, ES256, ES384, ES512, PS256, PS384, PS512.")
	fs.Var(cliflag.NewMapStringStringNoSplit(&o.required), "oidc-required-claim", "A key=value that tokens must have. May be repeated.")

	fs.StringVar(&f.webhook.file, "authentication-token-webhook-config-file", "", "Kubeconfig of a webhook that is asked about bearer tokens.")
	fs.StringVar(&f.webhook.version, "authentication-token-webhook-version", f.webhook.version, "Version of authentication.k8s.io that the webhook speaks.")
	fs.DurationVar(&f.webhook.ttl, "authentication-token-webhook-cache-ttl", f.webhook.ttl, "How long the webhook's answers are trusted.")

	fs.StringArrayVar(&f.issuers, "service-account-issuer", nil, "Issuer of ServiceAccount tokens. May be repeated: the first issues, all are accepted.")
	fs.StringVar(&f.signingKey, "service-account-signing-key-file", "", "Private key that signs ServiceAccount tokens.")
	fs.StringArrayVar(&f.keyFiles, "service-account-key-file", nil, "Keys that verify ServiceAccount tokens. May be repeated.")
	fs.StringVar(&f.keysURL, "service-account-jwks-uri", "", "URL (https) at which others find the keys that verify ServiceAccount tokens. Default: at this server's external address.")
	fs.DurationVar(&f.maxExpiration, "service-account-max-token-expiration", 0, "Longest lifetime of a ServiceAccount token; a request for more gets this.")
	fs.BoolVar(&f.extend, "service-account-extend-token-expiration", f.extend, "Let the tokens that pods get by default last up to a year.")
	fs.BoolVar(&f.lookups, "service-account-lookup", f.lookups, "Accept tokens that are kept in secrets only as long as the secret is there.")
}

// usesOIDC tells whether any --oidc-* flag was given.
func (f *authenticationFlags) usesOIDC() bool {
	for _, name := range []string{"issuer-url", "client-id", "ca-file", "username-claim", "username-prefix", "groups-claim", "groups-prefix", "signing-algs", "required-claim"} {
		if f.given("oidc-" + name) {
			return true
		}
	}
	return false
}

func (f *authenticationFlags) validate() []error {
	var errs []error
	switch {
	case f.file != "" && f.usesOIDC():
		errs = append(errs, errors.New("authentication-config file and oidc-* flags are mutually exclusive"))
	case f.file == "" && f.usesOIDC() && (f.oidc.issuer == "" || f.oidc.client == ""):
		errs = append(errs, errors.New("oidc-issuer-url and oidc-client-id must be specified together when any oidc-* flags are set"))
	}
	seen := map[string]bool{}
	for _, issuer := range f.issuers {
		_, err := url.Parse(issuer)
		switch {
		case issuer == "":
			errs = append(errs, errors.New("service-account-issuer should not be an empty string"))
		case strings.Contains(issuer, ":") && err != nil:
			errs = append(errs, fmt.Errorf("service-account-issuer %q contained a ':' but was not a valid URL: %w", issuer, err))
		case seen[issuer]:
			errs = append(errs, fmt.Errorf("service-account-issuer %q is already specified", issuer))
		}
		seen[issuer] = true
	}
	if len(f.issuers) == 0 {
		errs = append(errs, errors.New("service-account-issuer is a required flag"))
	}
	if len(f.keyFiles) == 0 {
		errs = append(errs, errors.New("`--service-account-key-file` must be set"))
	}
	if f.signingKey == "" {
		errs = append(errs, errors.New("--service-account-signing-key-file and --service-account-issuer are required flags"))
	}
	if f.keysURL != "" {
		if u, err := url.Parse(f.keysURL); err != nil {
			errs = append(errs, fmt.Errorf("service-account-jwks-uri must be a valid URL: %w", err))
		} else if u.Scheme != "https" {
			errs = append(errs, fmt.Errorf("service-account-jwks-uri requires https scheme, parsed as: %v", u))
		}
	}
	if f.maxExpiration != 0 && (f.maxExpiration < time.Hour || f.maxExpiration > (1<<32)*time.Second) {
		errs = append(errs, errors.New("the service-account-max-token-expiration must be between 1 hour and 2^32 seconds"))
	}
	errs = append(errs, f.requestHeader.Validate()...)
	if f.sharedCA() {
		errs = append(errs, errors.New("--requestheader-client-ca-file and --client-ca-file contain overlapping certificates; --requestheader-allowed-names must be specified to ensure regular client certificates cannot set authenticating proxy headers for arbitrary users"))
	}
	return errs
}

// sharedCA tells whether any user with a certificate could pass for a proxy that says who the user is.
func (f *authenticationFlags) sharedCA() bool {
	if f.clientCert.ClientCA == "" || f.requestHeader.ClientCAFile == "" || len(f.requestHeader.AllowedNames) > 0 {
		return false
	}
	users, err := certutil.CertsFromFile(f.clientCert.ClientCA)
	proxies, proxyErr := certutil.CertsFromFile(f.requestHeader.ClientCAFile)
	if err != nil || proxyErr != nil {
		return false // reported where the files are read
	}
	for _, u := range users {
		if slices.ContainsFunc(proxies, u.Equal) {
			return true
		}
	}
	return false
}

// apply fills in who is accepted.
func (f *authenticationFlags) apply(c *apiserver.Config) error {
	c.TokenIssuer, c.OtherTokenIssuers = f.issuers[0], f.issuers[1:]
	c.APIAudiences, c.TokenKeysURL, c.MaxTokenExpiration = f.audiences, f.keysURL, f.maxExpiration
	c.ExactTokenLifetime, c.SkipTokenLookup = !f.extend, !f.lookups

	a := authentication.Config{TokenFile: f.tokenFile, BootstrapTokens: f.bootstrapTokens, Anonymous: &apiserverapi.AnonymousAuthConfig{Enabled: f.anonymous}}
	var err error
	if a.ClientCA, err = f.clientCert.GetClientCAContentProvider(); err != nil {
		return err
	}
	if a.RequestHeader, err = f.requestHeader.ToAuthenticationRequestHeaderConfig(); err != nil {
		return err
	}
	if f.webhook.file != "" {
		a.Webhook = &authentication.Webhook{Kubeconfig: f.webhook.file, Version: f.webhook.version, CacheTTL: f.webhook.ttl, Backoff: *options.DefaultAuthWebhookRetryBackoff()}
	}
	switch {
	case f.file != "":
		err = f.applyFile(&a)
	case f.oidc.issuer != "":
		err = f.applyOIDC(&a)
	}
	c.Authentication = a
	return err
}

func (f *authenticationFlags) applyFile(a *authentication.Config) error {
	said, err := oidc.Load(f.file, f.issuers)
	if err != nil {
		return fmt.Errorf("failed to load authentication configuration from file %q: %w", f.file, err)
	}
	if said.Anonymous != nil {
		if f.given("anonymous-auth") {
			return errors.New("anonymous: Forbidden: --anonymous-auth flag cannot be set when anonymous field is configured in authentication configuration file")
		}
		a.Anonymous = said.Anonymous
	}
	a.OIDC = &oidc.Config{Providers: said.JWT, File: f.file}
	return nil
}

// applyOIDC says in the structured form what the flags say.
func (f *authenticationFlags) applyOIDC(a *authentication.Config) error {
	o := f.oidc
	prefix := o.usernamePrefix
	switch {
	case prefix == "-":
		prefix = ""
	case prefix == "" && o.usernameClaim != "email":
		prefix = o.issuer + "#"
	}
	jwt := apiserverapi.JWTAuthenticator{
		Issuer:        apiserverapi.Issuer{URL: o.issuer, Audiences: []string{o.client}},
		ClaimMappings: apiserverapi.ClaimMappings{Username: apiserverapi.PrefixedClaimOrExpression{Prefix: &prefix, Claim: o.usernameClaim}},
	}
	if o.groupsClaim != "" {
		jwt.ClaimMappings.Groups = apiserverapi.PrefixedClaimOrExpression{Prefix: &o.groupsPrefix, Claim: o.groupsClaim}
	}
	if o.ca != "" {
		data, err := os.ReadFile(o.ca)
		if err != nil {
			return fmt.Errorf("--oidc-ca-file: %w", err)
		}
		jwt.Issuer.CertificateAuthority = string(data)
	}
	for claim, value := range o.required {
		jwt.ClaimValidationRules = append(jwt.ClaimValidationRules, apiserverapi.ClaimValidationRule{Claim: claim, RequiredValue: value})
	}
	whole := &apiserverapi.AuthenticationConfiguration{JWT: []apiserverapi.JWTAuthenticator{jwt}}
	if err := oidc.Validate(whole, f.issuers).ToAggregate(); err != nil {
		return fmt.Errorf("invalid authentication configuration: %w", err)
	}
	a.OIDC = &oidc.Config{Providers: whole.JWT, SigningAlgorithms: o.algorithms}
	return nil
}
