// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package openapi

import (
	"bytes"
	"crypto/sha512"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/munnerz/goautoneg"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/kube-openapi/pkg/handler3"
	"k8s.io/kube-openapi/pkg/spec3"
)

// index serves the documents of OpenAPI v3, one for each group version, and the list of them. The machinery's own service
// hashes the contents, so it builds all to list them; here a hash is made from what a document is made from.
type index struct {
	custom *custom
	remote *remotes
	// start makes the hashes of this process its own: another one may describe the same resources differently.
	start    string
	modified time.Time

	mu   sync.Mutex // guards docs
	docs map[string]*doc
}

// doc is a document of OpenAPI v3 that may have been built already.
type doc struct {
	hash  string
	json  func() ([]byte, error)
	proto func() ([]byte, error)
	// custom documents go when the last of their resources does.
	custom bool
}

func newIndex(c *custom, r *remotes) *index {
	return &index{custom: c, remote: r, start: uuid.NewString(), modified: time.Now(), docs: map[string]*doc{}}
}

// add lists a document for the whole life of the process.
func (x *index) add(path string, build func() (*spec3.OpenAPI, error)) {
	x.docs[path] = x.newDoc(path, build)
}

func (x *index) newDoc(of string, build func() (*spec3.OpenAPI, error)) *doc {
	d := &doc{hash: fmt.Sprintf("%X", sha512.Sum512([]byte(x.start+" "+of)))}
	d.json = sync.OnceValues(func() ([]byte, error) {
		document, err := build()
		if err != nil {
			return nil, fmt.Errorf("building OpenAPI v3 of %s: %w", of, err)
		}
		return json.Marshal(document)
	})
	d.proto = sync.OnceValues(func() ([]byte, error) {
		data, err := d.json()
		if err != nil {
			return nil, err
		}
		return handler3.ToV3ProtoBinary(data)
	})
	return d
}

// refresh brings the documents of custom resources up to date.
func (x *index) refresh() {
	wanted := groupVersions(x.custom.established())
	x.mu.Lock()
	defer x.mu.Unlock()
	for path, d := range x.docs {
		if d.custom && wanted[path] == nil {
			delete(x.docs, path)
		}
	}
	for path, crds := range wanted {
		fresh := x.newDoc(path+" "+fingerprint(crds), func() (*spec3.OpenAPI, error) {
			return document(crds, path[strings.LastIndex(path, "/")+1:])
		})
		fresh.custom = true
		if have, ok := x.docs[path]; !ok || have.custom && have.hash != fresh.hash {
			x.docs[path] = fresh
		}
	}
}

func (x *index) serveIndex(w http.ResponseWriter, r *http.Request) {
	x.refresh()
	list := handler3.OpenAPIV3Discovery{Paths: map[string]handler3.OpenAPIV3DiscoveryGroupVersion{}}
	for _, remote := range x.remote.current() {
		maps.Copy(list.Paths, remote.documents)
	}
	x.mu.Lock()
	for path, d := range x.docs {
		list.Paths[path] = handler3.OpenAPIV3DiscoveryGroupVersion{ServerRelativeURL: location(path, d.hash)}
	}
	x.mu.Unlock()
	data, err := json.Marshal(list)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Etag", strconv.Quote(fmt.Sprintf("%X", sha512.Sum512(data))))
	http.ServeContent(w, r, "/openapi/v3", time.Time{}, bytes.NewReader(data))
}

// location is where a document is. It may be cached for ever under it.
func location(of, hash string) string {
	u := url.URL{Path: path.Join("/openapi/v3", of), RawQuery: url.Values{"hash": {hash}}.Encode()}
	return u.String()
}

func (x *index) serveDocument(w http.ResponseWriter, r *http.Request) {
	x.refresh()
	path := strings.TrimPrefix(r.URL.Path, "/openapi/v3/")
	x.mu.Lock()
	d, ok := x.docs[path]
	x.mu.Unlock()
	if !ok {
		x.serveRemote(w, r, path)
		return
	}
	w.Header().Set("Vary", "Accept")
	contentType := negotiate(r.Header.Get("Accept"))
	if contentType == "" {
		w.WriteHeader(http.StatusNotAcceptable)
		return
	}
	build := d.json
	if contentType != jsonType {
		build = d.proto
	}
	data, err := build()
	if err != nil {
		utilruntime.HandleErrorWithContext(r.Context(), err, "Serving OpenAPI")
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	if hash := r.URL.Query().Get("hash"); hash != "" {
		if hash != d.hash {
			http.Redirect(w, r, location(path, d.hash), http.StatusMovedPermanently)
			return
		}
		w.Header().Set("Cache-Control", "public, immutable")
		w.Header().Set("Expires", time.Now().AddDate(1, 0, 0).Format(time.RFC1123))
	}
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Etag", strconv.Quote(d.hash))
	http.ServeContent(w, r, "", x.modified, bytes.NewReader(data))
}

// serveRemote passes a request on to the aggregated server that has the document.
func (x *index) serveRemote(w http.ResponseWriter, r *http.Request, path string) {
	for _, remote := range x.remote.current() {
		if _, ok := remote.documents[path]; ok {
			remote.serve.ServeHTTP(w, r)
			return
		}
	}
	w.WriteHeader(http.StatusNotFound)
}

const (
	jsonType  = "application/json"
	protoType = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf"
)

// negotiate returns the type to answer in, or "" if none is accepted.
func negotiate(accept string) string {
	if accept == "" {
		return jsonType
	}
	for _, clause := range goautoneg.ParseAccept(accept) {
		if clause.Type != "application" && clause.Type != "*" {
			continue
		}
		switch clause.SubType {
		case "json", "*":
			return jsonType
		case "com.github.proto-openapi.spec.v3.v1.0+protobuf", "com.github.proto-openapi.spec.v3@v1.0+protobuf":
			return protoType
		}
	}
	return ""
}
