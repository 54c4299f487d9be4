// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package quantity

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
)

func TestExpensive(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"1e3": false, "1e999": false, "1e-999": false, "1.5Gi": false, "0": false, "": false, "4e1234x": false, "see 1e99999": false, "e99999": false,
		"1e1000": true, "1E+99999": true, "-1.e-9999": true, " 1e99999 ": true, "1e4294967296": true, "1e00003": true,
		strings.Repeat("1", 256): false, strings.Repeat("1", 257): true, "0." + strings.Repeat("1", 300) + "Ki": true,
		strings.Repeat(" ", 300) + "1": false,
	} {
		if got := Expensive(text); got != want {
			t.Errorf("%.40q is expensive: %v, want %v", text, got, want)
		}
	}
}

// A quantity that is let through is cheap: a whole request of the worst ones that are not refused.
func TestWhatIsLetThrough(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"1e-999", "1e999", strings.Repeat("9", MaxDigits), "0." + strings.Repeat("9", MaxDigits-3), strings.Repeat("9", MaxDigits) + "Ei"} {
		if Expensive(text) {
			t.Errorf("%.20q is refused", text)
		}
		if allocated := testing.Benchmark(func(b *testing.B) {
			b.Helper()
			for b.Loop() {
				q, err := resource.ParseQuantity(text)
				if err != nil {
					b.Fatal(err)
				}
				_ = q.String()
			}
		}).AllocedBytesPerOp(); allocated > 32<<10 {
			t.Errorf("to read %.20q takes %d bytes", text, allocated)
		}
	}
}
