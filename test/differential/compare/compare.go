// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package compare says in what two answers to the same request differ. It is pure. Touch it when something differs between
// two runs of the same server (normalize.go), or to compare something else.
package compare

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// Answer is what a server said.
type Answer struct {
	Code        int
	Warnings    []string
	ContentType string
	// Header is all the others.
	Header http.Header
	// Body is decoded JSON with json.Number, or a string if it was something else.
	Body any
}

// Difference is one thing that differs.
type Difference struct {
	// Check is what was compared: accept, code, reason, cause, warning, message, details, kind, media type, object,
	// item, column, row, and for documents: path, schema, definition.
	Check string
	// Path is the field, if there is one.
	Path string
	// Upstream and Ours are the two sides, "-" for nothing.
	Upstream, Ours string
	// Says is the text of the refusal, if one side refuses or both do by another code.
	Says string
}

// none stands for a value that is not there.
const none = "-"

// Answers compares two answers to a request; known are the strings and numbers that were sent, so that the servers did not
// choose them.
func Answers(upstream, ours Answer, known map[string]bool) []Difference {
	u, o := Normalize(upstream.Body, known), Normalize(ours.Body, known)
	var all []Difference
	add := func(check, path, a, b string) {
		if a != b {
			all = append(all, Difference{Check: check, Path: path, Upstream: a, Ours: b, Says: says(u, o)})
		}
	}
	if accepted(upstream) != accepted(ours) {
		// Each cause is one thing to mend.
		refused := causes(u)
		if accepted(upstream) {
			refused = causes(o)
		}
		if len(refused) == 0 {
			refused = []string{turn(upstream, u, ours, o)}
		}
		for _, cause := range refused {
			add("accept", cause, verdict(upstream, u), verdict(ours, o))
		}
		return all
	}
	if upstream.Code != ours.Code {
		add("code", turn(upstream, u, ours, o), verdict(upstream, u), verdict(ours, o))
		if !accepted(ours) { // the reason follows from it, what is said does not
			return append(all, messages(u, o)...)
		}
	}
	for _, d := range sets("allocation", allocatedTwice(upstream.Body), allocatedTwice(ours.Body)) {
		d.Path = "a second time"
		all = append(all, d)
	}
	all = append(all, headers(upstream.Header, ours.Header, known)...)
	add("media type", "", mediaType(upstream.ContentType), mediaType(ours.ContentType))
	all = append(all, sets("warning", texts(upstream.Warnings, known), texts(ours.Warnings, known))...)
	return append(all, bodies(u, o)...)
}

// bodies compares by what the bodies are; a list and a stream of events by what is in them.
func bodies(u, o any) []Difference {
	if isStream(u) || isStream(o) {
		u, o = stream(u), stream(o)
	} else {
		u, o = eventObject(u), eventObject(o)
	}
	if kindOf(u) != kindOf(o) {
		return []Difference{{Check: "kind", Upstream: kindOf(u), Ours: kindOf(o)}}
	}
	kind := kindOf(u)
	switch {
	case kind == "v1 Status":
		return statuses(u, o)
	case strings.HasSuffix(kind, " Table"):
		return tables(u, o)
	case strings.HasSuffix(kind, "List"):
		return append(items(get(u, "items"), get(o, "items"), objectName), Values("object", without(u, "items"), without(o, "items"))...)
	case kind == "stream":
		return items(u, o, eventName)
	case strings.HasSuffix(kind, " SelfSubjectRulesReview"):
		u, o = rules(u), rules(o)
	}
	return Values("object", u, o)
}

// items compares lists by the names of what is in them, so that one missing item is one difference.
func items(u, o any, name func(any) string) []Difference {
	ul, _ := u.([]any)
	ol, _ := o.([]any)
	um, names := byName(ul, name)
	om, onames := byName(ol, name)
	var all []Difference
	for _, d := range sets("item", names, onames) {
		d.Path = "a whole item"
		all = append(all, d)
	}
	for _, n := range names {
		if other, ok := om[n]; ok {
			all = append(all, bodies(um[n], other)...)
		}
	}
	if len(all) == 0 && !slices.Equal(names, onames) {
		all = append(all, Difference{Check: "item", Path: "order", Upstream: strings.Join(names, ","), Ours: strings.Join(onames, ",")})
	}
	return all
}

func objectName(item any) string {
	return strings.TrimPrefix(text(item, "metadata", "namespace")+"/"+text(item, "metadata", "name"), "/")
}

// eventName tells an event of a watch from the others: its type and object, which may be a table.
func eventName(event any) string {
	object := get(event, "object")
	if rows, ok := get(object, "rows").([]any); ok && len(rows) > 0 {
		object = get(rows[0], "object")
	}
	return text(event, "type") + " " + objectName(object)
}

