(class_declaration name: (_) @name body: (_) @body) @class
(struct_declaration name: (_) @name body: (_) @body) @class
(interface_declaration name: (_) @name body: (_) @body) @class
(enum_declaration name: (_) @name body: (_) @body) @class
(record_declaration name: (_) @name) @class
(record_declaration name: (_) @name body: (_) @body) @class
(method_declaration name: (_) @name body: (_) @body) @function
(constructor_declaration name: (_) @name body: (_) @body) @function
(local_function_statement name: (_) @name body: (_) @body) @function
(property_declaration name: (_) @name accessors: (accessor_list (accessor_declaration body: (_))) @body) @function
(namespace_declaration name: (_) @name body: (_) @body) @namespace
(base_list [(identifier) @base (generic_name (identifier) @base) (qualified_name) @base])

(comment) @lead
(compilation_unit (_) @statement)
(namespace_declaration body: (declaration_list (_) @statement))

(invocation_expression
  function: [(identifier) (member_access_expression) (conditional_access_expression)] @call arguments: (_) @arguments)
(invocation_expression function: (generic_name (identifier) @call) arguments: (_) @arguments)
(object_creation_expression type: [(identifier) (qualified_name)] @made arguments: (_)? @arguments)
(object_creation_expression type: (generic_name (identifier) @made) arguments: (_)? @arguments)
(using_directive [(identifier) (qualified_name)] @import.module)

[
  (if_statement) (for_statement) (foreach_statement) (while_statement) (do_statement) (catch_clause)
  (switch_section) (switch_expression_arm) (conditional_expression)
] @branch
["&&" "||" "??"] @branch

; What variables are given, and what methods give.
(parameter type: (_) @variable.type name: (_) @variable)
(variable_declaration type: (_) @variable.type (variable_declarator name: (_) @variable . (_)? @variable.value))
(foreach_statement type: (_) @variable.type left: (identifier) @variable right: (_) @variable.each)
(declaration_pattern type: (_) @variable.type name: (_) @variable)
(property_declaration type: (_) @variable.type name: (_) @variable @member)
(field_declaration (variable_declaration
  type: (_) @variable.type (variable_declarator name: (_) @variable @member . (_)? @variable.value)))
(method_declaration returns: (_) @result body: (_))
(property_declaration type: (_) @result accessors: (accessor_list (accessor_declaration body: (_))))
(method_declaration returns: (_) @declared.type name: (_) @declared !body)
((method_declaration name: (_) @variable @extends
  parameters: (parameter_list . (parameter (modifier) @_this type: (_) @variable.type))) (#eq? @_this "this"))
[(lambda_expression) (anonymous_method_expression)] @closure
(type_parameter name: (identifier) @variable @generic)
