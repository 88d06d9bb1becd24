; Shared by JavaScript, TypeScript and TSX; only node types that all three grammars know.
(function_declaration name: (_) @name body: (_) @body) @function
(generator_function_declaration name: (_) @name body: (_) @body) @function
(function_expression name: (_) @name body: (_) @body) @function
(class_declaration name: (_) @name body: (_) @body) @class
(variable_declarator name: (identifier) @name value: (class body: (_) @body)) @class
(method_definition name: (_) @name body: (_) @body) @function

(export_statement decorator: (decorator) . declaration: (class_declaration name: (_) @name body: (_) @body)) @class

; const f = () => …, with the wrappers that people put around it.
(variable_declarator name: (identifier) @name
  value: [
    (arrow_function body: (_) @body)
    (function_expression body: (_) @body)
    (generator_function body: (_) @body)
    (parenthesized_expression [(arrow_function body: (_) @body) (function_expression body: (_) @body)])
  ]) @function
; const X = f(() => …)
(variable_declarator name: (identifier) @name
  value: (call_expression
    arguments: (arguments [(arrow_function body: (_) @body) (function_expression body: (_) @body)]))) @function
; const X = f(g(() => …))
(variable_declarator name: (identifier) @name
  value: (call_expression arguments: (arguments (call_expression
    arguments: (arguments [(arrow_function body: (_) @body) (function_expression body: (_) @body)]))))) @function