// isStream tells whether a body is what a watch sends: several events.
func isStream(body any) bool {
	_, ok := body.([]any)
	return ok
}

// stream makes several events of none and of one.
func stream(body any) any {
	switch {
	case body == "":
		return []any{}
	case text(body, "type") != "" && get(body, "object") != nil:
		return []any{body}
	}
	return body
}

// rules returns a review with its rules in order: servers give them in that of a map.
func rules(review any) any {
	m, ok := review.(map[string]any)
	status, has := m["status"].(map[string]any)
	if !ok || !has {
		return review
	}
	m, status = maps.Clone(m), maps.Clone(status)
	m["status"] = status
	for _, key := range []string{"resourceRules", "nonResourceRules"} {
		all, _ := status[key].([]any)
		status[key] = slices.SortedFunc(slices.Values(all), func(a, b any) int { return strings.Compare(spell(a), spell(b)) })
	}
	return m
}

// eventObject is what is in an event; what is no event stays.
func eventObject(v any) any {
	if object := get(v, "object"); object != nil && text(v, "type") != "" {
		return object
	}
	return v
}

func accepted(a Answer) bool { return a.Code < 400 }

// verdict is code, reason and causes in a line.
func verdict(a Answer, body any) string {
	return strings.TrimSpace(outcome(a, body) + " " + strings.Join(causes(body), ", "))
}

// outcome is code and reason.
func outcome(a Answer, body any) string {
	if accepted(a) {
		return fmt.Sprintf("%d accepted", a.Code)
	}
	return strings.TrimSpace(fmt.Sprintf("%d %s", a.Code, text(body, "reason")))
}

// turn is what one outcome has become, to group and to explain by.
func turn(upstream Answer, u any, ours Answer, o any) string {
	return outcome(upstream, u) + " -> " + outcome(ours, o)
}

func statuses(u, o any) []Difference {
	var all []Difference
	add := func(check, a, b string) {
		if a != b {
			all = append(all, Difference{Check: check, Upstream: a, Ours: b})
		}
	}
	add("reason", text(u, "reason"), text(o, "reason"))
	all = append(all, sets("cause", causes(u), causes(o))...)
	all = append(all, messages(u, o)...)
	for _, field := range []string{"name", "group", "kind", "retryAfterSeconds"} {
		add("details", field+" "+text(u, "details", field), field+" "+text(o, "details", field))
	}
	return all
}

