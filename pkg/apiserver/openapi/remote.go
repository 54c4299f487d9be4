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

// remoteTimeout is how long a server may take to answer.
const remoteTimeout = 5 * time.Second

// remotes keeps what aggregated servers say of themselves. It asks them when somebody wants to know, not on its own.
type remotes struct {
	list func() []Remote

	mu   sync.Mutex // guards have, held while servers are asked
	have map[string]fetched
}

// fetched is what an aggregated server said last.
type fetched struct {
	name, path string
	handler    http.Handler
	at         time.Time

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
	return &remotes{list: list, have: map[string]fetched{}}
}

// current is what the available servers say, ordered by name. Those of which too little or too old is known are asked,
// all at once.
func (r *remotes) current() []fetched {
	servers := r.list()
	r.mu.Lock()
	defer r.mu.Unlock()
	now := make([]fetched, len(servers))
	var asked sync.WaitGroup
	for i, s := range servers {
		have, ok := r.have[s.Name]
		if ok && have.handler == s.Handler && time.Since(have.at) < remoteAge {
			now[i] = have
			continue
		}
		if have.handler != s.Handler {
			have = fetched{name: s.Name, path: s.Path, handler: s.Handler}
		}
		asked.Go(func() { now[i] = ask(have) })
	}
	asked.Wait()
	r.have = map[string]fetched{}
	for _, f := range now {
		r.have[f.name] = f
	}
	slices.SortFunc(now, func(a, b fetched) int { return strings.Compare(a.name, b.name) })
	return now
}

// ask fetches both kinds of documents; what fails stays as it was.
func ask(f fetched) fetched {
	f.at = time.Now()
	// Whoever asks for our documents waits for this.
	server := http.TimeoutHandler(f.handler, remoteTimeout, "request timed out")
	v2 := aggregatorv2.NewDownloader()
	swagger, etag, status, err := v2.Download(server, f.etag)
	switch {
	case err != nil:
		utilruntime.HandleError(fmt.Errorf("fetching OpenAPI v2 of %s: %w", f.name, err))
	case status == http.StatusOK:
		f.swagger, f.etag = swagger, etag
	}
	v3 := aggregatorv3.NewDownloader()
	list, status, err := v3.OpenAPIV3Root(server)
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
