; What TypeScript adds to ecmascript.scm.
(abstract_class_declaration name: (_) @name body: (_) @body) @class
(export_statement decorator: (decorator) . declaration: (abstract_class_declaration name: (_) @name body: (_) @body)) @class
(interface_declaration name: (_) @name body: (_) @body) @class
(enum_declaration name: (_) @name body: (_) @body) @class
(type_alias_declaration name: (_) @name) @alias
(internal_module name: (_) @name body: (_) @body) @scope
(module name: (identifier) @name body: (_) @body) @scope
(function_signature name: (_) @name) @overload
(public_field_definition name: (_) @name
  value: [(arrow_function body: (_) @body) (function_expression body: (_) @body)]) @function
(variable_declarator name: (identifier) @name
  value: [
    (as_expression [(arrow_function body: (_) @body) (function_expression body: (_) @body)])
    (satisfies_expression [(arrow_function body: (_) @body) (function_expression body: (_) @body)])
    (as_expression (parenthesized_expression
      [(arrow_function body: (_) @body) (function_expression body: (_) @body)]))
    (as_expression (call_expression
      arguments: (arguments [(arrow_function body: (_) @body) (function_expression body: (_) @body)])))
  ]) @function
(variable_declarator name: (identifier) @name value: (as_expression (object) @body)) @scope
(variable_declarator name: (identifier) @name value: (satisfies_expression (object) @body)) @scope
(class_heritage (extends_clause value: [(identifier) (member_expression)] @base))
(extends_type_clause type: [
  (type_identifier) @base (nested_type_identifier) @base (generic_type name: (_) @base)])
(implements_clause [(type_identifier) @base (nested_type_identifier) @base (generic_type name: (_) @base)])
(class_body (decorator) @lead)

; Stated types.
(variable_declarator name: (identifier) @variable type: (_) @variable.type)
(required_parameter pattern: (identifier) @variable type: (_) @variable.type)
(optional_parameter pattern: (identifier) @variable type: (_) @variable.type)
(required_parameter pattern: (rest_pattern (identifier) @variable) type: (_) @variable.type)
(required_parameter pattern: (this) @variable type: (_) @variable.type)
(required_parameter pattern: (object_pattern [
    (shorthand_property_identifier_pattern) @variable @field
    (object_assignment_pattern left: (shorthand_property_identifier_pattern) @variable @field)
    (pair_pattern key: (property_identifier) @field value: (identifier) @variable)
  ]) type: (_) @variable.type)
(required_parameter (accessibility_modifier) @property pattern: (identifier) @variable type: (_) @variable.type)
(required_parameter "readonly" @property pattern: (identifier) @variable type: (_) @variable.type)
(public_field_definition name: (_) @variable @member type: (_) @variable.type)
(public_field_definition name: (_) @variable @member !type value: [(new_expression) (call_expression)] @variable.value)
(property_signature name: (_) @variable @member type: (_) @variable.type)
(method_signature name: (_) @declared)
(method_signature name: (_) @declared return_type: (_) @declared.type)
(abstract_method_signature name: (_) @declared return_type: (_) @declared.type)
(function_declaration return_type: (_) @result)
(method_definition return_type: (_) @result)
(arrow_function return_type: (_) @result)
(function_signature return_type: (_) @result)
(type_alias_declaration value: (_) @result)
(required_parameter pattern: (identifier) @variable !type) @untyped
(type_parameter name: (_) @variable @generic constraint: (constraint (_) @variable.type))
(type_parameter name: (_) @variable @generic !constraint)
(variable_declarator name: (identifier) @variable !type value: (_) @variable.value)

((call_expression
  function: (member_expression object: (_) @variable.each property: (property_identifier) @_walk)
  arguments: (arguments . (arrow_function
    parameters: (formal_parameters . (required_parameter pattern: (identifier) @variable !type)))))
  (#any-of? @_walk "every" "filter" "find" "findIndex" "flatMap" "forEach" "map" "some" "sort"))
((call_expression
  function: (member_expression object: (_) @variable.each property: (property_identifier) @_walk)
  arguments: (arguments . (arrow_function parameters: (formal_parameters
    . (required_parameter) . (required_parameter pattern: (identifier) @variable !type)))))
  (#any-of? @_walk "reduce" "reduceRight" "sort"))

; What function types say of their parameters and of what they give.
(function_type parameters: (formal_parameters) @taken)
(call_signature parameters: (formal_parameters) @taken)
(property_signature name: (_) @taken.by type: (type_annotation (function_type parameters: (_) @taken)))
(method_signature name: (_) @taken.by parameters: (_) @taken)
(type_alias_declaration value: (function_type return_type: (_) @gives))
(call_signature return_type: (_) @gives)
