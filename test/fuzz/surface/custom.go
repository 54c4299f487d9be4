// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package surface

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/yaml"
)

//go:embed custom.yaml
var custom string

// Instances are objects of the kinds that Define makes.
var Instances = []string{
	`{"apiVersion":"fuzz.example.org/v1","kind":"Thing","metadata":{"name":"thing"},"spec":{"replicas":1,"a":{"b":[1,"x",null,{"c":1.5}]}},"status":{"replicas":1,"selector":"a=b"}}`,
	`{"apiVersion":"fuzz.example.org/v2","kind":"Gizmo","metadata":{"name":"gizmo"},"spec":{"count":1,"x":1.5,"when":"2026-01-02T03:04:05Z","either":"5%","free":{"a":[{}]},"whole":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}},"list":[{"k":"a","i":1,"v":"x"},{"k":"b"}],"set":["a","b"],"map":{"a":{"a":true}},"atom":{"a":"b"}}}`,
	`{"apiVersion":"fuzz.example.org/v1","kind":"Gizmo","metadata":{"name":"gizmo"},"spec":{"count":2,"list":[]},"status":{"a":1}}`,
}

// Define makes kinds, and returns when the documents speak of them.
func Define(ctx context.Context, client *http.Client, base string, ask func(ctx context.Context, method, path, body string) ([]byte, error)) error {
	for doc := range strings.SplitSeq(custom, "\n---\n") {
		data, err := yaml.YAMLToJSON([]byte(doc))
		if err != nil {
			return err
		}
		var definition struct{ Metadata struct{ Name string } }
		if err := json.Unmarshal(data, &definition); err != nil {
			return err
		}
		if _, err := ask(ctx, http.MethodPost, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", string(data)); err != nil {
			return err
		}
	}
	published := func(context.Context) (bool, error) {
		all, err := Read(client, base)
		if errors.Is(err, errChanged) {
			return false, nil
		}
		for _, path := range []string{"/apis/fuzz.example.org/v1/namespaces/{namespace}/things/{name}/scale", "/apis/fuzz.example.org/v2/gizmos/{name}", "/apis/fuzz.example.org/v1/gizmos/{name}/status"} {
			if !slices.ContainsFunc(all, func(o Operation) bool { return o.Path == path }) {
				return false, err
			}
		}
		return err == nil, err
	}
	if err := wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, time.Minute, true, published); err != nil {
		return fmt.Errorf("waiting for the documents of custom resources: %w", err)
	}
	return nil
}
