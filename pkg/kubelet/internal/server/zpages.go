// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/munnerz/goautoneg"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// zpagesGroup is that of the objects by which a component tells of itself.
const zpagesGroup = "config.k8s.io"

// zpage is what a component tells of itself, as text or as an object for who asks for one.
type zpage interface {
	text() string
	// object is of a version of zpagesGroup.
	object(apiVersion string) any
}

// serveZpage answers with a page in the form that is asked for.
func serveZpage(w http.ResponseWriter, r *http.Request, kind string, page zpage) {
	format, apiVersion := zpageFormat(r.Header.Get("Accept"), kind)
	object := page.object(zpagesGroup + "/" + apiVersion)
	if apiVersion == "v1alpha1" {
		w.Header().Set("Warning", fmt.Sprintf(`299 - "This version of the %s endpoint is deprecated. Please use a newer version."`, strings.ToLower(kind)))
	}
	switch format {
	case "text":
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		fmt.Fprint(w, page.text())
	case "json":
		writeJSON(w, object)
	case "yaml":
		data, err := yaml.Marshal(object)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/yaml")
		_, _ = w.Write(data)
	default:
		http.Error(w, "only the following media types are accepted: text/plain, application/json and application/yaml with g="+
			zpagesGroup+", v=v1beta1 or v1alpha1, and as="+kind, http.StatusNotAcceptable)
	}
}

// zpageFormat is the first of what somebody accepts that there is; "" if there is none. An object is never what somebody gets who has not
// said which one.
func zpageFormat(accept, kind string) (format, apiVersion string) {
	if strings.TrimSpace(accept) == "" {
		return "text", ""
	}
	for _, a := range goautoneg.ParseAccept(accept) {
		p := a.Params
		switch object := p["g"] == zpagesGroup && p["as"] == kind && (p["v"] == "v1beta1" || p["v"] == "v1alpha1"); {
		case p["as"] == "" && (a.Type == "*" || a.Type == "text" && (a.SubType == "*" || a.SubType == "plain")):
			return "text", ""
		case object && a.Type == "application" && (a.SubType == "json" || a.SubType == "yaml"):
			return a.SubType, p["v"]
		}
	}
	return "", ""
}

// heading is what pages for people begin with.
func heading(page string) string {
	return "\nkubelet " + page + "\nWarning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and is for debugging purposes only.\n"
}

// flags are a Flagz of config.k8s.io, in either version (KEP-4828).
type flags struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Flags map[string]string `json:"flags,omitempty"`
}

func (f flags) object(apiVersion string) any {
	f.APIVersion = apiVersion
	return f
}

func (f flags) text() string {
	var b strings.Builder
	b.WriteString(heading("flagz"))
	for _, name := range slices.Sorted(maps.Keys(f.Flags)) {
		b.WriteString(name + "=" + f.Flags[name] + "\n")
	}
	return b.String()
}

// flagz tells what upstream's kubelet is told by flags and not by settings.
func (s *Server) flagz(w http.ResponseWriter, r *http.Request) {
	serveZpage(w, r, "Flagz", flags{TypeMeta: metav1.TypeMeta{Kind: "Flagz"}, ObjectMeta: metav1.ObjectMeta{Name: "kubelet"}, Flags: s.config.Flags})
}
