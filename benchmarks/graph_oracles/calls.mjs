// Print the calls of a TypeScript or JavaScript tree as the compiler's checker resolves them, one JSON object a line.
//
//     node calls.mjs ROOT PATH_OF_THE_PACKAGE_TYPESCRIPT [javascript]
//
// Files come from the tree itself, declarations of installed packages are not there: what needs them is left out.
import { createRequire } from 'node:module'
import fs from 'node:fs'
import path from 'node:path'

const root = fs.realpathSync(process.argv[2])
const ts = createRequire(import.meta.url)(path.resolve(process.argv[3]))
const isJavaScript = process.argv[4] === 'javascript'
const FILES = isJavaScript ? /\.[cm]?jsx?$/ : /\.[cm]?tsx?$/
const files = []
const SKIPPED = new Set(['node_modules', 'dist', 'build', 'vendor'])
function walk(folder) {
  for (const entry of fs.readdirSync(folder, { withFileTypes: true })) {
    const place = path.join(folder, entry.name)
    if (entry.isDirectory() && !SKIPPED.has(entry.name) && !entry.name.startsWith('.')) walk(place)
    else if (entry.isFile() && FILES.test(entry.name) && !entry.name.endsWith('.d.ts')) files.push(place)
  }
}
walk(root)
const paths = {}
const ENTRIES = ['src/index.ts', 'source/index.ts', 'index.ts', 'index.js']
// Packages of the tree by their names, which lead to files that are not built.
function packages(folder) {
  for (const entry of fs.readdirSync(folder, { withFileTypes: true })) {
    const place = path.join(folder, entry.name)
    if (entry.isDirectory() && !SKIPPED.has(entry.name) && !entry.name.startsWith('.')) packages(place)
    else if (entry.name === 'package.json') {
      const { name, exports } = JSON.parse(fs.readFileSync(place, 'utf8'))
      const main = ENTRIES.map((file) => path.join(folder, file)).find((file) => fs.existsSync(file))
      if (name && main && !JSON.stringify(exports ?? '').includes('source')) paths[name] = [main]
    }
  }
}
packages(root)
for (const config of ['tsconfig.json', 'tsconfig.base.json']) {
  const place = path.join(root, config)
  if (fs.existsSync(place)) Object.assign(paths, ts.readConfigFile(place, ts.sys.readFile).config?.compilerOptions?.paths)
}
const options = {
  allowJs: isJavaScript, noEmit: true, skipLibCheck: true, strict: true, target: ts.ScriptTarget.ESNext, noLib: false,
  module: ts.ModuleKind.ESNext, moduleResolution: ts.ModuleResolutionKind.Bundler, jsx: ts.JsxEmit.Preserve,
  types: [], baseUrl: root, paths, allowImportingTsExtensions: true, customConditions: ['@zod/source', 'source'],
  experimentalDecorators: true,
}
const program = ts.createProgram(files, options)
const checker = program.getTypeChecker()
const lineOf = (file, position) => file.getLineAndCharacterOfPosition(position).line + 1

function nameOf(declaration) {
  if (declaration.name) return declaration.name
  const parent = declaration.parent
  return parent && (parent.name ?? (ts.isBinaryExpression(parent) ? parent.left : undefined))
}

// Of overloads the implementation, and of a variable with a stated type the function that it holds.
function defined(declaration) {
  if (!declaration || declaration.body || !ts.isFunctionLike(declaration)) return declaration
  const holder = declaration.parent
  if (ts.isFunctionTypeNode(declaration) && holder?.initializer?.body) return holder.initializer
  return declaration.symbol?.declarations?.find((other) => other.body) ?? declaration
}

// The function that a field or variable with a stated type holds: `set: Set<E> = (key, value) => { … }`.
function held(name) {
  const symbol = checker.getSymbolAtLocation(name)
  const meant = symbol && symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol
  const declaration = meant?.valueDeclaration
  let value = declaration?.initializer
  while (value && (ts.isAsExpression(value) || ts.isSatisfiesExpression(value) || ts.isParenthesizedExpression(value))) {
    value = value.expression
  }
  return value && (ts.isArrowFunction(value) || ts.isFunctionExpression(value)) ? declaration : undefined
}

function emit(source, at, called, form, calledName) {
  let declaration = (calledName && held(calledName)) ?? defined(called)
  // A value that holds a function has a type, and no definition that is called.
  if (!declaration || ts.isFunctionTypeNode(declaration) || ts.isCallSignatureDeclaration(declaration)) return
  if (ts.isConstructorDeclaration(declaration)) declaration = declaration.parent
  const other = declaration.getSourceFile()
  const target = path.relative(root, other.fileName)
  const name = nameOf(declaration)
  if (!name || target.startsWith('..') || target.includes('node_modules')) return
  const written = name.getText(other).split('.').pop().replace(/^#/, '')
  console.log(JSON.stringify({
    path: path.relative(root, source.fileName), line: lineOf(source, at), target,
    at: lineOf(other, name.getStart(other)), name: written, form,
  }))
}

for (const source of program.getSourceFiles()) {
  if (source.isDeclarationFile || !source.fileName.startsWith(root)) continue
  const visit = (node) => {
    if (ts.isCallExpression(node)) {
      const called = node.expression
      const isMethod = ts.isPropertyAccessExpression(called)
      const symbol = isMethod ? checker.getSymbolAtLocation(called.expression) : undefined
      const isModule = symbol && (symbol.flags & (ts.SymbolFlags.Alias | ts.SymbolFlags.Module)) !== 0
        && checker.getTypeAtLocation(called.expression).symbol?.flags & ts.SymbolFlags.ValueModule
      const at = (isMethod ? called.name : called).getStart(source)
      const form = isMethod && !isModule ? 'method' : 'plain'
      emit(source, at, checker.getResolvedSignature(node)?.declaration, form, isMethod ? called.name : called)
    } else if (ts.isJsxSelfClosingElement(node) || ts.isJsxOpeningElement(node)) {
      // A component is called by its element; that counts for precision alone.
      const tag = node.tagName
      if (/^[a-z]/.test(tag.getText(source))) return ts.forEachChild(node, visit)
      emit(source, node.getStart(source), checker.getResolvedSignature(node)?.declaration, 'type', tag)
    } else if (ts.isTaggedTemplateExpression(node)) {
      emit(source, node.tag.getStart(source), checker.getResolvedSignature(node)?.declaration, 'plain')
    } else if (ts.isNewExpression(node)) {
      // A class may have a namespace or an interface of its name: any of them is it.
      for (const type of checker.getTypeAtLocation(node.expression).symbol?.declarations ?? []) {
        emit(source, node.getStart(source), type, 'type')
      }
    }
    ts.forEachChild(node, visit)
  }
  visit(source)
}
