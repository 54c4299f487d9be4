// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/etcd/server/v3/embed"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"minik8s.io/minik8s/pkg/apiserver"
	"minik8s.io/minik8s/pkg/etcd"
	"minik8s.io/minik8s/test/integration/framework"
)

// An etcd of somebody else with a quota of its own: what the server answers is what a store of ours has to answer too (see
// TestFullStore of the controllers), and its alarm is told.
func TestExternalEtcdFull(t *testing.T) {
	remote := external(t, 4<<20)
	c := framework.Start(t, framework.Options{APIServer: func(c *apiserver.Config) { c.Backend = remote }})
	maps := c.Client.CoreV1().ConfigMaps("default")
	var err error
	for n := 0; err == nil && n < 100; n++ {
		m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("m", n)}, Data: map[string]string{"k": strings.Repeat("v", 256<<10)}}
		_, err = maps.Create(t.Context(), m, metav1.CreateOptions{})
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		t.Fatalf("filling the store ends with %v", err)
	}
	want := metav1.Status{Status: metav1.StatusFailure, Message: "etcdserver: mvcc: database space exceeded", Code: 500}
	if diff := cmp.Diff(want, status.Status()); diff != "" {
		t.Errorf("the error (-want +got):\n%s", diff)
	}
	framework.Eventually(t, "the condition of etcd", func() error {
		s, err := c.Client.CoreV1().ComponentStatuses().Get(t.Context(), "etcd-0", metav1.GetOptions{})
		if err == nil && (s.Conditions[0].Status != corev1.ConditionFalse || !strings.Contains(s.Conditions[0].Message, "has the alarm NOSPACE")) {
			err = fmt.Errorf("it is %v", s.Conditions)
		}
		return err
	})
}

// external is a connection to an etcd that listens on loopback.
func external(t *testing.T, quota int64) *etcd.Remote {
	t.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = free.Close()
	at := url.URL{Scheme: "http", Host: free.Addr().String()}
	config := embed.NewConfig()
	config.Dir, config.QuotaBackendBytes, config.LogLevel, config.UnsafeNoFsync = t.TempDir(), quota, "fatal", true
	config.ListenPeerUrls, config.ListenClientUrls, config.AdvertiseClientUrls = nil, []url.URL{at}, []url.URL{at}
	server, err := embed.StartEtcd(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	<-server.Server.ReadyNotify()
	remote, err := etcd.Dial([]string{at.String()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := remote.Close(); err != nil {
			t.Error(err)
		}
	})
	return remote
}
