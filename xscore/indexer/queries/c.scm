; Shared by C and C++. A declarator may hide its name behind pointers and brackets.
((function_definition declarator: (function_declarator declarator: (identifier) @name) body: (_) @body) @function
  (#not-match? @name "^(TEST|TEST_F|TEST_P|TYPED_TEST|TEST_CASE|SCENARIO)$"))
(function_definition declarator: (pointer_declarator
  declarator: (function_declarator declarator: (identifier) @name)) body: (_) @body) @function
(function_definition declarator: (pointer_declarator declarator: (pointer_declarator
  declarator: (function_declarator declarator: (identifier) @name))) body: (_) @body) @function
(function_definition declarator: (parenthesized_declarator
  (function_declarator declarator: (identifier) @name)) body: (_) @body) @function
(function_definition declarator: (function_declarator
  declarator: (parenthesized_declarator (identifier) @name)) body: (_) @body) @function

(struct_specifier name: (type_identifier) @name body: (_) @body) @class
(union_specifier name: (type_identifier) @name body: (_) @body) @class
(enum_specifier name: (type_identifier) @name body: (_) @body) @class
(type_definition type: [
  (struct_specifier !name body: (_) @body) (union_specifier !name body: (_) @body) (enum_specifier !name body: (_) @body)
  ] declarator: (type_identifier) @name) @class
(type_definition declarator: (type_identifier) @name) @type
(type_definition declarator: (function_declarator
  declarator: (parenthesized_declarator (pointer_declarator declarator: (type_identifier) @name)))) @type
(preproc_function_def name: (identifier) @name value: (_) @body) @function

(declaration declarator: [
  (function_declarator declarator: (identifier) @prototype)
  (pointer_declarator (function_declarator declarator: (identifier) @prototype))
])

(comment) @lead
(translation_unit (declaration declarator: [
  (identifier) @constant
  (init_declarator declarator: (identifier) @constant)
  (init_declarator declarator: (array_declarator declarator: (identifier) @constant))
]))
(preproc_def name: (identifier) @constant)
(translation_unit (_) @statement)
(preproc_ifdef (_) @statement)
(preproc_if (_) @statement)

(call_expression function: [(identifier) (field_expression)] @call arguments: (_) @arguments)
(preproc_include path: (string_literal) @import.module)
(preproc_include path: (system_lib_string) @import.module)

[
  (if_statement) (for_statement) (while_statement) (do_statement) (case_statement) (conditional_expression)
] @branch
["&&" "||"] @branch
