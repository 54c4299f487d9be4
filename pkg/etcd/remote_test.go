// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"errors"
	"net"
	"net/url"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/embed"
)

// serve runs an etcd that listens, as people's own do.
func serve(t *testing.T) (e *embed.Etcd, endpoint string) {
	t.Helper()
	c := Config{Dir: t.TempDir(), UnsafeNoFsync: true}.embedded()
	c.ListenClientUrls = []url.URL{{Scheme: "http", Host: "127.0.0.1:0"}}
	e, err := embed.StartEtcd(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	<-e.Server.ReadyNotify()
	return e, "http://" + e.Clients[0].Addr().String()
}

// silent is an address that takes connections and never answers.
func silent(t *testing.T) (endpoint string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return "http://" + l.Addr().String()
}

// refused is an address that nobody listens at.
func refused(t *testing.T) (endpoint string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return "http://" + l.Addr().String()
}

// TestRemote_Writable: members that are away do not hide what the others say, nor make a store that works look broken.
func TestRemote_Writable(t *testing.T) {
	t.Parallel()
	_, well := serve(t)
	alarmed, full := serve(t)
	arm := &pb.AlarmRequest{Action: pb.AlarmRequest_ACTIVATE, MemberID: uint64(alarmed.Server.MemberID()), Alarm: pb.AlarmType_NOSPACE}
	if _, err := alarmed.Server.Alarm(t.Context(), arm); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name         string
		endpoints    []string
		full, unwell bool
	}{
		{"well", []string{well}, false, false},
		{"one is away", []string{refused(t), well}, false, false},
		{"one is silent", []string{silent(t), well}, false, false},
		{"full", []string{full}, true, true},
		{"full, and one is silent", []string{silent(t), full}, true, true},
		{"one does not know of it yet", []string{well, full}, true, true},
		{"all are away", []string{refused(t), silent(t)}, false, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r, err := Dial(tc.endpoints, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			// As long as minik8s status waits, and more for a busy machine.
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			err = r.Writable(ctx)
			if errors.Is(err, ErrFull) != tc.full || (err != nil) != tc.unwell {
				t.Errorf("it says %v; want full = %t, unwell = %t", err, tc.full, tc.unwell)
			}
			if ctx.Err() != nil {
				t.Error("it has used up its caller's time")
			}
		})
	}
}
