// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	"minik8s.io/minik8s/test/differential/servers"
	"minik8s.io/minik8s/test/fuzz/attack"
	"minik8s.io/minik8s/test/fuzz/identity"
	"minik8s.io/minik8s/test/fuzz/request"
	"minik8s.io/minik8s/test/fuzz/surface"
)

// battle is a server and what is sent to it.
type battle struct {
	server       *servers.Server
	kept         *attack.Kept
	operations   []surface.Operation
	wide, narrow *attack.Attack
}

// share is how many requests of users there are for one of an administrator.
const share = 4

// prepare makes anew what requests may have taken away.
func (b *battle) prepare(ctx context.Context) error {
	if err := identity.Grant(ctx, b.kept.Ask, request.Namespaces); err != nil {
		return err
	}
	if err := b.kept.Prepare(ctx); err != nil {
		return err
	}
	return b.kept.Renew(ctx)
}

// round sends requests of administrators, who leave objects of all sorts behind, and then those of users, whom the oracle
// watches.
func (b *battle) round(ctx context.Context, from, to uint64) error {
	b.wide.Run(ctx, from/share, to/share)
	if err := b.prepare(ctx); err != nil {
		return err
	}
	if err := b.narrow.Oracle.Begin(ctx); err != nil {
		return err
	}
	b.narrow.Run(ctx, from, to)
	found, err := b.narrow.Oracle.End(ctx)
	if err != nil {
		return err
	}
	for _, what := range found {
		b.narrow.Found(to, what)
	}
	if err := b.kept.Changed(ctx); err != nil {
		b.narrow.Found(to, err.Error())
	}
	return b.server.Alive()
}

// one sends a single request, and says what is wrong with its answer and its effect.
func (b *battle) one(ctx context.Context, n uint64, wide bool) (fine bool) {
	a := b.narrow
	if wide {
		a = b.wide
	}
	fmt.Println(a.Make(n))
	if a.Oracle != nil {
		fmt.Printf("    by %s\n", a.Client(n).Who.User)
		if err := a.Oracle.Begin(ctx); err != nil {
			a.Found(n, err.Error())
		}
	}
	a.Run(ctx, n, n+1)
	if a.Oracle != nil {
		found, err := a.Oracle.End(ctx)
		if err != nil {
			found = append(found, err.Error())
		}
		for _, what := range found {
			a.Found(n, what)
		}
	}
	return b.tell()
}

func (b *battle) findings() int { return len(b.wide.Findings()) + len(b.narrow.Findings()) }

// tell prints what was found.
func (b *battle) tell() (fine bool) {
	for flag, a := range map[string]*attack.Attack{"": b.narrow, " -wide": b.wide} {
		for _, x := range a.Findings() {
			by := "an administrator"
			if who := a.Client(x.Number).Who; who != nil {
				by = who.User
			}
			fmt.Printf("\nrequest %d by %s, and %d more like it: %s\n    %s\n    reproduce: -single %d%s\n", x.Number, by, x.Count-1, x.What, x.Request, x.Number, flag)
		}
	}
	fmt.Printf("\nadministrators: %s\nusers with few rights: %s\n%d findings\n", b.wide.Summary(), b.narrow.Summary(), b.findings())
	return b.findings() == 0
}
