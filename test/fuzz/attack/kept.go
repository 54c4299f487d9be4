// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package attack

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"minik8s.io/minik8s/test/fuzz/request"
	"minik8s.io/minik8s/test/fuzz/surface"
)

// keptNamespace is where nothing is sent to.
const keptNamespace = "kept"

// kept are objects that must come through unchanged, by the path of their collection.
var kept = []struct{ path, name, body string }{
	{"/api/v1/namespaces/" + keptNamespace + "/configmaps", "map", `{"metadata":{"name":"map"},"data":{"a":"1"}}`},
	{"/api/v1/namespaces/" + keptNamespace + "/secrets", "secret", `{"metadata":{"name":"secret"},"stringData":{"a":"1"}}`},
	{"/api/v1/namespaces/" + keptNamespace + "/services", "service", `{"metadata":{"name":"service"},"spec":{"ports":[{"port":80}]}}`},
	{"/apis/apps/v1/namespaces/" + keptNamespace + "/deployments", "deployment", `{"metadata":{"name":"deployment"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`},
}

// Kept are objects that were written before an attack.
type Kept struct {
	client *http.Client
	base   string
	before [][]byte
}

// Keep makes the namespaces that requests write to, and objects in another.
func Keep(ctx context.Context, client *http.Client, base string) (*Kept, error) {
	k := &Kept{client: client, base: base}
	for _, ns := range append(slices.Clone(request.Namespaces), keptNamespace) {
		if _, err := k.ask(ctx, http.MethodPost, "/api/v1/namespaces", `{"metadata":{"name":"`+ns+`"}}`); err != nil {
			return nil, err
		}
	}
	for _, o := range kept {
		if _, err := k.ask(ctx, http.MethodPost, o.path, o.body); err != nil {
			return nil, err
		}
	}
	var err error
	k.before, err = k.read(ctx)
	return k, err
}

// Changed compares the objects with what they were.
func (k *Kept) Changed(ctx context.Context) error {
	now, err := k.read(ctx)
	if err != nil {
		return err
	}
	for i := range now {
		if !bytes.Equal(now[i], k.before[i]) {
			return fmt.Errorf("%s %s has changed from\n%s\nto\n%s", kept[i].path, kept[i].name, k.before[i], now[i])
		}
	}
	return nil
}

// Clear deletes what the attack has written, as far as it takes memory.
func (k *Kept) Clear(ctx context.Context, operations []surface.Operation) error {
	for _, o := range operations {
		if o.Action != "deletecollection" {
			continue
		}
		var paths []string
		switch {
		case strings.Contains(o.Path, "{namespace}"):
			for _, ns := range request.Namespaces {
				paths = append(paths, strings.ReplaceAll(o.Path, "{namespace}", ns))
			}
		case o.Kind.Kind == "CustomResourceDefinition":
			paths = append(paths, o.Path)
		}
		for _, p := range paths {
			if _, err := k.ask(ctx, http.MethodDelete, p+"?gracePeriodSeconds=0&propagationPolicy=Background", ""); err != nil {
				return err
			}
		}
	}
	return nil
}

func (k *Kept) read(ctx context.Context) ([][]byte, error) {
	var all [][]byte
	for _, o := range kept {
		data, err := k.ask(ctx, http.MethodGet, o.path+"/"+o.name, "")
		if err != nil {
			return nil, err
		}
		all = append(all, data)
	}
	return all, nil
}

func (k *Kept) ask(ctx context.Context, method, path, body string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, method, k.base+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := k.client.Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode >= 300 {
		err = fmt.Errorf("%s %s: %s: %s", method, path, answer.Status, data)
	}
	return data, err
}
