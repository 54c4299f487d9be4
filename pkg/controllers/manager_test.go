// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	featuregatetesting "k8s.io/component-base/featuregate/testing"

	"minik8s.io/minik8s/pkg/apis/feature"
	"minik8s.io/minik8s/pkg/controllers/ownwrites"
)

// discoveryServer serves the discovery of the kinds that the controllers name.
func discoveryServer(t *testing.T) *httptest.Server {
	t.Helper()
	resources := map[string]map[string]string{
		"v1":                           {"pods": "Pod", "nodes": "Node", "services": "Service", "endpoints": "Endpoints", "namespaces": "Namespace", "configmaps": "ConfigMap", "serviceaccounts": "ServiceAccount", "replicationcontrollers": "ReplicationController", "resourcequotas": "ResourceQuota"},
		"apps/v1":                      {"deployments": "Deployment", "replicasets": "ReplicaSet", "daemonsets": "DaemonSet", "controllerrevisions": "ControllerRevision"},
		"policy/v1":                    {"poddisruptionbudgets": "PodDisruptionBudget"},
		"discovery.k8s.io/v1":          {"endpointslices": "EndpointSlice"},
		"coordination.k8s.io/v1":       {"leases": "Lease"},
		"rbac.authorization.k8s.io/v1": {"clusterroles": "ClusterRole"},
	}
	clusterScoped := []string{"nodes", "namespaces", "clusterroles"}
	answers := map[string]any{"/api": metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}}}
	groups := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
	for gv, kinds := range resources {
		list := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: gv}
		for name, kind := range kinds {
			list.APIResources = append(list.APIResources, metav1.APIResource{Name: name, Kind: kind, Namespaced: !slices.Contains(clusterScoped, name), Verbs: metav1.Verbs{"list", "watch"}})
		}
		group, version, ok := strings.Cut(gv, "/")
		if !ok {
			answers["/api/v1"] = list
			continue
		}
		answers["/apis/"+gv] = list
		served := metav1.GroupVersionForDiscovery{GroupVersion: gv, Version: version}
		g := metav1.APIGroup{TypeMeta: metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}, Name: group, Versions: []metav1.GroupVersionForDiscovery{served}, PreferredVersion: served}
		answers["/apis/"+group] = g
		groups.Groups = append(groups.Groups, g)
	}
	answers["/apis"] = groups
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, ok := answers[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	return server
}

func TestNew_EveryControllerHasItsIdentity(t *testing.T) {
	featuregatetesting.SetFeatureGateDuringTest(t, feature.Gates, feature.GenericWorkload, true)
	server := discoveryServer(t)
	var mu sync.Mutex
	asked := map[string]bool{}
	_, err := New(Config{
		RESTConfig: &rest.Config{Host: server.URL},
		ClientFor: func(serviceAccount string) (*rest.Config, error) {
			mu.Lock()
			defer mu.Unlock()
			asked[serviceAccount] = true
			return &rest.Config{Host: server.URL}, nil
		},
		RootCA: []byte("PEM"),
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range List() {
		if c.ServiceAccount != "" && !c.Off && !asked[c.ServiceAccount] {
			t.Errorf("%q has not asked for the identity of %q", c.Name, c.ServiceAccount)
		}
	}
}

func TestNew_Errors(t *testing.T) {
	server := discoveryServer(t)
	for name, cfg := range map[string]Config{
		"no API server":      {},
		"no root CA":         {RESTConfig: &rest.Config{Host: server.URL}},
		"unknown controller": {RESTConfig: &rest.Config{Host: server.URL}, RootCA: []byte("PEM"), Enabled: []string{"nonsense"}},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := New(cfg); err == nil {
				t.Error("no error")
			}
		})
	}
}

func TestEnv_UserAgentIsUpstreams(t *testing.T) {
	server := discoveryServer(t)
	cfg, err := Config{RESTConfig: &rest.Config{Host: server.URL, UserAgent: "somebody"}}.complete()
	if err != nil {
		t.Fatal(err)
	}
	mgr, err := newManager(cfg, ownwrites.NewInformers(clientgoscheme.Scheme))
	if err != nil {
		t.Fatal(err)
	}
	env, err := (&Controllers{manager: mgr}).env(cfg, Controller{Name: "replicaset", ServiceAccount: "replicaset-controller"})
	if err != nil {
		t.Fatal(err)
	}
	for agent, want := range map[string]*regexp.Regexp{
		mgr.GetConfig().UserAgent: regexp.MustCompile(`^kube-controller-manager/v\S+ \(\w+/\w+\) kubernetes/[^/]+$`),
		env.RESTConfig.UserAgent:  regexp.MustCompile(`^kube-controller-manager/v\S+ \(\w+/\w+\) kubernetes/[^/]+/system:serviceaccount:kube-system:replicaset-controller$`),
	} {
		if !want.MatchString(agent) {
			t.Errorf("got %q, want %s", agent, want)
		}
	}
}
