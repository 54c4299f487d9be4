// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package compare

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// What two runs of the same server make differently, wherever it stands. A value that the request had is left as it is.
var (
	timePattern = regexp.MustCompile(`\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?( ?[+-]\d{4} \w+( m=\S+)?|Z)?`)
	uidPattern  = regexp.MustCompile(`\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`)
	agePattern  = regexp.MustCompile(`^(\d+[smhdy])+$`)
	jwtPattern  = regexp.MustCompile(`\beyJ[\w-]+\.[\w-]+\.[\w-]+\b`)
	clusterIP   = regexp.MustCompile(`\b10\.(0|98)\.0\.\d+\b`)
	versions    = regexp.MustCompile(`large resource version: \d+, current: \d+|\b(resourceVersion|resource version)(\\*"?: ?\\*"?)?:? ?"?\d+"?|in record \(\d+\)|in object meta: \d+`)
	nodePort    = regexp.MustCompile(`:3\d{4}/`)
	tokenVolume = regexp.MustCompile(`\bkube-api-access-[a-z0-9]{5}\b`)
	generated   = regexp.MustCompile(`^(.{1,58})[a-z0-9]{5}$`)
)

// Normalize returns a copy of a decoded body in which such values have been replaced by what they are. Strings that are
// known, as they were in the request, stay.
func Normalize(body any, known map[string]bool) any {
	n := normalizer{known: known}
	return n.value("", body)
}

type normalizer struct{ known map[string]bool }

func (n normalizer) value(key string, v any) any {
	switch v := v.(type) {
	case map[string]any:
		return n.object(v)
	case []any:
		l := make([]any, len(v))
		for i, item := range v {
			l[i] = n.value(key, item)
		}
		return l
	case string:
		return n.text(v)
	case json.Number:
		if (key == "nodePort" || key == "healthCheckNodePort") && !n.known[number(v.String())] && v.String() != "0" {
			return chosenPort(v.String())
		}
	}
	return v
}

func (n normalizer) object(v map[string]any) map[string]any {
	m := make(map[string]any, len(v))
	for k, item := range v {
		// Managed fields name the volume of the token in a key, which no request has as a whole.
		m[tokenVolume.ReplaceAllString(k, "kube-api-access-<random>")] = n.value(k, item)
	}
	if ends, ok := expiry(v); ok {
		m["expirationTimestamp"] = ends
	}
	for _, volatile := range []string{"resourceVersion", "uid", "continue"} {
		if s, ok := m[volatile].(string); ok && s != "" && !n.known[s] {
			m[volatile] = "<" + volatile + ">"
		}
	}
	if prefix, ok := m["generateName"].(string); ok && prefix != "" {
		if name, ok := m["name"].(string); ok && !n.known[name] && strings.HasPrefix(name, prefix[:min(58, len(prefix))]) {
			m["name"] = prefix + "<random>"
		}
	}
	return m
}

func (n normalizer) text(s string) string {
	if n.known[s] {
		return s
	}
	if m := generated.FindStringSubmatch(s); m != nil && n.generated(m[1]) {
		return m[1] + "<random>"
	}
	s = n.replaceBy(jwtPattern, s, n.token)
	s = n.replace(timePattern, s, "<time>")
	s = n.replace(uidPattern, s, "<uid>")
	s = n.replaceBy(clusterIP, s, chosenAddress)
	s = n.replace(tokenVolume, s, "kube-api-access-<random>")
	s = n.replaceBy(nodePort, s, func(p string) string { return ":" + chosenPort(strings.Trim(p, ":/")) + "/" })
	return n.replace(versions, s, "<version>")
}

// generated tells whether names with this prefix are made of a known generateName, which is cut off when it is too long.
func (n normalizer) generated(prefix string) bool {
	if len(prefix) == 58 {
		for k := range n.known {
			if strings.HasPrefix(k, prefix) {
				return true
			}
		}
	}
	return strings.HasSuffix(prefix, "-") && n.known[prefix]
}

func (n normalizer) replace(p *regexp.Regexp, s, by string) string {
	return n.replaceBy(p, s, func(string) string { return by })
}

func (n normalizer) replaceBy(p *regexp.Regexp, s string, by func(string) string) string {
	return p.ReplaceAllStringFunc(s, func(match string) string {
		if n.known[match] {
			return match
		}
		return by(match)
	})
}

// age is what is in a cell of a column of ages; everywhere else the same text may be a quantity.
func age(cell any) any {
	if s, ok := cell.(string); ok && agePattern.MatchString(s) {
		return "<age>"
	}
	return cell
}

// ages tells whether the cells of a column are ages.
func ages(column any) bool {
	return text(column, "type") == "date" || slices.Contains([]string{"Age", "Last Seen", "First Seen", "Last Schedule", "Duration", "LastBindTime", "Requested Duration", "TimeAdded"}, text(column, "name"))
}

// texts normalizes each string, and sorts them.
func texts(all []string, known map[string]bool) []string {
	n := normalizer{known: known}
	out := make([]string, len(all))
	for i, s := range all {
		out[i] = n.text(s)
	}
	slices.Sort(out)
	return out
}

// number is how a number is among known strings: a resource version that happens to be one is none of them.
func number(n string) string { return "#" + n }

// Strings returns every string and number in a value.
func Strings(v any) map[string]bool {
	found := map[string]bool{}
	var collect func(any)
	collect = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for item := range maps.Values(v) {
				collect(item)
			}
		case []any:
			for _, item := range v {
				collect(item)
			}
		case string:
			found[v] = true
		case nil, bool:
		default:
			found[number(spell(v))] = true
		}
	}
	collect(v)
	return found
}
