// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"minik8s.io/minik8s/test/fuzz/identity"
	"minik8s.io/minik8s/test/fuzz/surface"
)

// Key is the place of an object.
type Key struct{ Group, Resource, Namespace, Name string }

// Stored is what tells whether an object is the same as before.
type Stored struct {
	// Version changes with the object, or with what users say of it where the server itself writes to the rest.
	Version string
	// Node is that of a pod.
	Node string
}

// Store is everything that there is.
type Store map[Key]Stored

// ReadStore lists all kinds that can be listed.
func ReadStore(ctx context.Context, ask identity.Asker, operations []surface.Operation) (Store, error) {
	s, seen := Store{}, map[Key]bool{}
	for _, o := range operations {
		group, resource, ok := listed(o)
		kind := Key{Group: group, Resource: resource}
		if !ok || seen[kind] {
			continue
		}
		seen[kind] = true
		data, err := ask(ctx, http.MethodGet, o.Path, "")
		if err != nil {
			return nil, err
		}
		if err := s.add(group, resource, data); err != nil {
			return nil, fmt.Errorf("reading %s: %w", o.Path, err)
		}
	}
	return s, nil
}

// listed tells which resource an operation lists in all namespaces.
func listed(o surface.Operation) (group, resource string, ok bool) {
	steps := strings.Split(strings.Trim(o.Path, "/"), "/")
	if o.Action != "list" || strings.Contains(o.Path, "{") {
		return "", "", false
	}
	if steps[0] == "apis" {
		group = steps[1]
	}
	resource = steps[len(steps)-1]
	return group, resource, resource != "componentstatuses" // which are asked for, not stored
}

// byGeneration are the kinds whose status the server writes by itself.
var byGeneration = map[string]bool{"apiservices": true, "customresourcedefinitions": true, "flowschemas": true, "prioritylevelconfigurations": true}

func (s Store) add(group, resource string, data []byte) error {
	var list struct {
		Items []struct {
			Metadata struct {
				Name, Namespace, UID, ResourceVersion string
				Generation                            int64
			}
			Spec struct{ NodeName string }
		}
	}
	if resource != "pods" { // of others a node may be no string
		var bare struct {
			Items []struct{ Metadata json.RawMessage }
		}
		if err := json.Unmarshal(data, &bare); err != nil {
			return err
		}
		var err error
		if data, err = json.Marshal(bare); err != nil {
			return err
		}
	}
	if err := json.Unmarshal(data, &list); err != nil {
		return err
	}
	for _, item := range list.Items {
		m := item.Metadata
		v := Stored{Version: m.UID + "/" + m.ResourceVersion, Node: item.Spec.NodeName}
		if byGeneration[resource] {
			v.Version = fmt.Sprintf("%s/generation %d", m.UID, m.Generation)
		}
		s[Key{Group: group, Resource: resource, Namespace: m.Namespace, Name: m.Name}] = v
	}
	return nil
}
