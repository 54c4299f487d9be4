// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"
)

// TestMetrics: names, labels and help are upstream's, of which each mode has its own failures.
func TestMetrics(t *testing.T) {
	t.Parallel()
	const both = `
# HELP kubeproxy_conntrack_reconciler_deleted_entries_total [ALPHA] Cumulative conntrack flows deleted by conntrack reconciler
kubeproxy_conntrack_reconciler_deleted_entries_total{ip_family="IPv4"} 3
# HELP kubeproxy_conntrack_reconciler_sync_duration_seconds [ALPHA] ReconcileConntrackFlowsLatency latency in seconds
kubeproxy_conntrack_reconciler_sync_duration_seconds_count{ip_family="IPv4"} 1
# HELP kubeproxy_network_programming_duration_seconds [ALPHA] In Cluster Network Programming Latency in seconds
kubeproxy_network_programming_duration_seconds_sum{ip_family="IPv4"} 7
kubeproxy_network_programming_duration_seconds_count{ip_family="IPv4"} 2
# HELP kubeproxy_proxy_healthz_total [ALPHA] Cumulative proxy healthz HTTP status
kubeproxy_proxy_healthz_total{code="503"} 1
# HELP kubeproxy_proxy_livez_total [ALPHA] Cumulative proxy livez HTTP status
kubeproxy_proxy_livez_total{code="200"} 1
# HELP kubeproxy_sync_full_proxy_rules_duration_seconds [ALPHA] SyncProxyRules latency in seconds for full resyncs
kubeproxy_sync_full_proxy_rules_duration_seconds_count{ip_family="IPv4"} 1
# HELP kubeproxy_sync_partial_proxy_rules_duration_seconds [ALPHA] SyncProxyRules latency in seconds for partial resyncs
kubeproxy_sync_partial_proxy_rules_duration_seconds_count{ip_family="IPv6"} 1
# HELP kubeproxy_sync_proxy_rules_duration_seconds [ALPHA] SyncProxyRules latency in seconds
kubeproxy_sync_proxy_rules_duration_seconds_count{ip_family="IPv4"} 1
kubeproxy_sync_proxy_rules_duration_seconds_count{ip_family="IPv6"} 1
# HELP kubeproxy_sync_proxy_rules_endpoint_changes_pending [ALPHA] Pending proxy rules Endpoint changes
kubeproxy_sync_proxy_rules_endpoint_changes_pending 1
# HELP kubeproxy_sync_proxy_rules_endpoint_changes_total [ALPHA] Cumulative proxy rules Endpoint changes
kubeproxy_sync_proxy_rules_endpoint_changes_total 2
FAILURES
# HELP kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds [ALPHA] The last time a sync of proxy rules was queued
kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds{ip_family="IPv6"} 100.5
# HELP kubeproxy_sync_proxy_rules_last_timestamp_seconds [ALPHA] The last time proxy rules were successfully synced
kubeproxy_sync_proxy_rules_last_timestamp_seconds{ip_family="IPv4"} 100.5
SORTED
# HELP kubeproxy_sync_proxy_rules_no_local_endpoints_total [ALPHA] Number of services with a Local traffic policy and no endpoints
kubeproxy_sync_proxy_rules_no_local_endpoints_total{ip_family="IPv4",traffic_policy="external"} 2
kubeproxy_sync_proxy_rules_no_local_endpoints_total{ip_family="IPv4",traffic_policy="internal"} 1
# HELP kubeproxy_sync_proxy_rules_service_changes_pending [ALPHA] Pending proxy rules Service changes
kubeproxy_sync_proxy_rules_service_changes_pending 0
# HELP kubeproxy_sync_proxy_rules_service_changes_total [ALPHA] Cumulative proxy rules Service changes
kubeproxy_sync_proxy_rules_service_changes_total 1`
	for _, tc := range []struct{ mode, failures, sorted string }{
		{"iptables", `# HELP kubeproxy_sync_proxy_rules_iptables_last [ALPHA] Number of iptables rules written by kube-proxy in last sync
kubeproxy_sync_proxy_rules_iptables_last{ip_family="IPv4",table="nat"} 2
# HELP kubeproxy_sync_proxy_rules_iptables_partial_restore_failures_total [ALPHA] Cumulative proxy iptables partial restore failures
kubeproxy_sync_proxy_rules_iptables_partial_restore_failures_total{ip_family="IPv6"} 1
# HELP kubeproxy_sync_proxy_rules_iptables_restore_failures_total [ALPHA] Cumulative proxy iptables restore failures
kubeproxy_sync_proxy_rules_iptables_restore_failures_total{ip_family="IPv6"} 2
# HELP kubeproxy_sync_proxy_rules_iptables_total [ALPHA] Total number of iptables rules owned by kube-proxy
kubeproxy_sync_proxy_rules_iptables_total{ip_family="IPv4",table="nat"} 5
`, ""},
		{"nftables", "", `# HELP kubeproxy_sync_proxy_rules_nftables_sync_failures_total [ALPHA] Cumulative proxy nftables sync failures
kubeproxy_sync_proxy_rules_nftables_sync_failures_total{ip_family="IPv6"} 2
`},
	} {
		t.Run(tc.mode, func(t *testing.T) {
			t.Parallel()
			now := time.UnixMilli(100500)
			m := New(clocktesting.NewFakePassiveClock(now), tc.mode)
			m.ServiceChanged()
			m.EndpointsChanged()
			m.Queued("IPv6")
			m.Synced("IPv4", true, time.Second)
			m.Programmed("IPv4", []time.Time{now.Add(-3 * time.Second), now.Add(-4 * time.Second)})
			m.NoLocal("IPv4", 1, 2)
			m.Forgot("IPv4", 3, time.Millisecond)
			m.Settled()
			m.EndpointsChanged()
			m.Synced("IPv6", false, time.Second)
			m.Failed("IPv6", true)
			m.Failed("IPv6", false)
			m.Rules("IPv4", "nat", 5, 2)
			m.Checked("/healthz", 503)
			m.Checked("/livez", 200)
			w := httptest.NewRecorder()
			m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
			want := strings.NewReplacer("FAILURES\n", tc.failures, "SORTED\n", tc.sorted).Replace(both)
			if diff := cmp.Diff(strings.Split(strings.TrimSpace(want), "\n"), brief(w.Body.String())); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// brief is what a page of metrics has of the proxy, without types, buckets and sums of what a clock measured.
func brief(page string) []string {
	var lines []string
	for line := range strings.Lines(page) {
		if line = strings.TrimSpace(line); !strings.Contains(line, subsystem+"_") || strings.HasPrefix(line, "# TYPE") || strings.Contains(line, "_bucket{") ||
			strings.Contains(line, "_sum{") && !strings.Contains(line, "programming") {
			continue
		}
		lines = append(lines, line)
	}
	return lines
}
