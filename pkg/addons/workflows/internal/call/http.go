// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package call

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"minik8s.io/minik8s/pkg/addons/workflows/internal/dsl"
	"minik8s.io/minik8s/pkg/addons/workflows/internal/engine"
)

// request is one that is made by HTTP.
type request struct {
	method, uri string
	header      http.Header
	query       url.Values
	body        any
	// json says that a text is sent as JSON, too.
	json           bool
	output         string
	redirect       bool
	authentication map[string]any
	key            string
}

var variable = regexp.MustCompile(`\{[^{}]*\}`)

// expand fills a URI template with the top-level properties of a value: the simple expansion of RFC 6570.
func expand(template string, values any) (string, error) {
	object, _ := values.(map[string]any)
	var problem error
	uri := variable.ReplaceAllStringFunc(template, func(name string) string {
		value, err := plain(object[name[1:len(name)-1]])
		if err != nil {
			problem = err
		}
		return escape(value)
	})
	return uri, problem
}

// escape writes all but unreserved characters by their numbers, as url.QueryEscape does but for space.
func escape(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") }

// newRequest reads the arguments of a call by HTTP.
func newRequest(arguments map[string]any, input any) (request, error) {
	r := request{
		method: strings.ToUpper(text(arguments, "method")), header: http.Header{}, query: url.Values{},
		body: arguments["body"], output: text(arguments, "output"),
	}
	r.redirect, _ = arguments["redirect"].(bool)
	var err error
	if r.uri, r.authentication, err = endpoint(arguments["endpoint"], input); err != nil {
		return r, err
	}
	headers, _ := arguments["headers"].(map[string]any)
	for name, value := range headers {
		v, err := plain(value)
		if err != nil {
			return r, err
		}
		r.header.Set(name, v)
	}
	query, _ := arguments["query"].(map[string]any)
	for name, value := range query {
		list, ok := value.([]any)
		if !ok {
			list = []any{value}
		}
		for _, item := range list {
			v, err := plain(item)
			if err != nil {
				return r, err
			}
			r.query.Add(name, v)
		}
	}
	return r, nil
}

// endpoint returns the URI and the policy of an endpoint, which is an object or a URI alone.
func endpoint(value, input any) (string, map[string]any, error) {
	uri, isText := value.(string)
	object, _ := value.(map[string]any)
	if !isText {
		uri = text(object, "uri")
	}
	policy, _ := object["authentication"].(map[string]any)
	uri, err := expand(uri, input)
	return uri, policy, err
}

// http makes a request, and returns what its output is to be.
func (c *Caller) http(ctx context.Context, r request) (any, error) {
	req, err := c.build(ctx, r)
	if err != nil {
		return nil, err
	}
	client := &http.Client{Transport: c.Transport}
	if !r.redirect {
		client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	}
	response, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(io.LimitReader(response.Body, MaxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("reading the answer of %s: %w", req.URL.Redacted(), err)
	}
	if response.StatusCode < 200 || response.StatusCode > 399 || response.StatusCode > 299 && !r.redirect {
		return nil, statusError(req, response, content)
	}
	if len(content) > MaxBytes {
		problem := engine.NewError(engine.Communication, "the answer of %s is longer than %d bytes, which is all that a run may keep: "+
			"let it put the data elsewhere, and answer where", req.URL.Redacted(), MaxBytes)
		problem.Status, problem.Title = http.StatusRequestEntityTooLarge, "Payload Too Large"
		return nil, problem
	}
	if r.output == "raw" {
		return base64.StdEncoding.EncodeToString(content), nil
	}
	value, err := decode(response.Header.Get("Content-Type"), content)
	if err != nil {
		return nil, fmt.Errorf("the answer of %s: %w", req.URL.Redacted(), err)
	}
	if r.output != "response" {
		return value, nil
	}
	return map[string]any{
		"request":    map[string]any{"method": strings.ToLower(r.method), "uri": req.URL.Redacted(), "headers": headers(req.Header)},
		"statusCode": response.StatusCode, "headers": headers(response.Header), "content": value,
	}, nil
}

func (c *Caller) build(ctx context.Context, r request) (*http.Request, error) {
	var body io.Reader
	contentType := ""
	switch value := r.body.(type) {
	case nil:
	case string:
		if !r.json {
			body, contentType = strings.NewReader(value), "text/plain; charset=utf-8"
			break
		}
		encoded, _ := json.Marshal(value)
		body, contentType = bytes.NewReader(encoded), "application/json"
	default:
		encoded, err := json.Marshal(value)
		if err != nil {
			return nil, engine.NewError(engine.Validation, "the body is not JSON: %v", err)
		}
		body, contentType = bytes.NewReader(encoded), "application/json"
	}
	req, err := http.NewRequestWithContext(ctx, r.method, r.uri, body)
	if err != nil {
		return nil, engine.NewError(engine.Configuration, "%v", err)
	}
	if req.URL.Scheme != "http" && req.URL.Scheme != "https" || req.URL.Host == "" {
		return nil, engine.NewError(engine.Configuration, "%q is not a URI of http or https", r.uri)
	}
	maps.Copy(req.Header, r.header)
	if contentType != "" && req.Header.Get("Content-Type") == "" {
		req.Header.Set("Content-Type", contentType)
	}
	if r.key != "" && req.Header.Get(KeyHeader) == "" {
		req.Header.Set(KeyHeader, r.key)
	}
	if len(r.query) > 0 {
		query := req.URL.Query()
		maps.Copy(query, r.query)
		req.URL.RawQuery = query.Encode()
	}
	if err := c.authenticate(ctx, req, r.authentication); err != nil {
		return nil, err
	}
	return req, nil
}

// statusError is what an answer that is no success comes to.
func statusError(req *http.Request, response *http.Response, content []byte) *engine.Error {
	kind := engine.Communication
	switch response.StatusCode {
	case http.StatusUnauthorized:
		kind = engine.Authentication
	case http.StatusForbidden:
		kind = engine.Authorization
	}
	const longest = 1000
	problem := engine.NewError(kind, "%s %s: %s", req.Method, req.URL.Redacted(), content[:min(len(content), longest)])
	problem.Status, problem.Title = response.StatusCode, http.StatusText(response.StatusCode)
	if problem.Title == "" {
		problem.Title = response.Status
	}
	return problem
}

// decode returns JSON as what it says, text as text, and all else in base64.
func decode(contentType string, content []byte) (any, error) {
	media, _, _ := mime.ParseMediaType(contentType)
	switch {
	case len(content) == 0:
		return nil, nil
	case media == "application/json" || strings.HasSuffix(media, "+json"):
		return dsl.Decode(content)
	case strings.HasPrefix(media, "text/"):
		return string(content), nil
	}
	return base64.StdEncoding.EncodeToString(content), nil
}

// headers are those that a workflow may see: none that somebody logs in with.
func headers(h http.Header) map[string]any {
	out := map[string]any{}
	for name, values := range h {
		if !slices.Contains([]string{"Authorization", "Proxy-Authorization", "Cookie", "Set-Cookie"}, name) {
			out[name] = strings.Join(values, ", ")
		}
	}
	return out
}

// authenticate logs in by a policy.
func (c *Caller) authenticate(ctx context.Context, req *http.Request, policy map[string]any) error {
	if basic, ok := policy["basic"].(map[string]any); ok {
		req.SetBasicAuth(text(basic, "username"), text(basic, "password"))
	}
	switch bearer := policy["bearer"].(type) {
	case string:
		req.Header.Set("Authorization", "Bearer "+bearer)
	case map[string]any:
		req.Header.Set("Authorization", "Bearer "+text(bearer, "token"))
	}
	if oauth, ok := policy["oauth2"].(map[string]any); ok {
		token, err := c.token(ctx, oauth)
		if err != nil {
			return err
		}
		req.Header.Set("Authorization", "Bearer "+token)
	}
	return nil
}

// token gets a token by OAuth2 with the grant client_credentials.
func (c *Caller) token(ctx context.Context, oauth map[string]any) (string, error) {
	if grant := text(oauth, "grant"); grant != "client_credentials" && grant != "client-credentials" {
		return "", engine.NewError(engine.Configuration, "the grant %q is not supported; there is client_credentials", grant)
	}
	path := "/oauth2/token"
	if endpoints, ok := oauth["endpoints"].(map[string]any); ok && text(endpoints, "token") != "" {
		path = text(endpoints, "token")
	}
	client, _ := oauth["client"].(map[string]any)
	form := url.Values{"grant_type": {"client_credentials"}}
	for parameter, property := range map[string]string{"scope": "scopes", "audience": "audiences"} {
		list, _ := oauth[property].([]any)
		words := make([]string, len(list))
		for i, item := range list {
			words[i] = fmt.Sprint(item)
		}
		if len(words) > 0 {
			form.Set(parameter, strings.Join(words, " "))
		}
	}
	form.Set("client_id", text(client, "id"))
	form.Set("client_secret", text(client, "secret"))
	answer, err := c.http(ctx, request{
		method: http.MethodPost, uri: strings.TrimSuffix(text(oauth, "authority"), "/") + path, body: form.Encode(),
		header: http.Header{"Content-Type": {"application/x-www-form-urlencoded"}},
	})
	if err != nil {
		return "", fmt.Errorf("getting a token: %w", err)
	}
	object, _ := answer.(map[string]any)
	if text(object, "access_token") == "" {
		return "", engine.NewError(engine.Authentication, "the answer to a request for a token has none")
	}
	return text(object, "access_token"), nil
}
