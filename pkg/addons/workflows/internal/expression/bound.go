// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package expression

import (
	"fmt"
	"math/big"
	"reflect"

	"github.com/itchyny/gojq"
)

// MaxBytes is how much there may be, roughly, of a value that an expression comes to or has on the way. The time that it may take is no
// bound of that: jq doubles a text in one step, which nothing ends, and thirty of them are enough for all memory that there is.
const MaxBytes = 16 << 20

var errLarge = fmt.Errorf("it comes to more than %d bytes", MaxBytes)

// Weigh returns roughly how many bytes a value has as JSON; it stops counting above a limit.
func Weigh(value any, limit int) int {
	const small = 4
	n := small
	switch v := value.(type) {
	case string:
		n += len(v)
	case *big.Int:
		n += v.BitLen() / 3
	case []any:
		for _, item := range v {
			if n > limit {
				break
			}
			n += Weigh(item, limit-n)
		}
	case map[string]any:
		for name, item := range v {
			if n > limit {
				break
			}
			n += len(name) + Weigh(item, limit-n)
		}
	}
	return n
}

// fits returns a value, or an error if it is too large.
func fits(value any) any {
	if Weigh(value, MaxBytes) > MaxBytes {
		return errLarge
	}
	return value
}

// prelude has jq's functions that write a value as a text, or make one of many, look first how much that is: lists of lists of the same list
// are small until then.
const prelude = `
def __add: add; def add: __fits | __add; def add(f): [f] | add;
def __join($s): join($s); def join($s): __fits($s) | __join($s);
def __flatten: flatten; def flatten: __fits | __flatten;
def __flatten($n): flatten($n); def flatten($n): __fits | __flatten($n);
def __tojson: tojson; def tojson: __fits | __tojson;
def __tostring: tostring; def tostring: __fits | __tostring;
def __tohtml: _tohtml; def _tohtml: __fits | __tohtml;
def __touri: _touri; def _touri: __fits | __touri;
def __tocsv: _tocsv; def _tocsv: __fits | __tocsv;
def __totsv: _totsv; def _totsv: __fits | __totsv;
def __tosh: _tosh; def _tosh: __fits | __tosh;
def __tobase64: _tobase64; def _tobase64: __fits | __tobase64;
def __format($f): format($f); def format($f): __fits | __format($f);
.`

// functions are what the prelude and bounded operators call. Those of operators return their operands.
func functions() []gojq.CompilerOption {
	return []gojq.CompilerOption{
		gojq.WithFunction("__fits", 0, 0, func(value any, _ []any) any { return fits(value) }),
		gojq.WithFunction("__fits", 1, 1, func(value any, args []any) any {
			list, _ := value.([]any)
			if separator, ok := args[0].(string); ok && len(list)*len(separator) > MaxBytes {
				return errLarge
			}
			return fits(value)
		}),
		gojq.WithFunction(operands(gojq.OpAdd), 2, 2, func(_ any, args []any) any { return pair(args, sumFits) }),
		gojq.WithFunction(operands(gojq.OpMul), 2, 2, func(_ any, args []any) any { return pair(args, productFits) }),
	}
}

// operands is the name of what looks at those of an operator. No expression can call it, or define another.
func operands(op gojq.Operator) string { return "operands of " + op.String() }

func pair(args []any, fit func(l, r any) bool) any {
	if !fit(args[0], args[1]) {
		return errLarge
	}
	return []any{args[0], args[1]}
}

// sumFits tells whether the sum of two values is not too large. What is in lists is not copied, and counts elsewhere, but places in memory do.
func sumFits(l, r any) bool {
	switch l := l.(type) {
	case string:
		r, ok := r.(string)
		return !ok || len(l)+len(r) <= MaxBytes
	case []any:
		r, ok := r.([]any)
		return !ok || (len(l)+len(r))*16 <= MaxBytes
	}
	return true
}

// productFits tells whether the product of two values is not too large: of a text and a number, of numbers, of objects.
func productFits(l, r any) bool {
	if _, ok := l.(string); ok {
		l, r = r, l
	}
	switch r := r.(type) {
	case string:
		n, ok := gojq.ToFloat64(l)
		return !ok || !(n*float64(len(r)) > MaxBytes)
	case *big.Int:
		l, ok := l.(*big.Int)
		return !ok || l.BitLen()+r.BitLen() < 1<<20
	case map[string]any:
		return Weigh(l, MaxBytes)+Weigh(r, MaxBytes) <= MaxBytes
	}
	return true
}

