(class_declaration name: (_) @name) @class
(class_declaration name: (_) @name (class_body) @body) @class
(class_declaration name: (_) @name (enum_class_body) @body) @class
(object_declaration name: (_) @name) @class
(object_declaration name: (_) @name (class_body) @body) @class
(function_declaration name: (_) @name (function_body) @body) @function
(function_declaration [(user_type . (identifier) @owner) (nullable_type (user_type . (identifier) @owner))]
  . name: (_) @name (function_body) @body) @function
; On the top level a function without a body is one that every platform has (`expect`) or another language (`external`).
(source_file (function_declaration name: (_) @name) @function)
(source_file (function_declaration [(user_type . (identifier) @owner) (nullable_type (user_type . (identifier) @owner))]
  . name: (_) @name) @function)
(secondary_constructor "constructor" @name (block) @body) @function
(type_alias type: (_) @name) @alias

; Kotest: `test("…") { }`, `describe("…") { it("…") { } }`.
((call_expression
    (call_expression . (identifier) @_t (value_arguments . (value_argument . (string_literal) @name)))
    (annotated_lambda (lambda_literal) @body)) @test (#any-of? @_t "test" "it" "should" "expect" "xtest" "xit"))
((call_expression
    (call_expression . (identifier) @_t (value_arguments . (value_argument . (string_literal) @name)))
    (annotated_lambda (lambda_literal) @body)) @suite (#any-of? @_t "describe" "context" "xdescribe" "xcontext"))

[(line_comment) (block_comment)] @lead
(source_file (property_declaration (variable_declaration (identifier) @constant)))
(source_file (_) @statement)
(call_expression . [(identifier) (navigation_expression)] @call (value_arguments) @arguments .)
(call_expression . [(identifier) (navigation_expression)] @call (annotated_lambda))
; A lambda behind the brackets is one more argument: f(1) { … }.
(call_expression . (call_expression . [(identifier) (navigation_expression)] @call) (annotated_lambda))
(delegation_specifier [(user_type) @base (constructor_invocation (user_type) @base)])
(import (qualified_identifier) @import.module)
[(if_expression) (when_entry) (for_statement) (while_statement) (do_while_statement) (catch_block)] @branch
["&&" "||"] @branch

; What variables are given, and what methods give.
(parameter . (identifier) @variable . (_) @variable.type)
(class_parameter (identifier) @variable . (_) @variable.type)
(class_parameter (identifier) @variable @member . (_) @variable.type)
(variable_declaration . (identifier) @variable . (_)? @variable.type)
(property_declaration (variable_declaration . (identifier) @variable .) . (_) @variable.value)
(class_body (property_declaration
  (variable_declaration . (identifier) @variable @member . (_)? @variable.type) . (_)? @variable.value))
((assignment left: (identifier) @variable right: (call_expression . (identifier) @_class) @variable.value)
  (#match? @_class "^[A-Z]"))
(assignment left: (navigation_expression (this_expression) . (identifier) @variable @property) right: (_) @variable.value)
(for_statement (variable_declaration . (identifier) @variable .) . (_) @variable.each)
(catch_block (identifier) @variable . (_) @variable.type)
(function_declaration (function_value_parameters) . [(user_type) (nullable_type)] @result (function_body))
(function_declaration (function_value_parameters) . (function_body . (_) @returned))
(function_declaration name: (_) @declared (function_value_parameters) .)
(function_declaration name: (_) @declared
  (function_value_parameters) . [(user_type) (nullable_type)] @declared.type .)
[(lambda_literal) (anonymous_function)] @closure
(type_parameter (identifier) @variable @generic . (user_type)? @variable.type)
