// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package flags

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/server/resourceconfig"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	cliflag "k8s.io/component-base/cli/flag"

	"minik8s.io/minik8s/pkg/registry"
	"minik8s.io/minik8s/pkg/registry/groups"
)

func (f *admissionFlags) add(all *cliflag.NamedFlagSets) {
	fs := all.FlagSet("admission")
	fs.StringSliceVar(&f.enable, "enable-admission-plugins", nil, "Admission plugins that run besides the default ones.")
	fs.StringSliceVar(&f.disable, "disable-admission-plugins", nil, "Admission plugins that do not run although they are default ones.")
	fs.StringVar(&f.file, "admission-control-config-file", "", "File with an AdmissionConfiguration, which configures plugins.")
	const seconds = "For how many seconds pods tolerate a node that is %s, if they do not say it. The plugin DefaultTolerationSeconds has them say it."
	fs.Int64Var(&f.tolerate.NotReady, "default-not-ready-toleration-seconds", f.tolerate.NotReady, fmt.Sprintf(seconds, "not ready"))
	fs.Int64Var(&f.tolerate.Unreachable, "default-unreachable-toleration-seconds", f.tolerate.Unreachable, fmt.Sprintf(seconds, "unreachable"))
}

func (f *clusterFlags) add(all *cliflag.NamedFlagSets) {
	fs := all.FlagSet("misc")
	fs.BoolVar(&f.allowPrivileged, "allow-privileged", f.allowPrivileged, "If true, allow privileged containers.")
	fs.DurationVar(&f.eventTTL, "event-ttl", f.eventTTL, "How long events are kept.")
	fs.StringVar(&f.serviceRanges, "service-cluster-ip-range", f.serviceRanges, "Range of the addresses of Services, in CIDR notation; two, of different families, for dual stack.")
	fs.Var(&f.nodePorts, "service-node-port-range", "Ports for Services of type NodePort, such as '30000-32767'. Both ends are included.")
	fs.StringVar(&f.proxyCert, "proxy-client-cert-file", "", "Client certificate by which aggregated API servers and webhooks know this server.")
	fs.StringVar(&f.proxyKey, "proxy-client-key-file", "", "Private key of --proxy-client-cert-file.")
	fs.BoolVar(&f.aggregatorRouting, "enable-aggregator-routing", false, "Reach aggregated API servers at the endpoints of their Services rather than at the cluster IP.")
	fs.BoolVar(&f.rejectRedirects, "aggregator-reject-forwarding-redirect", f.rejectRedirects, "Pass no redirects of aggregated API servers on to clients.")
	fs.StringSliceVar(&f.kubeletAddresses, "kubelet-preferred-address-types", f.kubeletAddresses, "Types of the addresses of a node by which its kubelet is reached, in order of preference.")
	fs.DurationVar(&f.kubeletTimeout, "kubelet-timeout", f.kubeletTimeout, "Not used.")
	fs.StringVar(&f.kubeletCert, "kubelet-client-certificate", "", "Client certificate for kubelets.")
	fs.StringVar(&f.kubeletKey, "kubelet-client-key", "", "Private key of --kubelet-client-certificate.")
	fs.StringVar(&f.kubeletCA, "kubelet-certificate-authority", "", "CA that signed the serving certificates of kubelets.")
	fs.UintVar(&f.kubeletReadOnlyPort, "kubelet-read-only-port", f.kubeletReadOnlyPort, "Not used.")
	_ = fs.MarkDeprecated("kubelet-read-only-port", "kubelet-read-only-port is deprecated and will be removed.")
}

// serviceRanges parses one range, or two of different families.
func serviceRanges(s string) ([]netip.Prefix, error) {
	var out []netip.Prefix
	for i, part := range strings.Split(s, ",") {
		p, err := netip.ParsePrefix(strings.TrimSpace(part))
		if err != nil {
			return nil, fmt.Errorf("service-cluster-ip-range[%d] is not a valid cidr", i)
		}
		if p.Addr().BitLen()-p.Bits() < 3 {
			return nil, fmt.Errorf("the service cluster IP range must be at least %d IP addresses", 8)
		}
		out = append(out, p.Masked())
	}
	switch {
	case len(out) > 2:
		return nil, errors.New("--service-cluster-ip-range must not contain more than two entries")
	case len(out) == 2 && out[0].Addr().Is4() == out[1].Addr().Is4():
		return nil, errors.New("--service-cluster-ip-range[0] and --service-cluster-ip-range[1] must be of different IP family")
	}
	return out, nil
}

// enabledGroups are all that exist without what is off by default or turned off by --runtime-config, which turns on, too.
func enabledGroups(config cliflag.ConfigurationMap) ([]registry.Group, error) {
	all := groups.All()
	enabled := serverstorage.NewResourceConfig()
	for _, g := range all {
		for _, v := range g.Versions {
			if gv := (schema.GroupVersion{Group: g.Name, Version: v.Name}); v.OffByDefault {
				enabled.DisableVersions(gv)
			} else {
				enabled.EnableVersions(gv)
			}
		}
	}
	if len(config) > 0 {
		if _, err := resourceconfig.MergeAPIResourceConfigs(enabled, config, registry.NewScheme(all)); err != nil {
			return nil, err
		}
	}
	return without(all, func(r schema.GroupVersionResource) bool { return !enabled.ResourceEnabled(r) }), nil
}

// normalized spells the core group's version as the machinery does.
func normalized(config cliflag.ConfigurationMap) cliflag.ConfigurationMap {
	out := cliflag.ConfigurationMap{}
	for key, value := range config {
		switch {
		case key == "api/legacy":
		case key == "v1" || strings.HasPrefix(key, "v1/") || key == "api/v1" || strings.HasPrefix(key, "api/v1/"):
			out["/v1"] = value
		default:
			out[key] = value
		}
	}
	return out
}

// without leaves out resources, and versions and groups that have none left.
func without(all []registry.Group, off func(schema.GroupVersionResource) bool) []registry.Group {
	var out []registry.Group
	for _, g := range all {
		var versions []registry.Version
		for _, v := range g.Versions {
			var resources []registry.Descriptor
			for _, r := range v.Resources {
				if !off(schema.GroupVersionResource{Group: g.Name, Version: v.Name, Resource: r.Info().Name}) {
					resources = append(resources, r)
				}
			}
			if v.Resources = resources; len(resources) > 0 {
				versions = append(versions, v)
			}
		}
		if g.Versions = versions; len(versions) > 0 {
			out = append(out, g)
		}
	}
	return out
}
