// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
)

// TestNew_Body sends bodies that are no HTTP to a handler that reads them as the machinery does.
func TestNew_Body(t *testing.T) {
	t.Parallel()
	h := New(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(r.Body); err != nil {
			responsewriters.ErrorNegotiated(err, codecs, schema.GroupVersion{Version: "v1"}, w, r)
		}
	}))
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info := &apirequest.RequestInfo{IsResourceRequest: true, Verb: map[string]string{"POST": "create", "DELETE": "delete"}[r.Method], Resource: "pods"}
		h.ServeHTTP(w, r.WithContext(apirequest.WithRequestInfo(r.Context(), info)))
	}))
	t.Cleanup(s.Close)
	for _, test := range []struct {
		name, method, rest string
		want               int
	}{
		{"whole", "POST", "Content-Length: 2\r\n\r\n{}", http.StatusOK},
		{"half", "POST", "Content-Length: 20\r\n\r\n{}", http.StatusBadRequest},
		{"half of the options of a deletion", "DELETE", "Content-Length: 20\r\n\r\n{}", http.StatusBadRequest},
		{"a chunk without a length", "DELETE", "Transfer-Encoding: chunked\r\n\r\n\r\n", http.StatusBadRequest},
		{"a chunk that ends early", "POST", "Transfer-Encoding: chunked\r\n\r\nff\r\n{}", http.StatusBadRequest},
		{"a trailer without an end", "POST", "Transfer-Encoding: chunked\r\n\r\n0\r\n{}", http.StatusBadRequest},
		{"none", "DELETE", "\r\n", http.StatusOK},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			conn, err := net.Dial("tcp", s.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if _, err := fmt.Fprintf(conn, "%s /api/v1/pods HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n%s", test.method, test.rest); err != nil {
				t.Fatal(err)
			}
			if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
				t.Fatal(err)
			}
			answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close()
			if answer.StatusCode != test.want {
				t.Errorf("the answer is %s, want %d", answer.Status, test.want)
			}
		})
	}
}

// TestLegible_Large: that a body is too large is said by its own error.
func TestLegible_Large(t *testing.T) {
	t.Parallel()
	r := httptest.NewRequest(http.MethodPost, "/", &io.LimitedReader{R: zeros{}, N: 10})
	r.Body = http.MaxBytesReader(httptest.NewRecorder(), r.Body, 5)
	checkBody(r)
	if _, err := io.ReadAll(r.Body); err == nil || apierrors.IsBadRequest(err) {
		t.Errorf("the error is %v", err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }
