// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package flags

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"
)

// refused are upstream's flags for which this server has nothing. Each may be given with its default, which changes
// nothing, but not with another value.
type refused struct{ flags []refusal }

type refusal struct {
	*pflag.Flag
	why string
}

func (r *refused) add(all *cliflag.NamedFlagSets) {
	const usage = "Only the default is supported."
	misc, authorization, admission := all.FlagSet("misc"), all.FlagSet("authorization"), all.FlagSet("admission")
	authorization.String("authorization-policy-file", "", usage)
	admission.StringSlice("admission-control", nil, usage)
	all.FlagSet("egress selector").String("egress-selector-config-file", "", usage)
	misc.Bool("enable-logs-handler", false, usage)
	misc.Int64("max-connection-bytes-per-sec", 0, usage)
	misc.String("peer-ca-file", "", usage)
	misc.String("peer-advertise-ip", "", usage)
	misc.String("peer-advertise-port", "", usage)
	misc.String("service-account-signing-endpoint", "", usage)
	misc.Duration("coordinated-leadership-lease-duration", 15*time.Second, usage)
	misc.Duration("coordinated-leadership-renew-deadline", 10*time.Second, usage)
	misc.Duration("coordinated-leadership-retry-period", 2*time.Second, usage)
	misc.String("endpoint-reconciler-type", "lease", usage)
	misc.Int("kubernetes-service-node-port", 0, usage)
	misc.Uint("kubelet-port", 10250, usage)
	_ = misc.MarkDeprecated("kubelet-port", "kubelet-port is deprecated and will be removed.")
	misc.Int("apiserver-count", 1, usage)
	_ = misc.MarkDeprecated("apiserver-count", "apiserver-count is deprecated and will be removed in a future version.")

	const alone = "there is one API server per cluster"
	for _, f := range []struct {
		set       *pflag.FlagSet
		name, why string
	}{
		{authorization, "authorization-policy-file", "the mode ABAC is not supported: use RBAC or Webhook"},
		{admission, "admission-control", "use --enable-admission-plugins and --disable-admission-plugins"},
		{all.FlagSet("egress selector"), "egress-selector-config-file", "connections are made directly"},
		{misc, "enable-logs-handler", "logs are not served over the API"},
		{misc, "max-connection-bytes-per-sec", "connections are not throttled"},
		{misc, "peer-ca-file", alone},
		{misc, "peer-advertise-ip", alone},
		{misc, "peer-advertise-port", alone},
		{misc, "service-account-signing-endpoint", "tokens are signed by --service-account-signing-key-file"},
		{misc, "coordinated-leadership-lease-duration", "coordinated leader election is not served"},
		{misc, "coordinated-leadership-renew-deadline", "coordinated leader election is not served"},
		{misc, "coordinated-leadership-retry-period", "coordinated leader election is not served"},
		{misc, "endpoint-reconciler-type", alone},
		{misc, "kubernetes-service-node-port", "the Service kubernetes has a cluster IP only"},
		{misc, "kubelet-port", "nodes tell the port of their kubelet"},
		{misc, "apiserver-count", alone},
	} {
		r.flags = append(r.flags, refusal{f.set.Lookup(f.name), f.why})
	}
}

func (r *refused) validate() []error {
	var errs []error
	for _, f := range r.flags {
		if got := f.Value.String(); got != f.DefValue {
			errs = append(errs, fmt.Errorf("--%s=%s is not supported: %s", f.Name, got, f.why))
		}
	}
	return errs
}
