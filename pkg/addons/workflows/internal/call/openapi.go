// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package call

import (
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"minik8s.io/minik8s/pkg/addons/workflows/internal/dsl"
	"minik8s.io/minik8s/pkg/addons/workflows/internal/engine"
)

// openAPI calls an operation of an OpenAPI document, of version 2 or 3.
func (c *Caller) openAPI(ctx context.Context, arguments map[string]any, a engine.Action) (any, error) {
	document, at, err := c.document(ctx, arguments["document"], a.Input)
	if err != nil {
		return nil, err
	}
	r, err := operation(document, at, text(arguments, "operationId"), arguments["parameters"])
	if err != nil {
		return nil, err
	}
	r.output, r.key = text(arguments, "output"), a.Key
	r.redirect, _ = arguments["redirect"].(bool)
	r.authentication, _ = arguments["authentication"].(map[string]any)
	return c.http(ctx, r)
}

// document gets a document in JSON or YAML from elsewhere, and returns where it is.
func (c *Caller) document(ctx context.Context, resource, input any) (map[string]any, *url.URL, error) {
	object, _ := resource.(map[string]any)
	uri, policy, err := endpoint(object["endpoint"], input)
	if err != nil {
		return nil, nil, err
	}
	raw, err := c.http(ctx, request{method: http.MethodGet, uri: uri, output: "raw", redirect: true, authentication: policy})
	if err != nil {
		return nil, nil, fmt.Errorf("getting the document %s: %w", uri, err)
	}
	content, err := base64.StdEncoding.DecodeString(raw.(string))
	if err != nil {
		return nil, nil, err
	}
	encoded, err := yaml.YAMLToJSON(content)
	if err != nil {
		return nil, nil, engine.NewError(engine.Configuration, "%s is neither JSON nor YAML: %v", uri, err)
	}
	value, err := dsl.Decode(encoded)
	if err != nil {
		return nil, nil, err
	}
	document, ok := value.(map[string]any)
	if !ok {
		return nil, nil, engine.NewError(engine.Configuration, "%s is not an OpenAPI document", uri)
	}
	at, err := url.Parse(uri)
	return document, at, err
}

// operation makes the request of an operation. Parameters that the document does not know make up the body, if it has one.
func operation(document map[string]any, at *url.URL, id string, values any) (request, error) {
	parameters, _ := values.(map[string]any)
	path, method, item, found := find(document, id)
	if !found {
		return request{}, engine.NewError(engine.Configuration, "the document has no operation %q", id)
	}
	operation := item[method].(map[string]any)
	r := request{method: strings.ToUpper(method), header: http.Header{}, query: url.Values{}, json: true}
	rest := maps.Clone(parameters)
	form := url.Values{}
	for _, p := range slices.Concat(list(document, item["parameters"]), list(document, operation["parameters"])) {
		name := text(p, "name")
		value, given := parameters[name]
		if !given {
			if required, _ := p["required"].(bool); required && p["in"] != "body" {
				return r, engine.NewError(engine.Validation, "the operation %s needs the parameter %q", id, name)
			}
			continue
		}
		delete(rest, name)
		words, err := several(value)
		if err != nil && p["in"] != "body" {
			return r, err
		}
		switch p["in"] {
		case "path":
			path = strings.ReplaceAll(path, "{"+name+"}", escape(strings.Join(words, ",")))
		case "query":
			if explode, set := p["explode"].(bool); set && !explode || document["swagger"] != nil && p["collectionFormat"] != "multi" {
				words = []string{strings.Join(words, ",")}
			}
			r.query[name] = words
		case "header":
			r.header.Set(name, strings.Join(words, ","))
		case "cookie":
			r.header.Add("Cookie", name+"="+escape(strings.Join(words, ",")))
		case "body":
			r.body = value
		case "formData":
			form[name] = words
		}
	}
	if len(form) > 0 {
		r.body, r.json = form.Encode(), false
		r.header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if operation["requestBody"] != nil && len(rest) > 0 {
		r.body = rest
		if body, ok := rest["body"]; ok && len(rest) == 1 {
			r.body = body
		}
	}
	r.uri = base(document, at) + path
	return r, nil
}

// find returns where an operation is in the paths of a document.
func find(document map[string]any, id string) (path, method string, item map[string]any, ok bool) {
	paths, _ := document["paths"].(map[string]any)
	for path, value := range paths {
		item, _ := value.(map[string]any)
		for method, value := range item {
			if operation, ok := value.(map[string]any); ok && text(operation, "operationId") == id {
				return path, method, item, true
			}
		}
	}
	return "", "", nil, false
}

// list returns parameters, those that are references as what they refer to.
func list(document map[string]any, value any) []map[string]any {
	items, _ := value.([]any)
	var out []map[string]any
	for _, item := range items {
		p, _ := item.(map[string]any)
		if ref := text(p, "$ref"); strings.HasPrefix(ref, "#/") {
			var target any = document
			for step := range strings.SplitSeq(ref[2:], "/") {
				object, _ := target.(map[string]any)
				target = object[strings.NewReplacer("~1", "/", "~0", "~").Replace(step)]
			}
			p, _ = target.(map[string]any)
		}
		if p != nil {
			out = append(out, p)
		}
	}
	return out
}

func several(value any) ([]string, error) {
	items, ok := value.([]any)
	if !ok {
		items = []any{value}
	}
	words := make([]string, len(items))
	for i, item := range items {
		word, err := plain(item)
		if err != nil {
			return nil, err
		}
		words[i] = word
	}
	return words, nil
}

// base returns where the paths of a document begin: its first server's, or what version 2 has instead.
func base(document map[string]any, at *url.URL) string {
	if document["swagger"] == nil {
		servers, _ := document["servers"].([]any)
		if len(servers) > 0 {
			server, _ := servers[0].(map[string]any)
			address := text(server, "url")
			variables, _ := server["variables"].(map[string]any)
			for name, value := range variables {
				v, _ := value.(map[string]any)
				address = strings.ReplaceAll(address, "{"+name+"}", text(v, "default"))
			}
			if u, err := at.Parse(address); err == nil {
				return strings.TrimSuffix(u.String(), "/")
			}
		}
		return at.Scheme + "://" + at.Host
	}
	scheme, host := at.Scheme, at.Host
	if schemes, ok := document["schemes"].([]any); ok && len(schemes) > 0 && !slices.Contains(schemes, any(scheme)) {
		scheme = fmt.Sprint(schemes[0])
	}
	if h := text(document, "host"); h != "" {
		host = h
	}
	return scheme + "://" + host + strings.TrimSuffix(text(document, "basePath"), "/")
}
