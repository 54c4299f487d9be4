// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package table

import (
	"cmp"
	"net/http"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
)

// PathKind is how a path is compared.
type PathKind int

// Kinds of paths.
const (
	// Prefix compares elements: /a/b fits /a/b and /a/b/c, but not /a/bc. A slash at its end does not count.
	Prefix PathKind = iota
	// Exact compares all of it.
	Exact
	// Pattern is a regular expression for all of it.
	Pattern
)

// Value is what a header or a parameter of the query is compared with.
type Value struct {
	// Name of a header is in its canonical form.
	Name string
	// Exact is what it is, unless there is a Pattern.
	Exact   string
	Pattern *regexp.Regexp
}

func (v *Value) fits(s string) bool {
	if v.Pattern != nil {
		return v.Pattern.MatchString(s)
	}
	return s == v.Exact
}

// Match is what a request has to be like. The zero Match fits all.
type Match struct {
	Kind    PathKind
	Path    string         // of Prefix and Exact; of Pattern only for the order
	Pattern *regexp.Regexp // of Pattern
	// Weak says of a Pattern that prefixes come first, but for the one that is for all.
	Weak bool
	// Method, "" for all.
	Method  string
	Headers []Value
	Query   []Value
}

// Origin is where a route comes from. It decides between routes whose matches are as specific as one another: the older
// object, then the first by namespace and name, then the first rule.
type Origin struct {
	Created         time.Time
	Kind            string
	Namespace, Name string
	Rule, Match     int
	// Last is for what is there when nothing else fits.
	Last bool
}

// Route is a match with what is done then.
type Route struct {
	Match  Match
	Origin Origin
	Action
}

// fits tells whether all but the path fits.
func (m *Match) fits(r *http.Request) bool {
	if m.Method != "" && m.Method != r.Method {
		return false
	}
	for i := range m.Headers {
		h := &m.Headers[i]
		values := r.Header[h.Name]
		switch {
		case h.Name == "Host":
			values = []string{r.Host}
		case len(values) == 0:
			return false
		}
		if len(values) == 1 && !h.fits(values[0]) || len(values) > 1 && !h.fits(strings.Join(values, ",")) {
			return false
		}
	}
	if len(m.Query) == 0 {
		return true
	}
	query := r.URL.Query()
	for i := range m.Query {
		// Of several values the first counts.
		if values := query[m.Query[i].Name]; len(values) == 0 || !m.Query[i].fits(values[0]) {
			return false
		}
	}
	return true
}

// before orders routes of the same path: that of more conditions first, then that of the older object.
func before(a, b *Route) int {
	method := func(r *Route) int { return min(len(r.Match.Method), 1) }
	return cmp.Or(
		cmp.Compare(method(b), method(a)),
		cmp.Compare(len(b.Match.Headers), len(a.Match.Headers)),
		cmp.Compare(len(b.Match.Query), len(a.Match.Query)),
		last(a, b),
		a.Origin.Created.Compare(b.Origin.Created),
		cmp.Compare(a.Origin.Namespace+"/"+a.Origin.Name, b.Origin.Namespace+"/"+b.Origin.Name), // as the Gateway API has it
		cmp.Compare(a.Origin.Kind, b.Origin.Kind),
		cmp.Compare(a.Origin.Rule, b.Origin.Rule),
		cmp.Compare(a.Origin.Match, b.Origin.Match),
	)
}

func last(a, b *Route) int {
	switch {
	case a.Origin.Last == b.Origin.Last:
		return 0
	case a.Origin.Last:
		return 1
	}
	return -1
}

// paths are the routes of one host.
type paths struct {
	exact    map[string][]*Route
	patterns []*Route
	weak     []*Route            // patterns likewise
	prefixes map[string][]*Route // without the slash at the end
}

func (p *paths) add(r *Route) {
	switch r.Match.Kind {
	case Exact:
		if p.exact == nil {
			p.exact = map[string][]*Route{}
		}
		p.exact[r.Match.Path] = append(p.exact[r.Match.Path], r)
	case Pattern:
		list := &p.patterns
		if r.Match.Weak {
			list = &p.weak
		}
		*list = append(*list, r)
	case Prefix:
		if p.prefixes == nil {
			p.prefixes = map[string][]*Route{}
		}
		key := strings.TrimRight(r.Match.Path, "/")
		p.prefixes[key] = append(p.prefixes[key], r)
	}
}

func (p *paths) sort() {
	for _, routes := range p.exact {
		slices.SortStableFunc(routes, before)
	}
	for _, routes := range p.prefixes {
		slices.SortStableFunc(routes, before)
	}
	for _, patterns := range [][]*Route{p.patterns, p.weak} {
		slices.SortStableFunc(patterns, func(a, b *Route) int {
			return cmp.Or(cmp.Compare(len(b.Match.Path), len(a.Match.Path)), before(a, b))
		})
	}
}

// find looks at the exact path, at patterns, and at prefixes from the longest to the shortest; before that for all at weak patterns.
func (p *paths) find(path string, r *http.Request) *Route {
	if found := first(p.exact[path], r); found != nil {
		return found
	}
	if found := firstPattern(p.patterns, path, r); found != nil {
		return found
	}
	if len(p.prefixes) == 0 && len(p.weak) == 0 {
		return nil
	}
	for prefix := path; ; {
		if prefix == "" {
			if found := firstPattern(p.weak, path, r); found != nil {
				return found
			}
		}
		if found := first(p.prefixes[prefix], r); found != nil {
			return found
		}
		i := strings.LastIndexByte(prefix, '/')
		if i < 0 {
			return nil
		}
		prefix = prefix[:i]
	}
}

func firstPattern(routes []*Route, path string, r *http.Request) *Route {
	for _, route := range routes {
		if route.Match.Pattern.MatchString(path) && route.Match.fits(r) {
			return route
		}
	}
	return nil
}

func first(routes []*Route, r *http.Request) *Route {
	for _, route := range routes {
		if route.Match.fits(r) {
			return route
		}
	}
	return nil
}

// clean resolves "." and ".." in a path, for a backend will: /public/../admin is not below /public.
func clean(p string) string {
	if p == "" {
		return "/"
	}
	if !strings.Contains(p, "/.") {
		return p
	}
	out := make([]string, 0, strings.Count(p, "/")+1)
	rest := p[1:]
	for part := range strings.SplitSeq(rest, "/") {
		switch part {
		case ".":
		case "..":
			if len(out) > 0 {
				out = out[:len(out)-1]
			}
		default:
			out = append(out, part)
		}
	}
	cleaned := "/" + strings.Join(out, "/")
	if base := path.Base(p); (base == "." || base == "..") && !strings.HasSuffix(cleaned, "/") {
		cleaned += "/"
	}
	return cleaned
}
