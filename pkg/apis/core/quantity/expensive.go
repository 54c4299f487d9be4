// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package quantity

import (
	"fmt"
	"regexp"
	"strings"
)

const (
	// MaxDigits is how many digits a quantity may have: to read them takes quadratic time, eight seconds for a million.
	MaxDigits = 256
	// ExpensiveExponent is how many digits an exponent must not have: the library writes the number out, which for a billion
	// takes minutes and gigabytes, and for ten thousand still seconds if a request is full of them.
	ExpensiveExponent = 4
)

// leadingNumber is what of a quantity is read as a number, and withExponent one that has an exponent of too many digits.
var (
	leadingNumber = regexp.MustCompile(`^[+-]?[0-9.]*`)
	withExponent  = regexp.MustCompile(fmt.Sprintf(`^[+-]?[0-9.]*[0-9.][eE][+-]?[0-9]{%d,}$`, ExpensiveExponent))
)

// Expensive tells whether it takes too much to read s as a quantity: whoever reads one out of a string that a client has
// chosen asks first. Nothing else about it is strange: a label may well be such a string ("4e1234567").
func Expensive(s string) bool {
	s = strings.TrimSpace(s)
	return len(leadingNumber.FindString(s)) > MaxDigits || withExponent.MatchString(s)
}
