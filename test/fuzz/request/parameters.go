// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package request

import (
	"math/rand/v2"
	"net/url"
	"strings"
)

var methods = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PROPFIND", "get", "X"}

// known are parameters with values that mean something to them; strange values are given to each besides.
var known = map[string][]string{
	"labelSelector":        {"a=b", "a in (b,c),!d", "a notin (", "a>1", "a in ()", strings.Repeat("a=b,", 5000)},
	"fieldSelector":        {"metadata.name=a", "metadata.namespace!=x", "spec.nodeName=", "status.phase=Running", "unknown=x", "metadata.name=a,metadata.name=b", "metadata.name=a\\,b", "involvedObject.kind=Pod"},
	"limit":                {"0", "1", "-1", "500"},
	"continue":             {"eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiJhIn0", "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiLi4vYSJ9", "e30", "bnVsbA", "eyJ2IjoieCJ9", "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6OTk5OTk5OTk5OTk5LCJzdGFydCI6IlwwIn0"},
	"resourceVersion":      {"0", "1", "999999999999", "-1", "a"},
	"resourceVersionMatch": {"Exact", "NotOlderThan", "x"},
	"timeoutSeconds":       {"0", "1", "-1"},
	"timeout":              {"1s", "0", "-1s", "1ns"},
	"dryRun":               {"All", "all", "None"},
	"fieldManager":         {"x", strings.Repeat("m", 129), "\u0001"},
	"fieldValidation":      {"Strict", "Warn", "Ignore", "x"},
	"force":                {"true", "x"},
	"propagationPolicy":    {"Orphan", "Foreground", "Background", "x"},
	"gracePeriodSeconds":   {"0", "-1", "99999999999"},
	"orphanDependents":     {"true", "x"},
	"pretty":               {"true", "x"},
	"watch":                {"true", "1", "0", "x"},
	"allowWatchBookmarks":  {"true", "x"},
	"sendInitialEvents":    {"true", "false", "x"},
	"exact":                {"true"},
	"export":               {"true"},
	"includeObject":        {"Object", "None", "Metadata", "x"},
	"container":            {"main", "x"},
	"follow":               {"true", "x"},
	"tailLines":            {"0", "-1", "1"},
	"limitBytes":           {"0", "-1", "1"},
	"sinceSeconds":         {"0", "-1", "1"},
	"sinceTime":            {"2026-01-02T03:04:05Z", "x"},
	"stream":               {"Stdout", "Stderr", "x"},
	"command":              {"sh", "-c"},
	"stdin":                {"true", "x"},
	"tty":                  {"true", "x"},
	"stdout":               {"true"},
	"ports":                {"80", "-1", "99999", "x"},
	"path":                 {"/x", "..", "http://127.0.0.1/"},
	"shardSelector":        {"hash(metadata.uid)%2=0", "x"},
	"ignoreStoreReadErrorWithClusterBreakingPotential": {"true", "x"},
	"verbose": {"1"}, "exclude": {"etcd"}, "hash": {"x"}, "profile": {"nodejs"}, "": {"x"}, "a[b]": {"c"}, "%": {"%"},
}

