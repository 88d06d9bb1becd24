(class_declaration name: (_) @name body: (_) @body) @class
(interface_declaration name: (_) @name body: (_) @body) @class
(trait_declaration name: (_) @name body: (_) @body) @class
(enum_declaration name: (_) @name body: (_) @body) @class
(method_declaration name: (_) @name body: (_) @body) @function
(function_definition name: (_) @name body: (_) @body) @function
(namespace_definition name: (_) @name body: (_) @body) @namespace
(base_clause [(name) (qualified_name)] @base)
(class_interface_clause [(name) (qualified_name)] @base)

(comment) @lead
(program (const_declaration (const_element (name) @constant)))
(program (_) @statement)

(function_call_expression function: [(name) (qualified_name)] @call)
(member_call_expression object: (_) @receiver name: (name) @call)
(nullsafe_member_call_expression object: (_) @receiver name: (name) @call)
(scoped_call_expression scope: (_) @receiver name: (name) @call)
(object_creation_expression [(name) (qualified_name)] @call)

(namespace_use_clause (qualified_name prefix: (_) @import.module (name) @import.name))
(namespace_use_clause (name) @import.module)

[
  (if_statement) (else_if_clause) (for_statement) (foreach_statement) (while_statement) (do_statement)
  (catch_clause) (case_statement) (match_conditional_expression) (conditional_expression)
] @branch
["&&" "||" "??"] @branch
