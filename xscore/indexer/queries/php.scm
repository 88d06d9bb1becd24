(class_declaration name: (_) @name body: (_) @body) @class
(interface_declaration name: (_) @name body: (_) @body) @class
(trait_declaration name: (_) @name body: (_) @body) @class
(enum_declaration name: (_) @name body: (_) @body) @class
(method_declaration name: (_) @name body: (_) @body) @function
(function_definition name: (_) @name body: (_) @body) @function
(namespace_definition name: (_) @name body: (_) @body) @namespace
(base_clause [(name) (qualified_name)] @base)
(class_interface_clause [(name) (qualified_name)] @base)

; Pest: `test('…', function () { … })`, `describe('…', fn () => …)`.
((function_call_expression function: (name) @_t
    arguments: (arguments . (argument [(string) (encapsed_string)] @name)
      . (argument [(anonymous_function body: (_) @body) (arrow_function body: (_) @body)]))) @test
  (#any-of? @_t "test" "it"))
((function_call_expression function: (name) @_t
    arguments: (arguments . (argument [(string) (encapsed_string)] @name)
      . (argument [(anonymous_function body: (_) @body) (arrow_function body: (_) @body)]))) @suite
  (#eq? @_t "describe"))

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

; What variables are given, and what methods give.
(simple_parameter type: (_) @variable.type name: (variable_name) @variable)
(property_promotion_parameter type: (_) @variable.type name: (variable_name) @variable)
(property_promotion_parameter type: (_) @variable.type name: (variable_name (name) @variable @property))
(property_declaration type: (_) @variable.type (property_element name: (variable_name (name) @variable @member)))
(assignment_expression left: (variable_name) @variable right: (_) @variable.value)
((assignment_expression
  left: (member_access_expression object: (variable_name) @_this name: (name) @variable @property)
  right: (_) @variable.value) (#eq? @_this "$this"))
(foreach_statement . (_) @variable.each . [(variable_name) @variable (pair (_) . (variable_name) @variable)])
(catch_clause type: (_) @variable.type name: (variable_name) @variable)
(method_declaration return_type: (_) @result body: (_))
(function_definition return_type: (_) @result)
(return_statement (_) @returned)
(method_declaration name: (_) @declared return_type: (_)? @declared.type !body)
[(anonymous_function) (arrow_function)] @closure