// combined are parameters that mean something together, by the action they belong to.
var combined = map[string][]url.Values{
	"list": {
		{"limit": {"1"}}, {"limit": {"2"}, "resourceVersion": {"0"}}, {"limit": {"1"}, "continue": {"eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiYVx1MDAwMCJ9"}}, {"resourceVersion": {"1"}, "resourceVersionMatch": {"Exact"}},
		{"resourceVersion": {"0"}, "resourceVersionMatch": {"NotOlderThan"}, "limit": {"1"}}, {"watch": {"true"}, "timeoutSeconds": {"1"}, "resourceVersion": {"1"}}, {"watch": {"1"}, "sendInitialEvents": {"true"}, "resourceVersionMatch": {"NotOlderThan"}, "allowWatchBookmarks": {"true"}},
		{"sendInitialEvents": {"false"}, "resourceVersionMatch": {"NotOlderThan"}}, {"watch": {"true"}, "resourceVersion": {"0"}, "fieldSelector": {"metadata.name=a"}, "labelSelector": {"!a"}}, {"resourceVersion": {"18446744073709551615"}, "resourceVersionMatch": {"Exact"}, "limit": {"1"}},
		{"resourceVersion": {"0"}, "fieldSelector": {"metadata.namespace=kept"}}, {"watch": {"true"}, "resourceVersion": {"9223372036854775807"}},
		{"watch": {"true"}, "limit": {"1"}, "continue": {"x"}},
	},
	"watchlist": {{"resourceVersion": {"0"}, "timeoutSeconds": {"1"}}, {"sendInitialEvents": {"true"}, "resourceVersionMatch": {"NotOlderThan"}, "resourceVersion": {"0"}}, {"watch": {"false"}}},
	"deletecollection": {
		{"limit": {"1"}}, {"limit": {"1"}, "continue": {"x"}}, {"fieldSelector": {"metadata.name=a"}, "propagationPolicy": {"Foreground"}}, {"labelSelector": {"a"}, "gracePeriodSeconds": {"0"}, "dryRun": {"All"}},
		{"propagationPolicy": {"Orphan"}, "orphanDependents": {"true"}}, {"resourceVersion": {"1"}, "resourceVersionMatch": {"Exact"}}, {"watch": {"true"}}, {"timeoutSeconds": {"0"}, "resourceVersion": {"0"}},
	},
	"delete":  {{"gracePeriodSeconds": {"0"}, "propagationPolicy": {"Foreground"}}, {"propagationPolicy": {"Orphan"}, "orphanDependents": {"false"}}, {"gracePeriodSeconds": {"-1"}}, {"dryRun": {"All", "x"}}},
	"patch":   {{"fieldManager": {"a"}, "force": {"true"}}, {"fieldManager": {"a"}, "fieldValidation": {"Strict"}, "dryRun": {"All"}}, {"force": {"true"}}, {"fieldManager": {""}, "force": {"x"}}},
	"connect": {{"command": {"sh", "-c"}, "stdin": {"true"}, "stdout": {"true"}, "container": {"main"}}, {"stdin": {"true"}, "tty": {"true"}, "stderr": {"true"}}, {"ports": {"80,81"}}, {"ports": {"x", "0"}}, {"path": {"/a/../b"}}},
}

// parameterNames are the keys of known in a fixed order.
var parameterNames = sortedKeys(known)

func parameters(r *rand.Rand, q url.Values) {
	for range 1 + r.IntN(3) {
		k := pick(r, parameterNames)
		v := pick(r, known[k])
		if chance(r, 2) {
			v = pick(r, strange)
		}
		q.Add(k, v)
		if chance(r, 10) {
			q.Add(k, pick(r, known[k]))
		}
	}
}

var accepts = []string{
	"", "*/*", "text/html", "application/yaml", "application/vnd.kubernetes.protobuf", "application/cbor", "application/json;as=Table;g=meta.k8s.io;v=v1", "application/json;as=Table;g=meta.k8s.io;v=v1beta1", "application/json;as=Table;g=x;v=y", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
	"application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", "application/vnd.kubernetes.protobuf;as=Table;g=meta.k8s.io;v=v1", "application/json;as=Pod;g=;v=v1", "application/json;as=", "application/json;as=Table;as=Table", "application/json;q=-1", "application/json;q=x", "application/json;stream=watch", "application/json;pretty=1",
	"application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList", "application/com.github.proto-openapi.spec.v2@v1.0+protobuf", "application/com.github.proto-openapi.spec.v3@v1.0+protobuf", "application/vnd.oai.openapi", ",", ";", "/", "\"", strings.Repeat("a/b,", 4000), "application/json;profile=nopeer",
}

