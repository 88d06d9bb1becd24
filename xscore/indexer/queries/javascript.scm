; What only the JavaScript grammar knows.
(field_definition property: (_) @name
  value: [(arrow_function body: (_) @body) (function_expression body: (_) @body)]) @function
(class_heritage [(identifier) (member_expression)] @base)

(field_definition property: (_) @variable @member value: [(new_expression) (call_expression)] @variable.value)
(formal_parameters (identifier) @variable)
(variable_declarator name: (identifier) @variable value: (_) @variable.value)

((call_expression
  function: (member_expression object: (_) @variable.each property: (property_identifier) @_walk)
  arguments: (arguments . (arrow_function parameters: (formal_parameters . (identifier) @variable))))
  (#any-of? @_walk "every" "filter" "find" "findIndex" "flatMap" "forEach" "map" "some" "sort"))
((call_expression
  function: (member_expression object: (_) @variable.each property: (property_identifier) @_walk)
  arguments: (arguments . (arrow_function parameters: (formal_parameters . (identifier) . (identifier) @variable))))
  (#any-of? @_walk "reduce" "reduceRight" "sort"))
