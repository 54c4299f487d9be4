// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"net/netip"

	"k8s.io/client-go/rest"

	"minik8s.io/minik8s/pkg/addons"
	"minik8s.io/minik8s/pkg/addons/addon"
	"minik8s.io/minik8s/pkg/addons/dns"
	"minik8s.io/minik8s/pkg/apis/useragent"
	"minik8s.io/minik8s/pkg/apiserver/authorization/policy"
)

// hostsFile has the machine's host names.
const hostsFile = "/etc/hosts"

// hostNames are those of Dns objects, which a control plane without nodes has, too.
var hostNames = clearStep{"names in " + hostsFile, stepLimit, func(ctx context.Context, c Config) error { return dns.RemoveHosts(ctx, hostsFile, c.Name) }, false}

// buildAddons makes what runs the add-ons that are enabled.
func (r *runner) buildAddons() (func(context.Context) error, error) {
	watch, err := r.credentials.Client(policy.AddonsUser)
	if err != nil {
		return nil, err
	}
	watch.UserAgent = useragent.Of("minik8s-addons")
	admin, err := r.credentials.Client("kubernetes-admin", "system:masters")
	if err != nil {
		return nil, err
	}
	admin.UserAgent = useragent.Of("minik8s-addons")
	installer, err := addons.NewInstaller(admin)
	if err != nil {
		return nil, err
	}
	runner, err := addons.NewRunner(addons.Config{
		Renew: installer.Renew,
		Watch: watch, Identity: "minik8s-" + r.config.Name,
		Machine: addon.Machine{Cluster: r.config.Name, Address: r.address(), HostsFile: hostsFile},
		ClientFor: func(a addon.Addon) (*rest.Config, error) {
			config, err := r.credentials.Client(addons.User(a))
			if err != nil {
				return nil, err
			}
			config.UserAgent = useragent.Of("minik8s-" + a.Name)
			return config, nil
		},
		StreamsFor: func(a addon.Addon) (*rest.Config, error) { return r.credentials.Keyed(addons.User(a)) },
	})
	if err != nil {
		return nil, fmt.Errorf("building what runs add-ons: %w", err)
	}
	return runner.Start, nil
}

// address is one of the machine's that pods of all nodes reach.
func (r *runner) address() netip.Addr {
	if r.config.NodeCount() == 0 {
		return netip.Addr{}
	}
	return r.primaryIP()
}

// installer enables and disables add-ons in a cluster.
func installer(c Config) (*addons.Installer, error) {
	config, err := Admin(c)
	if err != nil {
		return nil, err
	}
	return addons.NewInstaller(config)
}

// Enable enables an add-on in a cluster, and waits until it runs.
func Enable(ctx context.Context, c Config, a addon.Addon) error {
	i, err := installer(c)
	if err != nil {
		return err
	}
	return i.Enable(ctx, a)
}

// Disable disables an add-on in a cluster, with all objects of its kinds, and waits until these are gone.
func Disable(ctx context.Context, c Config, a addon.Addon) error {
	i, err := installer(c)
	if err != nil {
		return err
	}
	return i.Disable(ctx, a)
}

// EnabledAddons returns the names of the add-ons that are enabled in a cluster.
func EnabledAddons(ctx context.Context, c Config) ([]string, error) {
	i, err := installer(c)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, a := range addons.List() {
		enabled, err := i.Enabled(ctx, a)
		if err != nil {
			return nil, fmt.Errorf("looking for add-on %q: %w", a.Name, err)
		}
		if enabled {
			names = append(names, a.Name)
		}
	}
	return names, nil
}
