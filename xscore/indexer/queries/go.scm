; Functions, and methods by the type of their receiver.
(function_declaration name: (identifier) @name body: (_) @body) @function
(method_declaration
  receiver: (parameter_list (parameter_declaration type: [
    (type_identifier) @owner
    (pointer_type (type_identifier) @owner)
    (generic_type type: (type_identifier) @owner)
    (pointer_type (generic_type type: (type_identifier) @owner))
  ]))
  name: (field_identifier) @name body: (_) @body) @function

; Types: alone, or several in one declaration.
(type_declaration . (type_spec name: (_) @name type: [
  (struct_type (field_declaration_list) @body) (interface_type) @body]) .) @class
(type_declaration (type_spec name: (_) @name type: [
  (struct_type (field_declaration_list) @body) (interface_type) @body]) @class)
(source_file (type_declaration . [(type_spec name: (_) @name) (type_alias name: (_) @name)] .) @class)
(source_file (type_declaration [(type_spec name: (_) @name) (type_alias name: (_) @name)] @class))
(type_spec type: (struct_type (field_declaration_list (field_declaration !name type: [
  (type_identifier) @base (pointer_type (type_identifier) @base)]))))

(comment) @lead
(source_file (const_declaration (const_spec name: (identifier) @constant)))
(source_file (var_declaration [(var_spec name: (identifier) @constant)
  (var_spec_list (var_spec name: (identifier) @constant))]))
(source_file (_) @statement)

(call_expression function: [(identifier) (selector_expression)] @call)
(composite_literal type: [(type_identifier) (qualified_type)] @call)

(import_spec !name path: (interpreted_string_literal) @import.module)
(import_spec name: (package_identifier) @import.alias path: (interpreted_string_literal) @import.module)

[
  (if_statement) (for_statement) (expression_case) (type_case) (communication_case)
] @branch
["&&" "||"] @branch

; What variables are given, and what functions give.
(parameter_declaration name: (identifier) @variable type: (_) @variable.type)
(variadic_parameter_declaration name: (identifier) @variable type: (_) @variable.type)
(short_var_declaration left: (expression_list . (identifier) @variable) right: (expression_list . (_) @variable.value))
(assignment_statement left: (expression_list . (identifier) @variable .) right: (expression_list . (_) @variable.value .))
(var_spec name: (identifier) @variable type: (_) @variable.type)
(var_spec name: (identifier) @variable !type value: (_) @variable.value)
(range_clause left: (expression_list (identifier) @variable .) right: (_) @variable.each)
(type_switch_statement alias: (expression_list (identifier) @variable) (type_case type: (_) @variable.type))
(field_declaration name: (field_identifier) @variable @member type: (_) @variable.type)
(field_declaration !name type: [
  (type_identifier) @variable @member @variable.type
  (pointer_type (type_identifier) @variable @member) @variable.type
  (qualified_type name: (_) @variable @member) @variable.type
  (pointer_type (qualified_type name: (_) @variable @member)) @variable.type])
(function_declaration result: (_) @result)
(method_declaration result: (_) @result)
(method_elem name: (_) @declared)
(method_elem name: (_) @declared result: (_) @declared.type)
(type_spec type: (interface_type (type_elem (type_identifier) @base)))
(func_literal) @closure
(type_spec type: [(slice_type) (map_type) (array_type) (pointer_type) (type_identifier) (qualified_type)
  (generic_type)] @result)
(type_alias type: (_) @result)
(type_parameter_declaration name: (identifier) @variable @generic type: (_) @variable.type)
(call_expression function: (index_expression operand: [(identifier) (selector_expression)] @call))
(call_expression function: (type_instantiation_expression type: (type_identifier) @call))
