// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"slices"
	"strconv"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// noIndex stands for the completion index of a pod that has none.
const noIndex = -1

// interval is a run of completion indexes, both ends included.
type interval struct{ first, last int }

// indexes is a set of completion indexes: intervals in increasing order which neither overlap nor touch. So the state
// of a Job with very many completions stays small. Methods return new sets.
type indexes []interval

// parseIndexes reads a list such as "1,3-5,7" and drops what is not below completions or cannot be read.
func parseIndexes(list string, completions int) indexes {
	var set indexes
	for part := range strings.SplitSeq(list, ",") {
		head, tail, isRange := strings.Cut(part, "-")
		first, err := strconv.Atoi(head)
		if err != nil {
			continue
		}
		if first >= completions {
			break
		}
		last := first
		if isRange {
			if last, err = strconv.Atoi(tail); err != nil {
				continue
			}
		}
		set = set.append(interval{first, min(last, completions-1)})
	}
	return set
}

// append adds an interval that does not begin before the last one.
func (s indexes) append(i interval) indexes {
	if n := len(s); n > 0 && i.first <= s[n-1].last+1 {
		s[n-1].last = max(s[n-1].last, i.last)
		return s
	}
	return append(s, i)
}

// with returns the set with more indexes, in any order.
func (s indexes) with(more []int) indexes {
	more = slices.Clone(more)
	slices.Sort(more)
	var added indexes
	for _, i := range more {
		added = added.append(interval{i, i})
	}
	return s.union(added)
}

func (s indexes) union(other indexes) indexes {
	union := make(indexes, 0, len(s)+len(other))
	for len(s) > 0 || len(other) > 0 {
		if len(other) == 0 || len(s) > 0 && s[0].first < other[0].first {
			union, s = union.append(s[0]), s[1:]
		} else {
			union, other = union.append(other[0]), other[1:]
		}
	}
	return union
}

// count returns the number of indexes in the set.
func (s indexes) count() int {
	n := 0
	for _, i := range s {
		n += i.last - i.first + 1
	}
	return n
}

func (s indexes) has(index int) bool {
	_, found := slices.BinarySearchFunc(s, index, func(i interval, index int) int {
		switch {
		case i.last < index:
			return -1
		case i.first > index:
			return 1
		}
		return 0
	})
	return found
}

// common returns how many indexes two sets have in common.
func (s indexes) common(other indexes) int {
	n := 0
	for len(s) > 0 && len(other) > 0 {
		n += max(0, min(s[0].last, other[0].last)-max(s[0].first, other[0].first)+1)
		if s[0].last < other[0].last {
			s = s[1:]
		} else {
			other = other[1:]
		}
	}
	return n
}

// missing returns the first indexes below completions that are not in the set, at most limit of them.
func (s indexes) missing(limit, completions int) []int {
	var missing []int
	next := 0
	for _, i := range append(slices.Clone(s), interval{completions, completions}) {
		for ; next < i.first && next < completions && len(missing) < limit; next++ {
			missing = append(missing, next)
		}
		next = max(next, i.last+1)
	}
	return missing
}

// String writes the set as status.completedIndexes has it; two neighbours are not written as a range.
func (s indexes) String() string {
	var b strings.Builder
	for _, i := range s {
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(i.first))
		switch {
		case i.last == i.first+1:
			b.WriteString("," + strconv.Itoa(i.last))
		case i.last > i.first:
			b.WriteString("-" + strconv.Itoa(i.last))
		}
	}
	return b.String()
}

// indexOf returns the completion index of a pod, or noIndex.
func indexOf(pod *corev1.Pod) int {
	index, err := strconv.Atoi(pod.Annotations[batchv1.JobCompletionIndexAnnotation])
	if err != nil || index < 0 {
		return noIndex
	}
	return index
}

// indexesOf returns the completion indexes of those pods that have one.
func indexesOf(pods []*corev1.Pod) indexes {
	found := make([]int, 0, len(pods))
	for _, pod := range pods {
		if i := indexOf(pod); i != noIndex {
			found = append(found, i)
		}
	}
	return indexes(nil).with(found)
}
