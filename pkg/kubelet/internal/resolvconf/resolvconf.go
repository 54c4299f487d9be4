// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package resolvconf decides on the /etc/resolv.conf of a pod from its dnsPolicy and dnsConfig; touch it when the
// policies or the limits on what a file may hold change.
package resolvconf

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Limits of what a pod's file may hold; the rest is cut off, as the C library and upstream do.
const (
	MaxNameservers    = 3
	MaxSearches       = 32
	MaxSearchesLength = 2048
)

// Config is the content of a resolv.conf.
type Config struct {
	Nameservers, Searches, Options []string
}

// Clustered says whether a pod asks for the cluster's DNS.
func Clustered(pod *corev1.Pod) bool {
	switch pod.Spec.DNSPolicy {
	case corev1.DNSClusterFirstWithHostNet:
		return true
	case corev1.DNSDefault, corev1.DNSNone:
		return false
	}
	return !pod.Spec.HostNetwork // ClusterFirst, and a pod that was never defaulted
}

// Missing is the text of upstream's event MissingClusterDNS, of pods that ask for what the node does not know.
const Missing = `kubelet does not have ClusterDNS IP configured and cannot create Pod using "ClusterFirst" policy. Falling back to "Default" policy.`

// For returns what pod gets. host is the node's own configuration, for dnsPolicy Default and for pods on the host
// network; clusterDNS are the addresses of the cluster's DNS. Without any, ClusterFirst falls back to Default.
// What goes beyond the limits is left out, and omitted are the texts of upstream's events DNSConfigForming about it.
func For(pod *corev1.Pod, clusterDNS []string, clusterDomain string, host Config) (c Config, omitted []string) {
	c = merge(base(pod, clusterDNS, clusterDomain, host), pod.Spec.DNSConfig)
	if len(c.Nameservers) > MaxNameservers {
		c.Nameservers = c.Nameservers[:MaxNameservers]
		omitted = append(omitted, "Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: "+strings.Join(c.Nameservers, " "))
	}
	if fitting := fit(c.Searches); len(fitting) < len(c.Searches) {
		c.Searches = fitting
		omitted = append(omitted, "Search Line limits were exceeded, some search paths have been omitted, the applied search line is: "+strings.Join(fitting, " "))
	}
	return c, omitted
}

func base(pod *corev1.Pod, clusterDNS []string, domain string, host Config) Config {
	if pod.Spec.DNSPolicy == corev1.DNSNone {
		return Config{}
	}
	if !Clustered(pod) || len(clusterDNS) == 0 {
		return host.clone()
	}
	c := Config{Nameservers: slices.Clone(clusterDNS), Options: []string{"ndots:5"}}
	if domain != "" {
		c.Searches = []string{pod.Namespace + ".svc." + domain, "svc." + domain, domain}
	}
	for _, s := range host.Searches {
		if s != nowhere {
			c.Searches = append(c.Searches, s)
		}
	}
	c.Searches = unique(c.Searches)
	return c
}

func merge(c Config, more *corev1.PodDNSConfig) Config {
	if more == nil {
		return c
	}
	c.Nameservers = unique(append(c.Nameservers, more.Nameservers...))
	c.Searches = unique(append(c.Searches, more.Searches...))
	for _, o := range more.Options {
		option := o.Name
		if o.Value != nil && *o.Value != "" {
			option += ":" + *o.Value
		}
		c.Options = withOption(c.Options, option)
	}
	return c
}

// withOption adds an option, in the place of one of its name if there is one.
func withOption(options []string, option string) []string {
	name, _, _ := strings.Cut(option, ":")
	i := slices.IndexFunc(options, func(have string) bool {
		other, _, _ := strings.Cut(have, ":")
		return other == name
	})
	if i < 0 {
		return append(options, option)
	}
	options[i] = option
	return options
}

// fit leaves out what is too much, and what some resolvers end their process for.
func fit(searches []string) []string {
	searches = slices.DeleteFunc(slices.Clone(searches[:min(len(searches), MaxSearches)]), func(s string) bool { return len(s) > validation.DNS1123SubdomainMaxLength })
	length := 0
	for i, s := range searches {
		if i > 0 {
			length++
		}
		if length += len(s); length > MaxSearchesLength {
			return searches[:i]
		}
	}
	return searches
}