; const X = styled.span`…`
((variable_declarator name: (identifier) @name
  value: (call_expression function: [(member_expression) (call_expression)] @_styled arguments: (template_string) @body)) @function
  (#match? @_styled "^(styled|tw)[.(]"))
; x.y = function …, and chains of it
(assignment_expression left: [(member_expression) (subscript_expression) (identifier)] @name
  right: [
    (arrow_function body: (_) @body)
    (function_expression body: (_) @body)
    (generator_function body: (_) @body)
    (assignment_expression right: [(arrow_function body: (_) @body) (function_expression body: (_) @body)])
    (assignment_expression right: (assignment_expression
      right: [(arrow_function body: (_) @body) (function_expression body: (_) @body)]))
    (call_expression arguments: (arguments
      [(arrow_function body: (_) @body) (function_expression body: (_) @body)]))
  ]) @function
(assignment_expression left: [(member_expression) (identifier)] @name
  right: (class !name body: (_) @body)) @class
((assignment_expression left: [(member_expression) (identifier)] @name
  right: (class name: (_) body: (_) @body)) @class
  (#not-match? @name "^(module[.])?exports$"))
((assignment_expression left: (_) @_exports right: (class name: (_) @name body: (_) @body)) @class
  (#any-of? @_exports "module.exports" "exports"))
(pair key: (_) @name
  value: [(arrow_function body: (_) @body) (function_expression body: (_) @body)]) @function
(export_statement "default" @name
  value: [(arrow_function body: (_) @body) (function_expression !name body: (_) @body)]) @function
(export_statement "default" @name value: (class !name body: (_) @body)) @class

; Objects name what they hold.
(variable_declarator name: (identifier) @name value: (object) @body) @scope
(assignment_expression left: [(member_expression) (identifier)] @name right: (object) @body) @scope
(export_statement "default" @name value: (object) @body) @scope
(pair key: (_) @name value: (object) @body) @scope

; So does an object that is passed to a call, and nothing behind it: const X = f({ handler: () => … }), f('x', { … }).
(variable_declarator name: (identifier) @name value: [
  (call_expression arguments: (arguments (object) @body .))
  (call_expression arguments: (arguments (call_expression arguments: (arguments (object) @body .)) .))
]) @binding
(assignment_expression left: [(member_expression) (identifier)] @name
  right: (call_expression arguments: (arguments (object) @body .))) @binding
(pair key: (_) @name value: (call_expression arguments: (arguments (object) @body .))) @binding
; What is made of it by `new` is a value, whatever the object holds.
(variable_declarator name: (identifier) @name value: (new_expression arguments: (arguments (object) @body .))) @scope
(assignment_expression left: [(member_expression) (identifier)] @name
  right: (new_expression arguments: (arguments (object) @body .))) @scope
(export_statement "default" @name value: (call_expression arguments: (arguments (object) @body .))) @scope
(program (expression_statement (call_expression
  function: [(identifier) (member_expression)] @name arguments: (arguments . (object) @body .)) @scope))
(program (expression_statement (new_expression
  constructor: [(identifier) (member_expression)] @name arguments: (arguments . (object) @body .)) @scope))

; Tests by title.
((call_expression
  function: [
    (identifier) @_f
    (member_expression object: (identifier) @_f)
    (call_expression function: (member_expression object: (identifier) @_f))
  ]
  arguments: (arguments . [(string) (template_string)] @name
    [(arrow_function body: (_) @body) (function_expression body: (_) @body)])) @test
  (#any-of? @_f "it" "test" "specify" "bench" "xit" "fit"))
((call_expression
  function: [
    (identifier) @_f
    (member_expression object: (identifier) @_f)
    (call_expression function: (member_expression object: (identifier) @_f))
  ]
  arguments: (arguments . [(string) (template_string)] @name
    [(arrow_function body: (_) @body) (function_expression body: (_) @body)])) @suite
  (#any-of? @_f "describe" "suite" "context" "xdescribe" "fdescribe"))

(comment) @lead

(program (lexical_declaration (variable_declarator name: (identifier) @constant)))
(program (variable_declaration (variable_declarator name: (identifier) @constant)))
(program (export_statement (lexical_declaration (variable_declarator name: (identifier) @constant))))
(program (_) @statement)

(call_expression function: [(identifier) (member_expression)] @call)
(new_expression constructor: [(identifier) (member_expression)] @call)
(call_expression function: (super) @super)

(import_statement (import_clause (identifier) @import.alias) source: (string) @import.module)
(import_statement (import_clause (namespace_import (identifier) @import.alias)) source: (string) @import.module)
(import_statement (import_clause (named_imports (import_specifier name: (_) @import.name !alias)))
  source: (string) @import.module)
(import_statement (import_clause (named_imports (import_specifier name: (_) @import.name alias: (_) @import.alias)))
  source: (string) @import.module)
(import_statement . source: (string) @import.module)
(export_statement source: (string) @import.module)
(export_statement "*" @import.name source: (string) @import.module)
(export_statement (export_clause (export_specifier name: (_) @import.name !alias)) source: (string) @import.module)
(export_statement (export_clause (export_specifier name: (_) @import.name alias: (_) @import.alias))
  source: (string) @import.module)
((call_expression function: (identifier) @_require arguments: (arguments . (string) @import.module))
  (#eq? @_require "require"))
((variable_declarator name: (identifier) @import.alias
  value: (call_expression function: (identifier) @_require arguments: (arguments . (string) @import.module)))
  (#eq? @_require "require"))
((variable_declarator name: (object_pattern (shorthand_property_identifier_pattern) @import.name)
  value: (call_expression function: (identifier) @_require arguments: (arguments . (string) @import.module)))
  (#eq? @_require "require"))
((variable_declarator name: (object_pattern (pair_pattern key: (_) @import.name value: (identifier) @import.alias))
  value: (call_expression function: (identifier) @_require arguments: (arguments . (string) @import.module)))
  (#eq? @_require "require"))
((variable_declarator name: (identifier) @import.alias
  value: (member_expression
    object: (call_expression function: (identifier) @_require arguments: (arguments . (string) @import.module))
    property: (property_identifier) @import.name))
  (#eq? @_require "require"))
(call_expression function: (import) arguments: (arguments . (string) @import.module))

; What a module exports under another name.
(export_statement !source
  (export_clause (export_specifier name: (_) @export.name alias: (_) @export.alias)))
(export_statement "default" @export.alias declaration: (_ name: (_) @export.name))
(export_statement "default" @export.alias value: (identifier) @export.name)
((assignment_expression left: (member_expression) @export.alias
  right: [(identifier) @export.name (class name: (_) @export.name)])
  (#match? @export.alias "^(module\\.)?exports(\\.[a-zA-Z_$]+)?$"))
((assignment_expression left: (member_expression) @_exports
  right: (object (pair key: (property_identifier) @export.alias value: (identifier) @export.name)))
  (#any-of? @_exports "module.exports" "exports"))

[
  (if_statement) (for_statement) (for_in_statement) (while_statement) (do_statement) (catch_clause)
  (ternary_expression) (switch_case)
] @branch
["&&" "||" "??"] @branch

; What variables are given, and what functions give.
(assignment_expression left: [(identifier) (member_expression)] @variable
  right: [
    (new_expression) (call_expression) (identifier) (member_expression) (await_expression)
    (binary_expression) (ternary_expression)
  ] @variable.value)
(for_in_statement left: (identifier) @variable right: (_) @variable.each)
(return_statement [
  (new_expression) (call_expression) (identifier) (member_expression) (this) (await_expression) (binary_expression)
  (ternary_expression)
] @returned)
(arrow_function body: [(new_expression) (call_expression)] @returned)
[(arrow_function) (function_expression)] @closure
(arrow_function parameter: (identifier) @variable @untyped)
(export_statement "default" @variable value: [(identifier) (call_expression) (new_expression)] @variable.value)

; Parts of what an object is, and what a test of its type says of it within a branch.
(variable_declarator name: (object_pattern [
    (shorthand_property_identifier_pattern) @variable @field
    (object_assignment_pattern left: (shorthand_property_identifier_pattern) @variable @field)
    (pair_pattern key: (property_identifier) @field value: (identifier) @variable)
  ]) value: (_) @variable.value)
(for_in_statement left: (array_pattern . (identifier) . (identifier) @variable .) right: (_) @variable.each)
(for_in_statement left: (object_pattern (shorthand_property_identifier_pattern) @variable @field)
  right: (_) @variable.each)
(if_statement condition: (parenthesized_expression (_) @condition) consequence: (_) @narrowed)
(ternary_expression condition: (_) @condition consequence: (_) @narrowed)
(binary_expression left: (_) @condition operator: "&&" right: (_) @narrowed)
((call_expression
  function: (member_expression object: (_) @variable.each property: (property_identifier) @_walk)
  arguments: (arguments . (arrow_function parameter: (identifier) @variable)))
  (#any-of? @_walk "every" "filter" "find" "findIndex" "flatMap" "forEach" "map" "some" "sort"))
