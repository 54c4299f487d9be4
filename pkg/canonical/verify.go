// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !race

package canonical

const verify = false
