// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/informers"
	clientfake "k8s.io/client-go/kubernetes/fake"

	"minik8s.io/minik8s/pkg/proxy/backend"
)

// idle is a proxy that does not run.
func idle(t *testing.T) *Proxy {
	t.Helper()
	p, err := New(Config{
		Cluster: "c", NodeName: "here", Informers: informers.NewSharedInformerFactory(clientfake.NewClientset(), 0),
		NodeIPs: []netip.Addr{netip.MustParseAddr("192.0.2.1")}, MetricsAddr: "127.0.0.1:10249",
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func get(h http.Handler, path, accept string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.Header.Set("Accept", accept)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// TestProxy_Introspection: what upstream serves beside the metrics, under its names.
func TestProxy_Introspection(t *testing.T) {
	t.Parallel()
	h := idle(t).introspection()
	const text, object = "text/plain; charset=utf-8", "application/json;v=v1beta1;g=config.k8s.io;as="
	for _, tc := range []struct {
		path, accept, contentType string
		code                      int
		body                      string // part of it
	}{
		{"/healthz", "", text, 200, "ok"},
		{"/healthz?verbose", "", text, 200, "[+]ping ok\nhealthz check passed\n"},
		{"/healthz/ping", "", text, 200, "ok"},
		{"/healthz/log", "", text, 404, ""},
		{"/proxyMode", "", text, 200, "iptables"},
		{"/configz", "", "application/json", 200,
			`{"kubeproxy.config.k8s.io":{"kind":"KubeProxyConfiguration","apiVersion":"kubeproxy.config.k8s.io/v1alpha1","hostnameOverride":"here"`},
		{"/flagz", "", text, 200, "\nkube-proxy flagz\n"},
		{"/flagz", "", text, 200, "\nhostname-override=here\n"},
		{"/flagz", object + "Flagz", "application/json", 200, `"metadata":{"name":"kube-proxy"},"flags":{"hostname-override":"here"}}`},
		{"/statusz", "", text, 200, "\nkube-proxy statusz\n"},
		{"/statusz", "", text, 200, "\nPaths: /configz /flagz /healthz /metrics /proxyMode\n"},
		{"/statusz", object + "Statusz", "application/json", 200, `"metadata":{"name":"kube-proxy"}`},
		{"/statusz", object + "Flagz", text, 406, "as=Statusz"},
		// Each /healthz is a check, what is asked of one check is not.
		{"/metrics/slis", "", "text/plain", 200, "\nkubernetes_healthchecks_total{name=\"ping\",status=\"success\",type=\"healthz\"} 2\n"},
		{"/metrics", "", "text/plain", 200, "\nkubeproxy_sync_proxy_rules_service_changes_total 0\n"},
		{"/metrics", "", "text/plain", 200, "\nprocess_start_time_seconds "},
		{"/debug/pprof/", "", text, 404, ""},
	} {
		w := get(h, tc.path, tc.accept)
		kind := w.Header().Get("Content-Type")
		if w.Code != tc.code || !strings.HasPrefix(kind, tc.contentType) || !strings.Contains(w.Body.String(), tc.body) {
			t.Errorf("%s as %q: got %d %s %q, want %d %s with %q", tc.path, tc.accept, w.Code, kind, w.Body, tc.code, tc.contentType, tc.body)
		}
	}
}

func TestConfigured(t *testing.T) {
	t.Parallel()
	prefixes := func(list ...string) (out []netip.Prefix) {
		for _, text := range list {
			out = append(out, netip.MustParsePrefix(text))
		}
		return out
	}
	const head = `{"kind":"KubeProxyConfiguration","apiVersion":"kubeproxy.config.k8s.io/v1alpha1","hostnameOverride":"n",`
	for _, tc := range []struct {
		name   string
		config Config
		want   string
	}{
		{"defaults", Config{}, head + `"bindAddress":"0.0.0.0","healthzBindAddress":"","metricsBindAddress":"","mode":"iptables",` +
			`"iptables":{"masqueradeBit":14,"syncPeriod":"30s"},"ipvs":{"scheduler":""},"nftables":{"masqueradeBit":14,"syncPeriod":"0s"},` +
			`"detectLocalMode":"ClusterCIDR","clusterCIDR":"","nodePortAddresses":null}`},
		{"all", Config{
			NodeIPs: []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("fd00::1")}, ClusterCIDRs: prefixes("10.244.0.0/16", "fd01::/64"),
			Scheduler: backend.RoundRobin, NodePortAddresses: prefixes("192.0.2.0/24"), MasqueradeBit: 3, SyncPeriod: time.Minute,
			HealthzAddr: "0.0.0.0:10256", MetricsAddr: "127.0.0.1:10249",
		}, head + `"bindAddress":"192.0.2.1","healthzBindAddress":"0.0.0.0:10256","metricsBindAddress":"127.0.0.1:10249","mode":"iptables",` +
			`"iptables":{"masqueradeBit":3,"syncPeriod":"1m0s"},"ipvs":{"scheduler":"rr"},"nftables":{"masqueradeBit":3,"syncPeriod":"0s"},` +
			`"detectLocalMode":"ClusterCIDR","clusterCIDR":"10.244.0.0/16,fd01::/64","nodePortAddresses":["192.0.2.0/24"]}`},
		{"nftables", Config{Mode: NFTables}, head + `"bindAddress":"0.0.0.0","healthzBindAddress":"","metricsBindAddress":"","mode":"nftables",` +
			`"iptables":{"masqueradeBit":14,"syncPeriod":"0s"},"ipvs":{"scheduler":""},"nftables":{"masqueradeBit":14,"syncPeriod":"30s"},` +
			`"detectLocalMode":"ClusterCIDR","clusterCIDR":"","nodePortAddresses":["all"]}`},
	} {
		tc.config.Cluster, tc.config.NodeName = "c", "n"
		if err := tc.config.complete(); err != nil {
			t.Fatal(err)
		}
		got, err := json.Marshal(configured(tc.config))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tc.want, string(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
}
