// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"net/url"
	"testing"
)

// What upstream's kubelet refuses is refused, and "tail" is a name of tailLines still.
func TestInvalidLogOptions(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ query, want string }{
		{"", ""},
		{"stream=All&tailLines=5", ""},
		{"stream=Stdout", ""},
		{"stream=Stderr&tail=all&tailLines=5", ""},
		{"stream=Stdout&tailLines=0", "`tailLines` and specific `stream` are mutually exclusive for now"},
		{"stream=Stderr&tail=5", "`tailLines` and specific `stream` are mutually exclusive for now"},
		{"stream=stdout", "stream: must be one of All, Stdout, Stderr"},
		{"tailLines=-1", "tailLines: must be greater than or equal to 0"},
		{"tailLines=1&tail=-1", "tailLines: must be greater than or equal to 0"},
		{"limitBytes=0", "limitBytes: must be greater than 0"},
		{"sinceSeconds=0", "sinceSeconds: must be greater than 0"},
		{"sinceSeconds=1&sinceTime=2026-01-02T03:04:05Z", "at most one of `sinceTime` or `sinceSeconds` may be specified"},
	} {
		q, err := url.ParseQuery(tc.query)
		if err != nil {
			t.Fatal(err)
		}
		o, err := parseLogOptions(q)
		if err != nil {
			t.Errorf("%s: %v", tc.query, err)
			continue
		}
		if got := invalidLogOptions(o); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.query, got, tc.want)
		}
	}
}
