// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package request

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
)

// raw writes a request down in a way that net/http would not.
func raw(r *rand.Rand, q *Request) {
	how := pick(r, rawForms)
	var header bytes.Buffer
	for _, k := range slices.Sorted(maps.Keys(q.Header)) {
		for _, v := range q.Header[k] {
			if len(v) < 4096 {
				fmt.Fprintf(&header, "%s: %s\r\n", k, line(v))
			}
		}
	}
	target := q.Target
	if strings.ContainsAny(target, " \r\n") || len(target) > 4096 {
		target = "/api"
	}
	body := q.Body[:min(len(q.Body), 1<<14)]
	q.Tactic = "raw: " + how.name
	q.Abort = how.abort
	q.Streams, q.Proxied = true, true
	q.Raw = how.write(r, q.Method, target, header.String(), body)
}

type rawForm struct {
	name  string
	abort bool
	write func(r *rand.Rand, method, target, header string, body []byte) []byte
}

// upgrade are the headers that make another protocol of a connection.
func upgrade(to string) string {
	return "Connection: Upgrade\r\nUpgrade: " + to + "\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: v5.channel.k8s.io\r\nX-Stream-Protocol-Version: v4.channel.k8s.io\r\n"
}

func noise(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.IntN(256))
	}
	return b
}

const host = "Host: localhost\r\n"

