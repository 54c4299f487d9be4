// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package corefile

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// CoreDNS's defaults.
const (
	successTTL = 3600 * time.Second
	denialTTL  = 1800 * time.Second
	leastTTL   = 5 * time.Second
	capacity   = 9984
)

// maxCapacity bounds the memory that a Corefile can ask for.
const maxCapacity = 1 << 20

var cacheProperties = []string{"denial", "disable", "keepttl", "prefetch", "serve_stale", "servfail", "success"}

func parseCache(s *Server, d statement) error {
	c := &Cache{
		Success:  Portion{Capacity: capacity, MaxTTL: successTTL, MinTTL: leastTTL},
		Denial:   Portion{Capacity: capacity, MaxTTL: denialTTL, MinTTL: leastTTL},
		ServFail: 5 * time.Second, PrefetchDuration: time.Minute, PrefetchPercent: 10,
	}
	s.Cache = c
	names := d.args()
	if len(names) > 0 {
		if _, err := strconv.Atoi(names[0]); err == nil {
			ttl, err := number(d, names[0], 1, 1<<31-1)
			if err != nil {
				return err
			}
			c.Success.MaxTTL, c.Denial.MaxTTL = time.Duration(ttl)*time.Second, time.Duration(ttl)*time.Second
			names = names[1:]
		}
	}
	var err error
	if c.Zones, err = zoneList(d.line, names); err != nil {
		return err
	}
	if len(c.Zones) == 0 {
		c.Zones = s.Zones
	}
	for _, p := range d.body {
		if err := c.property(p); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cache) property(p statement) error {
	if err := p.among("cache", cacheProperties); err != nil {
		return err
	}
	least, most := 1, 3
	switch p.name() {
	case "serve_stale":
		least = 0
	case "servfail":
		most = 1
	case "keepttl":
		least, most = 0, 0
	case "disable":
		most = -1
	}
	if err := p.count(least, most); err != nil {
		return err
	}
	switch p.name() {
	case "success":
		return c.Success.parse(p)
	case "denial":
		return c.Denial.parse(p)
	case "servfail":
		d, err := duration(p, p.args()[0])
		if err == nil && d > 5*time.Minute {
			err = wrong(p.line, "cache: servfail is at most 5m")
		}
		c.ServFail = d
		return err
	case "serve_stale":
		return c.stale(p)
	case "prefetch":
		return c.prefetch(p)
	case "disable":
		return c.disable(p)
	}
	c.KeepTTL = true
	return nil
}

// parse reads CAPACITY [TTL] [MINTTL].
func (c *Portion) parse(p statement) error {
	for i, a := range p.args() {
		most := 1<<31 - 1
		if i == 0 {
			most = maxCapacity
		}
		n, err := number(p, a, 0, most)
		if err != nil {
			return err
		}
		switch i {
		case 0:
			c.Capacity = n
		case 1:
			c.MaxTTL = time.Duration(n) * time.Second
		case 2:
			c.MinTTL = time.Duration(n) * time.Second
		}
	}
	if c.MinTTL > c.MaxTTL {
		c.MinTTL = c.MaxTTL
	}
	return nil
}

func (c *Cache) stale(p statement) error {
	c.Stale = time.Hour
	args := p.args()
	var err error
	if len(args) > 0 {
		if c.Stale, err = duration(p, args[0]); err != nil {
			return err
		}
	}
	if len(args) > 1 {
		mode := strings.ToLower(args[1])
		if !slices.Contains([]string{"immediate", "verify"}, mode) {
			return wrong(p.line, "cache: serve_stale is immediate or verify, not %q", args[1])
		}
		c.StaleVerify = mode == "verify"
	}
	if len(args) > 2 {
		if !c.StaleVerify {
			return wrong(p.line, "cache: only serve_stale with verify takes a time-out")
		}
		c.StaleTimeout, err = duration(p, args[2])
	}
	return err
}

// prefetch reads AMOUNT [DURATION] [PERCENTAGE%].
func (c *Cache) prefetch(p statement) error {
	args := p.args()
	var err error
	if c.Prefetch, err = number(p, args[0], 0, 1<<31-1); err != nil {
		return err
	}
	if len(args) > 1 {
		if c.PrefetchDuration, err = duration(p, args[1]); err != nil {
			return err
		}
	}
	if len(args) > 2 {
		text, ok := strings.CutSuffix(args[2], "%")
		if !ok {
			return wrong(p.line, "cache: %q is no percentage such as 10%%", args[2])
		}
		c.PrefetchPercent, err = number(p, text, 10, 90)
	}
	return err
}

func (c *Cache) disable(p statement) error {
	zones, err := zoneList(p.line, p.args()[1:])
	if err != nil {
		return err
	}
	if len(zones) == 0 {
		zones = []string{"."}
	}
	switch p.args()[0] {
	case "success":
		c.Success.Disabled = append(c.Success.Disabled, zones...)
	case "denial":
		c.Denial.Disabled = append(c.Denial.Disabled, zones...)
	default:
		return wrong(p.line, "cache: what can be disabled is success or denial, not %q", p.args()[0])
	}
	return nil
}
