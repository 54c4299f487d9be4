# Copyright 2026 The minik8s Authors
# SPDX-License-Identifier: Apache-2.0
"""A function: main is called with the request's JSON, and what it returns is answered as JSON."""
import greeting


def main(params):
    return {"message": greeting.of(params.get("name", "world"))}
