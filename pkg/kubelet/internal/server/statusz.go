// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/munnerz/goautoneg"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilversion "k8s.io/apimachinery/pkg/util/version"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/version"
	"sigs.k8s.io/yaml"
)

// statuszGroup is that of the object by which a component tells how it is.
const statuszGroup = "config.k8s.io"

// status is a Statusz of config.k8s.io, in either version.
type status struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	StartTime        metav1.Time `json:"startTime"`
	UptimeSeconds    int64       `json:"uptimeSeconds"`
	GoVersion        string      `json:"goVersion"`
	BinaryVersion    string      `json:"binaryVersion"`
	EmulationVersion string      `json:"emulationVersion,omitempty"`
	Paths            []string    `json:"paths"`
}

// newStatus tells of this process.
func newStatus(now time.Time) status {
	started := now
	if seconds, err := metrics.GetProcessStart(); err == nil {
		started = time.Unix(int64(seconds), 0)
	}
	built := version.Get()
	st := status{
		TypeMeta: metav1.TypeMeta{Kind: "Statusz"}, ObjectMeta: metav1.ObjectMeta{Name: "kubelet"},
		StartTime: metav1.NewTime(started), UptimeSeconds: int64(max(0, now.Sub(started)).Seconds()), GoVersion: built.GoVersion,
		BinaryVersion: built.GitVersion,
		Paths:         []string{"/configz", "/debug", "/healthz", "/metrics"}, // as upstream, which tells those that are for people
	}
	if v, err := utilversion.ParseSemantic(built.GitVersion); err == nil {
		st.BinaryVersion, st.EmulationVersion = v.String(), fmt.Sprintf("%d.%d", v.Major(), v.Minor())
	}
	return st
}

func (s status) text() string {
	up := s.UptimeSeconds
	return fmt.Sprintf(`
%s statusz
Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and is for debugging purposes only.

Started: %s
Up: %d hr %02d min %02d sec
Go version: %s
Binary version: %s
Emulation version: %s
Paths: %s
`, s.Name, s.StartTime.Format(time.UnixDate), up/3600, up/60%60, up%60, s.GoVersion, s.BinaryVersion, s.EmulationVersion, strings.Join(s.Paths, " "))
}

// statusz tells which kubelet this is and for how long it has run: as text, or as an object for who asks for one (KEP-4827).
func (s *Server) statusz(w http.ResponseWriter, r *http.Request) {
	now := newStatus(s.config.Clock.Now())
	format, apiVersion := statuszFormat(r.Header.Get("Accept"))
	now.APIVersion = statuszGroup + "/" + apiVersion
	if apiVersion == "v1alpha1" {
		w.Header().Set("Warning", `299 - "This version of the statusz endpoint is deprecated. Please use a newer version."`)
	}
	switch format {
	case "text":
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		fmt.Fprint(w, now.text())
	case "json":
		writeJSON(w, now)
	case "yaml":
		data, err := yaml.Marshal(now)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/yaml")
		_, _ = w.Write(data)
	default:
		http.Error(w, "only the following media types are accepted: text/plain, application/json and application/yaml with g="+
			statuszGroup+", v=v1beta1 or v1alpha1, and as=Statusz", http.StatusNotAcceptable)
	}
}

// statuszFormat is the first of what somebody accepts that there is; "" if there is none. An object is never what somebody gets who has not
// said which one.
func statuszFormat(accept string) (format, apiVersion string) {
	if strings.TrimSpace(accept) == "" {
		return "text", ""
	}
	for _, a := range goautoneg.ParseAccept(accept) {
		p := a.Params
		switch object := p["g"] == statuszGroup && p["as"] == "Statusz" && (p["v"] == "v1beta1" || p["v"] == "v1alpha1"); {
		case p["as"] == "" && (a.Type == "*" || a.Type == "text" && (a.SubType == "*" || a.SubType == "plain")):
			return "text", ""
		case object && a.Type == "application" && (a.SubType == "json" || a.SubType == "yaml"):
			return a.SubType, p["v"]
		}
	}
	return "", ""
}
