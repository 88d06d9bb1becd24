(class_definition name: (_) @name) @class
(class_definition name: (_) @name body: (_) @body) @class
(object_definition name: (_) @name) @class
(object_definition name: (_) @name body: (_) @body) @class
(package_object name: (_) @name body: (_) @body) @class
(trait_definition name: (_) @name) @class
(trait_definition name: (_) @name body: (_) @body) @class
(enum_definition name: (_) @name body: (_) @body) @class
(function_definition name: (_) @name body: (_) @body) @function
(extends_clause type: [(type_identifier) @base (generic_type type: (type_identifier) @base)])
[(comment) (block_comment)] @lead
; munit and ScalaTest: `test("…") { }`, `"…" should "…" in { }`, `"…" - { }`; uTest: `Tests { test("…") - { } }`.
((call_expression
    function: (call_expression function: (identifier) @_t
      arguments: (arguments . [(string) @name (field_expression value: (string) @name)]))
    arguments: (block) @body) @test (#any-of? @_t "test" "it" "scenario" "property"))
((call_expression
    function: (call_expression function: (identifier) @_t arguments: (arguments . (string) @name))
    arguments: (block) @body) @suite (#any-of? @_t "describe" "feature"))
((infix_expression left: (call_expression function: (identifier) @_t arguments: (arguments . (string) @name))
    right: (_) @body) @test (#eq? @_t "test"))
((infix_expression left: [(string) @name (infix_expression right: (string) @name)] operator: (_) @_in right: (block) @body) @test
  (#any-of? @_in "in" ">>"))
((infix_expression left: (string) @name operator: (_) @_of right: (block) @body) @suite
  (#any-of? @_of "should" "must" "can" "when" "which" "that" "-"))
((assignment_expression left: (call_expression function: (identifier) @_t arguments: (arguments . (string) @name))
    right: (_) @body) @test (#eq? @_t "property"))
((function_definition name: (_) @name body: (call_expression function: (identifier) @_t arguments: (_) @body)) @suite
  (#eq? @_t "Tests"))

(compilation_unit (_) @statement)
(call_expression function: [(identifier) (field_expression)] @call arguments: (arguments) @arguments)
(call_expression function: [(identifier) (field_expression)] @call arguments: [(block) (case_block) (colon_argument)])
(instance_expression . [(type_identifier) @call (generic_type type: (type_identifier) @call)])
(import_declaration path: (_) @import.module)
[(if_expression) (case_clause) (for_expression) (while_expression) (catch_clause)] @branch

; What variables are given, and what methods give.
(parameter name: (_) @variable type: (_) @variable.type)
(class_parameter name: (_) @variable type: (_) @variable.type)
(class_parameter name: (_) @variable @member type: (_) @variable.type)
([(val_definition pattern: (identifier) @variable type: (_)? @variable.type value: (_)? @variable.value)
  (var_definition pattern: (identifier) @variable type: (_)? @variable.type value: (_)? @variable.value)])
(template_body [
  (val_definition pattern: (identifier) @variable @member type: (_)? @variable.type value: (_)? @variable.value)
  (var_definition pattern: (identifier) @variable @member type: (_)? @variable.type value: (_)? @variable.value)
  (val_declaration name: (_) @variable @member type: (_) @variable.type)
  (var_declaration name: (_) @variable @member type: (_) @variable.type)
])
(assignment_expression left: (identifier) @variable right: (instance_expression) @variable.value)
(enumerator . (identifier) @variable "<-" (_) @variable.each)
(enumerator . (identifier) @variable "=" (_) @variable.value)
(typed_pattern pattern: (identifier) @variable type: (_) @variable.type)
(binding name: (_) @variable type: (_)? @variable.type)
(lambda_expression parameters: (identifier) @variable)
(function_definition return_type: (_) @result)
(function_definition !return_type body: [(_) @returned (block (_) @returned .)])
(function_declaration name: (_) @declared return_type: (_)? @declared.type)
(lambda_expression) @closure
(type_parameters name: (identifier) @variable @generic . bound: (upper_bound type: (_) @variable.type)?)
