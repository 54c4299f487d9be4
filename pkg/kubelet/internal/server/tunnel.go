// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bufio"
	"net"
	"net/http"

	"github.com/gorilla/websocket"
	clientportforward "k8s.io/client-go/tools/portforward"
	"k8s.io/cri-streaming/pkg/streaming/portforward"
	"k8s.io/klog/v2"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
)

// tunnelProtocol is SPDY in the messages of a WebSocket, which is how port-forward uses one (KEP-4006).
const tunnelProtocol = "SPDY/3.1+" + portforward.ProtocolV1Name

// serveTunnel opens the WebSocket and hands what is in it to serve as if the client had asked for SPDY itself.
func serveTunnel(w http.ResponseWriter, r *http.Request, serve http.HandlerFunc) {
	upgrader := websocket.Upgrader{
		Subprotocols: []string{tunnelProtocol},
		// No browser has a client certificate or token of the cluster by itself, so that its origin does not matter.
		CheckOrigin: func(*http.Request) bool { return true },
	}
	socket, err := upgrader.Upgrade(w, r, nil) // answers the client on failure
	if err != nil {
		klog.FromContext(r.Context()).Error(err, "Unable to upgrade to a WebSocket")
		return
	}
	conn := clientportforward.NewTunnelingConnectionWithLogger(klog.FromContext(r.Context()), socket)
	defer conn.Close()
	if socket.Subprotocol() != tunnelProtocol {
		return
	}
	inner := r.Clone(r.Context())
	inner.Header = http.Header{}
	inner.Header.Set(httpstream.HeaderConnection, httpstream.HeaderUpgrade)
	inner.Header.Set(httpstream.HeaderUpgrade, spdy.HeaderSpdy31)
	inner.Header.Set(httpstream.HeaderProtocolVersion, portforward.ProtocolV1Name)
	serve(&tunnelWriter{header: http.Header{}, conn: conn}, inner)
}

// tunnelWriter is the response to a request that was never sent: there is nobody to read it, only a connection to
// take over.
type tunnelWriter struct {
	header http.Header
	conn   net.Conn
}

func (t *tunnelWriter) Header() http.Header            { return t.header }
func (t *tunnelWriter) WriteHeader(int)                {}
func (t *tunnelWriter) Write(data []byte) (int, error) { return len(data), nil }
func (t *tunnelWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return t.conn, bufio.NewReadWriter(bufio.NewReader(t.conn), bufio.NewWriter(t.conn)), nil
}
