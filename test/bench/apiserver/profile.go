// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import "context"

// profiled runs f, and takes profiles of s meanwhile and after it, if they are asked for.
func (b *bench) profiled(ctx context.Context, s *server, name string, f func() error) error {
	return b.profiles.Run(ctx, s.HTTP(), s.URL, s.side.String()+"-"+name, f)
}
