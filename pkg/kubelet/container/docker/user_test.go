// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"minik8s.io/minik8s/pkg/kubelet/container"
)

func TestIdentify(t *testing.T) {
	image := accounts{
		passwd: []byte("root:x:0:0::/root:/bin/sh\nalice:x:1000:1000::/:\n"),
		group:  []byte("root:x:0:\nwheel:x:10:root,alice\nteam:x:20:alice\n"),
	}
	tests := []struct {
		name, spec string
		groups     []int64
		strict     bool
		accounts   accounts
		want       container.User
		err        string
	}{
		{name: "root by default", accounts: image, want: container.User{Groups: []int64{0, 10}}},
		{name: "image without accounts", spec: "5", groups: []int64{9, 7}, want: container.User{UID: 5, Groups: []int64{0, 7, 9}}},
		{name: "merged", spec: "1000", accounts: image, want: container.User{UID: 1000, GID: 1000, Groups: []int64{10, 20, 1000}}},
		{name: "merged beside a group", spec: "1000:3000", accounts: image, groups: []int64{20}, want: container.User{UID: 1000, GID: 3000, Groups: []int64{10, 20, 3000}}},
		{name: "strict", spec: "alice", strict: true, groups: []int64{5}, accounts: image, want: container.User{UID: 1000, GID: 1000, Groups: []int64{5, 1000}}},
		{name: "strict beside a group", spec: "alice:team", strict: true, accounts: image, want: container.User{UID: 1000, GID: 20, Groups: []int64{20}}},
		{name: "unknown name", spec: "bob", accounts: image, err: "unable to find user bob: no matching entries in passwd file"},
		{name: "unknown group", spec: "0:bobs", accounts: image, err: "unable to find group bobs: no matching entries in group file"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			got, err := identify(tc.spec, tc.groups, tc.strict, tc.accounts)
			if tc.err != "" {
				if err == nil || err.Error() != tc.err {
					t.Errorf("error %v, want %s", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, *got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
