// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"minik8s.io/minik8s/pkg/addons/apis/networking/v1alpha1"
	"minik8s.io/minik8s/pkg/addons/dns/internal/hosts"
)

// finding is what the condition InHostsFile of an object says.
type finding struct {
	status       metav1.ConditionStatus
	reason, text string
}

// warns tells whether the finding is for the user, and not said by another condition already.
func (f finding) warns() bool {
	return f.reason == v1alpha1.ReasonNameTaken || f.reason == v1alpha1.ReasonWriteFailed
}

// plan says which lines a hosts file is to have, by name, and what is to be said of each object. others are the names of other lines:
// they are their user's.
func plan(objects []v1alpha1.Dns, others map[string]hosts.Holder) ([]hosts.Entry, []finding) {
	var entries []hosts.Entry
	findings := make([]finding, len(objects))
	for i := range objects {
		d := &objects[i]
		host := strings.ToLower(d.Spec.Host)
		addresses := served(d)
		holder, taken := others[host]
		switch {
		case len(addresses) == 0:
			findings[i] = finding{metav1.ConditionFalse, v1alpha1.ReasonNotProgrammed, "the host is not served, see the condition Programmed"}
			continue
		case !usable(host):
			findings[i] = finding{metav1.ConditionFalse, v1alpha1.ReasonNameTaken, fmt.Sprintf("%q is no name that may be changed on a machine", d.Spec.Host)}
			continue
		case taken && !same(holder.Addresses, addresses):
			findings[i] = finding{metav1.ConditionFalse, v1alpha1.ReasonNameTaken, takenText(host, holder)}
			continue
		}
		findings[i] = finding{metav1.ConditionTrue, v1alpha1.ReasonWritten, "the machine's hosts file has the name"}
		if taken {
			continue // it leads to the same place
		}
		for _, a := range addresses {
			entries = append(entries, hosts.Entry{Address: a, Name: host})
		}
	}
	slices.SortFunc(entries, func(a, b hosts.Entry) int { return cmp.Or(cmp.Compare(a.Name, b.Name), a.Address.Compare(b.Address)) })
	return slices.Compact(entries), findings // several objects may have one host
}

func takenText(host string, h hosts.Holder) string {
	if h.Cluster != "" {
		return fmt.Sprintf("the machine's hosts file has %s for cluster %q, whose it stays: choose another host, or delete it there", host, h.Cluster)
	}
	return fmt.Sprintf("the machine's hosts file has a line for %s that is not minik8s's, which stays as it is: remove that line, or choose another host", host)
}

// served are the addresses of an object that the router serves.
func served(d *v1alpha1.Dns) []netip.Addr {
	if d.DeletionTimestamp != nil || !meta.IsStatusConditionTrue(d.Status.Conditions, v1alpha1.Programmed) {
		return nil
	}
	var all []netip.Addr
	for _, text := range d.Status.Addresses {
		if a, err := netip.ParseAddr(text); err == nil {
			all = append(all, a.Unmap())
		}
	}
	return all
}

// usable tells whether a name may be written, whatever the definition lets pass: a line has no room for more than a name.
func usable(host string) bool {
	_, err := netip.ParseAddr(host)
	return err != nil && len(validation.IsDNS1123Subdomain(host)) == 0 && host != "localhost" && !strings.HasSuffix(host, ".localhost")
}

// same tells whether all of some addresses are among others.
func same(have, want []netip.Addr) bool {
	return !slices.ContainsFunc(want, func(a netip.Addr) bool { return !slices.Contains(have, a) })
}
