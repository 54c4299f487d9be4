// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package hosts changes a machine's file of host names, which is its user's: a cluster has lines of its own there, and touches no
// others. text.go says what the file is to be, file.go writes it. Touch it for what these lines look like, or how a file is replaced.
package hosts

import (
	"net/netip"
	"slices"
	"strings"
)

// Entry is a line: a name with an address.
type Entry struct {
	Address netip.Addr
	Name    string
}

// Every line of a cluster says whose it is, so that it is found whatever became of the lines around it.
func tag(cluster string) string { return "# minik8s " + cluster }

func begin(cluster string) string { return tag(cluster) + " begin" }

// joined is begin where the line before had no end, which is given back with the block.
func joined(cluster string) string { return begin(cluster) + " (the line before had no end)" }

func end(cluster string) string { return tag(cluster) + " end" }

// owned tells whether a line is one of a cluster's, and which one.
func owned(line, cluster string) (own, wasJoined bool) {
	line = strings.TrimRight(line, "\r\n")
	if line == joined(cluster) {
		return true, true
	}
	return line == begin(cluster) || line == end(cluster) || strings.HasSuffix(line, "\t"+tag(cluster)), false
}

// Set returns the text of a hosts file in which a cluster has these entries and no others. All other lines stay as they are, byte for
// byte, and where they are; without entries nothing of the cluster is left.
func Set(text, cluster string, entries []Entry) string {
	var kept []string
	at, wasJoined := -1, false
	for line := range strings.SplitAfterSeq(text, "\n") {
		own, j := owned(line, cluster)
		switch {
		case line == "": // what is behind the last end of a line
		case !own:
			kept = append(kept, line)
		case at < 0:
			at = len(kept)
		}
		wasJoined = wasJoined || j
	}
	if at < 0 {
		at = len(kept)
	}
	last := at == len(kept) // nothing follows
	if wasJoined && last && at > 0 {
		kept[at-1] = strings.TrimSuffix(kept[at-1], "\n")
	}
	if len(entries) == 0 {
		return strings.Join(kept, "")
	}
	first := begin(cluster)
	if last && at > 0 && !strings.HasSuffix(kept[at-1], "\n") {
		kept[at-1] += "\n"
		first = joined(cluster)
	}
	block := []string{first + "\n"}
	for _, e := range entries {
		block = append(block, e.Address.String()+"\t"+e.Name+"\t"+tag(cluster)+"\n")
	}
	return strings.Join(slices.Insert(kept, at, append(block, end(cluster)+"\n")...), "")
}

// Holder is who has a name in a hosts file.
type Holder struct {
	// Addresses are those of the name.
	Addresses []netip.Addr
	// Cluster is the name of the cluster whose line it is, "" for the user's own.
	Cluster string
}

// Others are the names, in lower case, that a hosts file has in lines which are not a cluster's.
func Others(text, cluster string) map[string]Holder {
	all := map[string]Holder{}
	for line := range strings.Lines(text) {
		if own, _ := owned(line, cluster); own {
			continue
		}
		words, comment, _ := strings.Cut(line, "#")
		fields := strings.Fields(words)
		if len(fields) < 2 {
			continue
		}
		address, err := netip.ParseAddr(fields[0])
		if err != nil {
			continue
		}
		other, _ := strings.CutPrefix(strings.TrimSpace(comment), "minik8s ")
		if other == strings.TrimSpace(comment) {
			other = ""
		}
		for _, name := range fields[1:] {
			name = strings.ToLower(name)
			h := all[name]
			h.Addresses = append(h.Addresses, address.Unmap().WithZone(""))
			h.Cluster = other
			all[name] = h
		}
	}
	return all
}