// causes returns "type field" of each cause, sorted, each once.
func causes(status any) []string {
	var all []string
	list, _ := get(status, "details", "causes").([]any)
	for _, c := range list {
		all = append(all, strings.TrimSpace(text(c, "reason")+" "+text(c, "field")))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// sets reports what only one side has.
func sets(check string, u, o []string) []Difference {
	var all []Difference
	for _, s := range u {
		if !slices.Contains(o, s) {
			all = append(all, Difference{Check: check, Path: s, Upstream: s, Ours: none})
		}
	}
	for _, s := range o {
		if !slices.Contains(u, s) {
			all = append(all, Difference{Check: check, Path: s, Upstream: none, Ours: s})
		}
	}
	return all
}

// tables compares columns by name and rows by the object, or by position if they have none.
func tables(u, o any) []Difference {
	uc, _ := get(u, "columnDefinitions").([]any)
	oc, _ := get(o, "columnDefinitions").([]any)
	all := columns(uc, oc)
	ur, unames := byName(rowsOf(u), rowName)
	or, onames := byName(rowsOf(o), rowName)
	for _, d := range sets("row", unames, onames) {
		d.Path = "a whole row"
		all = append(all, d)
	}
	for _, n := range unames {
		a, b := ur[n], or[n]
		if b == nil {
			continue
		}
		ucells, _ := get(a, "cells").([]any)
		ocells, _ := get(b, "cells").([]any)
		for j := range max(len(ucells), len(ocells)) {
			name := fmt.Sprint(j)
			if j < len(uc) {
				name = text(uc[j], "name")
			}
			x, y := at(ucells, j), at(ocells, j)
			if j >= len(uc) || ages(uc[j]) { // upstream's rows of IPAddresses have an age that no column names
				x, y = age(x), age(y)
			}
			if x, y := spell(x), spell(y); x != y {
				all = append(all, Difference{Check: "row", Path: name, Upstream: x, Ours: y})
			}
		}
		all = append(all, Values("object", get(a, "object"), get(b, "object"))...)
		all = append(all, Values("row", without(a, "cells", "object"), without(b, "cells", "object"))...)
	}
	return append(all, Values("object", without(u, "rows", "columnDefinitions"), without(o, "rows", "columnDefinitions"))...)
}

func columns(u, o []any) []Difference {
	name := func(column any) string { return text(column, "name") }
	um, names := byName(u, name)
	om, onames := byName(o, name)
	all := sets("column", names, onames)
	for _, n := range names {
		if other, ok := om[n]; ok {
			for _, d := range Values("column", um[n], other) {
				d.Path = n + "." + d.Path
				all = append(all, d)
			}
		}
	}
	if len(all) == 0 && !slices.Equal(names, onames) {
		all = append(all, Difference{Check: "column", Path: "order", Upstream: strings.Join(names, ","), Ours: strings.Join(onames, ",")})
	}
	return all
}

func rowsOf(table any) []any {
	rows, _ := get(table, "rows").([]any)
	return rows
}

// rowName is the name of the object of a row, or what is in its first cell, which mostly is the same.
func rowName(row any) string {
	if name := objectName(get(row, "object")); name != "" {
		return name
	}
	cells, _ := get(row, "cells").([]any)
	return fmt.Sprint(at(cells, 0))
}

// byName returns the items by name, and the names in order; items without a name, or of one that was there, are numbered.
func byName(list []any, name func(any) string) (map[string]any, []string) {
	m := map[string]any{}
	var names []string
	for _, item := range settled(list, name) {
		n := name(item)
		for i := 2; m[n] != nil; i++ {
			n = fmt.Sprintf("%s (%d)", name(item), i)
		}
		m[n] = item
		names = append(names, n)
	}
	return m, names
}

// settled puts items of one name, which were named at random, in the order of what they are. Others stay where they are.
func settled(list []any, name func(any) string) []any {
	places := map[string][]int{}
	for i, item := range list {
		places[name(item)] = append(places[name(item)], i)
	}
	out := slices.Clone(list)
	for n, at := range places {
		if len(at) < 2 || !strings.Contains(n, "<") {
			continue
		}
		same := make([]any, len(at))
		for k, i := range at {
			same[k] = list[i]
		}
		slices.SortFunc(same, func(a, b any) int { return strings.Compare(spell(a), spell(b)) })
		for k, i := range at {
			out[i] = same[k]
		}
	}
	return out
}

// Values returns where two decoded values differ; check is what they are called in the differences.
func Values(check string, u, o any) []Difference {
	var all []Difference
	walk("", u, o, func(path, a, b string) {
		all = append(all, Difference{Check: check, Path: path, Upstream: a, Ours: b})
	})
	return all
}

func walk(path string, u, o any, differ func(path, a, b string)) {
	switch u := u.(type) {
	case map[string]any:
		if o, ok := o.(map[string]any); ok {
			walkMaps(path, u, o, differ)
			return
		}
	case []any:
		if o, ok := o.([]any); ok && len(u) == len(o) {
			for i := range u {
				walk(fmt.Sprintf("%s[%d]", path, i), u[i], o[i], differ)
			}
			return
		}
	}
	if a, b := spell(u), spell(o); a != b {
		differ(path, a, b)
	}
}

func walkMaps(path string, u, o map[string]any, differ func(path, a, b string)) {
	for _, k := range slices.Sorted(maps.Keys(u)) {
		at := strings.TrimPrefix(path+"."+k, ".")
		if other, ok := o[k]; ok {
			walk(at, u[k], other, differ)
		} else {
			differ(at, spell(u[k]), none)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(o)) {
		if _, ok := u[k]; !ok {
			differ(strings.TrimPrefix(path+"."+k, "."), none, spell(o[k]))
		}
	}
}

func spell(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(data)
}

func get(v any, path ...string) any {
	for _, p := range path {
		m, _ := v.(map[string]any)
		v = m[p]
	}
	return v
}

func text(v any, path ...string) string {
	if v = get(v, path...); v == nil {
		return ""
	}
	return fmt.Sprint(v)
}

func at(list []any, i int) any {
	if i < len(list) {
		return list[i]
	}
	return "(no cell)"
}

func without(v any, keys ...string) any {
	m, ok := v.(map[string]any)
	if !ok {
		return v
	}
	m = maps.Clone(m)
	for _, k := range keys {
		delete(m, k)
	}
	return m
}

func kindOf(body any) string {
	switch body.(type) {
	case map[string]any:
	case []any:
		return "stream"
	default:
		return "text"
	}
	return strings.TrimSpace(text(body, "apiVersion") + " " + text(body, "kind"))
}

func mediaType(header string) string {
	return strings.ReplaceAll(header, " ", "")
}
