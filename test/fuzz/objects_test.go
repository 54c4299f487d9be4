// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package fuzz holds the fuzz targets of what the API server is made of: go test runs their seeds, make fuzz mutates them.
package fuzz

import (
	"bytes"
	"context"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/endpoints/request"
	registrygeneric "k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"

	"minik8s.io/minik8s/pkg/registry"
	"minik8s.io/minik8s/pkg/registry/groups"
)

// machinery is the API server without storage.
type machinery struct {
	scheme *runtime.Scheme
	codecs serializer.CodecFactory
	// create are the strategies by kind.
	create map[schema.GroupVersionKind]rest.RESTCreateStrategy
}

var load = sync.OnceValues(func() (*machinery, error) {
	all := groups.All()
	m := &machinery{scheme: registry.NewScheme(all), create: map[schema.GroupVersionKind]rest.RESTCreateStrategy{}}
	m.codecs = serializer.NewCodecFactory(m.scheme)
	nobody := authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) { return nil, false, nil })
	allow := authorizerfactory.NewAlwaysAllowAuthorizer()
	c := registry.Config{
		Scheme: m.scheme, RESTOptions: nowhere{}, Stores: registry.NewStores(), Authenticator: nobody, Authorizer: allow, RuleResolver: allow,
		ServiceIPRanges: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24")}, NodePorts: utilnet.PortRange{Base: 30000, Size: 100},
	}
	for _, g := range all {
		for _, v := range g.Versions {
			for _, d := range v.Resources {
				storages, err := d.Storage(c)
				if err != nil {
					return nil, err
				}
				if s, ok := storages[d.Info().Name].(interface {
					GetCreateStrategy() rest.RESTCreateStrategy
				}); ok {
					m.create[d.Info().Kind] = s.GetCreateStrategy()
				}
			}
		}
	}
	return m, nil
})

// nowhere keeps nothing.
type nowhere struct{}

func (nowhere) GetRESTOptions(r schema.GroupResource, _ runtime.Object) (registrygeneric.RESTOptions, error) {
	return registrygeneric.RESTOptions{
		StorageConfig: &storagebackend.ConfigForResource{GroupResource: r}, ResourcePrefix: r.String(),
		Decorator: func(*storagebackend.ConfigForResource, string, func(runtime.Object) (string, error), func() runtime.Object, func() runtime.Object, storage.AttrFunc, storage.IndexerFuncs, *cache.Indexers) (storage.Interface, factory.DestroyFunc, error) {
			return empty{}, func() {}, nil
		},
	}, nil
}

// empty is a storage in which nothing is found. Validation asks for no more.
type empty struct{ storage.Interface }

func (empty) Get(_ context.Context, key string, _ storage.GetOptions, _ runtime.Object) error {
	return storage.NewKeyNotFoundError(key, 0)
}

// FuzzObject decodes objects of every served kind, as clients send them, gives them defaults, and validates them.
func FuzzObject(f *testing.F) {
	m, err := load()
	if err != nil {
		f.Fatal(err)
	}
	if len(m.create) < 50 {
		f.Fatalf("only %d kinds can be created", len(m.create))
	}
	for _, seed := range published(f, m, ".json", ".yaml", ".pb") {
		f.Add(seed)
	}
	jsonSerializer, _ := runtime.SerializerInfoForMediaType(m.codecs.SupportedMediaTypes(), runtime.ContentTypeJSON)
	f.Fuzz(func(t *testing.T, data []byte) {
		o, kind, err := m.codecs.UniversalDeserializer().Decode(data, nil, nil)
		if err != nil {
			return // refused, which is an answer
		}
		if len(registry.ValidateTimes(o)) > 0 {
			return
		}
		o.GetObjectKind().SetGroupVersionKind(*kind) // which is also found under "ApiVersion", as the object is not
		m.scheme.Default(o)
		first := encode(t, jsonSerializer.Serializer, o)
		again, _, err := m.codecs.UniversalDeserializer().Decode(first, nil, nil)
		if err != nil {
			t.Fatalf("what was encoded is not decoded: %v\n%s", err, first)
		}
		if second := encode(t, jsonSerializer.Serializer, again); !bytes.Equal(first, second) {
			t.Errorf("an object changes on its way:\n%s\n%s", first, second)
		}
		m.scheme.Default(again)
		if second := encode(t, jsonSerializer.Serializer, again); !bytes.Equal(first, second) {
			t.Errorf("defaults of defaults differ:\n%s\n%s", first, second)
		}
		m.validate(*kind, o)
	})
}

func encode(t *testing.T, e runtime.Encoder, o runtime.Object) []byte {
	t.Helper()
	data, err := runtime.Encode(e, o)
	if err != nil {
		t.Fatalf("%T is decoded, but not encoded: %v", o, err)
	}
	// A string of protobuf that is no UTF-8 has this character in its place: escaped at first, later as it is.
	return bytes.ReplaceAll(data, []byte(`\ufffd`), []byte("\ufffd"))
}

// validate does what is done before an object is stored. Whether it is valid does not matter.
func (m *machinery) validate(kind schema.GroupVersionKind, o runtime.Object) {
	s, ok := m.create[kind]
	if !ok {
		return
	}
	o, err := m.scheme.ConvertToVersion(o, schema.GroupVersion{Group: kind.Group, Version: runtime.APIVersionInternal})
	if err != nil {
		return // a conversion may refuse
	}
	ctx := request.WithUser(request.NewContext(), &user.DefaultInfo{Name: "fuzz"})
	ctx = request.WithRequestInfo(ctx, &request.RequestInfo{IsResourceRequest: true, Verb: "create", APIGroup: kind.Group, APIVersion: kind.Version})
	if s.NamespaceScoped() {
		ctx = request.WithNamespace(ctx, "default")
		if o, ok := o.(metav1.Object); ok {
			o.SetNamespace("default")
		}
	}
	_ = rest.BeforeCreate(s, ctx, o)
}

// published are the examples that k8s.io/api has of every kind.
func published(f *testing.F, m *machinery, endings ...string) [][]byte {
	f.Helper()
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/api").Output()
	if err != nil {
		f.Fatal(err)
	}
	var all [][]byte
	for kind := range m.create {
		group := kind.Group
		if group == "" {
			group = "core"
		}
		for _, ending := range endings {
			name := filepath.Join(strings.TrimSpace(string(dir)), "testdata/HEAD", group+"."+kind.Version+"."+kind.Kind+ending)
			data, err := os.ReadFile(name)
			if os.IsNotExist(err) {
				continue // kinds of another module
			}
			if err != nil {
				f.Fatal(err)
			}
			all = append(all, data)
		}
	}
	if len(all) < 100 {
		f.Fatalf("only %d published objects were found", len(all))
	}
	return all
}
