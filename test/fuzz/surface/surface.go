// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package surface reads from a server's OpenAPI v3 documents what it can be asked. Touch it when requests should be made from
// something else that the documents say.
package surface

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Operation is a method on a path.
type Operation struct {
	// Method is in capitals; Path has variables in braces.
	Method, Path string
	// Kind is what the path is about; empty for paths that are not about objects.
	Kind schema.GroupVersionKind
	// Action is get, list, post, put, patch, delete, deletecollection, watch, watchlist or connect.
	Action string
}

// Read asks the server at base for all operations. Their order is always the same.
func Read(client *http.Client, base string) ([]Operation, error) {
	var index struct {
		Paths map[string]struct {
			URL string `json:"serverRelativeURL"`
		} `json:"paths"`
	}
	if err := get(client, base+"/openapi/v3", &index); err != nil {
		return nil, err
	}
	var all []Operation
	for _, name := range slices.Sorted(maps.Keys(index.Paths)) {
		var d document
		if err := get(client, base+index.Paths[name].URL, &d); err != nil {
			return nil, err
		}
		all = append(all, d.operations()...)
	}
	slices.SortFunc(all, func(a, b Operation) int {
		return cmp.Or(strings.Compare(a.Path, b.Path), strings.Compare(a.Method, b.Method))
	})
	return all, nil
}

// document is the part of an OpenAPI v3 document that is read here.
type document struct {
	Paths map[string]map[string]json.RawMessage `json:"paths"`
}

func (d document) operations() []Operation {
	var all []Operation
	for path, item := range d.Paths {
		for method, raw := range item {
			var o struct {
				Kind   schema.GroupVersionKind `json:"x-kubernetes-group-version-kind"`
				Action string                  `json:"x-kubernetes-action"`
			}
			// Parameters stand beside the methods, and are lists.
			if err := json.Unmarshal(raw, &o); err != nil {
				continue
			}
			all = append(all, Operation{Method: strings.ToUpper(method), Path: path, Kind: o.Kind, Action: o.Action})
		}
	}
	return all
}

// errChanged says that a document is not the one any more that the index named: its address has its hash.
var errChanged = errors.New("the document has changed")

func get(client *http.Client, url string, into any) error {
	r, err := client.Get(url)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	data, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	if r.StatusCode == http.StatusMovedPermanently {
		return fmt.Errorf("%s: %w", url, errChanged)
	}
	if r.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, r.Status)
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("reading %s: %w", url, err)
	}
	return nil
}
