// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package jobspec

import (
	"fmt"
	"strconv"
	"strings"
)

// interval is a run of completion indexes, both ends included.
type interval struct{ first, last int32 }

// CountIndexes returns how many indexes a list such as "1,3-5,7" holds. It fails unless the list is strictly increasing
// and below completions.
func CountIndexes(list string, completions int32) (int32, error) {
	if list == "" {
		return 0, nil
	}
	var total int32
	previous := int32(-1)
	for part := range strings.SplitSeq(list, ",") {
		i, err := parseInterval(part, completions)
		if err != nil {
			return 0, err
		}
		if i.first <= previous {
			return 0, fmt.Errorf("non-increasing order, previous: %d, current: %d", previous, i.first)
		}
		total += i.last - i.first + 1
		previous = i.last
	}
	return total, nil
}

// ValidateDisjoint fails if an index is in both lists. It passes over parts that CountIndexes refuses.
func ValidateDisjoint(completed, failed string, completions int32) error {
	c, f := intervals(completed, completions), intervals(failed, completions)
	for len(c) > 0 && len(f) > 0 {
		switch {
		case c[0].first <= f[0].last && f[0].first <= c[0].last:
			return fmt.Errorf("failedIndexes and completedIndexes overlap at index: %d", max(c[0].first, f[0].first))
		case c[0].first <= f[0].first:
			c = c[1:]
		default:
			f = f[1:]
		}
	}
	return nil
}

// intervals returns the parts of a list that can be read.
func intervals(list string, completions int32) []interval {
	var out []interval
	for part := range strings.SplitSeq(list, ",") {
		if i, err := parseInterval(part, completions); err == nil {
			out = append(out, i)
		}
	}
	return out
}

func parseInterval(s string, completions int32) (interval, error) {
	limits := strings.Split(s, "-")
	if len(limits) > 2 {
		return interval{}, fmt.Errorf("the fragment %q violates the requirement that an index interval can have at most two parts separated by '-'", s)
	}
	var ends [2]int
	for i, limit := range limits {
		n, err := strconv.Atoi(limit)
		if err != nil {
			return interval{}, fmt.Errorf("cannot convert string to integer for index: %q", limit)
		}
		if n >= int(completions) {
			return interval{}, fmt.Errorf("too large index: %q", limit)
		}
		ends[i] = n
	}
	if len(limits) == 1 {
		ends[1] = ends[0]
	} else if ends[0] >= ends[1] {
		return interval{}, fmt.Errorf("non-increasing order, previous: %d, current: %d", ends[0], ends[1])
	}
	return interval{int32(ends[0]), int32(ends[1])}, nil
}
