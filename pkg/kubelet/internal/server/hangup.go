// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
)

// hangUp is a response whose connection, once taken over by a stream, calls gone when the client is. net/http watches
// connections only until then, the streaming libraries stop to read when a client says goodbye, and a container that is
// silent never makes a write fail.
type hangUp struct {
	http.ResponseWriter
	gone func()
}

// Hijack implements http.Hijacker.
func (h *hangUp) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(h.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	// What was read already comes first.
	read, err := rw.Peek(rw.Reader.Buffered())
	if err != nil {
		_ = conn.Close()
		return nil, nil, err
	}
	r, w := io.Pipe()
	go func() {
		_, err := io.Copy(w, conn)
		h.gone()
		w.CloseWithError(err) // nil is the end of file
	}()
	reader := bufio.NewReader(io.MultiReader(bytes.NewReader(bytes.Clone(read)), r))
	return &watchedConn{conn, r}, bufio.NewReadWriter(reader, rw.Writer), nil
}

// watchedConn is a connection that somebody else reads all the time.
type watchedConn struct {
	net.Conn
	r *io.PipeReader
}

func (c *watchedConn) Read(data []byte) (int, error) { return c.r.Read(data) }

func (c *watchedConn) Close() error {
	_ = c.r.Close() // never fails; it frees the reader
	return c.Conn.Close()
}
