// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Command dns stands for CoreDNS in the suite's one test that sends DNS by UDP: it answers as the plugin whoami does, with the
// address of who asks.
package main

import (
	"log"
	"net"

	"github.com/miekg/dns"
)

func main() {
	server := &dns.Server{Addr: ":53", Net: "udp", Handler: dns.HandlerFunc(whoami)}
	log.Fatal(server.ListenAndServe())
}

func whoami(w dns.ResponseWriter, question *dns.Msg) {
	answer := new(dns.Msg).SetReply(question)
	answer.Authoritative = true
	if host, _, err := net.SplitHostPort(w.RemoteAddr().String()); err == nil && len(question.Question) == 1 {
		name := question.Question[0].Name
		header := dns.RR_Header{Name: name, Rrtype: dns.TypeA, Class: dns.ClassINET}
		answer.Extra = append(answer.Extra, &dns.A{Hdr: header, A: net.ParseIP(host)})
	}
	if err := w.WriteMsg(answer); err != nil {
		log.Print(err)
	}
}
