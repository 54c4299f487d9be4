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
	for len(data) > 0 {
		number, wire, n := protowire.ConsumeTag(data)
		if n < 0 {
			return errMalformed
		}
		data = data[n:]
		f, known := fields[number]
		if !known || wire != protowire.BytesType { // generated code refuses another type
			if n = protowire.ConsumeFieldValue(number, wire, data); n < 0 {
				return errMalformed
			}
			data = data[n:]
			continue
		}
		value, n := protowire.ConsumeBytes(data)
		if n < 0 {
			return errMalformed
		}
		data = data[n:]
		check := checkFields
		if f.Kind() == reflect.Map {
			f, check = element(f.Elem()), checkEntry
		}
		if err := check(value, f); err != nil {
			return err
		}
	}
	return nil
}

// checkEntry looks at the value, of type t, of an entry of a map. Generated code takes the key and the value for bytes whatever
// type they say to be.
func checkEntry(data []byte, t reflect.Type) error {
	const key, value = 1, 2
	for len(data) > 0 {
		number, wire, n := protowire.ConsumeTag(data)
		if n < 0 {
			return errMalformed
		}
		data = data[n:]
		if number != key && number != value {
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
		switch size := hugePage(string(content)); {
		case number == value:
			if err := checkFields(content, t); err != nil {
				return err
			}
		case t == quantityType && quantity.Expensive(size):
			return refuseQuantity(size)
		}
	}
	return nil
}

var rawType = reflect.TypeFor[runtime.RawExtension]()

// checkFirst looks at the content of a message whose first field is all of it, by check.
func checkFirst(data []byte, check func([]byte) error) error {
	for len(data) > 0 {
		number, wire, n := protowire.ConsumeTag(data)
		if n < 0 {
			return errMalformed
		}
		data = data[n:]
		if number == 1 && wire == protowire.BytesType {
			content, n := protowire.ConsumeBytes(data)
			if n < 0 {
				return errMalformed
			}
			if err := check(content); err != nil {
				return err
			}
			data = data[n:]
			continue
		}
		if n = protowire.ConsumeFieldValue(number, wire, data); n < 0 {
			return errMalformed
		}
		data = data[n:]
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
