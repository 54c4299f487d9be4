// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httputil"
	"os"

	"k8s.io/apimachinery/pkg/labels"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/transport"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration/v1/helper"
	availability "k8s.io/kube-aggregator/pkg/controllers/status/remote"

	"minik8s.io/minik8s/pkg/apiserver/openapi"
)

// remote passes requests for documents to an aggregated server, in the name of whoever asks.
type remote struct {
	service  *apiregistrationv1.APIService
	services webhook.ServiceResolver
	base     http.RoundTripper
	cert     []byte // by which base is known to the server
}

// Remotes are the aggregated servers that are available, for their documents. A server whose APIService has not changed is
// the same pointer as before, until this one has another certificate.
func (s *Server) Remotes() []openapi.Remote {
	all, err := s.apiServices.Lister().List(labels.Everything())
	if err != nil {
		return nil // a lister reads from memory
	}
	cert, key := s.certificate()
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := map[string]*remote{}
	var found []openapi.Remote
	for _, a := range all {
		if a.Spec.Service == nil || !helper.IsAPIServiceConditionTrue(a, apiregistrationv1.Available) {
			continue
		}
		r, ok := s.remotes[a.Name]
		if !ok || r.service.ResourceVersion != a.ResourceVersion || !bytes.Equal(r.cert, cert) {
			if r, err = s.newRemote(a, cert, key); err != nil {
				continue // the availability of the APIService tells why
			}
		}
		kept[a.Name] = r
		found = append(found, openapi.Remote{Name: a.Name, Path: "apis/" + a.Spec.Group + "/" + a.Spec.Version, Handler: r})
	}
	s.remotes = kept
	return found
}

func (s *Server) newRemote(a *apiregistrationv1.APIService, cert, key []byte) (*remote, error) {
	base, err := transport.New(availability.BuildTransportConfig(nil, cert, key, a))
	if err != nil {
		return nil, fmt.Errorf("making a transport to %s: %w", a.Name, err)
	}
	return &remote{service: a, services: s.services, base: base, cert: cert}, nil
}

// ServeHTTP implements http.Handler.
func (r *remote) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	who, ok := apirequest.UserFrom(req.Context())
	if !ok {
		http.Error(w, "missing user", http.StatusInternalServerError)
		return
	}
	to := r.service.Spec.Service
	where, err := r.services.ResolveEndpoint(to.Namespace, to.Name, *to.Port)
	if err != nil {
		http.Error(w, "service unavailable", http.StatusServiceUnavailable)
		return
	}
	proxy := httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL.Scheme, p.Out.URL.Host, p.Out.Host = "https", where.Host, where.Host
			p.Out.Header.Del("Authorization")
		},
		Transport: transport.NewAuthProxyRoundTripper(who.GetName(), who.GetUID(), who.GetGroups(), who.GetExtra(), r.base),
	}
	proxy.ServeHTTP(w, req)
}

// pair reads a certificate and its key whenever they are needed, for they may be renewed.
func pair(certFile, keyFile string) func() (cert, key []byte) {
	return func() (cert, key []byte) {
		if certFile == "" || keyFile == "" {
			return nil, nil
		}
		cert, cerr := os.ReadFile(certFile)
		key, kerr := os.ReadFile(keyFile)
		if cerr != nil || kerr != nil {
			return nil, nil
		}
		return cert, key
	}
}
