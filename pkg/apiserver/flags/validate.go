// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package flags

import (
	"fmt"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apiserver/pkg/server/options"
	aggregator "k8s.io/kube-aggregator/pkg/apiserver/scheme"

	"minik8s.io/minik8s/pkg/registry"
	"minik8s.io/minik8s/pkg/registry/groups"
)

// validate returns all that is wrong with the flags.
func (f *Flags) validate() []error {
	var errs []error
	errs = append(errs, f.generic.Validate()...)
	errs = append(errs, f.etcd.Validate()...)
	if _, err := options.ParseWatchCacheSizes(f.etcd.WatchCacheSizes); err != nil {
		errs = append(errs, err)
	}
	errs = append(errs, f.fairness()...)
	errs = append(errs, f.serving.Validate()...)
	errs = append(errs, f.authentication.validate()...)
	errs = append(errs, f.authorization.validate()...)
	errs = append(errs, f.audit.Validate()...)
	errs = append(errs, f.traces.Validate()...)
	errs = append(errs, f.apis.Validate(registry.NewScheme(groups.All()), apiextensions.Scheme, aggregator.Scheme)...)
	errs = append(errs, f.metrics.Validate()...)
	errs = append(errs, f.refused.validate()...)
	errs = append(errs, f.admission.validate()...)
	return append(errs, f.cluster.validate(f)...)
}

// fairness cannot work without its own resources.
func (f *Flags) fairness() []error {
	if !f.features.EnablePriorityAndFairness {
		return nil
	}
	for _, key := range []string{"flowcontrol.apiserver.k8s.io/v1", "api/ga", "api/all"} { // the first that is given counts
		switch f.apis.RuntimeConfig[key] {
		case "false":
			return []error{fmt.Errorf("--runtime-config=%s=false conflicts with --enable-priority-and-fairness=true", key)}
		case "true":
			return nil
		}
	}
	return nil
}

func (f *admissionFlags) validate() []error {
	var errs []error
	for _, name := range f.enable {
		for _, other := range f.disable {
			if name == other {
				errs = append(errs, fmt.Errorf("%s in both enable-admission-plugins and disable-admission-plugins", name))
			}
		}
	}
	return errs
}

func (f *clusterFlags) validate(all *Flags) []error {
	ranges, err := serviceRanges(f.serviceRanges)
	if err != nil {
		return []error{err}
	}
	if a := address(all.generic.AdvertiseAddress); a.IsValid() && a.Is4() != ranges[0].Addr().Is4() {
		return []error{fmt.Errorf("service IP family %q must match public address family %q", ranges[0], a)}
	}
	return nil
}
