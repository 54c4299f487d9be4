// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package env

import (
	"fmt"
	"slices"
	"strings"
)

// Expand replaces $(NAME) in each element of list by its value in env (NAME=value). $$ is an escaped $; a reference to
// an unknown name stays as written. nil gives nil.
func Expand(list []string, env []string) []string {
	if list == nil {
		return nil
	}
	lookup := from(env)
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = expand(s, lookup)
	}
	return out
}

// ExpandPath is Expand of one string in which every name must have a value, as subPathExpr demands.
func ExpandPath(s string, env []string) (string, error) {
	lookup := from(env)
	var missing []string
	out := expand(s, func(name string) (string, bool) {
		v, ok := lookup(name)
		if v == "" {
			missing = append(missing, name)
		}
		return v, ok
	})
	if len(missing) > 0 {
		slices.Sort(missing)
		return "", fmt.Errorf("missing value for %s", strings.Join(slices.Compact(missing), ", "))
	}
	return out, nil
}

func from(env []string) func(string) (string, bool) {
	vars := make(map[string]string, len(env))
	for _, e := range env {
		name, value, _ := strings.Cut(e, "=")
		vars[name] = value
	}
	return func(name string) (string, bool) {
		v, ok := vars[name]
		return v, ok
	}
}

func expand(s string, lookup func(string) (string, bool)) string {
	var b strings.Builder
	for {
		i := strings.IndexByte(s, '$')
		if i < 0 || i == len(s)-1 {
			b.WriteString(s)
			return b.String()
		}
		b.WriteString(s[:i])
		next := s[i+1]
		s = s[i+2:]
		switch next {
		case '$':
			b.WriteByte('$')
		case '(':
			name, rest, ok := strings.Cut(s, ")")
			if !ok {
				b.WriteString("$(")
				continue
			}
			if value, known := lookup(name); known {
				b.WriteString(value)
			} else {
				b.WriteString("$(" + name + ")")
			}
			s = rest
		default:
			b.WriteByte('$')
			b.WriteByte(next)
		}
	}
}
