// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package zpages

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilversion "k8s.io/apimachinery/pkg/util/version"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/version"
	"k8s.io/utils/clock"
)

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

// newStatus tells of a component of this process.
func newStatus(component string, now time.Time, paths []string) status {
	started := now
	if seconds, err := metrics.GetProcessStart(); err == nil {
		started = time.Unix(int64(seconds), 0)
	}
	built := version.Get()
	st := status{
		TypeMeta: metav1.TypeMeta{Kind: "Statusz"}, ObjectMeta: metav1.ObjectMeta{Name: component},
		StartTime: metav1.NewTime(started), UptimeSeconds: int64(max(0, now.Sub(started)).Seconds()), GoVersion: built.GoVersion,
		BinaryVersion: built.GitVersion, Paths: paths,
	}
	if v, err := utilversion.ParseSemantic(built.GitVersion); err == nil {
		st.BinaryVersion, st.EmulationVersion = v.String(), fmt.Sprintf("%d.%d", v.Major(), v.Minor())
	}
	return st
}

func (s status) text() string {
	up := s.UptimeSeconds
	return heading(s.Name, "statusz") + fmt.Sprintf(`
Started: %s
Up: %d hr %02d min %02d sec
Go version: %s
Binary version: %s
Emulation version: %s
Paths: %s
`, s.StartTime.Format(time.UnixDate), up/3600, up/60%60, up%60, s.GoVersion, s.BinaryVersion, s.EmulationVersion, strings.Join(s.Paths, " "))
}

func (s status) object(apiVersion string) any {
	s.APIVersion = apiVersion
	return s
}

// Statusz tells which component this is, by upstream's name of it, and for how long it has run. Paths are the first segments, in order, of
// those that it serves for people, as upstream tells them.
func Statusz(component string, c clock.PassiveClock, paths ...string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		serve(w, r, "Statusz", newStatus(component, c.Now(), paths))
	})
}
