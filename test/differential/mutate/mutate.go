// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package mutate makes many slightly wrong, or just different, objects out of one that is right. It is pure: the same object
// and seed give the same mutations. Touch it to try another kind of wrong value.
package mutate

import (
	"cmp"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"slices"
	"strings"

	"minik8s.io/minik8s/test/differential/schema"
)

// Mutation is one change of an object.
type Mutation struct {
	// Name says what is done, Path where.
	Name string
	Path Path
	// Value is put there, unless Remove is set.
	Value  any
	Remove bool
}

// Apply returns the changed object; the given one stays as it is.
func (m Mutation) Apply(object map[string]any) map[string]any {
	var changed any
	if m.Remove {
		changed = remove(object, m.Path)
	} else {
		changed = set(object, m.Path, m.Value)
	}
	o, _ := changed.(map[string]any)
	return o
}

func (m Mutation) String() string { return m.Name + " " + m.Path.String() }

// depth bounds how far made up values go: what is deeper is reached when its parents are there.
const depth = 4

// All returns the mutations of what is at the path in the object, which may be empty for the whole object; t is the type of
// the whole object.
func All(object map[string]any, t *schema.Type, types *schema.Set, within Path) []Mutation {
	w := &walk{types: types}
	at := t
	for _, step := range within {
		at = types.Resolve(at)
		if name, ok := step.(string); ok && at != nil {
			at = at.Properties[name]
		}
	}
	if value, ok := Get(object, within); ok {
		w.present(within, value, at)
	} else {
		w.absent(within, at, depth)
	}
	return w.all
}

// Sample keeps at most n mutations, chosen by the seed, in their order.
func Sample(all []Mutation, n int, seed string) []Mutation {
	if len(all) <= n {
		return all
	}
	type ranked struct {
		rank uint64
		at   int
	}
	ranks := make([]ranked, len(all))
	for i, m := range all {
		ranks[i] = ranked{rank: Hash(seed, m.String(), fmt.Sprint(i)), at: i}
	}
	slices.SortFunc(ranks, func(a, b ranked) int { return cmp.Compare(a.rank, b.rank) })
	ranks = ranks[:n]
	slices.SortFunc(ranks, func(a, b ranked) int { return cmp.Compare(a.at, b.at) })
	kept := make([]Mutation, n)
	for i, r := range ranks {
		kept[i] = all[r.at]
	}
	return kept
}

// Hash is what choices are made by.
func Hash(parts ...string) uint64 {
	h := fnv.New64a()
	for _, p := range parts {
		h.Write([]byte(p))
		h.Write([]byte{0})
	}
	return h.Sum64()
}

type walk struct {
	types *schema.Set
	all   []Mutation
}

func (w *walk) set(p Path, value any, name string) {
	w.all = append(w.all, Mutation{Name: name, Path: p, Value: value})
}

func (w *walk) values(p Path, values ...any) {
	for _, v := range values {
		w.set(p, v, "set "+spell(v))
	}
}

// spell writes a value shortly.
func spell(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return "?"
	}
	if s := string(data); len(s) <= 60 {
		return s
	}
	return fmt.Sprintf("%s… (%d bytes)", strings.ToValidUTF8(string(data[:50]), ""), len(data))
}

// present changes a value that is there.
func (w *walk) present(p Path, value any, t *schema.Type) {
	quantity := w.types.Quantity(t)
	t = w.types.Resolve(t)
	if len(p) > 0 {
		w.all = append(w.all, Mutation{Name: "remove", Path: p, Remove: true})
		w.set(p, nil, "set null")
	}
	switch value := value.(type) {
	case map[string]any:
		w.object(p, value, t)
	case []any:
		w.list(p, value, t)
	default:
		w.scalar(p, t, quantity)
	}
}

func (w *walk) object(p Path, value map[string]any, t *schema.Type) {
	if len(p) > 0 {
		w.set(p, map[string]any{}, "empty")
		w.values(p, "text", []any{})
	}
	fields, of := map[string]*schema.Type(nil), (*schema.Type)(nil)
	if t != nil {
		fields = t.Properties
		if t.Additional != nil {
			of = t.Additional.Type
		}
	}
	for _, name := range slices.Sorted(maps.Keys(value)) {
		if skip(p, name) {
			continue
		}
		if ft := fields[name]; ft != nil {
			w.present(p.with(name), value[name], ft)
		} else {
			w.present(p.with(name), value[name], of)
		}
	}
	if fields == nil {
		w.keys(p, of)
		return
	}
	w.set(p.with("unknownField"), "x", "unknown field")
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if _, ok := value[name]; !ok && !skip(p, name) {
			w.absent(p.with(name), fields[name], depth)
		}
	}
}

