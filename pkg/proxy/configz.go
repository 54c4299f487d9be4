// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"encoding/json"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"minik8s.io/minik8s/pkg/proxy/backend"
)

// configGroup is that of upstream's configuration of the proxy, and its name on /configz.
const configGroup = "kubeproxy.config.k8s.io"

// configuration is what of upstream's KubeProxyConfiguration (v1alpha1) this proxy has, in its words.
type configuration struct {
	metav1.TypeMeta `json:",inline"`

	HostnameOverride   string            `json:"hostnameOverride"`
	BindAddress        string            `json:"bindAddress"`
	HealthzBindAddress string            `json:"healthzBindAddress"`
	MetricsBindAddress string            `json:"metricsBindAddress"`
	Mode               Mode              `json:"mode"`
	IPTables           modeConfiguration `json:"iptables"`
	IPVS               ipvsConfiguration `json:"ipvs"`
	NFTables           modeConfiguration `json:"nftables"`
	DetectLocalMode    string            `json:"detectLocalMode"`
	ClusterCIDR        string            `json:"clusterCIDR"`
	NodePortAddresses  []string          `json:"nodePortAddresses"`
}

// modeConfiguration is that of one mode.
type modeConfiguration struct {
	MasqueradeBit int             `json:"masqueradeBit"`
	SyncPeriod    metav1.Duration `json:"syncPeriod"`
}

// ipvsConfiguration is where upstream chooses endpoints otherwise than by chance.
type ipvsConfiguration struct {
	Scheduler backend.Scheduler `json:"scheduler"`
}

// configured is a complete Config in upstream's words.
func configured(c Config) configuration {
	out := configuration{
		TypeMeta:         metav1.TypeMeta{Kind: "KubeProxyConfiguration", APIVersion: configGroup + "/v1alpha1"},
		HostnameOverride: c.NodeName, BindAddress: "0.0.0.0", // as long as nobody says what the node's address is
		HealthzBindAddress: c.HealthzAddr, MetricsBindAddress: c.MetricsAddr,
		Mode: c.Mode, IPTables: modeConfiguration{MasqueradeBit: c.MasqueradeBit}, IPVS: ipvsConfiguration{Scheduler: c.Scheduler},
		NFTables: modeConfiguration{MasqueradeBit: c.MasqueradeBit}, DetectLocalMode: "ClusterCIDR",
	}
	if len(c.NodeIPs) > 0 {
		out.BindAddress = c.NodeIPs[0].String()
	}
	period := metav1.Duration{Duration: c.SyncPeriod} // upstream has it once, and tells it of the mode that is used
	if c.Mode == NFTables {
		out.NFTables.SyncPeriod = period
	} else {
		out.IPTables.SyncPeriod = period
	}
	var pods []string
	for _, p := range c.ClusterCIDRs {
		pods = append(pods, p.String())
	}
	out.ClusterCIDR = strings.Join(pods, ",")
	for _, p := range c.NodePortAddresses {
		out.NodePortAddresses = append(out.NodePortAddresses, p.String())
	}
	if len(c.NodePortAddresses) == 0 && c.Mode == NFTables { // there upstream's default is another
		out.NodePortAddresses = []string{"all"}
	}
	return out
}

// configz tells what the proxy was told.
func (p *Proxy) configz(w http.ResponseWriter, _ *http.Request) {
	data, err := json.Marshal(map[string]configuration{configGroup: configured(p.config)})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(data) // whoever asked has gone
}