// headers adds headers that the server reads.
func headers(r *rand.Rand, q *Request) {
	h := q.Header
	for range 1 + r.IntN(2) {
		switch r.IntN(13) {
		case 0, 1, 2:
			h.Set("Accept", pick(r, accepts))
		case 3:
			h.Set("Impersonate-User", line(pick(r, strange)))
		case 4:
			h.Add("Impersonate-Group", line(pick(r, strange)))
			h.Add("Impersonate-Extra-"+pick(r, []string{"a", "%", "%2f", "%zz", "A%20b"}), line(pick(r, strange)))
			if chance(r, 2) {
				h.Set("Impersonate-User", "x")
			}
		case 5:
			h.Set("Impersonate-Uid", line(pick(r, strange)))
			h.Set("Impersonate-User", pick(r, []string{"x", "system:serviceaccount:a:b", "system:serviceaccount:", "system:node:x", "system:anonymous"}))
		case 6:
			h.Set("Authorization", pick(r, authorizations))
		case 7:
			h.Set("Upgrade", pick(r, []string{"websocket", "SPDY/3.1", "h2c", "x"}))
			h.Set("Connection", pick(r, []string{"Upgrade", "upgrade, keep-alive"}))
			h.Set("Sec-Websocket-Version", pick(r, []string{"13", "0", "x"}))
			h.Set("Sec-Websocket-Key", pick(r, []string{"dGhlIHNhbXBsZSBub25jZQ==", "x"}))
			h.Set("Sec-Websocket-Protocol", pick(r, []string{"v5.channel.k8s.io", "base64url.bearer.authorization.k8s.io.x", "base64url.bearer.authorization.k8s.io.,v4.channel.k8s.io", "x"}))
			h.Set("X-Stream-Protocol-Version", pick(r, []string{"v4.channel.k8s.io", "x"}))
			q.Streams = true
		case 8:
			h.Set("Content-Encoding", pick(r, []string{"gzip", "x"}))
		case 9:
			h.Set("Accept-Encoding", pick(r, []string{"gzip", "gzip;q=x", "br", strings.Repeat("gzip,", 1000)}))
		case 10:
			h.Set("X-Remote-User", "admin")
			h.Set("X-Remote-Group", "system:masters")
			h.Set("Audit-Id", line(pick(r, strange)))
		case 11:
			h.Set("If-None-Match", line(pick(r, strange)))
			h.Set("If-Modified-Since", line(pick(r, strange)))
			h.Set("Range", pick(r, []string{"bytes=0-1", "bytes=-99999999999999999999", "x"}))
		default:
			h.Set("Traceparent", pick(r, []string{"00-x", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "ff-"}))
			h.Set("User-Agent", line(strings.Repeat(pick(r, strange), 5)))
			h.Set("Origin", "https://example.com")
			h.Set("X-Forwarded-For", line(pick(r, strange)))
		}
	}
}

var authorizations = []string{
	"Bearer", "Bearer ", "bearer x", "Bearer a.b.c", "Bearer eyJhbGciOiJub25lIn0.e30.", "Bearer eyJhbGciOiJSUzI1NiIsImtpZCI6IngifQ.eyJpc3MiOiJodHRwczovL2t1YmVybmV0ZXMuZGVmYXVsdC5zdmMuY2x1c3Rlci5sb2NhbCJ9.AAAA", "Bearer eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJodHRwczovL2t1YmVybmV0ZXMuZGVmYXVsdC5zdmMuY2x1c3Rlci5sb2NhbCIsImV4cCI6MWU5OTl9.AAAA",
	"Bearer eyJhbGciOjF9.e30.x", "Bearer e30.e30.e30", "Bearer " + strings.Repeat("a", 20000), "Basic YTpi", "Basic", "Negotiate x", "Bearer abcdef.0123456789abcdef", "Bearer a b",
}

// line is s as the value of a header: what HTTP itself refuses would not reach the server.
func line(s string) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' || c == 0x7f {
			return -1
		}
		return c
	}, s)
}

// spoilPath changes a path in a way that HTTP still allows.
func spoilPath(r *rand.Rand, p string) string {
	at := strings.LastIndexByte(p, '/')
	switch r.IntN(9) {
	case 0:
		return p + "/"
	case 1:
		return "/" + p
	case 2:
		return p[:at] + "/%2e%2e" + p[at:]
	case 3:
		return p + "%00"
	case 4:
		return p + "/" + url.PathEscape(pick(r, strange))
	case 5:
		return p[:at] + "//" + p[at:]
	case 6:
		return strings.ToUpper(p)
	case 7:
		return p + "/" + pick(r, []string{"status", "scale", "log", "exec", "x", "proxy/..", "ephemeralcontainers", "eviction", "token"})
	}
	return p[:at] + "/" + strings.Repeat("a/", 2000)
}

func spoilQuery(r *rand.Rand, q string) string {
	return q + pick(r, []string{"", "&", "&&=", "%zz", ";a=b", "&a=%ff%fe", "?", "&watch", "&limit=1&limit=x", strings.Repeat("&a=b", 3000)})
}
