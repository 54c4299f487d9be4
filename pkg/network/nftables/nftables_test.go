// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package nftables

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

func TestParse(t *testing.T) {
	whole := append(nl.NewRtAttr(3, nl.ZeroTerminated("name")).Serialize(), nl.NewRtAttr(4|unix.NLA_F_NESTED, []byte{1, 2, 3, 4}).Serialize()...)
	for _, test := range []struct {
		name string
		data []byte
		want Attributes
	}{
		{"nothing", nil, Attributes{}},
		{"two", whole, Attributes{3: []byte("name\x00"), 4: {1, 2, 3, 4}}},
		{"the last of a kind", append(nl.NewRtAttr(3, []byte("old")).Serialize(), whole...), Attributes{3: []byte("name\x00"), 4: {1, 2, 3, 4}}},
		{"cut off", whole[:len(whole)-1], Attributes{3: []byte("name\x00")}},
		{"no length", []byte{0, 0, 3, 0, 1}, Attributes{}},
		{"half a header", []byte{4, 0, 3}, Attributes{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, Parse(test.data)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestComment(t *testing.T) {
	for _, test := range []struct {
		name string
		data []byte
		want string
	}{
		{"none", nil, ""},
		{"a comment", []byte("\x00\x03hi\x00"), "hi"},
		{"something else", []byte("\x01\x03hi\x00"), ""},
		{"cut off", []byte("\x00\x04hi\x00"), ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := Comment(test.data); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
