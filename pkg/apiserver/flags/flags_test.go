// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package flags

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime/schema"
	cliflag "k8s.io/component-base/cli/flag"
	featuregatetesting "k8s.io/component-base/featuregate/testing"

	"minik8s.io/minik8s/pkg/apis/feature"
	"minik8s.io/minik8s/pkg/apiserver"
	"minik8s.io/minik8s/pkg/pki"
	"minik8s.io/minik8s/pkg/registry/groups"
)

// parse returns flags after a command line, with what is always required.
func parse(t *testing.T, args ...string) *Flags {
	t.Helper()
	dir := t.TempDir()
	f := New()
	fs := pflag.NewFlagSet("kube-apiserver", pflag.ContinueOnError)
	for _, set := range f.Sets().FlagSets {
		fs.AddFlagSet(set)
	}
	fs.SetNormalizeFunc(cliflag.WordSepNormalizeFunc)
	required := []string{
		"--etcd-servers=http://127.0.0.1:1", "--service-account-issuer=https://issuer", "--service-account-key-file=key", "--service-account-signing-key-file=key",
		"--cert-dir=" + dir, "--bind-address=127.0.0.1", "--advertise-address=192.0.2.1",
	}
	if err := fs.Parse(append(required, args...)); err != nil {
		t.Fatal(err)
	}
	return f
}

