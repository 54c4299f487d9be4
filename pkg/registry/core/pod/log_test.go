// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestEndOfLogComesAlone(t *testing.T) {
	for _, tc := range []struct {
		name   string
		reader io.Reader
		want   error
	}{
		{name: "end with the last bytes", reader: iotest.DataErrReader(strings.NewReader("log")), want: io.EOF},
		{name: "end alone", reader: strings.NewReader("log"), want: io.EOF},
		{name: "failure", reader: io.MultiReader(strings.NewReader("log"), iotest.ErrReader(io.ErrUnexpectedEOF)), want: io.ErrUnexpectedEOF},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := &endAlone{ReadCloser: io.NopCloser(tc.reader)}
			p := make([]byte, 16)
			if n, err := r.Read(p); string(p[:n]) != "log" || err != nil {
				t.Errorf("first read: %q, %v", p[:n], err)
			}
			for range 2 {
				if n, err := r.Read(p); n != 0 || !errors.Is(err, tc.want) {
					t.Errorf("later read: %q, %v, want %v", p[:n], err, tc.want)
				}
			}
		})
	}
}