// rawForms are ways of writing a request down.
var rawForms = []rawForm{
	{"half a body", true, func(_ *rand.Rand, method, target, header string, body []byte) []byte {
		return fmt.Appendf(nil, "%s %s HTTP/1.1\r\n%s%sContent-Length: %d\r\n\r\n%s", method, target, host, header, 2*len(body)+1, body)
	}},
	{"more body than told", true, func(_ *rand.Rand, method, target, header string, body []byte) []byte {
		return fmt.Appendf(nil, "%s %s HTTP/1.1\r\n%s%sConnection: close\r\nContent-Length: %d\r\n\r\n%s", method, target, host, header, len(body)/2, body)
	}},
	{"chunks", true, func(_ *rand.Rand, method, target, header string, body []byte) []byte {
		half := len(body) / 2
		return fmt.Appendf(nil, "%s %s HTTP/1.1\r\n%s%sConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n%x\r\n%s\r\n0\r\n\r\n", method, target, host, header, half, body[:half], len(body)-half, body[half:])
	}},
	{"chunks that end early", true, func(r *rand.Rand, method, target, header string, body []byte) []byte {
		return fmt.Appendf(nil, "%s %s HTTP/1.1\r\n%s%sTransfer-Encoding: chunked\r\n\r\n%s\r\n%s", method, target, host, header, pick(r, []string{"ffffffff", "-1", "x", "", "0", "ffffffffffffffffffff", "5;ext=\"", fmt.Sprintf("%x", len(body)+9)}), body)
	}},
	{"trailers", true, func(_ *rand.Rand, method, target, header string, body []byte) []byte {
		return fmt.Appendf(nil, "%s %s HTTP/1.1\r\n%s%sTransfer-Encoding: chunked\r\nTrailer: Impersonate-User, Authorization\r\n\r\n%x\r\n%s\r\n0\r\nImpersonate-User: admin\r\nAuthorization: Bearer x\r\n\r\n", method, target, host, header, len(body), body)
	}},
	{"two lengths", true, func(r *rand.Rand, method, target, header string, body []byte) []byte {
		second := pick(r, []string{"Content-Length: 0", "Transfer-Encoding: chunked", "Transfer-Encoding: gzip, chunked", "Transfer-Encoding: identity", "content-length: -1", "Content-Length: +5"})
		return fmt.Appendf(nil, "%s %s HTTP/1.1\r\n%s%sContent-Length: %d\r\n%s\r\n\r\n%s", method, target, host, header, len(body), second, body)
	}},
	{"request line", true, func(r *rand.Rand, method, target, header string, _ []byte) []byte {
		first := pick(r, []string{"%s %s HTTP/1.0", "%s %s HTTP/0.9", "%s %s HTTP/2.0", "%s %s HTTP/9.9", "%s %s", "%s %s http/1.1", "%s  %s HTTP/1.1", "%s https://elsewhere%s HTTP/1.1", "%s *%s HTTP/1.1", "%s localhost:1%s HTTP/1.1", "%s %s\x00 HTTP/1.1", "%s ?%s HTTP/1.1", "%s #%s HTTP/1.1", "%s \\%s HTTP/1.1"})
		return fmt.Appendf(nil, first+"\r\n%s%sConnection: close\r\n\r\n", method, target, host, header)
	}},
	{"host", true, func(r *rand.Rand, method, target, header string, _ []byte) []byte {
		h := pick(r, []string{"", "Host:\r\n", "Host: a\r\nHost: b\r\n", "Host: a b\r\n", "Host: \xff\r\n", "Host: [::1\r\n", "Host: a/b\r\n", "Host: 127.0.0.1:99999\r\n", "host : a\r\n"})
		return fmt.Appendf(nil, "%s %s HTTP/1.1\r\n%s%sConnection: close\r\n\r\n", method, target, h, header)
	}},
	{"headers", true, func(r *rand.Rand, method, target, header string, _ []byte) []byte {
		h := pick(r, []string{"No colon\r\n", " Folded: a\r\n", "A: b\r\n folded\r\n", ": empty\r\n", "A\x00: b\r\n", "A: \x00\r\n", "A: b\n", "A : b\r\n", strings.Repeat("A: b\r\n", 8000), "A: " + strings.Repeat("x", 1<<20) + "\r\n", "A: " + strings.Repeat("x", 3<<20) + "\r\n",
			"Impersonate-User: admin\r\nimpersonate-user: x\r\n", "IMPERSONATE-GROUP: system:masters\r\n", "Authorization: Bearer x\r\nauthorization: Bearer y\r\n", "Accept: a\r\nAccept: application/json\r\n", "Content-Type: a\r\nContent-Type: application/json\r\n", "Cookie: " + strings.Repeat("a=b;", 5000) + "\r\n"})
		return fmt.Appendf(nil, "%s %s HTTP/1.1\r\n%s%s%sConnection: close\r\n\r\n", method, target, host, header, h)
	}},
	{"expect", true, func(r *rand.Rand, method, target, header string, body []byte) []byte {
		return fmt.Appendf(nil, "%s %s HTTP/1.1\r\n%s%sExpect: %s\r\nContent-Length: %d\r\n\r\n%s", method, target, host, header, pick(r, []string{"100-continue", "x", "100-continue, 100-continue", ""}), len(body), body)
	}},
	{"one after the other", true, func(_ *rand.Rand, method, target, header string, body []byte) []byte {
		one := fmt.Sprintf("%s %s HTTP/1.1\r\n%s%sContent-Length: %d\r\n\r\n%s", method, target, host, header, len(body), body)
		return []byte(strings.Repeat(one, 3))
	}},
	{"upgrade", false, func(r *rand.Rand, _, target, header string, _ []byte) []byte {
		path, _, _ := strings.Cut(target, "?")
		if !strings.Contains(path, "/pods/") {
			path = "/api/v1/namespaces/" + pick(r, Namespaces) + "/pods/a"
		}
		path += pick(r, []string{"/exec?command=sh&stdin=1", "/attach?stdin=1", "/portforward?ports=80", "/portforward", "/log?follow=1", "?watch=1", "/proxy/x"})
		to := pick(r, []string{"websocket", "SPDY/3.1", "h2c", "websocket, SPDY/3.1", ""})
		return slices.Concat(fmt.Appendf(nil, "GET %s HTTP/1.1\r\n%s%s%s\r\n", path, host, header, upgrade(to)), noise(r, 1+r.IntN(200)))
	}},
	{"watch by a web socket", false, func(r *rand.Rand, _, _, header string, _ []byte) []byte {
		frame := pick(r, [][]byte{{0x81, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, {0x88, 0x80, 0, 0, 0, 0}, {0x8f, 0x00}, {0x01, 0x7e, 0xff}, noise(r, 60)})
		return slices.Concat(fmt.Appendf(nil, "GET /api/v1/namespaces/%s/%s?watch=1 HTTP/1.1\r\n%s%s%s\r\n", pick(r, Namespaces), pick(r, []string{"pods", "secrets", "configmaps"}), host, header, upgrade("websocket")), frame)
	}},
	{"frames of HTTP/2", false, func(r *rand.Rand, _, _, _ string, _ []byte) []byte {
		return slices.Concat([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), noise(r, 100))
	}},
	{"noise", true, func(r *rand.Rand, _, _, _ string, _ []byte) []byte { return noise(r, 1+r.IntN(2000)) }},
}
