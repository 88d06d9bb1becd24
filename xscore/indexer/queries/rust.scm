; Items.
(function_item name: (_) @name body: (_) @body) @function
(struct_item name: (_) @name body: (field_declaration_list) @body) @class
(struct_item name: (_) @name !body) @class
(struct_item name: (_) @name body: (ordered_field_declaration_list)) @class
(enum_item name: (_) @name body: (_) @body) @class
(union_item name: (_) @name body: (_) @body) @class
(trait_item name: (_) @name body: (_) @body) @class
(source_file (type_item name: (_) @name) @class)
(mod_item body: (declaration_list (type_item name: (_) @name) @class))
(macro_definition name: (_) @name) @function
(mod_item name: (_) @name body: (_) @body) @namespace
(impl_item type: [
  (type_identifier) @owner
  (generic_type type: (_) @owner)
  (scoped_type_identifier name: (_) @owner)
  (reference_type type: (type_identifier) @owner)
  (reference_type type: (generic_type type: (_) @owner))
  (primitive_type) @owner
  (dynamic_type trait: (type_identifier) @owner)
  (array_type) @owner
  (tuple_type) @owner
  (pointer_type) @owner
  ] body: (_) @body) @extension
(impl_item trait: [(type_identifier) (generic_type type: (type_identifier))] @base)
(trait_item bounds: (trait_bounds [(type_identifier) (generic_type type: (type_identifier))] @base))

; `#[test] fn`, with other attributes and comments between them.
((attribute_item (attribute) @_attribute) . (attribute_item)* . (function_item name: (_) @name body: (_) @body) @test
  (#match? @_attribute "^([a-z_]+::)*(test|rstest|quickcheck|proptest|test_case|bench)(\\(|$)"))

(line_comment) @lead
(block_comment) @lead
(attribute_item) @lead
(inner_attribute_item) @lead

(source_file [(const_item name: (_) @constant) (static_item name: (_) @constant)])
(source_file (_) @statement)
(mod_item body: (declaration_list (_) @statement))

(call_expression function: [(identifier) (scoped_identifier) (field_expression)] @call)
(call_expression function: (generic_function function: [(identifier) (scoped_identifier) (field_expression)] @call))
(macro_invocation macro: [(identifier) (scoped_identifier)] @call)
(struct_expression name: [(type_identifier) (scoped_type_identifier)] @call)

(use_declaration argument: (scoped_identifier path: (_) @import.module name: (_) @import.name))
(use_declaration argument: (scoped_use_list path: (_) @import.module list: (use_list (identifier) @import.name)))
(use_declaration argument: (use_as_clause
  path: (scoped_identifier path: (_) @import.module name: (_) @import.name) alias: (_) @import.alias))
(use_declaration argument: (scoped_use_list path: (_) @import.module
  list: (use_list (use_as_clause path: (identifier) @import.name alias: (_) @import.alias))))
(use_declaration argument: (scoped_use_list path: (_) @import.module list: (use_list
  (scoped_identifier name: (_) @import.name))))
(use_declaration argument: (scoped_use_list path: (_) @import.module list: (use_list (self) @import.name)))
(mod_item name: (_) @import.module !body)
(use_declaration argument: (use_wildcard (_) @import.module))

[
  (if_expression) (for_expression) (while_expression) (loop_expression) (match_arm) (try_expression)
] @branch
["&&" "||"] @branch

; What variables are given, and what functions give.
(parameter pattern: (identifier) @variable type: (_) @variable.type)
(parameter pattern: (mut_pattern (identifier) @variable) type: (_) @variable.type)
(let_declaration pattern: (identifier) @variable type: (_) @variable.type)
(let_declaration pattern: (identifier) @variable !type value: (_) @variable.value)
((let_condition pattern: (tuple_struct_pattern type: (identifier) @_some
    . [(identifier) @variable (ref_pattern (identifier) @variable) (mut_pattern (identifier) @variable)])
  value: (_) @variable.value) (#any-of? @_some "Some" "Ok"))
((match_expression value: (_) @variable.value body: (match_block (match_arm pattern: (match_pattern
    (tuple_struct_pattern type: (identifier) @_some . [(identifier) @variable (ref_pattern (identifier) @variable)])))))
  (#any-of? @_some "Some" "Ok"))
(tuple_struct_pattern type: (scoped_identifier) @variable.value . [
  (identifier) @variable (ref_pattern (identifier) @variable) (ref_pattern (mut_pattern (identifier) @variable))])
(enum_variant name: (identifier) @variable @member body: (ordered_field_declaration_list . type: (_) @variable.type))
(struct_item name: (_) @variable @first body: (ordered_field_declaration_list . type: (_) @variable.type))
(type_parameter name: (type_identifier) @variable @generic bounds: (trait_bounds . (_) @variable.type))
(type_parameter name: (type_identifier) @variable @generic !bounds)
(for_expression pattern: (identifier) @variable value: (_) @variable.each)
(field_declaration name: (field_identifier) @variable @member type: (_) @variable.type)
(static_item name: (_) @variable type: (_) @variable.type)
(const_item name: (_) @variable type: (_) @variable.type)
(function_item return_type: (_) @result)
(function_signature_item name: (_) @declared)
(function_signature_item name: (_) @declared return_type: (_) @declared.type)
(closure_expression) @closure
(closure_parameters (identifier) @variable)
(type_item type: (_) @result)
(token_tree (identifier) @spliced . (token_tree))
