(class_declaration declaration_kind: ["class" "struct" "enum" "actor"] name: (_) @name body: (_) @body) @class
(class_declaration declaration_kind: "extension" name: (_) @owner body: (_) @body) @extension
(protocol_declaration name: (_) @name body: (_) @body) @class
(function_declaration name: (_) @name body: (_) @body) @function
(init_declaration "init" @name body: (_) @body) @function
(inheritance_specifier inherits_from: (_) @base)
; Quick: `override class func spec() { describe("…") { it("…") { } } }`.
((call_expression (simple_identifier) @_t
    (call_suffix (value_arguments . (value_argument value: (line_string_literal) @name)) (lambda_literal) @body)) @test
  (#any-of? @_t "it" "fit" "xit"))
((call_expression (simple_identifier) @_t
    (call_suffix (value_arguments . (value_argument value: (line_string_literal) @name)) (lambda_literal) @body)) @suite
  (#any-of? @_t "describe" "context" "fdescribe" "xdescribe" "fcontext" "xcontext"))
((function_declaration (modifiers) @_m name: (_) @name body: (_) @body) @suite
  (#eq? @name "spec") (#match? @_m "override"))
[(comment) (multiline_comment)] @lead
(source_file (_) @statement)
(call_expression . [(simple_identifier) (navigation_expression)] @call)
(constructor_expression constructed_type: (user_type . (type_identifier) @call))
(import_declaration (identifier) @import.module)
[(if_statement) (guard_statement) (for_statement) (while_statement) (switch_entry) (catch_block) (ternary_expression)] @branch

; What variables are given, and what methods give.
(parameter name: (simple_identifier) @variable (_) @variable.type .)
(lambda_parameter name: (simple_identifier) @variable name: [(user_type) (optional_type) (array_type)]? @variable.type)
(property_declaration
  name: (pattern bound_identifier: (_) @variable) . (type_annotation (_) @variable.type)? . value: (_)? @variable.value)
(class_body (property_declaration name: (pattern bound_identifier: (_) @variable @member)
  . (type_annotation (_) @variable.type)? . value: (_)? @variable.value))
(protocol_property_declaration
  name: (pattern bound_identifier: (_) @variable @member) (type_annotation (_) @variable.type))
(assignment target: (directly_assignable_expression (navigation_expression
  target: (self_expression) suffix: (navigation_suffix suffix: (_) @variable @property))) result: (_) @variable.value)
((assignment target: (directly_assignable_expression (simple_identifier) @variable)
  result: (call_expression . (simple_identifier) @_class) @variable.value) (#match? @_class "^[A-Z]"))
(if_statement bound_identifier: (_) @variable . "=" . condition: (_) @variable.value)
(guard_statement bound_identifier: (_) @variable . "=" . condition: (_) @variable.value)
(for_statement item: (pattern bound_identifier: (_) @variable)
  . (type_annotation (_) @variable.type)? . collection: (_) @variable.each)
(function_declaration name: [(user_type) (optional_type) (array_type) (opaque_type) (existential_type)] @result)
(protocol_function_declaration name: (simple_identifier) @declared
  name: [(user_type) (optional_type) (array_type) (opaque_type) (existential_type)]? @declared.type)
(lambda_literal) @closure
(type_parameter (type_identifier) @variable @generic . name: (_)? @variable.type)
