// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"errors"
	"reflect"
	"strconv"
	"strings"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"

	"minik8s.io/minik8s/pkg/apis/core/quantity"
)

// errMalformed is said of messages that are read otherwise here than by generated code, or not at all.
var errMalformed = errors.New("malformed protobuf message")

// checkMessage refuses a message of a Go type with a quantity that is too expensive to read. It reads as the generated code of
// the type does: fields by number in any order and as often as they come, numbers in more bytes than needed, and unknown
// fields passed over.
func checkMessage(data []byte, t reflect.Type) error {
	if !dubious(data) {
		return nil
	}
	err := checkFields(data, element(t))
	if errors.Is(err, errMalformed) {
		return apierrors.NewBadRequest(err.Error())
	}
	return err
}

// checkFields looks at the fields of a message.
func checkFields(data []byte, t reflect.Type) error {
	switch t {
	case quantityType:
		return checkFirst(data, checkQuantity)
	case rawType:
		return checkFirst(data, checkText) // controllers read it as the part of an object that it is
	}
	fields := messageFields(t)
	known := func(number protowire.Number, wire protowire.Type) bool {
		return fields[number] != nil && wire == protowire.BytesType // generated code refuses another type
	}
	return eachField(data, known, func(number protowire.Number, content []byte) error {
		f := fields[number]
		if f.Kind() == reflect.Map {
			return checkEntry(content, element(f.Elem()))
		}
		return checkFields(content, f)
	})
}

// checkEntry looks at the value, of type t, of an entry of a map. Generated code takes the key and the value for bytes whatever
// type they say to be.
func checkEntry(data []byte, t reflect.Type) error {
	const key, value = 1, 2
	known := func(number protowire.Number, _ protowire.Type) bool { return number == key || number == value }
	return eachField(data, known, func(number protowire.Number, content []byte) error {
		if number == value {
			return checkFields(content, t)
		}
		if size := hugePage(string(content)); t == quantityType && quantity.Expensive(size) {
			return refuseQuantity(size)
		}
		return nil
	})
}

var rawType = reflect.TypeFor[runtime.RawExtension]()

// checkFirst looks at the content of a message whose first field is all of it, by check.
func checkFirst(data []byte, check func([]byte) error) error {
	first := func(number protowire.Number, wire protowire.Type) bool {
		return number == 1 && wire == protowire.BytesType
	}
	return eachField(data, first, func(_ protowire.Number, content []byte) error { return check(content) })
}

// eachField calls check with the content of each field that is known, and passes over the others.
func eachField(data []byte, known func(protowire.Number, protowire.Type) bool, check func(protowire.Number, []byte) error) error {
	for len(data) > 0 {
		number, wire, n := protowire.ConsumeTag(data)
		if n < 0 {
			return errMalformed
		}
		data = data[n:]
		if !known(number, wire) {
			if n = protowire.ConsumeFieldValue(number, wire, data); n < 0 {
				return errMalformed
			}
			data = data[n:]
			continue
		}
		content, n := protowire.ConsumeBytes(data)
		if n < 0 {
			return errMalformed
		}
		data = data[n:]
		if err := check(number, content); err != nil {
			return err
		}
	}
	return nil
}

func checkQuantity(text []byte) error {
	if quantity.Expensive(string(text)) {
		return refuseQuantity(string(text))
	}
	return nil
}

// messages remembers the fields of types: reflect.Type to map[protowire.Number]reflect.Type.
var messages sync.Map

// messageFields are the fields of a message that may hold quantities, by their numbers: messages, and maps of messages.
func messageFields(t reflect.Type) map[protowire.Number]reflect.Type {
	if known, ok := messages.Load(t); ok {
		return known.(map[protowire.Number]reflect.Type)
	}
	fields := map[protowire.Number]reflect.Type{}
	if t.Kind() == reflect.Struct {
		for f := range t.Fields() {
			parts := strings.Split(f.Tag.Get("protobuf"), ",")
			if len(parts) < 2 {
				continue
			}
			number, err := strconv.ParseInt(parts[1], 10, 32)
			of := element(f.Type)
			holds := of
			if of.Kind() == reflect.Map {
				holds = element(of.Elem())
			}
			if err == nil && holds.Kind() == reflect.Struct {
				fields[protowire.Number(number)] = of
			}
		}
	}
	known, _ := messages.LoadOrStore(t, fields)
	return known.(map[protowire.Number]reflect.Type)
}