// Check says what of the node's file at path will not fit into those of pods, as upstream's event CheckLimitsForResolvConf does; "" if
// all of it will.
func Check(path, clusterDomain string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	c, err := Parse(string(data))
	if err != nil {
		return err.Error()
	}
	searches, most := c.Searches, MaxSearches
	if clusterDomain != "" {
		most -= 3
	}
	switch {
	case len(searches) > most:
		return fmt.Sprintf("Resolv.conf file '%s' contains search line consisting of more than %d domains!", path, most)
	case slices.ContainsFunc(searches, func(s string) bool { return len(s) > validation.DNS1123SubdomainMaxLength }):
		return fmt.Sprintf("Resolv.conf file %q contains a search path which length is more than allowed %d chars!", path, validation.DNS1123SubdomainMaxLength)
	case len(strings.Join(searches, " ")) > MaxSearchesLength:
		return fmt.Sprintf("Resolv.conf file '%s' contains search line which length is more than allowed %d chars!", path, MaxSearchesLength)
	}
	return ""
}

// Render returns the text of the file.
func (c Config) Render() string {
	var b strings.Builder
	if len(c.Searches) > 0 {
		b.WriteString("search " + strings.Join(c.Searches, " ") + "\n")
	}
	for _, n := range c.Nameservers {
		b.WriteString("nameserver " + n + "\n")
	}
	if len(c.Options) > 0 {
		b.WriteString("options " + strings.Join(c.Options, " ") + "\n")
	}
	return b.String()
}

// Parse reads the text of a resolv.conf. Like the C library it takes the last search line. A name server without an address is an error, as
// upstream's, beside which the rest is told.
func Parse(text string) (Config, error) {
	var c Config
	var err error
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) == 1 && fields[0] == "nameserver" {
			err = errors.New("nameserver list is empty ")
		}
		if len(fields) < 2 {
			continue
		}
		switch fields[0] {
		case "nameserver":
			c.Nameservers = append(c.Nameservers, fields[1])
		case "search":
			c.Searches = nil
			for _, s := range fields[1:] {
				if s != nowhere {
					c.Searches = append(c.Searches, strings.TrimSuffix(s, "."))
				}
			}
		case "options":
			for _, o := range fields[1:] {
				c.Options = withOption(c.Options, o)
			}
		}
	}
	return c, err
}

// nowhere is the root, which is searched anyway, and what is searched where names are not to be looked up.
const nowhere = "."

// None is the configuration of a node that has set its file to none, and has these addresses: pods ask themselves, in vain.
func None(ips []string) Config {
	c := Config{Searches: []string{nowhere}}
	for _, ip := range ips {
		if a, err := netip.ParseAddr(ip); err == nil && a.Is6() {
			c.Nameservers = append(c.Nameservers, "::1")
		} else {
			c.Nameservers = append(c.Nameservers, "127.0.0.1")
		}
	}
	if len(ips) == 0 {
		c.Nameservers = []string{"127.0.0.1"}
	}
	return c
}

// ReadHost reads the node's file. One that only names a resolver on the loopback of the node, which pods cannot
// reach, is replaced by the uplinks of systemd-resolved if that runs. Without the file, or with one that cannot be read, no pod starts, as
// upstream's; the errors are in its words.
func ReadHost(path string) (Config, error) { return readHost(path, "/run/systemd/resolve/resolv.conf") }

func readHost(path, uplinks string) (Config, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return Config{}, err
	}
	c, err := Parse(string(data))
	if err != nil {
		return Config{}, fmt.Errorf("Encountered error while parsing resolv conf file. Error: %w", err) //nolint:staticcheck // upstream's event
	}
	if len(c.Nameservers) == 0 || slices.ContainsFunc(c.Nameservers, func(s string) bool { return !loopback(s) }) {
		return c, nil
	}
	if data, err := os.ReadFile(uplinks); err == nil {
		if up, err := Parse(string(data)); err == nil {
			return up, nil
		}
	}
	return c, nil
}

func loopback(s string) bool {
	a, err := netip.ParseAddr(s)
	return err == nil && a.IsLoopback()
}

func (c Config) clone() Config {
	return Config{slices.Clone(c.Nameservers), slices.Clone(c.Searches), slices.Clone(c.Options)}
}

func unique(list []string) []string {
	var out []string
	for _, s := range list {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}
