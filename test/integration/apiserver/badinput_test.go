// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"net/http"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"minik8s.io/minik8s/test/differential/corpus"
	"minik8s.io/minik8s/test/fuzz/attack"
	"minik8s.io/minik8s/test/fuzz/request"
	"minik8s.io/minik8s/test/fuzz/surface"
	"minik8s.io/minik8s/test/integration/framework"
)

// TestMalformedRequests is the short form of make fuzz-api: whatever is sent, the client is told what is wrong with it, and
// nothing else changes.
func TestMalformedRequests(t *testing.T) {
	c := framework.Start(t, framework.Options{})
	config, err := rest.TLSConfigFor(c.Admin())
	if err != nil {
		t.Fatal(err)
	}
	nobody := config.Clone()
	nobody.Certificates, nobody.GetClientCertificate = nil, nil
	clients := attack.Administrators(config, nobody)
	t.Cleanup(func() {
		for _, c := range clients {
			c.Close()
		}
	})
	base, admin := c.Admin().Host, clients[0].HTTP
	kept := attack.Reach(admin, base)
	if err := surface.Define(t.Context(), admin, base, kept.Ask); err != nil {
		t.Fatal(err)
	}
	operations, err := surface.Read(admin, base)
	if err != nil {
		t.Fatal(err)
	}
	seeds, err := corpus.Seeds()
	if err != nil {
		t.Fatal(err)
	}
	var objects []map[string]any
	for _, s := range seeds {
		objects = append(objects, s.Object)
	}
	maker, err := request.NewMaker(request.Wide, operations, objects, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := kept.Keep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := kept.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	// The document is made when it is first asked for, as those that have been read above. How long that takes is judged here: it would
	// share the processors with eight requests of the attack.
	first, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := kept.Ask(first, http.MethodGet, "/openapi/v2", ""); err != nil {
		t.Fatal(err)
	}
	a := &attack.Attack{Base: base, Clients: clients, Make: maker.Make}
	a.Run(t.Context(), 0, 3000)
	for _, f := range a.Findings() {
		t.Errorf("request %d, and %d more like it: %s\n%s", f.Number, f.Count-1, f.What, f.Request)
	}
	if got := a.Answers(http.StatusCreated); got < 5 {
		t.Errorf("only %d requests have made anything: those that are malformed do not get far enough", got)
	}
	if err := kept.Changed(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestBlame sends what upstream answers by 500, or not at all.
func TestBlame(t *testing.T) {
	const strategicType = "application/strategic-merge-patch+json"
	ns := cluster.Namespace(t)
	configMap(t, ns, "a", nil)
	at := "/api/v1/namespaces/" + ns + "/configmaps/a"
	for _, test := range []struct{ name, method, path, contentType, body string }{
		{"apply of another type", "PATCH", at + "?fieldManager=m", applyType, `{"apiVersion":"v1","kind":"ConfigMap","data":[]}`},
		{"version that is no number", "GET", at + "?resourceVersion=a", "", ""},
		{"version in an object that is no number", "PUT", at, jsonType, `{"metadata":{"name":"a","resourceVersion":" 1"}}`},
		{"version of what is to be created", "POST", "/apis/events.k8s.io/v1/namespaces/" + ns + "/events", jsonType,
			`{"metadata":{"name":"a","resourceVersion":"1"},"eventTime":"2026-01-02T03:04:05.000001Z","action":"a","reason":"r","type":"Normal","regarding":{"namespace":"` + ns + `"},"reportingController":"example.com/c","reportingInstance":"i"}`},
		{"directive of the wrong type", "PATCH", at, strategicType, `{"$patch":1}`},
		{"directive on which the library panics", "PATCH", at, strategicType, `{"$retainKeys":[{}]}`},
		{"number on which the library panics", "POST", "/apis/apps/v1/namespaces/" + ns + "/controllerrevisions", jsonType, `{"metadata":{"name":"a"},"revision":1,"data":1e400}`},
		{"quantity that takes minutes to read", "POST", "/api/v1/namespaces/" + ns + "/resourcequotas", jsonType, `{"metadata":{"name":"a"},"spec":{"hard":{"cpu":"1e-99999999"}}}`},
		{"such a number", "POST", "/api/v1/namespaces/" + ns + "/resourcequotas", jsonType, `{"metadata":{"name":"a"},"spec":{"hard":{"cpu":1e99999999}}}`},
		{"such a quantity in yaml", "POST", "/api/v1/namespaces/" + ns + "/resourcequotas", "application/yaml", "metadata: {name: a}\nspec: {hard: {cpu: 1e99999999}}"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if a := send(t, test.method, test.path, test.contentType, jsonType, test.body); a.code != http.StatusBadRequest {
				t.Errorf("the answer is %d: %s", a.code, a.body)
			}
		})
	}
}
