// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package clusterauthentication

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/request/headerrequest"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"

	"minik8s.io/minik8s/pkg/pki"
)

func bundle(t *testing.T, name string) string {
	t.Helper()
	ca, err := pki.NewCA(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(ca.Cert)
}

func provider(t *testing.T, pem string) dynamiccertificates.CAContentProvider {
	t.Helper()
	p, err := dynamiccertificates.NewStaticCAContent("test", []byte(pem))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestMerged(t *testing.T) {
	users, proxies, other := bundle(t, "users"), bundle(t, "proxies"), bundle(t, "other")
	full := Trust{
		ClientCA: provider(t, users),
		RequestHeader: &authenticatorfactory.RequestHeaderConfig{
			CAContentProvider:   provider(t, proxies),
			UsernameHeaders:     headerrequest.StaticStringSlice{"X-Remote-User"},
			GroupHeaders:        headerrequest.StaticStringSlice{"X-Remote-Group"},
			ExtraHeaderPrefixes: headerrequest.StaticStringSlice{"X-Remote-Extra-"},
			AllowedClientNames:  headerrequest.StaticStringSlice{"front-proxy"},
		},
	}
	written := map[string]string{
		"client-ca-file":                     users,
		"requestheader-client-ca-file":       proxies,
		"requestheader-username-headers":     `["X-Remote-User"]`,
		"requestheader-group-headers":        `["X-Remote-Group"]`,
		"requestheader-extra-headers-prefix": `["X-Remote-Extra-"]`,
		"requestheader-allowed-names":        `["front-proxy"]`,
	}
	with := func(key, value string) map[string]string {
		m := map[string]string{key: value}
		for k, v := range written {
			if k != key {
				m[k] = v
			}
		}
		return m
	}
	later := time.Now().AddDate(50, 0, 0)
	for _, tc := range []struct {
		name  string
		have  map[string]string
		trust Trust
		now   time.Time
		want  map[string]string
	}{
		{name: "nothing", want: map[string]string{}},
		{name: "clients only", trust: Trust{ClientCA: full.ClientCA}, want: map[string]string{"client-ca-file": users}},
		{name: "all", trust: full, want: written},
		{name: "again", have: written, trust: full, want: written},
		{name: "another server's CA stays", have: map[string]string{"client-ca-file": other}, trust: full, want: with("client-ca-file", other+users)},
		{name: "another server's names stay", have: with("requestheader-allowed-names", `["a"]`), trust: full, want: with("requestheader-allowed-names", `["a","front-proxy"]`)},
		{name: "expired", have: map[string]string{"client-ca-file": other}, now: later, want: map[string]string{}},
		{name: "unreadable", have: map[string]string{"client-ca-file": "x"}, trust: full, want: written},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.now.IsZero() {
				tc.now = time.Now()
			}
			got, err := merged(tc.have, tc.trust, tc.now)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("data (-want +got):\n%s", diff)
			}
		})
	}
	if _, err := merged(with("requestheader-allowed-names", "{"), full, time.Now()); err == nil {
		t.Error("a list that cannot be read is overwritten")
	}
}
