// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package heap

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestUnchanged(t *testing.T) {
	t.Parallel()
	const maps = `00400000-03a2d000 r-xp 00000000 fe:00 997 /bin/program
Size:              54000 kB
Anonymous:             0 kB
VmFlags: rd ex mr mw me
03a2d000-07bf2000 r--p 0362d000 fe:00 997                            /bin/program
Anonymous:             0 kB
07bf2000-07c00000 r--p 077f2000 fe:00 997                            /bin/program
Anonymous:            12 kB
07c00000-07d44000 rw-p 07800000 fe:00 997                            /bin/program
Anonymous:             0 kB
07d44000-07e00000 rw-p 00000000 00:00 0
Anonymous:            80 kB
7f7a34a7c000-7f7a35100000 r--p 00000000 fe:00 998                    /lib/other
Anonymous:             0 kB
`
	got, err := unchanged(maps, "/bin/program")
	if err != nil {
		t.Fatal(err)
	}
	want := []mapping{{0x400000, 0x3a2d000}, {0x3a2d000, 0x7bf2000}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(mapping{})); diff != "" {
		t.Errorf("mappings (-want +got):\n%s", diff)
	}
}

func TestForgetProgram(t *testing.T) {
	if err := forgetProgram(); err != nil { // and this test goes on
		t.Error(err)
	}
}
