// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"fmt"
	"net/http"

	"minik8s.io/minik8s/test/differential/compare"
	"minik8s.io/minik8s/test/differential/mutate"
)

// creates sends every seed and its mutations, without keeping anything.
func (r *runner) creates(ctx context.Context) error {
	for _, s := range r.subjects {
		all := r.sample(mutate.All(s.Object, s.typ, r.types, nil), "create"+s.Name)
		if err := r.create(ctx, s, "", "", s.Object); err != nil {
			return err
		}
		if err := r.createProtobuf(ctx, s); err != nil {
			return err
		}
		if err := r.each(len(all), func(i int) error { return r.createMutation(ctx, s, all[i]) }); err != nil {
			return err
		}
		if err := r.alive(); err != nil {
			return fmt.Errorf("after creating %s: %w", s.Name, err)
		}
	}
	return nil
}

func (r *runner) createMutation(ctx context.Context, s *subject, m mutate.Mutation) error {
	changed := m.Apply(s.Object)
	if m.Name != "unknown field" {
		return r.create(ctx, s, m.String(), "", changed)
	}
	for _, mode := range []string{"Strict", "Warn", "Ignore"} {
		if err := r.create(ctx, s, m.String(), "&fieldValidation="+mode, changed); err != nil {
			return err
		}
	}
	return nil
}

// create asks for the object without keeping it, and if upstream takes it, for its row in a table.
func (r *runner) create(ctx context.Context, s *subject, change, parameters string, object map[string]any) error {
	q := request{method: http.MethodPost, path: s.path() + "?dryRun=All" + parameters, body: object}
	u, o, err := r.check(ctx, s.resource.label(), change, q)
	if err != nil || u.Code >= 300 || o.Code >= 300 || !s.resource.can("get") {
		return err
	}
	q.accept = tableType
	_, _, err = r.check(ctx, s.resource.label(), change, q)
	return err
}

// createProtobuf sends the seed as protobuf, and wants it back as such, without keeping it.
func (r *runner) createProtobuf(ctx context.Context, s *subject) error {
	body, ok := toProtobuf(s.Object)
	if !ok {
		return nil // a kind that nothing but its definition describes
	}
	_, _, err := r.check(ctx, s.resource.label(), "", request{
		method: http.MethodPost, path: s.path() + "?dryRun=All", body: body, contentType: protobufType, accept: protobufType, known: compare.Strings(s.Object),
	})
	return err
}

// alive fails when a program has ended: what follows would only be noise.
func (r *runner) alive() error {
	if err := r.Upstream.Alive(); err != nil {
		return fmt.Errorf("upstream: %w", err)
	}
	if err := r.Ours.Alive(); err != nil {
		return fmt.Errorf("ours: %w", err)
	}
	return nil
}

// sample keeps as many mutations as one seed may have.
func (r *runner) sample(all []mutate.Mutation, of string) []mutate.Mutation {
	if r.PerSeed == 0 {
		return all
	}
	return mutate.Sample(all, r.PerSeed, r.Seed+of)
}
