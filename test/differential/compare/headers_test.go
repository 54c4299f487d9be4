// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package compare

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestHeaders(t *testing.T) {
	t.Parallel()
	u := http.Header{"Date": {"a"}, "Cache-Control": {"no-cache, private"}, "Audit-Id": {"x"}, "Warning": {"w"}, "Vary": {"Accept"}}
	o := http.Header{"Date": {"b"}, "Cache-Control": {"public"}, "Allow": {"GET"}, "Vary": {"Accept"}}
	want := []Difference{differs("header", "Allow", "-", "GET"), differs("header", "Audit-Id", "there", "-"), differs("header", "Cache-Control", "no-cache, private", "public")}
	if diff := cmp.Diff(want, headers(u, o, nil)); diff != "" {
		t.Error(diff)
	}
	for name, why := range volatile {
		if why == "" || http.CanonicalHeaderKey(name) != name {
			t.Errorf("%s: %q", name, why)
		}
	}
}
