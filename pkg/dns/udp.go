// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"context"
	"errors"
	"net"
	"sync"

	"github.com/miekg/dns"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
	"k8s.io/klog/v2"

	"minik8s.io/minik8s/pkg/dns/internal/message"
)

const (
	// batch is how many questions are taken from the kernel, and answers given to it, by one call.
	batch = 16
	// questionSize is the longest question that is understood: one name, and options.
	questionSize = 1232
	// maxWaiting bounds the questions of a listener that wait for another server, whatever the Corefile says.
	maxWaiting = 8192
)

// packets reads and writes several datagrams by one call; ipv4 and ipv6 have the same type of message.
type packets interface {
	ReadBatch(ms []ipv4.Message, flags int) (int, error)
	WriteBatch(ms []ipv4.Message, flags int) (int, error)
}

// udpLoop answers datagrams: at once if nobody has to be waited for, else in a goroutine of their own.
type udpLoop struct {
	listener *Listener
	packets  packets
	waiting  chan struct{}
	wg       sync.WaitGroup
}

func newUDPLoop(l *Listener) *udpLoop {
	u := &udpLoop{listener: l, waiting: make(chan struct{}, maxWaiting)}
	if l.addr.Addr().Unmap().Is4() {
		u.packets = ipv4.NewPacketConn(l.udp)
	} else {
		u.packets = ipv6.NewPacketConn(l.udp)
	}
	return u
}

// wait returns when all goroutines that answer have ended.
func (u *udpLoop) wait() { u.wg.Wait() }

// run reads until the socket fails, or the context ends and the socket has a deadline in the past.
func (u *udpLoop) run(ctx context.Context) error {
	in, out := make([]ipv4.Message, batch), make([]ipv4.Message, 0, batch)
	buffers := make([][]byte, batch) // for answers
	for i := range in {
		in[i].Buffers = [][]byte{make([]byte, questionSize)}
		buffers[i] = make([]byte, dns.MinMsgSize)
	}
	for ctx.Err() == nil {
		n, err := u.packets.ReadBatch(in, 0)
		if err != nil {
			var network net.Error
			if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return nil //nolint:nilerr // it was told to end
			}
			if errors.As(err, &network) && network.Timeout() {
				continue
			}
			return err
		}
		out = out[:0]
		for i := range in[:n] {
			packed := u.answer(ctx, in[i].Buffers[0][:in[i].N], in[i].Addr, buffers[len(out)])
			if packed != nil {
				out = append(out, ipv4.Message{Buffers: [][]byte{packed}, Addr: in[i].Addr})
			}
		}
		u.write(ctx, out)
	}
	return nil
}

// write sends answers. One that cannot be sent, because its client is gone, does not hold up the others.
func (u *udpLoop) write(ctx context.Context, out []ipv4.Message) {
	for len(out) > 0 {
		n, err := u.packets.WriteBatch(out, 0)
		if err != nil {
			klog.FromContext(ctx).V(4).Info("Answering by UDP failed", "err", err)
			n = max(n, 0) + 1
		}
		out = out[min(max(n, 1), len(out)):]
	}
}

// answer returns the answer to a datagram, in the buffer if it has room; nil if there is none, or none yet.
func (u *udpLoop) answer(ctx context.Context, data []byte, from net.Addr, buffer []byte) []byte {
	s := u.listener.server
	q := request{client: addrOf(from), remote: from, started: s.config.Clock.Now()}
	if len(data) < headerSize || data[2]&response != 0 {
		return nil // an answer to it could go back and forth
	}
	if !u.listener.mayAsk(q.client) {
		return failure(data, dns.RcodeRefused)
	}
	q.msg = new(dns.Msg)
	if err := q.msg.Unpack(data); err != nil {
		return failure(data, dns.RcodeFormatError)
	}
	packed, err := s.respond(ctx, q, false, buffer)
	switch {
	case errors.Is(err, message.ErrWait):
		u.later(ctx, q)
		return nil
	case err != nil:
		return failure(data, dns.RcodeServerFailure)
	}
	return packed
}

// later answers what has to be asked elsewhere.
func (u *udpLoop) later(ctx context.Context, q request) {
	select {
	case u.waiting <- struct{}{}:
	default:
		return // the client asks again
	}
	u.wg.Go(func() {
		defer func() { <-u.waiting }()
		packed, err := u.listener.server.respond(ctx, q, true, nil)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			_, err = u.listener.udp.WriteTo(packed, q.remote)
		}
		if err != nil {
			klog.FromContext(ctx).V(4).Info("Answering by UDP failed", "err", err)
		}
	})
}

const (
	headerSize = 12
	// response is the bit QR of the third octet of a header.
	response = 0x80
)

// failure answers what could not be read any further than its header.
func failure(data []byte, rcode int) []byte {
	b := make([]byte, headerSize)
	copy(b, data[:4])
	b[2] |= response
	b[3] = byte(rcode)
	return b
}
