// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package resourceclaim_test

import (
	"context"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"

	"minik8s.io/minik8s/pkg/registry"
	"minik8s.io/minik8s/pkg/registry/resource/resourceclaim"
)

func TestAuthorizeStatus(t *testing.T) {
	onNode := &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{
		{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"n1"}},
	}}}}
	driver := func(node string) user.Info {
		return &user.DefaultInfo{Name: "system:serviceaccount:kube-system:driver", Extra: map[string][]string{serviceaccount.NodeNameKey: {node}}}
	}
	report := func(c *claim) { c.Status.Devices[0].NetworkData = &resourcev1.NetworkDeviceData{InterfaceName: "eth0"} }
	for name, tc := range map[string]struct {
		user   user.Info
		mutate func(*claim)
		allow  []string
		asked  []string
		fields []string
	}{
		"unchanged": {user: driver("n1"), mutate: func(*claim) {}},
		"reserve without the right": {user: driver("n1"), mutate: func(c *claim) {
			c.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: "p", UID: "u"}}
		}, asked: []string{"update resourceclaims/binding /"}, fields: []string{"status.allocation"}},
		"reserve": {user: driver("n1"), mutate: func(c *claim) {
			c.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: "p", UID: "u"}}
		}, allow: []string{"update resourceclaims/binding /"}, asked: []string{"update resourceclaims/binding /"}},
		"report from the node": {user: driver("n1"), mutate: report,
			allow: []string{"associated-node:update resourceclaims/driver ns/gpu.example.com"},
			asked: []string{"associated-node:update resourceclaims/driver ns/gpu.example.com"}},
		"report without the right": {user: driver("n1"), mutate: report,
			asked:  []string{"associated-node:update resourceclaims/driver ns/gpu.example.com", "arbitrary-node:update resourceclaims/driver ns/gpu.example.com"},
			fields: []string{"status.devices"}},
		"report from elsewhere": {user: driver("n2"), mutate: report,
			allow:  []string{"associated-node:update resourceclaims/driver ns/gpu.example.com"},
			asked:  []string{"arbitrary-node:update resourceclaims/driver ns/gpu.example.com"},
			fields: []string{"status.devices"}},
		"retract for another driver": {user: driver("n2"), mutate: func(c *claim) { c.Status.Devices = c.Status.Devices[:1] },
			asked:  []string{"arbitrary-node:update resourceclaims/driver ns/nic.example.com"},
			fields: []string{"status.devices"}},
		"deallocate": {user: driver("n1"), mutate: unallocate,
			allow: []string{"update resourceclaims/binding /"}, asked: []string{"update resourceclaims/binding /"}},
	} {
		t.Run(name, func(t *testing.T) {
			old, c := allocated(), allocated()
			old.Status.Allocation.NodeSelector, c.Status.Allocation.NodeSelector = onNode, onNode
			tc.mutate(c)
			var asked []string
			config := registry.Config{Authorizer: authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
				q := a.GetVerb() + " " + a.GetResource() + "/" + a.GetSubresource() + " " + a.GetNamespace() + "/" + a.GetName()
				asked = append(asked, q)
				if slices.Contains(tc.allow, q) {
					return authorizer.DecisionAllow, "", nil
				}
				return authorizer.DecisionNoOpinion, "", nil
			})}
			ctx := genericapirequest.WithRequestInfo(genericapirequest.WithUser(t.Context(), tc.user), &genericapirequest.RequestInfo{
				IsResourceRequest: true, Verb: "update", APIGroup: resourcev1.GroupName, APIVersion: "v1",
				Resource: "resourceclaims", Subresource: "status", Namespace: "ns", Name: "c",
			})
			var fields []string
			for _, err := range resourceclaim.Resource.Status.Authorize(ctx, config, c, old, nil) {
				fields = append(fields, err.Field)
			}
			if diff := cmp.Diff(tc.asked, asked); diff != "" {
				t.Errorf("asked (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.fields, fields); diff != "" {
				t.Errorf("fields (-want +got):\n%s", diff)
			}
		})
	}
}
