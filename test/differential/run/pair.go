// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"

	"minik8s.io/minik8s/test/differential/compare"
	"minik8s.io/minik8s/test/differential/servers"
)

const (
	jsonType     = "application/json"
	tableType    = "application/json;as=Table;v=v1;g=meta.k8s.io"
	protobufType = "application/vnd.kubernetes.protobuf"
)

// request is what both servers are asked.
type request struct {
	method, path string
	accept       string
	contentType  string
	// as impersonates a user.
	as     string
	groups []string
	// body is sent as JSON; ours, if it is set, to our server in its place.
	body, ours any
	// known holds what the answer may repeat as it is; by default all that is in the body.
	known map[string]bool
}

// pair is the two servers.
type pair struct{ upstream, ours *servers.Server }

// ask sends the request to both at the same time.
func (p pair) ask(ctx context.Context, r request) (upstream, ours compare.Answer, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		upstream = send(ctx, p.upstream, r, r.body)
	}()
	body := r.body
	if r.ours != nil {
		body = r.ours
	}
	ours = send(ctx, p.ours, r, body)
	<-done
	return upstream, ours, ctx.Err()
}

// noAnswer is the code of a request that a server left without an answer: that is a difference, not the end of the run.
const noAnswer = 599

func send(ctx context.Context, s *servers.Server, r request, body any) compare.Answer {
	a, err := try(ctx, s, r, body)
	if err != nil {
		if where, ok := errors.AsType[*url.Error](err); ok {
			err = where.Err // without the address
		}
		return compare.Answer{Code: noAnswer, Body: err.Error()}
	}
	return a
}

func try(ctx context.Context, s *servers.Server, r request, body any) (compare.Answer, error) {
	var data []byte
	if text, ok := body.(string); ok {
		data = []byte(text)
	} else if body != nil {
		var err error
		if data, err = json.Marshal(body); err != nil {
			return compare.Answer{}, err
		}
	}
	req, err := http.NewRequestWithContext(ctx, r.method, s.URL+r.path, bytes.NewReader(data))
	if err != nil {
		return compare.Answer{}, err
	}
	accept := r.accept
	if accept == "" {
		accept = jsonType
	}
	req.Header.Set("Accept", accept)
	if body != nil {
		contentType := r.contentType
		if contentType == "" {
			contentType = jsonType
		}
		req.Header.Set("Content-Type", contentType)
	}
	if r.as != "" {
		req.Header.Set("Impersonate-User", r.as)
	}
	for _, g := range r.groups {
		req.Header.Add("Impersonate-Group", g)
	}
	req.Header.Set("User-Agent", "differential")
	response, err := s.Client.Do(req)
	if err != nil {
		return compare.Answer{}, err
	}
	defer response.Body.Close()
	data, err = io.ReadAll(response.Body)
	if err != nil {
		return compare.Answer{}, err
	}
	return compare.Answer{
		Code: response.StatusCode, Warnings: response.Header.Values("Warning"),
		ContentType: response.Header.Get("Content-Type"), Header: response.Header, Body: decode(data),
	}, nil
}

// decode reads protobuf, and JSON with numbers as they are written; what is no JSON stays text.
func decode(data []byte) any {
	if o, ok := fromProtobuf(data); ok {
		return o
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var all []any
	for {
		var v any
		switch err := d.Decode(&v); {
		case errors.Is(err, io.EOF) && len(all) == 1:
			return all[0]
		case errors.Is(err, io.EOF) && len(all) > 1:
			return all // the events of a watch
		case err != nil:
			return strings.TrimSpace(string(data))
		}
		all = append(all, v)
	}
}
