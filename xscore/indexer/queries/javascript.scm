; What only the JavaScript grammar knows.
(field_definition property: (_) @name
  value: [(arrow_function body: (_) @body) (function_expression body: (_) @body)]) @function
(class_declaration (class_heritage [(identifier) (member_expression)] @base))

(field_definition property: (_) @variable @member value: [(new_expression) (call_expression)] @variable.value)
(formal_parameters (identifier) @variable)
(variable_declarator name: (identifier) @variable value: (_) @variable.value)