// bounded returns a query in which all that makes much of little is looked at before it is done.
func bounded(q *gojq.Query) (*gojq.Query, error) {
	before, err := gojq.Parse(prelude)
	if err != nil {
		return nil, err
	}
	boundAll(reflect.ValueOf(q))
	q.FuncDefs = append(before.FuncDefs, q.FuncDefs...)
	return q, nil
}

// boundAll goes through the syntax of a query, and from within outwards changes what is to be bounded.
func boundAll(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return
		}
		boundAll(v.Elem())
		if q, ok := reflect.TypeAssert[*gojq.Query](v); ok {
			boundOperator(q)
		}
		if t, ok := reflect.TypeAssert[*gojq.Term](v); ok && t.Str != nil && t.Str.Queries != nil {
			t.Query = boundText(t.Str, t.Format)
			t.Type, t.Str, t.Format = gojq.TermTypeQuery, nil, ""
		}
		if kv, ok := reflect.TypeAssert[*gojq.ObjectKeyVal](v); ok && kv.KeyString != nil && kv.KeyString.Queries != nil {
			kv.KeyQuery, kv.KeyString = boundText(kv.KeyString, ""), nil
		}
	case reflect.Slice:
		for i := range v.Len() {
			boundAll(v.Index(i))
		}
	case reflect.Struct:
		for _, field := range v.Fields() {
			boundAll(field)
		}
	}
}

func boundOperator(q *gojq.Query) {
	switch q.Op {
	case gojq.OpAdd, gojq.OpMul:
		b := boundOperation(q.Op, q.Left, q.Right)
		q.Left, q.Op, q.Right = b.Left, b.Op, b.Right
	case gojq.OpUpdateAdd, gojq.OpUpdateMul: // PATHS += VALUE is VALUE as $x | PATHS |= . + $x
		const variable = "$the value"
		op := map[gojq.Operator]gojq.Operator{gojq.OpUpdateAdd: gojq.OpAdd, gojq.OpUpdateMul: gojq.OpMul}[q.Op]
		sum := boundOperation(op, &gojq.Query{Term: &gojq.Term{Type: gojq.TermTypeIdentity}}, called(variable))
		q.Left, q.Right = q.Right, &gojq.Query{Left: q.Left, Op: gojq.OpModify, Right: sum}
		q.Op, q.Patterns = gojq.OpPipe, []*gojq.Pattern{{Name: variable}}
	}
}

// boundOperation is an operator after a look at its operands.
func boundOperation(op gojq.Operator, l, r *gojq.Query) *gojq.Query {
	operand := func(i string) *gojq.Query {
		index := &gojq.Index{Start: &gojq.Query{Term: &gojq.Term{Type: gojq.TermTypeNumber, Number: i}}}
		return &gojq.Query{Term: &gojq.Term{Type: gojq.TermTypeIndex, Index: index}}
	}
	return &gojq.Query{Left: called(operands(op), l, r), Op: gojq.OpPipe, Right: &gojq.Query{Left: operand("0"), Op: op, Right: operand("1")}}
}

// boundText is a text with expressions in it as the sum that it is.
func boundText(s *gojq.String, format string) *gojq.Query {
	written := called("tostring")
	if format != "" {
		written = &gojq.Query{Term: &gojq.Term{Type: gojq.TermTypeFormat, Format: format}}
	}
	var sum *gojq.Query
	for _, part := range s.Queries {
		if part.Term == nil || part.Term.Str == nil {
			part = &gojq.Query{Left: part, Op: gojq.OpPipe, Right: written}
		}
		if sum == nil {
			sum = part
		} else {
			sum = boundOperation(gojq.OpAdd, sum, part)
		}
	}
	return sum
}

func called(name string, args ...*gojq.Query) *gojq.Query {
	return &gojq.Query{Term: &gojq.Term{Type: gojq.TermTypeFunc, Func: &gojq.Func{Name: name, Args: args}}}
}
