// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package message has questions and replies without the envelope in which they travel. Touch it for something of a request that
// an answer depends on.
package message

import (
	"errors"
	"strings"

	"github.com/miekg/dns"
)

// ErrWait is told instead of waiting for another server, when the caller does not want to wait.
var ErrWait = errors.New("another server must be asked")

// Question is what is asked for, in the class IN.
type Question struct {
	// Name is in lower case and fully qualified.
	Name string
	Type uint16
	// DNSSEC asks for signatures (DO), Unchecked for answers that are not validated (CD).
	DNSSEC, Unchecked bool
}

// Of returns the question of a message that has one.
func Of(m *dns.Msg) Question {
	q := Question{Name: Lower(m.Question[0].Name), Type: m.Question[0].Qtype, Unchecked: m.CheckingDisabled}
	if opt := m.IsEdns0(); opt != nil {
		q.DNSSEC = opt.Do()
	}
	return q
}

// Lower is strings.ToLower for names, of which most are in lower case.
func Lower(name string) string {
	for i := range len(name) {
		if c := name[i]; c >= 'A' && c <= 'Z' {
			return strings.ToLower(name)
		}
	}
	return name
}

// Reply is an answer. Its records may be shared: who changes one copies it.
type Reply struct {
	Rcode                    int
	Answer, Authority, Extra []dns.RR
	Authoritative            bool
	// Authenticated says that a validating server has found it good (AD).
	Authenticated bool
	// Truncated says that records are missing that could not be had (TC).
	Truncated bool
	// Plugin is where it comes from.
	Plugin string
}

// Refused is the reply to what nobody is responsible for.
func Refused() Reply { return Reply{Rcode: dns.RcodeRefused} }

// Failed is the reply when an answer could not be had.
func Failed(plugin string) Reply { return Reply{Rcode: dns.RcodeServerFailure, Plugin: plugin} }

// Sections are the records of a reply, of all three sections.
func (r *Reply) Sections() [3][]dns.RR { return [3][]dns.RR{r.Answer, r.Authority, r.Extra} }
