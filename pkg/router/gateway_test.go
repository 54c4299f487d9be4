// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package router

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// served is an API server that has some resources of the Gateway API, or fails.
type served struct {
	discovery.DiscoveryInterface
	resources []string
	err       error
	asked     int
}

func (s *served) ServerResourcesForGroupVersion(string) (*metav1.APIResourceList, error) {
	s.asked++
	list := &metav1.APIResourceList{}
	for _, r := range s.resources {
		list.APIResources = append(list.APIResources, metav1.APIResource{Name: r}, metav1.APIResource{Name: r + "/status"})
	}
	return list, s.err
}

func defined(names ...string) []any {
	var all []any
	for _, n := range names {
		all = append(all, &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: n, ResourceVersion: "1"}})
	}
	return all
}

// The kinds are those that are served, and nobody is asked who has said all.
func TestInstalled(t *testing.T) {
	t.Parallel()
	const group = ".gateway.networking.k8s.io"
	all := defined("gatewayclasses"+group, "gateways"+group, "httproutes"+group, "things.example.com")
	s := &served{}
	i := installed{client: s, group: schema.GroupVersion(gatewayv1.GroupVersion), read: slices.Concat(neededKinds, optionalKinds)}
	for _, step := range []struct {
		name        string
		definitions []any
		resources   []string
		err         error
		again       bool
		kinds       []string
		asked       int
	}{
		{"nothing", defined("things.example.com"), nil, nil, false, nil, 0},
		{"not served yet", all, nil, apierrors.NewNotFound(schema.GroupResource{}, ""), true, nil, 1},
		{"the server fails", all, nil, errors.New("away"), true, nil, 2},
		{"partly", all, []string{"gatewayclasses", "gateways"}, nil, true, nil, 3},
		{"all", all, []string{"gatewayclasses", "gateways", "httproutes"}, nil, false, neededKinds, 4},
		{"still", all, nil, errors.New("away"), false, neededKinds, 4},
		{"one more", append(defined("grpcroutes"+group), all...), []string{"gatewayclasses", "gateways", "httproutes", "grpcroutes"}, nil, false, append(neededKinds[:3:3], "grpcroutes"), 5},
		{"gone", nil, nil, nil, false, nil, 5},
	} {
		s.resources, s.err = step.resources, step.err
		again, err := i.look(step.definitions)
		if again != step.again || (err != nil) != (step.err != nil && !apierrors.IsNotFound(step.err) && again) {
			t.Errorf("%s: again %v, %v", step.name, again, err)
		}
		if diff := cmp.Diff(step.kinds, gatewayKinds(i.served)); diff != "" || s.asked != step.asked {
			t.Errorf("%s: asked %d times, kinds (-want +got):\n%s", step.name, s.asked, diff)
		}
	}
}
