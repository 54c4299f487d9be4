// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package lists

import (
	"encoding/binary"
	stdjson "encoding/json"
	"io"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
)

// format is an encoding of lists. Its values are compared.
type format interface {
	// item encodes one, as it is in a list.
	item(o runtime.Object) ([]byte, error)
	// list writes a list some of whose items are encoded.
	list(l *list, encoded [][]byte, out *buffer) error
}

// identifiers of the encoders whose lists are known; those of YAML, and of JSON that is meant for people, have others.
var (
	plainJSON     = json.NewSerializerWithOptions(json.DefaultMetaFactory, nil, nil, json.SerializerOptions{}).Identifier()
	plainProtobuf = protobuf.NewSerializer(nil, nil).Identifier()
)

// formatOf returns nil for encoders of which nothing is known.
func formatOf(e runtime.Encoder) format {
	switch e.(type) {
	case *json.Serializer:
		if e.Identifier() == plainJSON {
			return jsonFormat{}
		}
	case *protobuf.Serializer:
		if e.Identifier() == plainProtobuf {
			return protobufFormat{}
		}
	}
	return nil
}

type jsonFormat struct{}

func (jsonFormat) item(o runtime.Object) ([]byte, error) { return stdjson.Marshal(o) }

func (f jsonFormat) list(l *list, encoded [][]byte, out *buffer) error {
	out.text("{")
	for _, field := range []struct {
		name    string
		value   any
		omitted bool
	}{{"kind", l.kind.Kind, l.kind.Kind == ""}, {"apiVersion", l.kind.APIVersion, l.kind.APIVersion == ""}, {"metadata", &l.meta, false}} {
		if field.omitted {
			continue
		}
		value, err := stdjson.Marshal(field.value)
		if err != nil {
			return err
		}
		out.text(`"` + field.name + `":`)
		out.write(value)
		out.text(",")
	}
	out.text(`"items":[`)
	for i, item := range encoded {
		if i > 0 {
			out.text(",")
		}
		if item == nil {
			var err error
			if item, err = f.item(l.items[i]); err != nil {
				return err
			}
		}
		out.write(item)
	}
	out.text("]}\n")
	return out.err
}

// message is what the generator of Kubernetes makes types of protobuf.
type message interface {
	Size() int
	MarshalToSizedBuffer([]byte) (int, error)
}

type protobufFormat struct{}

func (protobufFormat) item(o runtime.Object) ([]byte, error) {
	m := o.(message)
	data := make([]byte, m.Size())
	n, err := m.MarshalToSizedBuffer(data) // from the end
	return data[len(data)-n:], err
}

// Tags of the fields of a list: number and type of wire.
const (
	metaTag = 1<<3 | 2
	itemTag = 2<<3 | 2
)

// protobufPrefix is what all messages begin with.
const protobufPrefix = "k8s\x00"

func (f protobufFormat) list(l *list, encoded [][]byte, out *buffer) error {
	meta, err := l.meta.Marshal()
	if err != nil {
		return err
	}
	size := fieldSize(len(meta))
	for i, item := range encoded {
		if item == nil {
			size += fieldSize(l.items[i].(message).Size())
		} else {
			size += fieldSize(len(item))
		}
	}
	out.text(protobufPrefix)
	envelope := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: l.kind.APIVersion, Kind: l.kind.Kind}}
	_, err = envelope.MarshalToWriter(out, size, func(io.Writer) (int, error) {
		out.field(metaTag, meta)
		for i, item := range encoded {
			if item == nil {
				var err error
				if item, err = f.item(l.items[i]); err != nil {
					return 0, err
				}
			}
			out.field(itemTag, item)
		}
		return size, out.err
	})
	return err
}

// fieldSize is what a field of so many bytes takes, with its tag and its length.
func fieldSize(n int) int {
	var length [binary.MaxVarintLen64]byte
	return 1 + binary.PutUvarint(length[:], uint64(n)) + n
}

// piece is how much is written at a time: each write of a response waits for the goroutine that has the connection.
const piece = 128 << 10

// buffer gathers what is written. What goes wrong is kept: nothing is written after that.
type buffer struct {
	to   io.Writer
	data []byte
	err  error
}

var buffers = sync.Pool{New: func() any { return &buffer{data: make([]byte, 0, piece)} }}

func (b *buffer) reset(w io.Writer) { b.to, b.data, b.err = w, b.data[:0], nil }

// Write implements io.Writer.
func (b *buffer) Write(data []byte) (int, error) {
	b.write(data)
	return len(data), b.err
}

func (b *buffer) write(data []byte) {
	b.room(len(data))
	if len(data) > cap(b.data) {
		b.send(data)
		return
	}
	b.data = append(b.data, data...)
}

func (b *buffer) text(s string) {
	b.room(len(s))
	b.data = append(b.data, s...)
}

func (b *buffer) field(tag byte, data []byte) {
	b.room(1 + binary.MaxVarintLen64)
	b.data = append(b.data, tag)
	b.data = binary.AppendUvarint(b.data, uint64(len(data)))
	b.write(data)
}

// room has what was gathered written if not so much fits besides.
func (b *buffer) room(n int) {
	if len(b.data)+n > cap(b.data) {
		b.send(b.data)
		b.data = b.data[:0]
	}
}

func (b *buffer) send(data []byte) {
	if b.err == nil && len(data) > 0 {
		_, b.err = b.to.Write(data)
	}
}

func (b *buffer) flush() error {
	b.send(b.data)
	b.to, b.data = nil, b.data[:0]
	return b.err
}
