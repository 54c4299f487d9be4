// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const dev = `Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo:    5000      50    0    0    0     0          0         0     5000      50    0    0    0     0       0          0
  eth0: 1234567    1000    1    2    0     0          0         0   765432     900    3    4    0     0       0          0
 short: 1 2
   bad: x 1000    1    2    0     0          0         0   765432     900    3    4    0     0       0          0
`

func TestRead(t *testing.T) {
	file := filepath.Join(t.TempDir(), "dev")
	if err := os.WriteFile(file, []byte(dev), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := Read(file)
	want := []Interface{{Name: "eth0", Rx: Counters{1234567, 1000, 1, 2}, Tx: Counters{765432, 900, 3, 4}}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if _, err := Read(file + "x"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("absent: %v", err)
	}
}
