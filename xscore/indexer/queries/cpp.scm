; What only the C++ grammar knows.
(function_definition declarator: (function_declarator declarator: [
  (field_identifier) (destructor_name) (operator_name)] @name) body: (_) @body) @function
(function_definition declarator: [(reference_declarator (function_declarator declarator: [
    (identifier) (field_identifier) (operator_name)] @name))
  (pointer_declarator declarator: (function_declarator declarator: [(field_identifier) (operator_name)] @name))]
  body: (_) @body) @function
(function_definition declarator: (operator_cast) @name body: (_) @body) @function
(function_definition declarator: (function_declarator declarator: (qualified_identifier
  scope: (_) @owner name: (_) @name)) body: (_) @body) @function
(function_definition declarator: (function_declarator declarator: (qualified_identifier
  scope: (_) @owner name: (_) @name)) (field_initializer_list) body: (_) @body) @function
(function_definition declarator: [(reference_declarator (function_declarator declarator: (qualified_identifier
    scope: (_) @owner name: (_) @name)))
  (pointer_declarator declarator: (function_declarator declarator: (qualified_identifier
    scope: (_) @owner name: (_) @name)))] body: (_) @body) @function
(function_definition declarator: (function_declarator declarator: (template_function name: (_) @name))
  body: (_) @body) @function

(class_specifier name: (_) @name body: (_) @body) @class
(struct_specifier name: [(template_type) (qualified_identifier)] @name body: (_) @body) @class
(template_declaration (class_specifier name: (_) @name body: (_) @body)) @class
(template_declaration (struct_specifier name: (_) @name body: (_) @body)) @class
(template_declaration (function_definition declarator: (function_declarator declarator: [
  (identifier) (field_identifier) (operator_name)] @name) body: (_) @body)) @function
(template_declaration (function_definition declarator: (function_declarator declarator: (qualified_identifier
  scope: (_) @owner name: (_) @name)) body: (_) @body)) @function
(template_declaration (alias_declaration name: (_) @name)) @type
(alias_declaration name: (_) @name) @type
(concept_definition name: (_) @name) @type
(namespace_definition name: (_) @name body: (_) @body) @namespace
(linkage_specification value: (string_literal) @name body: (declaration_list) @body) @namespace
(class_specifier (base_class_clause [(type_identifier) (qualified_identifier) (template_type name: (_))] @base))
(struct_specifier (base_class_clause [(type_identifier) (qualified_identifier) (template_type name: (_))] @base))

; Google Test, Catch2, doctest.
((function_definition declarator: (function_declarator declarator: (identifier) @_macro
  parameters: (parameter_list) @name) body: (_) @body) @test
  (#any-of? @_macro "TEST" "TEST_F" "TEST_P" "TYPED_TEST" "TEST_CASE" "SCENARIO"))

(namespace_definition body: (declaration_list (_) @statement))
(call_expression function: [(qualified_identifier) (template_function name: (_))] @call arguments: (_) @arguments)
(new_expression type: (_) @call)
(catch_clause) @branch
(for_range_loop) @branch

; What variables are given, and what functions give.
(parameter_declaration type: (_) @variable.type declarator: [
  (identifier) @variable (pointer_declarator (identifier) @variable) (reference_declarator (identifier) @variable)])
(declaration type: (_) @variable.type declarator: [
  (identifier) @variable (pointer_declarator (identifier) @variable) (reference_declarator (identifier) @variable)])
(declaration type: (_) @variable.type declarator: (init_declarator
  declarator: [(identifier) @variable (pointer_declarator (identifier) @variable)
    (reference_declarator (identifier) @variable)]
  value: (_) @variable.value))
(field_declaration type: (_) @variable.type declarator: [
  (field_identifier) @variable @member (pointer_declarator (field_identifier) @variable @member)
  (reference_declarator (field_identifier) @variable @member)])
(field_declaration type: (_) @declared.type declarator: [
  (function_declarator declarator: (field_identifier) @declared)
  (pointer_declarator (function_declarator declarator: (field_identifier) @declared))
  (reference_declarator (function_declarator declarator: (field_identifier) @declared))])
(for_range_loop type: (_) @variable.type declarator: [(identifier) @variable (reference_declarator (identifier) @variable)]
  right: (_) @variable.each)
(function_definition type: (_) @result)
(lambda_expression) @closure
(alias_declaration type: (_) @result)
