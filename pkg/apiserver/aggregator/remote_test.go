// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	apiregistrationinformers "k8s.io/kube-aggregator/pkg/client/informers/externalversions/apiregistration/v1"
	apiregistrationlisters "k8s.io/kube-aggregator/pkg/client/listers/apiregistration/v1"

	"minik8s.io/minik8s/pkg/pki"
)

// listed is an informer that can only list.
type listed struct {
	apiregistrationinformers.APIServiceInformer
	indexer cache.Indexer
}

func (l listed) Lister() apiregistrationlisters.APIServiceLister {
	return apiregistrationlisters.NewAPIServiceLister(l.indexer)
}

// TestRemotes_Certificate: a server is asked with the certificate that this one has now, and is another one only when that is another.
func TestRemotes_Certificate(t *testing.T) {
	t.Parallel()
	ca, err := pki.NewCA("front")
	if err != nil {
		t.Fatal(err)
	}
	issue := func() pki.Pair {
		t.Helper()
		pair, err := ca.Issue(pki.Request{CommonName: "front-proxy-client"})
		if err != nil {
			t.Fatal(err)
		}
		return pair
	}
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	if err := indexer.Add(&apiregistrationv1.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: "v1.example.com", ResourceVersion: "1"},
		Spec:       apiregistrationv1.APIServiceSpec{Group: "example.com", Version: "v1", Service: &apiregistrationv1.ServiceReference{Namespace: "ns", Name: "s", Port: new(int32(443))}, InsecureSkipTLSVerify: true},
		Status:     apiregistrationv1.APIServiceStatus{Conditions: []apiregistrationv1.APIServiceCondition{{Type: apiregistrationv1.Available, Status: apiregistrationv1.ConditionTrue}}},
	}); err != nil {
		t.Fatal(err)
	}
	now := issue()
	s := &Server{apiServices: listed{indexer: indexer}, certificate: func() (cert, key []byte) { return now.Cert, now.Key }}
	handler := func() any {
		t.Helper()
		found := s.Remotes()
		if len(found) != 1 || found[0].Path != "apis/example.com/v1" {
			t.Fatalf("found %+v", found)
		}
		return found[0].Handler
	}
	first := handler()
	if handler() != first {
		t.Error("it is another server although nothing has changed")
	}
	now = issue()
	if handler() == first {
		t.Error("it is the same server, with a certificate that will end")
	}
}
