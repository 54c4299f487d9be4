// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package openapi

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	aggregatorv2 "k8s.io/kube-aggregator/pkg/controllers/openapi/aggregator"
	aggregatorv3 "k8s.io/kube-aggregator/pkg/controllers/openapiv3/aggregator"
	"k8s.io/kube-openapi/pkg/handler3"
	"k8s.io/kube-openapi/pkg/openapiconv"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// remoteAge is how long the documents of aggregated servers are believed.
const remoteAge = time.Minute

// remoteTimeout is how long a server may take to answer; who asks for the documents waits for one that is new.
const remoteTimeout = 5 * time.Second

// remotes keeps what aggregated servers say of themselves. It asks them when somebody wants to know, not on its own.
type remotes struct {
	list func() []Remote

	mu   sync.Mutex // guards have and the servers in it
	have map[string]*server
}

// server is an aggregated server, of which something is known once it has been asked.
type server struct {
	fetched
	asked  chan struct{} // closed when it has answered for the first time, or has not
	asking bool
	at     time.Time // when it was asked last
}

// fetched is what an aggregated server said last.
type fetched struct {
	name, path string
	handler    http.Handler // that was asked

	swagger *spec.Swagger
	etag    string
	// documents are its list of OpenAPI v3, which serve has.
	documents map[string]handler3.OpenAPIV3DiscoveryGroupVersion
	serve     http.Handler
}

func newRemotes(list func() []Remote) *remotes {
	if list == nil {
		list = func() []Remote { return nil }
	}
	return &remotes{list: list, have: map[string]*server{}}
}

// current is what the available servers say, ordered by name. Only one of which nothing is known yet is waited for: a slow one must not
// hold up everybody, again and again.
func (r *remotes) current() []fetched {
	servers := r.renew(r.list())
	for _, s := range servers {
		<-s.asked
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := make([]fetched, len(servers))
	for i, s := range servers {
		now[i] = s.fetched
	}
	slices.SortFunc(now, func(a, b fetched) int { return strings.Compare(a.name, b.name) })
	return now
}

// renew has those asked, all at once, of which too little or too old is known.
func (r *remotes) renew(listed []Remote) []*server {
	r.mu.Lock()
	defer r.mu.Unlock()
	have, all := map[string]*server{}, make([]*server, len(listed))
	for i, l := range listed {
		s, ok := r.have[l.Name]
		if !ok {
			s = &server{fetched: fetched{name: l.Name, path: l.Path}, asked: make(chan struct{})}
		}
		if !s.asking && (s.handler != l.Handler || time.Since(s.at) >= remoteAge) {
			of := s.fetched
			if of.handler != l.Handler {
				of.handler, of.etag = l.Handler, "" // it may be another server, which has to tell all
			}
			s.asking, s.at = true, time.Now()
			go r.ask(s, of)
		}
		have[l.Name], all[i] = s, s
	}
	r.have = have
	return all
}

func (r *remotes) ask(s *server, of fetched) {
	of = fetch(of)
	r.mu.Lock()
	defer r.mu.Unlock()
	s.fetched, s.asking = of, false
	select {
	case <-s.asked:
	default:
		close(s.asked)
	}
}

// fetch asks for both kinds of documents, for which a server has the same time; what fails stays as it was.
func fetch(f fetched) fetched {
	server := http.TimeoutHandler(f.handler, remoteTimeout, "request timed out")
	var swagger sync.WaitGroup
	swagger.Go(func() {
		v2 := aggregatorv2.NewDownloader()
		doc, etag, status, err := v2.Download(server, f.etag)
		switch {
		case err != nil:
			utilruntime.HandleError(fmt.Errorf("fetching OpenAPI v2 of %s: %w", f.name, err))
		case status == http.StatusOK:
			f.swagger, f.etag = doc, etag
		}
	})
	v3 := aggregatorv3.NewDownloader()
	list, status, err := v3.OpenAPIV3Root(server)
	swagger.Wait()
	switch {
	case err != nil:
		utilruntime.HandleError(fmt.Errorf("fetching OpenAPI v3 of %s: %w", f.name, err))
	case status == http.StatusNotFound && f.swagger != nil:
		f.documents, f.serve = converted(f)
	case list != nil:
		f.documents, f.serve = list.Paths, f.handler
	}
	return f
}

// converted makes a document of OpenAPI v3 for a server that has only v2.
func converted(f fetched) (map[string]handler3.OpenAPIV3DiscoveryGroupVersion, http.Handler) {
	service := handler3.NewOpenAPIService()
	service.UpdateGroupVersion(f.path, openapiconv.ConvertV2ToV3(f.swagger))
	documents := map[string]handler3.OpenAPIV3DiscoveryGroupVersion{f.path: {ServerRelativeURL: "/openapi/v3/" + f.path}}
	return documents, http.HandlerFunc(service.HandleGroupVersion)
}
