// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"

	"minik8s.io/minik8s/test/bench/figure"
)

// definitionsGrowth measures how much memory a custom resource definition takes, with a collector that watches its objects,
// as that of every cluster does. Pages of the program come with the first request of a kind, whatever the number of
// definitions: what is said of anonymous memory is what a definition takes.
func (b *bench) definitionsGrowth(ctx context.Context, s *server) error {
	pause := func() error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(b.idle): // this is what is measured
			return nil
		}
	}
	collector, err := s.everyday(ctx)
	if err != nil {
		return err
	}
	if err := pause(); err != nil {
		return err
	}
	before, _, err := s.usage()
	if err != nil {
		return err
	}
	account, err := s.account(ctx, 0)
	if err != nil {
		return err
	}
	config := account.Config()
	config.ContentConfig = rest.ContentConfig{}
	c, err := clientset.NewForConfigAndClient(config, account.HTTP())
	if err != nil {
		return err
	}
	for i := range b.definitions {
		if _, err := c.ApiextensionsV1().CustomResourceDefinitions().Create(ctx, definition(i), metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	for i := range b.definitions {
		d := definition(i)
		if err := served(ctx, c.Discovery().RESTClient(), d); err != nil {
			return err
		}
		if err := collector.watch(ctx, schema.GroupVersionResource{Group: d.Spec.Group, Version: "v1", Resource: d.Spec.Names.Plural}); err != nil {
			return err
		}
	}
	if err := pause(); err != nil {
		return err
	}
	after, _, err := s.usage()
	if err != nil {
		return err
	}
	if err := b.profiled(ctx, s, "definitions", func() error { return nil }); err != nil {
		return err
	}
	each := func(before, after int64) float64 { return float64(after-before) / 1024 / float64(b.definitions) }
	b.add(s, figure.Figure{Name: "resident memory per definition, API server", Unit: "KiB"}, each(before.Resident, after.Resident))
	b.add(s, figure.Figure{Name: "anonymous memory per definition, API server", Unit: "KiB", AtMost: 0.5}, each(before.Anonymous, after.Anonymous))
	b.add(s, figure.Figure{Name: fmt.Sprintf("CPU of %d definitions", b.definitions), Unit: "s"}, (after.Processor - before.Processor).Seconds())
	return nil
}

// served waits until objects of a definition can be listed, and so are made ready for.
func served(ctx context.Context, c rest.Interface, d *apiextensionsv1.CustomResourceDefinition) error {
	path := fmt.Sprintf("/apis/%s/v1/%s", d.Spec.Group, d.Spec.Names.Plural)
	return wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		err := c.Get().AbsPath(path).Do(ctx).Error()
		if apierrors.IsNotFound(err) || apierrors.IsServiceUnavailable(err) || apierrors.IsTooManyRequests(err) {
			return false, nil
		}
		return err == nil, err
	})
}

// definition has a schema as operators have: some levels deep, with descriptions and a rule, several kilobytes.
func definition(i int) *apiextensionsv1.CustomResourceDefinition {
	group, plural := fmt.Sprintf("g%d.bench.example", i/5), fmt.Sprintf("things%d", i)
	text := func(about string) apiextensionsv1.JSONSchemaProps {
		return apiextensionsv1.JSONSchemaProps{Type: "string", MaxLength: new(int64(253)), Description: "The " + about + " of the thing, which may be left empty: then it is found by the controller when it is needed."}
	}
	object := func(fields map[string]apiextensionsv1.JSONSchemaProps) apiextensionsv1.JSONSchemaProps {
		return apiextensionsv1.JSONSchemaProps{Type: "object", Description: "What belongs together, and is changed together by those who may.", Properties: fields}
	}
	array := func(of apiextensionsv1.JSONSchemaProps) apiextensionsv1.JSONSchemaProps {
		return apiextensionsv1.JSONSchemaProps{Type: "array", MaxItems: new(int64(32)), Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &of}}
	}
	fields := map[string]apiextensionsv1.JSONSchemaProps{"replicas": {Type: "integer", Minimum: new(float64(0))}}
	for _, part := range []string{"storage", "network", "security", "schedule", "backup", "monitoring"} {
		fields[part] = object(map[string]apiextensionsv1.JSONSchemaProps{
			"name": text("name"), "class": text("class"), "zone": text("zone"),
			"rules": array(object(map[string]apiextensionsv1.JSONSchemaProps{"from": text("source"), "to": text("target"), "when": text("condition")})),
		})
	}
	spec := object(fields)
	spec.XValidations = apiextensionsv1.ValidationRules{{Rule: "!has(self.replicas) || self.replicas < 100", Message: "too many"}}
	conditions := array(object(map[string]apiextensionsv1.JSONSchemaProps{"type": text("type"), "status": text("status"), "reason": text("reason"), "message": text("message")}))
	schema := object(map[string]apiextensionsv1.JSONSchemaProps{
		"apiVersion": {Type: "string"}, "kind": {Type: "string"}, "metadata": {Type: "object"},
		"spec": spec, "status": object(map[string]apiextensionsv1.JSONSchemaProps{"conditions": conditions, "phase": text("phase")}),
	})
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: plural + "." + group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: plural, Singular: fmt.Sprintf("thing%d", i), Kind: fmt.Sprintf("Thing%d", i), ListKind: fmt.Sprintf("Thing%dList", i)},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema:                   &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &schema},
				Subresources:             &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
				AdditionalPrinterColumns: []apiextensionsv1.CustomResourceColumnDefinition{{Name: "Replicas", Type: "integer", JSONPath: ".spec.replicas"}, {Name: "Phase", Type: "string", JSONPath: ".status.phase"}},
			}},
		},
	}
}
