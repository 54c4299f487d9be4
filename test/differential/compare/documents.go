// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package compare

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Documents compares two OpenAPI documents: a missing definition or path is one difference, not as many as it has fields,
// and lists whose order means nothing are compared as sets.
func Documents(upstream, ours Answer) []Difference {
	if upstream.Code != ours.Code {
		return []Difference{{Check: "code", Upstream: fmt.Sprint(upstream.Code), Ours: fmt.Sprint(ours.Code)}}
	}
	u, o := unordered("", upstream.Body), unordered("", ours.Body)
	all := Values("document", without(u, "components", "definitions", "paths", "info"), without(o, "components", "definitions", "paths", "info"))
	for _, part := range [][]string{{"components", "schemas"}, {"components", "securitySchemes"}, {"definitions"}, {"paths"}} {
		um, _ := get(u, part...).(map[string]any)
		om, _ := get(o, part...).(map[string]any)
		check := strings.TrimSuffix(part[len(part)-1], "s")
		for _, d := range sets(check, slices.Sorted(maps.Keys(um)), slices.Sorted(maps.Keys(om))) {
			d.Upstream, d.Ours = presence(d.Upstream), presence(d.Ours)
			all = append(all, d)
		}
		for _, name := range slices.Sorted(maps.Keys(um)) {
			if om[name] == nil {
				continue
			}
			for _, d := range Values(check, um[name], om[name]) {
				d.Path = name + " " + d.Path
				all = append(all, d)
			}
		}
	}
	return all
}

func presence(name string) string {
	if name == none {
		return none
	}
	return "there"
}

// unordered turns lists that are sets into maps.
func unordered(key string, v any) any {
	switch v := v.(type) {
	case map[string]any:
		m := make(map[string]any, len(v))
		for k, item := range v {
			m[k] = unordered(k, item)
		}
		return m
	case []any:
		switch key {
		case "required", "enum", "consumes", "produces", "schemes", "tags", "x-kubernetes-group-version-kind", "parameters":
			m := make(map[string]any, len(v))
			for _, item := range v {
				m[spell(item)] = true
			}
			return m
		}
		l := make([]any, len(v))
		for i, item := range v {
			l[i] = unordered(key, item)
		}
		return l
	}
	return v
}
