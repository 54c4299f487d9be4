// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package hosts

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func entry(address, name string) Entry { return Entry{netip.MustParseAddr(address), name} }

const (
	users = "127.0.0.1 localhost\r\n# mine\n\n10.0.0.1\tdb  db.example # old\n"
	block = "# minik8s one begin\n192.0.2.1\tshop.test\t# minik8s one\n# minik8s one end\n"
	other = "# minik8s other begin\n192.0.2.9\ta.test\t# minik8s other\n# minik8s other end\n"
)

func TestSet(t *testing.T) {
	t.Parallel()
	shop := []Entry{entry("192.0.2.1", "shop.test")}
	for _, tc := range []struct {
		name, text string
		entries    []Entry
		want       string
	}{
		{"nothing to nothing", "", nil, ""},
		{"an empty file", "", shop, block},
		{"nothing of ours, and none is wanted", users, nil, users},
		{"appended", users, shop, users + block},
		{"removed", users + block, nil, users},
		{"stays where it is", "a\n" + block + "b\n", shop, "a\n" + block + "b\n"},
		{"changed where it is", "a\n" + strings.ReplaceAll(block, "192.0.2.1", "192.0.2.2") + "b\n", shop, "a\n" + block + "b\n"},
		{"beside another cluster's", users + other, shop, users + other + block},
		{"another cluster's stays", users + block + other, nil, users + other},
		{"a cluster whose name begins alike", "# minik8s one-b begin\n192.0.2.9\ta\t# minik8s one-b\n# minik8s one-b end\n", nil,
			"# minik8s one-b begin\n192.0.2.9\ta\t# minik8s one-b\n# minik8s one-b end\n"},
		{"the last line has no end", "127.0.0.1 localhost", shop,
			"127.0.0.1 localhost\n# minik8s one begin (the line before had no end)\n192.0.2.1\tshop.test\t# minik8s one\n# minik8s one end\n"},
		{"which comes back", "127.0.0.1 localhost\n# minik8s one begin (the line before had no end)\n192.0.2.1\tshop.test\t# minik8s one\n# minik8s one end\n", nil,
			"127.0.0.1 localhost"},
		{"unless something follows", "a\n# minik8s one begin (the line before had no end)\n# minik8s one end\nb\n", nil, "a\nb\n"},
		{"the end is lost", users + "# minik8s one begin\n192.0.2.1\tshop.test\t# minik8s one\n10.0.0.2 mine\n", nil, users + "10.0.0.2 mine\n"},
		{"a line of the user within", "# minik8s one begin\n10.0.0.2 mine\n192.0.2.1\tshop.test\t# minik8s one\n# minik8s one end\n", nil, "10.0.0.2 mine\n"},
		{"twice", block + users + block, shop, block + users},
		{"saved for Windows", strings.ReplaceAll(block, "\n", "\r\n"), nil, ""},
		{"several, of both families", "", []Entry{entry("192.0.2.1", "a.test"), entry("2001:db8::1", "a.test")},
			"# minik8s one begin\n192.0.2.1\ta.test\t# minik8s one\n2001:db8::1\ta.test\t# minik8s one\n# minik8s one end\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, Set(tc.text, "one", tc.entries)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestOthers(t *testing.T) {
	t.Parallel()
	got := Others(users+block+other+"fe80::1%lo shop2.TEST\nnonsense here\n10.0.0.2 db\n10.0.0.3\n", "one")
	want := map[string]Holder{
		"localhost":  {Addresses: []netip.Addr{netip.MustParseAddr("127.0.0.1")}},
		"db":         {Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")}},
		"db.example": {Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1")}},
		"shop2.test": {Addresses: []netip.Addr{netip.MustParseAddr("fe80::1")}},
		"a.test":     {Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.9")}, Cluster: "other"},
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateComparable(netip.Addr{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Whatever a file has: what is not ours stays, in its order; what we add goes without a trace; and nothing is done twice.
func FuzzSet(f *testing.F) {
	for _, seed := range []string{"", users, users + block, "a", "\n", block + other, "a\n" + joined("one") + "\n", "a\n" + joined("one") + "\nb", joined("one"), "\t# minik8s one\n\n"} {
		f.Add(seed, "shop.test", uint8(1))
	}
	f.Fuzz(func(t *testing.T, text, name string, n uint8) {
		if strings.ContainsAny(name, "\r\n") {
			return // no name of a host
		}
		var entries []Entry
		for range n % 4 {
			entries = append(entries, entry("192.0.2.1", name))
		}
		without, with := Set(text, "one", nil), Set(text, "one", entries)
		if again := Set(with, "one", entries); again != with {
			t.Errorf("a second time it is %q, after %q", again, with)
		}
		if gone := Set(with, "one", nil); gone != without {
			t.Errorf("without it is %q, want %q", gone, without)
		}
		if Set(without, "one", nil) != without {
			t.Errorf("%q changes", without)
		}
		var kept strings.Builder
		found := false
		for line := range strings.Lines(text) {
			if own, _ := owned(line, "one"); own {
				found = true
				continue
			}
			kept.WriteString(line)
		}
		if !found && without != text || without != kept.String() && without+"\n" != kept.String() {
			t.Errorf("of %q is left %q", text, without)
		}
	})
}
