(class name: (_) @name) @class
(class name: (_) @name body: (_) @body) @class
(module name: (_) @name) @class
(module name: (_) @name body: (_) @body) @class
(method name: (_) @name) @function
(method name: (_) @name body: (_) @body) @function
(singleton_method name: (_) @name) @function
(singleton_method name: (_) @name body: (_) @body) @function
(superclass [(constant) (scope_resolution)] @base)

; RSpec, minitest/spec and Rails by title.
((call method: (identifier) @_f arguments: (argument_list . (string) @name) block: (_) @body) @test
  (#any-of? @_f "it" "specify" "test" "scenario" "should"))
((call method: (identifier) @_f arguments: (argument_list . [(string) (constant) (scope_resolution)] @name)
  block: (_) @body) @suite
  (#any-of? @_f "describe" "context" "feature"))

(comment) @lead
(program (assignment left: (constant) @constant))
(program (_) @statement)

(call !receiver method: (identifier) @call)
(call receiver: (_) @receiver method: (_) @call)
((call method: (identifier) @_require arguments: (argument_list . (string (string_content) @import.module)))
  (#any-of? @_require "require" "require_relative"))

[(if) (elsif) (unless) (while) (until) (for) (when) (rescue) (conditional) (if_modifier) (unless_modifier)] @branch
["&&" "||" "and" "or"] @branch

; What variables are given, and what methods give.
(assignment left: [(identifier) (instance_variable)] @variable right: (_) @variable.value)
(operator_assignment left: [(identifier) (instance_variable)] @variable right: (_) @variable.value)
(optional_parameter name: (_) @variable value: (_) @variable.value)
(method_parameters (identifier) @variable)
(block_parameters (identifier) @variable)
(method body: (body_statement [(call) (identifier) (instance_variable) (self)] @returned .))
(singleton_method body: (body_statement [(call) (identifier) (instance_variable) (self)] @returned .))
(method body: (body_statement [(assignment right: (_) @returned) (operator_assignment right: (_) @returned)] .))
(singleton_method body: (body_statement [
  (assignment right: (_) @returned) (operator_assignment right: (_) @returned)] .))
(return (argument_list . (_) @returned))
; What `attr_reader :site` gives is the variable of that name.
((call !receiver method: (identifier) @_read arguments: (argument_list (simple_symbol) @variable @read))
  (#any-of? @_read "attr_reader" "attr_accessor" "attr"))
[(block) (do_block)] @closure
[(keyword_parameter name: (_) @variable) (splat_parameter name: (_) @variable) (block_parameter name: (_) @variable)
  (hash_splat_parameter name: (_) @variable) (left_assignment_list (identifier) @variable)
  (exception_variable (identifier) @variable) (destructured_parameter (identifier) @variable)
  (for pattern: (identifier) @variable)]
; A name alone is a call of a method, unless it is a variable.
(identifier) @word
((call !receiver method: (identifier) @_mixed arguments: (argument_list [(constant) (scope_resolution)] @base))
  (#any-of? @_mixed "include" "extend" "prepend"))
