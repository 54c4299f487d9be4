// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

//go:build race

package canonical

// verify looks, whenever a copy is shared, whether somebody has changed it: what comes from the server tells what it was.
const verify = true