func TestValidate(t *testing.T) {
	t.Parallel()
	file := func(content string) string {
		path := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	ca, err := pki.NewCA("ca")
	if err != nil {
		t.Fatal(err)
	}
	caFile := file(string(ca.Cert))
	for _, tc := range []struct {
		args []string
		want string // part of the error; "" means none
	}{
		{nil, ""},
		{[]string{"--authorization-mode=Node,RBAC", "--allow-privileged", "--v=2", "--event-ttl=1h", "--enable-logs-handler=false", "--endpoint-reconciler-type=lease"}, ""},
		{[]string{"--authorization-mode=RBAC,RBAC"}, "mode specified more than once"},
		{[]string{"--authorization-mode=ABAC"}, "ABAC is not supported"},
		{[]string{"--authorization-mode=Anything"}, "is not a valid mode"},
		{[]string{"--authorization-mode=Webhook"}, "Webhook's authorization config file not passed"},
		{[]string{"--authorization-mode=RBAC", "--authorization-webhook-config-file=x"}, "without mode Webhook"},
		{[]string{"--authorization-mode=RBAC", "--authorization-config=x"}, "can not be specified when"},
		{[]string{"--authorization-config=" + file(`{"apiVersion":"apiserver.config.k8s.io/v1","kind":"AuthorizationConfiguration","authorizers":[{"type":"RBAC","name":"other"}]}`)}, "expected name rbac"},
		{[]string{"--oidc-issuer-url=https://x"}, "must be specified together"},
		{[]string{"--oidc-issuer-url=https://x", "--oidc-client-id=y"}, ""},
		{[]string{"--oidc-issuer-url=https://x", "--oidc-client-id=y", "--authentication-config=z"}, "mutually exclusive"},
		{[]string{"--service-account-issuer=https://issuer"}, "already specified"},
		{[]string{"--service-account-jwks-uri=http://x"}, "requires https scheme"},
		{[]string{"--service-account-max-token-expiration=1m"}, "between 1 hour and 2^32 seconds"},
		{[]string{"--client-ca-file=" + caFile, "--requestheader-client-ca-file=" + caFile, "--requestheader-username-headers=X-Remote-User"}, "contain overlapping certificates"},
		{[]string{"--client-ca-file=" + caFile, "--requestheader-client-ca-file=" + caFile, "--requestheader-username-headers=X-Remote-User", "--requestheader-allowed-names=proxy"}, ""},
		{[]string{"--service-cluster-ip-range=10.0.0.0/30"}, "at least 8"},
		{[]string{"--service-cluster-ip-range=10.0.0.0/24,10.1.0.0/24"}, "different IP family"},
		{[]string{"--service-cluster-ip-range=10.0.0.0/24,fd00::/112"}, ""},
		{[]string{"--service-cluster-ip-range=fd00::/112"}, "must match public address family"},
		{[]string{"--runtime-config=nothing.example.com/v1=true"}, "unknown api groups"},
		{[]string{"--runtime-config=api/v1,v1/pods=true,api/legacy=true"}, ""},
		{[]string{"--runtime-config=flowcontrol.apiserver.k8s.io/v1=false"}, "conflicts with --enable-priority-and-fairness"},
		{[]string{"--runtime-config=flowcontrol.apiserver.k8s.io/v1=false", "--enable-priority-and-fairness=false"}, ""},
		{[]string{"--enable-admission-plugins=A", "--disable-admission-plugins=A"}, "in both"},
		{[]string{"--watch-cache-sizes=pods"}, "watch cache size"},
		{[]string{"--encryption-provider-config-automatic-reload"}, "must be set with --encryption-provider-config"},
		{[]string{"--max-requests-inflight=-1"}, "can not be negative"},
		{[]string{"--enable-logs-handler"}, "--enable-logs-handler=true is not supported"},
		{[]string{"--apiserver-count=3"}, "there is one API server per cluster"},
		{[]string{"--etcd-servers-overrides=/events#http://127.0.0.1:1"}, ""},
		{[]string{"--etcd-servers-overrides=events"}, "--etcd-servers-overrides invalid"},
	} {
		t.Run(strings.Join(tc.args, " "), func(t *testing.T) {
			t.Parallel()
			f := parse(t, tc.args...)
			err := f.complete()
			var errs []error
			if err != nil {
				errs = append(errs, err)
			} else {
				errs = f.validate()
			}
			if tc.want == "" {
				if len(errs) > 0 {
					t.Errorf("refused: %v", errs)
				}
				return
			}
			for _, err := range errs {
				if strings.Contains(err.Error(), tc.want) {
					return
				}
			}
			t.Errorf("errors are %v, want one with %q", errs, tc.want)
		})
	}
}

func TestOverrides(t *testing.T) {
	t.Parallel()
	f := parse(t, "--etcd-servers-overrides=/events#http://a;http://b,apps/deployments#http://c", "--etcd-servers-overrides=coordination.k8s.io/leases#http://b;http://a")
	others, servers := f.overrides()
	want := [][]schema.GroupResource{{{Resource: "events"}, {Group: "coordination.k8s.io", Resource: "leases"}}, {{Group: "apps", Resource: "deployments"}}}
	var got [][]schema.GroupResource
	for _, o := range others {
		got = append(got, o.Resources)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([][]string{{"http://a", "http://b"}, {"http://c"}}, servers); diff != "" {
		t.Error(diff)
	}
}

func TestAuthentication(t *testing.T) {
	t.Parallel()
	f := parse(t, "--oidc-issuer-url=https://x", "--oidc-client-id=me", "--oidc-username-claim=name", "--oidc-groups-claim=groups", "--oidc-required-claim=a=b", "--service-account-issuer=https://former",
		"--service-account-extend-token-expiration=false", "--authorization-mode=RBAC")
	if err := f.complete(); err != nil {
		t.Fatal(err)
	}
	var c apiserver.Config
	if err := f.authentication.apply(&c); err != nil {
		t.Fatal(err)
	}
	if c.TokenIssuer != "https://issuer" || len(c.OtherTokenIssuers) != 1 || c.OtherTokenIssuers[0] != "https://former" || !c.ExactTokenLifetime {
		t.Errorf("tokens: %q, %q, %v", c.TokenIssuer, c.OtherTokenIssuers, c.ExactTokenLifetime)
	}
	if !c.Authentication.Anonymous.Enabled {
		t.Error("anonymous requests are refused")
	}
	jwt := c.Authentication.OIDC.Providers[0]
	if got := *jwt.ClaimMappings.Username.Prefix; got != "https://x#" {
		t.Errorf("prefix of names is %q", got)
	}
	if jwt.Issuer.URL != "https://x" || jwt.Issuer.Audiences[0] != "me" || jwt.ClaimMappings.Groups.Claim != "groups" || jwt.ClaimValidationRules[0].RequiredValue != "b" {
		t.Errorf("provider is %+v", jwt)
	}
}

// TestAlwaysAllow_RefusesAnonymous holds the default mode harmless to strangers.
func TestAlwaysAllow_RefusesAnonymous(t *testing.T) {
	t.Parallel()
	f := parse(t)
	if err := f.complete(); err != nil {
		t.Fatal(err)
	}
	if f.authentication.anonymous || len(f.authorization.modes) != 1 || f.authorization.modes[0] != "AlwaysAllow" {
		t.Errorf("anonymous: %v, modes: %v", f.authentication.anonymous, f.authorization.modes)
	}
}

func TestEnabledGroups(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		config      cliflag.ConfigurationMap
		gone, still schema.GroupResource
	}{
		{cliflag.ConfigurationMap{"apps/v1": "false"}, schema.GroupResource{Group: "apps", Resource: "deployments"}, schema.GroupResource{Resource: "pods"}},
		{cliflag.ConfigurationMap{"policy/v1/poddisruptionbudgets": "false"}, schema.GroupResource{Group: "policy", Resource: "poddisruptionbudgets"}, schema.GroupResource{Resource: "pods"}},
		{cliflag.ConfigurationMap{"api/v1": "false"}, schema.GroupResource{Resource: "pods"}, schema.GroupResource{Group: "apps", Resource: "deployments"}},
	} {
		got, err := enabledGroups(normalized(tc.config))
		if err != nil {
			t.Fatal(err)
		}
		served := map[schema.GroupResource]bool{}
		for _, g := range got {
			for _, v := range g.Versions {
				for _, r := range v.Resources {
					served[schema.GroupResource{Group: g.Name, Resource: r.Info().Name}] = true
				}
			}
		}
		if served[tc.gone] || !served[tc.still] {
			t.Errorf("%v: %v is served: %v, %v: %v", tc.config, tc.gone, served[tc.gone], tc.still, served[tc.still])
		}
	}
	all, err := enabledGroups(nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(len(groups.All()), len(all)); diff != "" {
		t.Errorf("without configuration some are gone: %s", diff)
	}
}

// Beta versions are off until somebody asks for them, and nobody can while their gate is off.
func TestEnabledGroups_Beta(t *testing.T) {
	const all, beta, none = "workloads podgroups", "scheduling.k8s.io/v1beta1", ""
	for _, tc := range []struct {
		name   string
		gate   bool
		config cliflag.ConfigurationMap
		want   string
		err    string
	}{
		{"not asked for", true, nil, none, ""},
		{"something else is asked for", true, cliflag.ConfigurationMap{"apps/v1": "true"}, none, ""},
		{"the version", true, cliflag.ConfigurationMap{beta: "true"}, all, ""},
		{"all betas", true, cliflag.ConfigurationMap{"api/beta": "true"}, all, ""},
		{"everything", true, cliflag.ConfigurationMap{"api/all": "true"}, all, ""},
		{"everything stable", true, cliflag.ConfigurationMap{"api/ga": "true"}, none, ""},
		{"all betas but one", true, cliflag.ConfigurationMap{"api/beta": "true", beta: "false"}, none, ""},
		{"a resource", true, cliflag.ConfigurationMap{beta + "/podgroups": "true"}, "podgroups", ""},
		{"all but a resource", true, cliflag.ConfigurationMap{beta: "true", beta + "/podgroups": "false"}, "workloads", ""},
		{"gate off", false, cliflag.ConfigurationMap{"api/all": "true"}, none, ""},
		{"gate off, by name", false, cliflag.ConfigurationMap{beta: "true"}, none, "group version scheduling.k8s.io/v1beta1 that has not been registered"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			featuregatetesting.SetFeatureGateDuringTest(t, feature.Gates, feature.GenericWorkload, tc.gate)
			got, err := enabledGroups(normalized(tc.config))
			if (err == nil) != (tc.err == "") || err != nil && err.Error() != tc.err {
				t.Fatalf("error is %v, want %q", err, tc.err)
			}
			var served []string
			for _, g := range got {
				for _, v := range g.Versions {
					for _, r := range v.Resources {
						if g.Name+"/"+v.Name == beta {
							served = append(served, r.Info().Name)
						}
					}
				}
			}
			if diff := cmp.Diff(tc.want, strings.Join(served, " ")); diff != "" {
				t.Errorf("served (-want +got):\n%s", diff)
			}
		})
	}
}
