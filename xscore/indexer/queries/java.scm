(class_declaration name: (_) @name body: (_) @body) @class
(interface_declaration name: (_) @name body: (_) @body) @class
(enum_declaration name: (_) @name body: (_) @body) @class
(record_declaration name: (_) @name body: (_) @body) @class
(annotation_type_declaration name: (_) @name body: (_) @body) @class
(method_declaration name: (_) @name body: (_) @body) @function
(constructor_declaration name: (_) @name body: (_) @body) @function
(compact_constructor_declaration name: (_) @name body: (_) @body) @function

(superclass (type_identifier) @base)
(superclass (generic_type (type_identifier) @base))
(super_interfaces (type_list [(type_identifier) @base (generic_type (type_identifier) @base)]))
(extends_interfaces (type_list [(type_identifier) @base (generic_type (type_identifier) @base)]))

[(line_comment) (block_comment)] @lead
(program (_) @statement)

(method_invocation !object name: (identifier) @call arguments: (_) @arguments)
(method_invocation object: (_) @receiver name: (identifier) @call arguments: (_) @arguments)
(object_creation_expression type: [(type_identifier) (scoped_type_identifier)] @call)
(object_creation_expression type: (generic_type [(type_identifier) (scoped_type_identifier)] @call))

(import_declaration (scoped_identifier scope: (_) @import.module name: (identifier) @import.name))
(import_declaration (scoped_identifier) @import.module (asterisk) @import.name)

[
  (if_statement) (for_statement) (enhanced_for_statement) (while_statement) (do_statement) (catch_clause)
  (switch_label) (ternary_expression)
] @branch
["&&" "||"] @branch

; What variables are given, and what methods give.
(formal_parameter type: (_) @variable.type name: (_) @variable)
(local_variable_declaration type: (_) @variable.type declarator: (variable_declarator name: (_) @variable !value))
(local_variable_declaration type: (_) @variable.type
  declarator: (variable_declarator name: (_) @variable value: (_) @variable.value))
(field_declaration type: (_) @variable.type declarator: (variable_declarator name: (_) @variable @member))
(record_declaration parameters: (formal_parameters (formal_parameter type: (_) @variable.type name: (_) @variable @member)))
(enhanced_for_statement type: (_) @variable.type name: (_) @variable value: (_) @variable.each)
(resource type: (_) @variable.type name: (_) @variable value: (_) @variable.value)
(catch_formal_parameter (catch_type (_) @variable.type) name: (_) @variable)
(instanceof_expression right: (_) @variable.type name: (_) @variable)
(method_declaration type: (_) @result body: (_))
(method_declaration type: (_) @declared.type name: (_) @declared !body)
(lambda_expression) @closure
(type_parameter . (type_identifier) @variable @generic (type_bound . (_) @variable.type))
(type_parameter . (type_identifier) @variable @generic .)
