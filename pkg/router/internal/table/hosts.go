// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package table

import "strings"

// hosts finds what belongs to a host, the most specific first: the exact name, wildcards from the longest to the shortest
// suffix, what is for all.
type hosts[T any] struct {
	exact map[string]*T
	one   map[string]*T // by suffix with its dot; the wildcard stands for one label
	many  map[string]*T // likewise; it stands for one label or more
	all   *T
}

// at returns the place for a pattern, which is made if need be.
func (h *hosts[T]) at(pattern string, oneLabel bool) *T {
	if pattern == "" {
		if h.all == nil {
			h.all = new(T)
		}
		return h.all
	}
	pattern = strings.ToLower(pattern)
	places := &h.exact
	if suffix, ok := strings.CutPrefix(pattern, "*."); ok {
		pattern, places = "."+suffix, &h.many
		if oneLabel {
			places = &h.one
		}
	}
	if *places == nil {
		*places = map[string]*T{}
	}
	if (*places)[pattern] == nil {
		(*places)[pattern] = new(T)
	}
	return (*places)[pattern]
}

// find offers what fits a host until f takes it.
func (h *hosts[T]) find(host string, f func(T) bool) {
	if t := h.exact[host]; t != nil && f(*t) {
		return
	}
	if len(h.one) > 0 || len(h.many) > 0 {
		for i, first := 1, true; i < len(host); i++ {
			if host[i] != '.' {
				continue
			}
			if first {
				if t := h.one[host[i:]]; t != nil && f(*t) {
					return
				}
				first = false
			}
			if t := h.many[host[i:]]; t != nil && f(*t) {
				return
			}
		}
	}
	if h.all != nil {
		f(*h.all)
	}
}

func (h *hosts[T]) each(f func(*T)) {
	for _, places := range []map[string]*T{h.exact, h.one, h.many} {
		for _, t := range places {
			f(t)
		}
	}
	if h.all != nil {
		f(h.all)
	}
}
