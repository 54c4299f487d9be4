// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package attack

import (
	"context"
	"errors"
	"net/http"

	"minik8s.io/minik8s/test/fuzz/identity"
	"minik8s.io/minik8s/test/fuzz/request"
)

// prey are objects that requests find, by their path in a namespace: without them most would end at 404.
var prey = []struct{ group, resource, name, body string }{
	{"/api/v1", "serviceaccounts", "default", `{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"default"}}`},
	{"/api/v1", "secrets", "a", `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a"},"data":{"a":"eA=="}}`},
	{"/api/v1", "configmaps", "a", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"a":"1"}}`},
	{"/api/v1", "services", "a", `{"apiVersion":"v1","kind":"Service","metadata":{"name":"a"},"spec":{"type":"NodePort","selector":{"a":"b"},"ports":[{"name":"p","port":80}]}}`},
	{"/api/v1", "pods", "a", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","labels":{"a":"b"}},"spec":{"containers":[{"name":"main","image":"i","ports":[{"containerPort":80}],"resources":{"requests":{"cpu":"1"}}}]}}`},
	{"/api/v1", "pods", "b", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"b","labels":{"a":"b"}},"spec":{"nodeName":"` + identity.Node + `","containers":[{"name":"main","image":"i","envFrom":[{"secretRef":{"name":"a"}}]}]}}`},
	{"/apis/apps/v1", "deployments", "a", `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"main","image":"i"}]}}}}`},
	{"/apis/policy/v1", "poddisruptionbudgets", "a", `{"apiVersion":"policy/v1","kind":"PodDisruptionBudget","metadata":{"name":"a"},"spec":{"maxUnavailable":1,"selector":{"matchLabels":{"a":"b"}}}}`},
	{"/apis/fuzz.example.org/v1", "things", "a", `{"apiVersion":"fuzz.example.org/v1","kind":"Thing","metadata":{"name":"a"},"spec":{"replicas":1,"a":{"b":[1,"x"]}}}`},
}

// Prepare makes what there is to find, where it is not there any more.
func (k *Kept) Prepare(ctx context.Context) error {
	for _, ns := range request.Namespaces {
		for _, o := range prey {
			_, err := k.Ask(ctx, http.MethodPatch, o.group+"/namespaces/"+ns+"/"+o.resource+"/"+o.name+"?fieldManager=fuzz&force=true", o.body)
			var r refusal
			// What the requests have made of it may be final.
			if errors.As(err, &r) && (r.code == http.StatusConflict || r.code == http.StatusUnprocessableEntity) {
				err = nil
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// refusal is an answer that is no success.
type refusal struct {
	code int
	says string
}

func (r refusal) Error() string { return r.says }
