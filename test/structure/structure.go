// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package structure reads the source tree so that its tests can hold the rules of docs/architecture.md: who may import
// whom, that every folder of an axis is in its list, that every package says what it is. Touch it to add such a rule.
package structure

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Module is the import path of the root of the tree.
const Module = "minik8s.io/minik8s"

// File is one Go file.
type File struct {
	// Path is relative to the root, with slashes.
	Path string
	// Package is the name in its package clause.
	Package string
	// Doc is the text of its package comment, empty if it has none.
	Doc string
	// Header are its first two lines.
	Header [2]string
	// Imports are the import paths, in order.
	Imports []string
	// Generated tells whether a program wrote it.
	Generated bool
}

// Test tells whether the file belongs to the tests of its package.
func (f File) Test() bool { return strings.HasSuffix(f.Path, "_test.go") }

// Dir is the folder of the file, relative to the root.
func (f File) Dir() string { return path.Dir(f.Path) }

// Tree is the source under a root.
type Tree struct {
	Files []File
}

// Read parses every Go file under root, except in testdata, in hidden folders and in nested modules.
func Read(root string) (Tree, error) {
	var t Tree
	err := filepath.WalkDir(root, func(at string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return skipDir(root, at, d.Name())
		}
		if !strings.HasSuffix(at, ".go") {
			return nil
		}
		rel, err := filepath.Rel(root, at)
		if err != nil {
			return err
		}
		data, err := os.ReadFile(at)
		if err != nil {
			return err
		}
		f, err := Parse(filepath.ToSlash(rel), data)
		t.Files = append(t.Files, f)
		return err
	})
	return t, err
}

func skipDir(root, at, name string) error {
	if at == root {
		return nil
	}
	if name == "testdata" || name == "bin" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") {
		return filepath.SkipDir
	}
	if _, err := os.Stat(filepath.Join(at, "go.mod")); err == nil {
		return filepath.SkipDir
	}
	return nil
}

// Parse reads one file; at is its path relative to the root.
func Parse(at string, data []byte) (File, error) {
	f := File{Path: at}
	syntax, err := parser.ParseFile(token.NewFileSet(), at, data, parser.ImportsOnly|parser.ParseComments)
	if err != nil {
		return f, fmt.Errorf("parsing %s: %w", at, err)
	}
	f.Package = syntax.Name.Name
	f.Generated = ast.IsGenerated(syntax)
	if syntax.Doc != nil {
		f.Doc = syntax.Doc.Text()
	}
	for i, line := range strings.SplitN(string(data), "\n", 3) {
		if i < 2 {
			f.Header[i] = line
		}
	}
	for _, spec := range syntax.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return f, fmt.Errorf("parsing %s: %w", at, err)
		}
		f.Imports = append(f.Imports, p)
	}
	return f, nil
}

// Dirs returns the folders that hold Go files other than tests, sorted.
func (t Tree) Dirs() []string {
	var dirs []string
	for _, f := range t.Files {
		if !f.Test() {
			dirs = append(dirs, f.Dir())
		}
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

// Under returns the files in dir and below it.
func (t Tree) Under(dir string) []File {
	var files []File
	for _, f := range t.Files {
		if within(f.Dir(), dir) {
			files = append(files, f)
		}
	}
	return files
}

// within tells whether the slash-separated path p is dir or below it.
func within(p, dir string) bool { return p == dir || strings.HasPrefix(p, dir+"/") }

// A Rule forbids imports and says why.
type Rule struct {
	// Of are the folders whose files the rule is about.
	Of []string
	// Except are folders below them that it is not about.
	Except []string
	// Not are import paths that may not be imported, themselves or anything below them.
	Not []string
	// But are exceptions to Not: paths that may, themselves and anything below them.
	But []string
	// Tests tells whether tests must obey too.
	Tests bool
	// Why is the reason, told with each violation.
	Why string
}

// Violations returns a sentence for every import that breaks the rule.
func (r Rule) Violations(t Tree) []string {
	var found []string
	for _, f := range t.Files {
		if !r.about(f) {
			continue
		}
		for _, imported := range f.Imports {
			if withinAny(imported, r.Not) && !withinAny(imported, r.But) {
				found = append(found, fmt.Sprintf("%s imports %s: %s", f.Path, imported, r.Why))
			}
		}
	}
	return found
}

func (r Rule) about(f File) bool {
	if f.Test() && !r.Tests {
		return false
	}
	return withinAny(f.Dir(), r.Of) && !withinAny(f.Dir(), r.Except)
}

func withinAny(p string, dirs []string) bool {
	return slices.ContainsFunc(dirs, func(d string) bool { return d == "" || within(p, d) })
}

// An Axis is a folder whose sub-folders each hold one thing, and the file that lists them.
type Axis struct {
	// Dir is the axis; List is the file with its list, which names a thing by importing it.
	Dir, List string
	// Except are sub-folders which are not things of the axis but what they share.
	Except []string
}

// Unlisted returns a sentence for every sub-folder that the list does not import.
func (a Axis) Unlisted(t Tree) []string {
	listed := map[string]bool{}
	have := false
	for _, f := range t.Files {
		if f.Path == a.List {
			have = true
			for _, p := range f.Imports {
				listed[p] = true
			}
		}
	}
	if !have {
		return []string{fmt.Sprintf("%s, the list of %s, is not there", a.List, a.Dir)}
	}
	var missing []string
	for _, dir := range t.Dirs() {
		name, found := strings.CutPrefix(dir, a.Dir+"/")
		if !found || strings.Contains(name, "/") || slices.Contains(a.Except, name) {
			continue
		}
		if !listed[Module+"/"+dir] {
			missing = append(missing, fmt.Sprintf("%s is not in its list: add a line to %s", dir, a.List))
		}
	}
	return missing
}
