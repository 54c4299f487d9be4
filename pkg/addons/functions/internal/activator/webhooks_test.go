// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package activator

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// hook is what a webhook of the tests' function says: git is one that wants a token, broken one without a Secret.
func hook(_ context.Context, _ types.NamespacedName, webhook string, header http.Header, _ []byte) error {
	switch {
	case webhook == "broken":
		return errors.New(`there is no Secret "hidden"`)
	case webhook != "git":
		return ErrNoWebhook
	case header.Get("X-Gitlab-Token") != "right":
		return fmt.Errorf("%w: another token", ErrUnproved)
	}
	return nil
}

func TestWebhooks(t *testing.T) {
	f := serve(t)
	pod := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s by %q: %s", r.Method, r.URL, r.Header.Get(WebhookHeader), body)
	}))
	t.Cleanup(pod.Close)
	f.Route(fn, pods(pod))
	for _, test := range []struct {
		name, method, path, body string
		headers                  []string
		status                   int
		answer                   string
	}{
		{"right", "POST", "/.minik8s/webhooks/git?a=1", "{}", []string{"X-Gitlab-Token", "right"}, 200, `POST /?a=1 by "git": {}`},
		{"empty", "POST", "/.minik8s/webhooks/git", "", []string{"X-Gitlab-Token", "right"}, 200, `POST / by "git": `},
		{"wrong", "POST", "/.minik8s/webhooks/git", "{}", []string{"X-Gitlab-Token", "wrong"}, 401, "another token"},
		{"nothing", "POST", "/.minik8s/webhooks/git", "{}", nil, 401, ErrUnproved.Error()},
		{"another", "POST", "/.minik8s/webhooks/svn", "{}", []string{"X-Gitlab-Token", "right"}, 404, ErrNoWebhook.Error()},
		{"no name", "POST", "/.minik8s/webhooks/", "{}", []string{"X-Gitlab-Token", "right"}, 404, ErrNoWebhook.Error()},
		{"reading", "GET", "/.minik8s/webhooks/git", "", []string{"X-Gitlab-Token", "right"}, 405, "POST"},
		{"large", "POST", "/.minik8s/webhooks/git", strings.Repeat("x", MaxWebhookBytes+1), []string{"X-Gitlab-Token", "right"}, 413, "at most"},
		{"without its Secret", "POST", "/.minik8s/webhooks/broken", "{}", nil, 503, "cannot be used now"},
		{"a claim to come by it", "POST", "/", "{}", []string{WebhookHeader, "git"}, 200, `POST / by "": {}`},
		{"later", "POST", "/.minik8s/webhooks/git", "{}", []string{"X-Gitlab-Token", "right", "Prefer", "respond-async"}, 202, ResultsPath},
	} {
		status, answer, _ := f.do(t, test.method, test.path, test.body, test.headers...)
		if status != test.status || !strings.Contains(answer, test.answer) || strings.Contains(answer, "hidden") {
			t.Errorf("%s: answered with %d %s", test.name, status, answer)
		}
	}
}

// TestSlow has clients that do not send what they have announced.
func TestSlow(t *testing.T) {
	t.Parallel()
	for _, head := range []string{"POST /.minik8s/webhooks/git HTTP/1.1\r\n", "POST / HTTP/1.1\r\nPrefer: respond-async\r\n", "POST / HTTP/1.1\r\n"} {
		f := serve(t)
		f.bodyPatience = 50 * time.Millisecond
		f.slow(t, head)
	}
}

// slow begins a request, and wants to be told that it takes too long.
func (f *fixture) slow(t *testing.T, head string) {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(f.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, head+"Host: f\r\nContent-Length: 10\r\n\r\n{"); err != nil {
		t.Fatal(err)
	}
	if err := conn.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusRequestTimeout {
		t.Errorf("%q: answered with %s", head, resp.Status)
	}
}
