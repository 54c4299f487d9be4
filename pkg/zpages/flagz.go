// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package zpages

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// flags are a Flagz of config.k8s.io, in either version.
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
	b.WriteString(heading(f.Name, "flagz"))
	for _, name := range slices.Sorted(maps.Keys(f.Flags)) {
		b.WriteString(name + "=" + f.Flags[name] + "\n")
	}
	return b.String()
}

// Flagz tells the flags of a component, by upstream's names of both.
func Flagz(component string, of map[string]string) http.Handler {
	f := flags{TypeMeta: metav1.TypeMeta{Kind: "Flagz"}, ObjectMeta: metav1.ObjectMeta{Name: component}, Flags: of}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { serve(w, r, "Flagz", f) })
}
