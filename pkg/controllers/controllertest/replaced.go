// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package controllertest

import (
	"context"
	"encoding/json"
	"errors"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// Replaced returns a client by which successor takes the place of the pod of its name just before the first write to that. Whoever
// decided on the first one must not touch the second one. As the API server does, it refuses what says another UID.
func Replaced(c client.WithWatch, successor *corev1.Pod) client.WithWatch {
	replaced := false
	// meet refuses a write to the pod that has the UID said, which is empty if the write is to whatever has the name.
	meet := func(ctx context.Context, obj client.Object, said string, refusal error) error {
		if client.ObjectKeyFromObject(obj) != client.ObjectKeyFromObject(successor) {
			return nil
		}
		if !replaced {
			replaced = true
			old := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: successor.Namespace, Name: successor.Name}}
			if err := errors.Join(c.Delete(ctx, old), c.Create(ctx, successor.DeepCopy())); err != nil {
				return err
			}
		}
		if said != "" && said != string(successor.UID) {
			return refusal
		}
		return nil
	}
	return interceptor.NewClient(c, interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			data, err := patch.Data(obj)
			if err != nil {
				return err
			}
			var says metav1.PartialObjectMetadata
			if err := json.Unmarshal(data, &says); err != nil {
				return err
			}
			changed := field.Invalid(field.NewPath("metadata", "uid"), says.UID, "field is immutable")
			refusal := apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, obj.GetName(), field.ErrorList{changed})
			if err := meet(ctx, obj, string(says.UID), refusal); err != nil {
				return err
			}
			return c.SubResource(sub).Patch(ctx, obj, patch, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			said := ""
			if p := (&client.DeleteOptions{}).ApplyOptions(opts).Preconditions; p != nil && p.UID != nil {
				said = string(*p.UID)
			}
			refusal := apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, obj.GetName(), errors.New("the UID in the precondition is another one"))
			if err := meet(ctx, obj, said, refusal); err != nil {
				return err
			}
			return c.Delete(ctx, obj, opts...)
		},
	})
}
