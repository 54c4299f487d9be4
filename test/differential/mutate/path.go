// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package mutate

import (
	"fmt"
	"maps"
	"regexp"
	"strings"
)

// Path leads to a value: names of fields (string) and positions in lists (int).
type Path []any

// String is the path as it is written in errors: spec.containers[0].name.
func (p Path) String() string {
	var b strings.Builder
	for _, step := range p {
		switch step := step.(type) {
		case int:
			fmt.Fprintf(&b, "[%d]", step)
		default:
			if b.Len() > 0 {
				b.WriteByte('.')
			}
			fmt.Fprint(&b, step)
		}
	}
	return b.String()
}

// Pointer is the path in the spelling of JSON patches.
func (p Path) Pointer() string {
	var b strings.Builder
	for _, step := range p {
		b.WriteString("/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(fmt.Sprint(step)))
	}
	return b.String()
}

var index = regexp.MustCompile(`\[[^\]]*\]`)

// Pattern replaces positions and keys in brackets by a star, so that what happens to every item is one thing.
func Pattern(path string) string { return index.ReplaceAllString(path, "[*]") }

func (p Path) with(step any) Path { return append(append(Path{}, p...), step) }

// Get returns the value at a path.
func Get(value any, p Path) (any, bool) {
	for _, step := range p {
		switch step := step.(type) {
		case string:
			m, ok := value.(map[string]any)
			if !ok {
				return nil, false
			}
			if value, ok = m[step]; !ok {
				return nil, false
			}
		case int:
			l, ok := value.([]any)
			if !ok || step >= len(l) {
				return nil, false
			}
			value = l[step]
		}
	}
	return value, true
}

// set returns value with what is at p replaced, sharing nothing that it changed with value. Fields on the way are made; an
// item of a list must be there, or be the next one.
func set(value any, p Path, new any) any {
	if len(p) == 0 {
		return new
	}
	switch step := p[0].(type) {
	case string:
		old, _ := value.(map[string]any)
		m := make(map[string]any, len(old)+1)
		maps.Copy(m, old)
		m[step] = set(m[step], p[1:], new)
		return m
	case int:
		old, _ := value.([]any)
		l := append([]any(nil), old...)
		if step >= len(l) {
			l = append(l, nil)
			step = len(l) - 1
		}
		l[step] = set(l[step], p[1:], new)
		return l
	}
	return value
}

func remove(value any, p Path) any {
	parent, _ := Get(value, p[:len(p)-1])
	switch step := p[len(p)-1].(type) {
	case string:
		old, _ := parent.(map[string]any)
		m := make(map[string]any, len(old))
		for k, v := range old {
			if k != step {
				m[k] = v
			}
		}
		parent = m
	case int:
		old, _ := parent.([]any)
		if step < len(old) {
			parent = append(append([]any{}, old[:step]...), old[step+1:]...)
		}
	}
	return set(value, p[:len(p)-1], parent)
}
