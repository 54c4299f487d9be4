// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package compare

import (
	"maps"
	"net/http"
	"slices"
	"strings"
)

// volatile are the headers of which only the presence is compared, and why.
var volatile = map[string]string{
	"Audit-Id":                          "each request has its own",
	"Date":                              "it is the time of the answer",
	"Last-Modified":                     "it is the time of a start",
	"Etag":                              "it is the hash of a body in which something may differ for a reason, which is compared itself",
	"X-Kubernetes-Pf-Flowschema-Uid":    "a UID",
	"X-Kubernetes-Pf-Prioritylevel-Uid": "a UID",
}

// elsewhere are compared as what they mean: the length is that of a body in which versions have as many digits as they happen to
// have, and net/http tells it of short ones only.
var elsewhere = []string{"Content-Type", "Warning", "Content-Length"}

// headers compares all that two answers have besides.
func headers(u, o http.Header, known map[string]bool) []Difference {
	names := slices.Concat(slices.Collect(maps.Keys(u)), slices.Collect(maps.Keys(o)))
	slices.Sort(names)
	var all []Difference
	for _, name := range slices.Compact(names) {
		if slices.Contains(elsewhere, name) {
			continue
		}
		if a, b := header(u, name, known), header(o, name, known); a != b {
			all = append(all, Difference{Check: "header", Path: name, Upstream: a, Ours: b})
		}
	}
	return all
}

func header(h http.Header, name string, known map[string]bool) string {
	switch values := h.Values(name); {
	case len(values) == 0:
		return none
	case volatile[name] != "":
		return "there"
	default:
		return strings.Join(texts(values, known), ", ")
	}
}
