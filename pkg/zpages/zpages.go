// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package zpages is what any component tells of itself to who looks after it: /statusz (KEP-4827) and /flagz (KEP-4828), what came of its
// health checks (/metrics/slis, KEP-3466), and of the metrics of its process what is no other component's. It is for parts that are built
// without k8s.io/apiserver, which has such pages for servers. Touch it when upstream tells more there.
package zpages

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/munnerz/goautoneg"
	"sigs.k8s.io/yaml"
)

// group is that of the objects by which a component tells of itself.
const group = "config.k8s.io"

// page is what a component tells of itself, as text or as an object for who asks for one.
type page interface {
	text() string
	// object is of a version of group.
	object(apiVersion string) any
}

// serve answers with a page in the form that is asked for.
func serve(w http.ResponseWriter, r *http.Request, kind string, p page) {
	format, version := negotiate(r.Header.Get("Accept"), kind)
	object := p.object(group + "/" + version)
	if version == "v1alpha1" {
		w.Header().Set("Warning", fmt.Sprintf(`299 - "This version of the %s endpoint is deprecated. Please use a newer version."`, strings.ToLower(kind)))
	}
	switch format {
	case "text":
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		fmt.Fprint(w, p.text())
	case "json":
		write(w, "application/json", json.Marshal, object)
	case "yaml":
		write(w, "application/yaml", yaml.Marshal, object)
	default:
		http.Error(w, "only the following media types are accepted: text/plain, application/json and application/yaml with g="+
			group+", v=v1beta1 or v1alpha1, and as="+kind, http.StatusNotAcceptable)
	}
}

func write(w http.ResponseWriter, contentType string, marshal func(any) ([]byte, error), object any) {
	data, err := marshal(object)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", contentType)
	_, _ = w.Write(data) // the client is gone if this fails
}

// negotiate finds the first of what somebody accepts that there is; "" if there is none. An object is never what somebody gets who has not
// said which one.
func negotiate(accept, kind string) (format, version string) {
	if strings.TrimSpace(accept) == "" {
		return "text", ""
	}
	for _, a := range goautoneg.ParseAccept(accept) {
		p := a.Params
		switch object := p["g"] == group && p["as"] == kind && (p["v"] == "v1beta1" || p["v"] == "v1alpha1"); {
		case p["as"] == "" && (a.Type == "*" || a.Type == "text" && (a.SubType == "*" || a.SubType == "plain")):
			return "text", ""
		case object && a.Type == "application" && (a.SubType == "json" || a.SubType == "yaml"):
			return a.SubType, p["v"]
		}
	}
	return "", ""
}

// heading is what pages for people begin with.
func heading(component, name string) string {
	return "\n" + component + " " + name + "\nWarning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and is for debugging purposes only.\n"
}
