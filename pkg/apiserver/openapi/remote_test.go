// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package openapi

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

// extension is an aggregated server that answers at once, until it is slow.
type extension struct {
	group string
	slow  atomic.Bool
	asked atomic.Int32
}

// ServeHTTP implements http.Handler.
func (e *extension) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.asked.Add(1)
	if e.slow.Load() {
		<-r.Context().Done()
		return
	}
	if r.URL.Path == "/openapi/v2" {
		fmt.Fprintf(w, `{"swagger":"2.0","info":{"title":%q,"version":"v1"},"paths":{}}`, e.group)
		return
	}
	fmt.Fprintf(w, `{"paths":{"apis/%s/v1":{"serverRelativeURL":"/openapi/v3/apis/%[1]s/v1?hash=H"}}}`, e.group)
}

func (e *extension) remote() Remote {
	return Remote{Name: "v1." + e.group, Path: "apis/" + e.group + "/v1", Handler: e}
}

// known are the servers of which both documents are known.
func known(all []fetched) (names []string) {
	for _, f := range all {
		if f.swagger != nil && len(f.documents) > 0 {
			names = append(names, f.name)
		}
	}
	return names
}

// TestRemotes_Slow: a server that does not answer holds up the documents of all once, when nothing is known of it, and no longer than one
// deadline.
func TestRemotes_Slow(t *testing.T) {
	// One of the handlers of errors sleeps by the time at which the process began, which a bubble is far from.
	all := utilruntime.ErrorHandlers
	utilruntime.ErrorHandlers = all[:1]
	defer func() { utilruntime.ErrorHandlers = all }()
	synctest.Test(t, func(t *testing.T) {
		a, b := &extension{group: "a"}, &extension{group: "b"}
		b.slow.Store(true)
		all := []Remote{b.remote(), a.remote()}
		r := newRemotes(func() []Remote { return all })
		for _, step := range []struct {
			name   string
			before func()
			within time.Duration
			want   []string
		}{
			{"one is new and slow", func() {}, remoteTimeout, []string{"v1.a"}},
			{"it is not asked at once again", func() {}, 0, []string{"v1.a"}},
			{"it is asked in the background", func() { time.Sleep(remoteAge) }, 0, []string{"v1.a"}}, //nolint:forbidigo // in a bubble, where it costs nothing
			{"a known one is slow", func() {
				a.slow.Store(true)
				time.Sleep(remoteAge) //nolint:forbidigo // in a bubble, where it costs nothing
			}, 0, []string{"v1.a"}},
			{"the other one has answered meanwhile", func() {
				b.slow.Store(false)
				time.Sleep(remoteAge) //nolint:forbidigo // in a bubble, where it costs nothing
				r.current()
				synctest.Wait()
			}, 0, []string{"v1.a", "v1.b"}},
			{"its APIService has changed", func() { all[1].Handler = &extension{group: "a"}; all[1].Handler.(*extension).slow.Store(true) }, 0, []string{"v1.a", "v1.b"}},
			{"it is not there", func() { all = all[:1] }, 0, []string{"v1.b"}},
		} {
			step.before()
			begin := time.Now()
			got := r.current()
			if diff := cmp.Diff(step.want, known(got)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", step.name, diff)
			}
			if took := time.Since(begin); took > step.within {
				t.Errorf("%s: that took %s, want at most %s", step.name, took, step.within)
			}
		}
		time.Sleep(remoteTimeout) //nolint:forbidigo // in a bubble, where it costs nothing: whoever is still asked ends
		if n := a.asked.Load() + b.asked.Load(); n > 16 {
			t.Errorf("asked %d times", n)
		}
	})
}
