// Print the calls of a Go module as go/types resolves them, one JSON object a line.
//
//	go run calls.go ROOT
//
// Packages of the module are checked from source with their tests; the standard library comes from GOROOT. A package
// of anyone else is empty: what needs it is left out, and no error ends the run.
package main

import (
	"bufio"
	"encoding/json"
	"go/ast"
	"go/build"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

type call struct {
	Path   string `json:"path"`
	Line   int    `json:"line"`
	Target string `json:"target"`
	At     int    `json:"at"`
	Name   string `json:"name"`
	Form   string `json:"form"`
}

type loader struct {
	root, module string
	files        *token.FileSet
	known        map[string]*types.Package
	standard     types.Importer
	out          *json.Encoder
}

func (l *loader) Import(path string) (*types.Package, error) {
	if found, ok := l.known[path]; ok {
		return found, nil
	}
	if path == l.module || strings.HasPrefix(path, l.module+"/") {
		folder := filepath.Join(l.root, strings.TrimPrefix(path, l.module))
		l.known[path] = types.NewPackage(path, filepath.Base(path))
		l.known[path] = l.check(path, folder, func(file string) bool { return !strings.HasSuffix(file, "_test.go") }, false)
		return l.known[path], nil
	}
	found, err := l.standard.Import(path)
	if err != nil {
		name := path[strings.LastIndex(path, "/")+1:]
		found = types.NewPackage(path, name)
		found.MarkComplete()
	}
	l.known[path] = found
	return found, nil
}

func (l *loader) check(path, folder string, wanted func(string) bool, report bool) *types.Package {
	byName := map[string][]*ast.File{}
	entries, _ := os.ReadDir(folder)
	for _, entry := range entries {
		if !strings.HasSuffix(entry.Name(), ".go") || !wanted(entry.Name()) {
			continue
		}
		if ok, err := build.Default.MatchFile(folder, entry.Name()); err != nil || !ok {
			continue
		}
		file, _ := parser.ParseFile(l.files, filepath.Join(folder, entry.Name()), nil, parser.SkipObjectResolution)
		if file != nil {
			byName[file.Name.Name] = append(byName[file.Name.Name], file)
		}
	}
	var last *types.Package
	for name, group := range byName {
		info := &types.Info{
			Uses: map[*ast.Ident]types.Object{}, Selections: map[*ast.SelectorExpr]*types.Selection{},
			Types: map[ast.Expr]types.TypeAndValue{},
		}
		settings := types.Config{Importer: l, Error: func(error) {}, FakeImportC: true}
		place := path
		if strings.HasSuffix(name, "_test") {
			place += "_test"
		}
		checked, _ := settings.Check(place, l.files, group, info)
		if checked != nil && (last == nil || !strings.HasSuffix(name, "_test")) {
			last = checked
		}
		if report {
			for _, file := range group {
				l.report(file, info)
			}
		}
	}
	if last == nil {
		last = types.NewPackage(path, filepath.Base(path))
	}
	return last
}

func (l *loader) report(file *ast.File, info *types.Info) {
	ast.Inspect(file, func(node ast.Node) bool {
		switch found := node.(type) {
		case *ast.CallExpr:
			l.reportCalled(found.Fun, found.Pos(), info)
		case *ast.CompositeLit:
			if found.Type != nil {
				l.reportType(found.Type, info)
			}
		}
		return true
	})
}

func (l *loader) reportCalled(called ast.Expr, at token.Pos, info *types.Info) {
	switch found := called.(type) {
	case *ast.ParenExpr:
		l.reportCalled(found.X, at, info)
	case *ast.IndexExpr:
		l.reportCalled(found.X, at, info)
	case *ast.Ident:
		l.emit(info.Uses[found], found.Pos(), "plain")
	case *ast.SelectorExpr:
		form := "plain"
		if _, isMethod := info.Selections[found]; isMethod {
			form = "method"
		}
		l.emit(info.Uses[found.Sel], found.Sel.Pos(), form)
	}
}

func (l *loader) reportType(written ast.Expr, info *types.Info) {
	switch found := written.(type) {
	case *ast.Ident:
		l.emit(info.Uses[found], found.Pos(), "type")
	case *ast.SelectorExpr:
		l.emit(info.Uses[found.Sel], found.Sel.Pos(), "type")
	case *ast.IndexExpr:
		l.reportType(found.X, info)
	}
}

func (l *loader) emit(object types.Object, at token.Pos, form string) {
	switch object.(type) {
	case *types.Func:
	case *types.TypeName:
		form = "type"
	default:
		return
	}
	source, target := l.files.Position(at), l.files.Position(object.Pos())
	path, err := filepath.Rel(l.root, source.Filename)
	place, other := filepath.Rel(l.root, target.Filename)
	if err != nil || other != nil || strings.HasPrefix(place, "..") {
		return
	}
	l.out.Encode(call{path, source.Line, place, target.Line, object.Name(), form})
}

func main() {
	root, _ := filepath.EvalSymlinks(os.Args[1])
	text, _ := os.ReadFile(filepath.Join(root, "go.mod"))
	named := regexp.MustCompile(`(?m)^module\s+"?([^\s"]+)`).FindStringSubmatch(string(text))
	if named == nil {
		os.Exit(3)
	}
	writer := bufio.NewWriter(os.Stdout)
	defer writer.Flush()
	files := token.NewFileSet()
	l := &loader{root, named[1], files, map[string]*types.Package{}, importer.ForCompiler(files, "source", nil),
		json.NewEncoder(writer)}
	filepath.Walk(root, func(path string, entry os.FileInfo, err error) error {
		if err != nil || !entry.IsDir() {
			return nil
		}
		name := entry.Name()
		if path != root && (name == "vendor" || name == "testdata" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_")) {
			return filepath.SkipDir
		}
		if path != root {
			if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil {
				return filepath.SkipDir
			}
		}
		relative, _ := filepath.Rel(root, path)
		place := l.module
		if relative != "." {
			place += "/" + filepath.ToSlash(relative)
		}
		l.Import(place)
		l.check(place, path, func(string) bool { return true }, true)
		return nil
	})
}
