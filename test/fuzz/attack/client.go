// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package attack

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"minik8s.io/minik8s/test/fuzz/identity"
	"minik8s.io/minik8s/test/fuzz/request"
)

// Client sends as somebody.
type Client struct {
	// Who it is; nil for administrators.
	Who *identity.Identity

	// HTTP sends what is HTTP.
	HTTP *http.Client

	tls *tls.Config
}

// Close ends the connections that are not in use.
func (c *Client) Close() { c.HTTP.CloseIdleConnections() }

func newClient(who *identity.Identity, config *tls.Config, http2 bool) *Client {
	c := config.Clone()
	c.NextProtos = nil
	raw := c.Clone()
	t := &http.Transport{TLSClientConfig: c, ForceAttemptHTTP2: http2, DisableCompression: true, MaxIdleConnsPerHost: 4}
	return &Client{Who: who, tls: raw, HTTP: &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

// Administrators returns several, by HTTP/1.1 and HTTP/2, and one client that nobody knows.
func Administrators(admin, nobody *tls.Config) []*Client {
	var all []*Client
	for i := range 15 {
		all = append(all, newClient(nil, admin, i%2 == 1))
	}
	return append(all, newClient(nil, nobody, false))
}

// Users returns each of the users by HTTP/1.1 and by HTTP/2; those who may something several times, as their requests get
// further.
func Users(users []*identity.Identity) []*Client {
	var all []*Client
	for _, http2 := range []bool{false, true} {
		for _, u := range users {
			for range max(1, u.Often) {
				all = append(all, newClient(u, u.TLS, http2))
			}
		}
	}
	return all
}

// errUnsent says that net/http would not send it.
var errUnsent = errors.New("not sent")

// send returns the status and the beginning of the body of the answer.
func (c *Client) send(ctx context.Context, base string, q request.Request) (int, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if q.Raw != nil {
		return c.raw(ctx, base, q)
	}
	r, err := http.NewRequestWithContext(ctx, q.Method, base+"/", bytes.NewReader(q.Body))
	if err != nil {
		return 0, nil, errUnsent
	}
	path, query, _ := strings.Cut(q.Target, "?")
	// As it is: net/url would mend it.
	r.URL.Opaque, r.URL.RawQuery = "//"+r.URL.Host+path, query
	r.Header = q.Header.Clone()
	if c.Who != nil && c.Who.Token != "" && r.Header.Get("Authorization") == "" {
		r.Header.Set("Authorization", "Bearer "+c.Who.Token)
	}
	answer, err := c.HTTP.Do(r)
	if err != nil {
		if strings.Contains(err.Error(), "net/http: invalid") || strings.Contains(err.Error(), "http2: invalid") || strings.Contains(err.Error(), "invalid Upgrade request header") {
			return 0, nil, errUnsent
		}
		return 0, nil, err
	}
	defer answer.Body.Close()
	if q.Streams {
		stop := time.AfterFunc(glimpse, func() {
			cancel()
			_ = answer.Body.Close() // a connection that has become another protocol's outlives the context
		})
		defer stop.Stop()
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, 1<<16))
	if q.Streams {
		err = nil // it is this end that breaks off
	}
	return answer.StatusCode, body, err
}

// raw sends bytes on a connection of their own, says that no more will come, and reads for a glimpse.
func (c *Client) raw(ctx context.Context, base string, q request.Request) (int, []byte, error) {
	d := tls.Dialer{Config: c.tls}
	conn, err := d.DialContext(ctx, "tcp", strings.TrimPrefix(base, "https://"))
	if err != nil {
		return 0, nil, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(10 * glimpse)); err != nil {
		return 0, nil, err
	}
	if _, err := conn.Write(q.Raw); err != nil && len(q.Raw) < 1<<16 { // of much, the server may not want the rest
		return 0, nil, err
	}
	if t, ok := conn.(*tls.Conn); ok && q.Abort {
		if err := t.CloseWrite(); err != nil {
			return 0, nil, err
		}
	}
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0, nil, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, 1<<12))
	return answer.StatusCode, body, err
}