// keys adds entries to a map: names are checked too.
func (w *walk) keys(p Path, of *schema.Type) {
	value := w.types.Fill(of, 2)
	for _, key := range []string{"", "bad key!", "Upper", "a/b", "a/b/c", "example.com/x", "kubernetes.io/x", "-a", strings.Repeat("k", 64), strings.Repeat("k", 254)} {
		w.set(p.with(key), value, fmt.Sprintf("add key %.20q", key))
	}
}

func (w *walk) list(p Path, value []any, t *schema.Type) {
	w.set(p, []any{}, "empty")
	w.values(p, "text", map[string]any{})
	var of *schema.Type
	if t != nil {
		of = t.Items
	}
	for i, item := range value {
		w.present(p.with(i), item, of)
	}
	if len(value) > 0 {
		w.set(p, append(slices.Clone(value), value[0]), "duplicate the first item")
		w.set(p, append(slices.Clone(value), w.types.Fill(of, depth)), "append an item")
		if len(value) > 1 {
			reversed := slices.Clone(value)
			slices.Reverse(reversed)
			w.set(p, reversed, "reverse")
		}
		many := slices.Clone(value)
		for len(many) < 130 {
			many = append(many, value[0])
		}
		w.set(p, many, "repeat the first item 130 times")
	}
}

// absent adds a field that is not there: as a whole, and then each field in it alone.
func (w *walk) absent(p Path, t *schema.Type, levels int) {
	quantity := w.types.Quantity(t)
	r := w.types.Resolve(t)
	switch {
	case r == nil:
		w.values(p, "value", 1, map[string]any{})
	case r.Properties != nil:
		w.set(p, map[string]any{}, "add empty")
		if levels == 0 {
			return
		}
		w.set(p, w.types.Fill(t, depth), "add full")
		for _, name := range slices.Sorted(maps.Keys(r.Properties)) {
			w.absent(p.with(name), r.Properties[name], levels-1)
		}
	case r.Items != nil:
		w.set(p, []any{}, "add empty")
		if levels > 0 {
			w.set(p, []any{w.types.Fill(r.Items, depth)}, "add full item")
			w.absent(p.with(0), r.Items, levels-1)
		}
	case r.Additional != nil && r.Additional.Type != nil:
		w.set(p, map[string]any{}, "add empty")
		w.keys(p, r.Additional.Type)
	default:
		w.scalar(p, t, quantity)
	}
}

// scalar tries values of the type, at and beyond its limits, and of other types.
func (w *walk) scalar(p Path, t *schema.Type, quantity bool) {
	t = w.types.Resolve(t)
	switch {
	case quantity:
		w.values(p, "", "0", "-1", "1", "1500m", "0.5", "1Gi", "1e3", "1.5Gi", "100000000000000000000", "x", "1 Gi", 1, 1.5, true)
	case t == nil:
		w.values(p, "", "value", "Bad Value!", 1, true)
	case t.IntOrString || len(t.OneOf) > 0:
		w.values(p, 0, -1, 1, 65536, "", "50%", "150%", "-1%", "name", "Bad Name!", "a-name-longer-than-15", true)
	case t.Type == "integer":
		w.values(p, 0, -1, 1, 2, 100, 65535, 65536, math.MaxInt32, math.MaxInt32+1, int64(math.MaxInt64), "1", "x", 1.5, true)
	case t.Type == "number":
		w.values(p, 0, -1, 1.5, "x")
	case t.Type == "boolean":
		w.values(p, true, false, "true", 1)
	case t.Format == "date-time":
		w.values(p, "2026-01-02T03:04:05Z", "2026-01-02T03:04:05.123456Z", "not a time", "", 1)
	case t.Format == "byte":
		w.values(p, "", "dmFsdWU=", "not base64!", 1)
	case len(t.Enum) > 0:
		w.values(p, t.Enum...)
		w.values(p, "", "NotInTheEnum", 1)
	case t.Type == "string":
		w.values(p, "", "value", "Bad Value!", "a/b", "example.com/name", "10.0.0.1", "2001:db8::1", "10.0.0.0/8", "0010.0.0.1", "*", "../x", "/abs/path", "-a",
			"http://example.com", "1", strings.Repeat("a", 64), strings.Repeat("a", 300), "ünïcode", 1, true)
	default:
		w.values(p, "value", 1, map[string]any{}, []any{})
	}
}

// skip leaves out what names the object and what the two servers cannot have in common.
func skip(p Path, name string) bool {
	if len(p) == 0 {
		return name == "apiVersion" || name == "kind"
	}
	if len(p) == 1 && p[0] == "metadata" {
		return name == "managedFields" || name == "creationTimestamp" || name == "uid" || name == "resourceVersion" || name == "selfLink"
	}
	return false
}
